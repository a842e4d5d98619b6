"""Lets others know of a step over the same parameters: autograd, and optimizers with steps that run beside training."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable, Set
from typing import Protocol

import torch

from ...errors import ZfError


class Beside(Protocol):
    """An optimizer with steps that run beside training."""

    def _pending(self) -> Set[torch.Tensor]:
        """Returns the parameters that a step under way writes."""

    def _finish_own(self) -> None:
        """Waits for it."""


_beside: weakref.WeakSet[Beside] = weakref.WeakSet()


def remember(optimizer: Beside) -> None:
    """Adds an optimizer."""
    _beside.add(optimizer)


def settle(optimizer: object, params: Iterable[torch.Tensor]) -> None:
    """Finishes the steps of all other optimizers over some of these parameters, before they are read."""
    for other in [each for each in _beside if each is not optimizer] if len(_beside) else ():
        if (pending := other._pending()) and not pending.isdisjoint(params := list(params)):
            with contextlib.suppress(ZfError):  # such as ZfWorkerDied, which its own next call reports
                other._finish_own()


def raise_versions(tensors: list[torch.Tensor]) -> None:
    """Tells autograd that tensors change: a graph over their old values is refused."""
    try:
        torch.autograd.graph.increment_version(tensors)
    except (TypeError, RuntimeError):  # older torch takes one tensor
        for tensor in tensors:
            torch.autograd.graph.increment_version(tensor)
