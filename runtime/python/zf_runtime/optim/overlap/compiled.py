"""Tells whether torch.compile is used in this process.

A TorchFunctionMode that is active lets what is compiled fail or run eagerly, and hooks on all modules let it be
compiled again. So from the first use on, each step is waited for in step(). What is compiled for the first time calls
back before."""

from __future__ import annotations

import sys
import weakref
from typing import Any

_engines: weakref.WeakSet[Any] = weakref.WeakSet()
_state = {"is used": False}


def is_used() -> bool:
    """Returns whether torch.compile was called, also if it has compiled nothing yet."""
    if not _state["is used"]:
        backends = getattr(sys.modules.get("torch._dynamo.eval_frame"), "cached_backends", {})
        _state["is used"] = any(backend is not None for backend in list(backends.values()))
    return _state["is used"]


def has_compiled() -> bool:
    """Returns whether torch.compile has compiled anything, or is about to: a library may call it for functions that the
    job never uses."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    return _state["is used"] or bool(counters.get("frames"))


def tell(engine: Any) -> None:
    """Lets a compilation that begins call engine.compiles()."""
    _engines.add(engine)
    from torch._dynamo.callback import callback_handler  # the first step would import it, too

    if not isinstance(callback_handler.start_callbacks, _Callbacks):
        callback_handler.start_callbacks = _Callbacks([*callback_handler.start_callbacks, _begins])


class _Callbacks(list[Any]):
    """What is called when a compilation begins: torch._dynamo.reset() drops all but ours."""

    def clear(self) -> None:
        self[:] = [_begins]


def _begins(*_: Any) -> None:
    _state["is used"] = True
    for engine in list(_engines):
        engine.compiles()
