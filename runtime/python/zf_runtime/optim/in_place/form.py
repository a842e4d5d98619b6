"""Says whether tensors are still what they were, in one call for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import torch

_MODES = 2  # of autograd and autocast, or of requires_grad, between which a job may alternate


class Form:
    """What tensors are, one by one: class, element type, device, layout, shape, strides. Not where they lie, and not
    whether autograd follows them."""

    def __init__(self, tensors: Sequence[Any]):
        self._described = described(tensors)
        self._checks = _guards(tensors)  # the last one first

    def holds(self, tensors: Sequence[Any]) -> bool:
        """Returns whether these are what the first ones were."""
        if len(tensors) != len(self._described):
            return False
        if any(check(*tensors) for check in self._checks):
            return True
        if described(tensors) != self._described:
            return False
        self._checks = (_guards(tensors) + self._checks)[:_MODES]
        return True


def described(tensors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Returns of each tensor what a Form looks at."""
    return [(type(t), t.dtype, t.device, t.layout, t.shape, t.stride() if t.layout is torch.strided else None,
             t.is_neg(), t.is_conj()) if isinstance(t, torch.Tensor) else (type(t),) for t in tensors]


def _guards(tensors: Sequence[Any]) -> list[Callable[..., bool]]:
    """Returns the check that torch.compile makes before it uses what it has compiled, or nothing if this torch has
    none. It takes 70 ns a tensor, and asking from Python 600. It looks at more than a Form does."""
    try:
        guards = torch._C._dynamo.guards.TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        return [guards.check] if guards.check(*tensors) else []
    except Exception:  # it is no public part of torch, and may take other arguments one day
        return []
