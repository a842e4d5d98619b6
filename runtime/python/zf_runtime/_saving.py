"""Lets a model that is saved wait for the running step of its optimizer."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from .errors import ZfError


class WaitFirst:
    """A hook on a module's state_dict(). It does not keep the optimizer alive. A copy of the module, also in another
    process, has one that waits for nothing: its parameters are its own."""

    def __init__(self, optimizer: Any = None):
        self._optimizer = None if optimizer is None else weakref.ref(optimizer)

    def __call__(self, *_: Any) -> None:
        optimizer = None if self._optimizer is None else self._optimizer()
        if optimizer is not None:
            optimizer._wait_to_save()

    def __deepcopy__(self, memo: Any) -> WaitFirst:
        return WaitFirst()

    def __reduce__(self) -> Any:
        return WaitFirst, ()


def hooks_on(module: torch.nn.Module, optimizer: Any) -> list[Any]:
    """Makes state_dict() of a module, and of each of its submodules, wait for the optimizer. Returns what removes
    that. Raises ZfError if torch is too old."""
    if not hasattr(module, "register_state_dict_pre_hook"):
        raise ZfError(f"module= needs torch 2.0 or newer, and this is torch {torch.__version__}: leave it out, and "
                      "call synchronize() before you save the model")
    hook = WaitFirst(optimizer)
    return [each.register_state_dict_pre_hook(hook) for each in module.modules()]
