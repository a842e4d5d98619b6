"""The norm of gradients, and the factor that clips them as torch.nn.utils.clip_grad_norm_() does."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from ...errors import ZfError
from .eligibility import is_sharded, refuse_sparse
from .streams import HostStream


def coefficient(norm: float, max_norm: float) -> float:
    """Returns what gradients of this norm are multiplied by, in torch's arithmetic: 1 at most, and NaN if the norm is
    not finite."""
    if not math.isfinite(norm):
        return math.nan
    factor = max_norm / (torch.tensor(norm, dtype=torch.float32, device="cpu") + 1e-6)
    return min(1.0, float(factor))


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
        if param.grad is not None:
            refuse_sparse(param)
            gradients.append(param.grad)
    if any(map(is_sharded, gradients)):
        return _norm_over_ranks(gradients)
    return total(reading.square for reading in HostStream().read(gradients, norm=True))


def _norm_over_ranks(gradients: list[torch.Tensor]) -> float:
    """Returns the norm of DTensors as torch.nn.utils.clip_grad_norm_() finds it. All ranks must call it. Raises ZfError
    if some are plain tensors, which torch refuses, too."""
    if not all(map(is_sharded, gradients)):
        raise ZfError("some gradients are sharded (DTensors) and some are not, as those of ignored_params=: these have "
                      "no norm together, also in torch.nn.utils.clip_grad_norm_(); leave clip_grad_norm= and max_norm= "
                      "out")
    of_dtype: dict[torch.dtype, list[Any]] = {}
    with torch.no_grad():
        for gradient in gradients:
            of_dtype.setdefault(gradient.dtype, []).append(torch.linalg.vector_norm(gradient))
        norm: Any = torch.linalg.vector_norm(torch.stack([norm for some in of_dtype.values() for norm in some]))
    return float(norm.full_tensor())


def check_max_norm(value: float | None, name: str = "clip_grad_norm") -> None:
    """Raises ValueError if it is no limit. name: that of the argument."""
    if value is not None and not float(value) >= 0:
        raise ValueError(f"{name} is {value}; it must be 0 or more, or None to clip nothing")
