"""OverlappedAdamW where training waits and all parameters are on the CPU: AdamW's step in place."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Callable

from . import _planned
from .adam import AdamW, _InPlace
from .errors import ZfError
from .optimizer import OverlappedAdamW
from .runtime import Runtime


class InPlace(AdamW, OverlappedAdamW):
    """See OverlappedAdamW. It has no process, and nothing to wait for."""

    _closed = False

    def __init__(self, params: Iterable[Any], *settings: Any, maximize: bool = False,
                 foreach: bool | None = None, fused: bool | None = None, state: str | None = None, seed: int = 0,
                 plan: str | os.PathLike[str] | None = None, **of_other_modes: Any):
        state = _planned.state_format(state, plan)
        AdamW.__init__(self, params, *settings, maximize=maximize, foreach=foreach, fused=fused, state=state, seed=seed)

    @staticmethod
    def _chosen_format(state: str | None) -> str:
        return state or "fp32"  # chosen by the plan that was given here

    @property
    def runtime(self) -> Runtime:
        raise ZfError("with overlap=False and parameters on the CPU the step is in place: there is no optimizer "
                      "process and no runtime")

    @property
    def overlap(self) -> bool:
        return False

    @property
    def memory_note(self) -> str:
        return ""

    def step(self, closure: Callable[[], Any] | None = None, *, grad_scale: float = 1.0) -> Any:
        """As AdamW.step(). grad_scale multiplies every gradient as it is read, in fp32. The gradients stay."""
        if self._closed:
            raise ZfError("the optimizer is closed")
        return _InPlace.step(self, closure, _grad_scale=float(grad_scale))

    def synchronize(self) -> None:
        pass

    def close(self) -> None:
        self._closed = True
