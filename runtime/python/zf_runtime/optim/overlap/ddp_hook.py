"""Gets the gradients of DistributedDataParallel as soon as they are averaged: by its communication hook."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import Any, Protocol

import torch

_IS_AVAILABLE = torch.distributed.is_available()


def is_ddp(kind: type) -> bool:
    """Returns whether modules of a type are a DistributedDataParallel."""
    return _IS_AVAILABLE and issubclass(kind, torch.nn.parallel.DistributedDataParallel)


class Listener(Protocol):
    """What takes gradients that DDP has averaged."""

    def _reduced(self, params: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]) -> None:
        """Takes those of these parameters."""


_listeners: weakref.WeakKeyDictionary[torch.nn.Module, weakref.WeakSet[Listener]] = weakref.WeakKeyDictionary()


def listen(ddp: torch.nn.Module, optimizer: Listener) -> bool:
    """Lets DDP hand its averaged gradients to an optimizer. Returns False if the program has given it a communication
    hook of its own. Call it before the first backward.

    The average has the bits of a DDP without a hook: gradients are multiplied by 1 / ranks, then added. torch cannot
    take a hook back, so that of the first optimizer serves those that come after it."""
    if ddp not in _listeners:
        if getattr(ddp, "_comm_hooks", None):
            return False
        _listeners[ddp] = weakref.WeakSet()
        _register(ddp, _listeners[ddp])
    _listeners[ddp].add(optimizer)
    return True


def _register(ddp: torch.nn.Module, listeners: weakref.WeakSet[Listener]) -> None:
    owner, group = os.getpid(), ddp.process_group
    factor = 1.0 / torch.distributed.get_world_size(group)

    def hook(_: Any, bucket: Any) -> Any:
        params: Sequence[torch.Tensor] = bucket.parameters()
        gradients: Sequence[torch.Tensor] = bucket.gradients()
        work = torch.distributed.all_reduce(bucket.buffer().mul_(factor), group=group, async_op=True)

        def averaged(future: Any) -> torch.Tensor:
            for optimizer in list(listeners) if owner == os.getpid() else ():
                optimizer._reduced(params, gradients)
            reduced: torch.Tensor = future.value()[0]
            return reduced

        return work.get_future().then(averaged)

    hook.__annotations__.clear()  # DDP takes types there, and these are texts
    ddp.register_comm_hook(None, hook)
