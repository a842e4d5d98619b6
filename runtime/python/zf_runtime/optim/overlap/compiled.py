"""Tells whether torch.compile is used in this process.

Compiled code fails or runs eagerly while a TorchFunctionMode is active, and torch compiles it again if there is a hook
on all modules. So once the job uses torch.compile, step() waits for each step. Before torch compiles
for the first time, it calls the engines, which take their mode and hook away."""

from __future__ import annotations

import sys
import weakref
from typing import Any, Protocol


class Told(Protocol):
    """What must know that torch.compile is about to compile."""

    def compiles(self) -> None:
        """Leaves nothing that what is compiled would find."""


_engines: weakref.WeakSet[Told] = weakref.WeakSet()
_state = {"is used": False}


def is_used() -> bool:
    """Returns whether torch.compile was called, also if it has compiled nothing yet."""
    if not _state["is used"]:
        backends = getattr(sys.modules.get("torch._dynamo.eval_frame"), "cached_backends", {})
        _state["is used"] = any(backend is not None for backend in list(backends.values()))
    return _state["is used"]


def has_compiled() -> bool:
    """Returns whether torch.compile has compiled a function, or is about to. is_used() says
    less: a library may call torch.compile for functions that the job never uses."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    return _state["is used"] or bool(counters.get("frames"))


def tell(engine: Told) -> None:
    """Lets a compilation that begins call engine.compiles()."""
    _engines.add(engine)
    from torch._dynamo.callback import callback_handler  # the first step would import it, too

    if not isinstance(callback_handler.start_callbacks, _Callbacks):
        callback_handler.start_callbacks = _Callbacks([*callback_handler.start_callbacks, _begins])


class _Callbacks(list[Any]):
    """The functions that torch calls when a compilation begins. torch._dynamo.reset() clears the list: ours stays."""

    def clear(self) -> None:
        self[:] = [_begins]


def _begins(*_: object) -> None:
    _state["is used"] = True
    for engine in list(_engines):
        engine.compiles()
