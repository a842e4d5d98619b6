"""Says whether tensors are still what they were, in one call for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import torch


class Form:
    """What tensors are, one by one: class, element type, device, layout, shape, strides. Not where they lie."""

    def __init__(self, tensors: Sequence[Any]):
        self._count = len(tensors)
        self._check = _guards(tensors)
        self._described = described(tensors) if self._check is None else []

    def holds(self, tensors: Sequence[Any]) -> bool:
        """Returns whether these are what the first ones were. It may say no without a reason, as in another mode of
        autograd."""
        if len(tensors) != self._count:
            return False
        if self._check is not None:
            return bool(self._check(*tensors))
        return described(tensors) == self._described


def described(tensors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Returns of each tensor what a Form looks at."""
    return [(type(t), t.dtype, t.device, t.layout, t.shape, t.stride() if t.layout is torch.strided else None,
             t.is_neg(), t.is_conj()) if isinstance(t, torch.Tensor) else (type(t),) for t in tensors]


def _guards(tensors: Sequence[Any]) -> Callable[..., bool] | None:
    """Returns the check that torch.compile makes before it uses what it has compiled; None if this torch has none. It
    takes 70 ns a tensor, and asking from Python 600."""
    try:
        guards = torch._C._dynamo.guards.TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        check: Callable[..., bool] = guards.check
        return check if check(*tensors) else None
    except Exception:  # it is no public part of torch, and may take other arguments one day
        return None
