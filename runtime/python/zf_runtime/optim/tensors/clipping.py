"""The norm of gradients, and the factor that clips them as torch.nn.utils.clip_grad_norm_() does."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from ...errors import ZfError
from .eligibility import is_sharded, refuse_sparse
from .streams import HostStream


def coefficient(norm: float, max_norm: float) -> float:
    """Returns what gradients of this norm are multiplied by: 1 at most, and NaN if the norm is not finite."""
    return min(1.0, max_norm / (norm + 1e-6)) if math.isfinite(norm) else math.nan


def total(squares: Iterable[float]) -> float:
    """Returns the norm from the sums of squares of each parameter's gradient, which are added in their order."""
    found = 0.0
    for square in squares:
        found += square
    return math.sqrt(found) if found >= 0 else math.nan


def norm_in_place(params: Iterable[torch.Tensor]) -> float:
    """Returns the norm of the gradients of parameters on the CPU, read by torch's threads."""
    gradients = []
    for param in params:
        if param.grad is None:
            continue
        refuse_sparse(param)
        if is_sharded(param.grad):
            raise ZfError("the gradients are sharded (DTensors), and their norm is a sum over ranks: clip them with "
                          "torch.nn.utils.clip_grad_norm_(), and leave clip_grad_norm= and max_norm= out")
        gradients.append(param.grad)
    return total(reading.square for reading in HostStream().read(gradients, norm=True))


def check_max_norm(value: float | None) -> None:
    """Raises ValueError if it is no limit."""
    if value is not None and not float(value) >= 0:
        raise ValueError(f"clip_grad_norm is {value}; it must be 0 or more, or None to clip nothing")
