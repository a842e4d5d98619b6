"""OverlappedAdamW where training waits and all parameters are on the CPU: AdamW's step in place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable

import torch

from .adam import AdamW, _InPlace
from .errors import ZfError
from .optimizer import OverlappedAdamW
from .runtime import Runtime


class InPlace(AdamW, OverlappedAdamW):
    """See OverlappedAdamW. It has no process, and nothing to wait for."""

    _closed = False

    def __init__(self, params: Iterable[Any], *settings: Any, maximize: bool = False,
                 foreach: bool | None = None, fused: bool | None = None, **of_other_modes: Any):
        AdamW.__init__(self, params, *settings, maximize=maximize, foreach=foreach, fused=fused)

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
        """As AdamW.step(). grad_scale multiplies every gradient."""
        if self._closed:
            raise ZfError("the optimizer is closed")
        if grad_scale == 1:
            return _InPlace.step(self, closure)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        given = [(param, param.grad) for group in self.param_groups for param in group["params"]
                 if param.grad is not None]
        try:
            for param, grad in given:
                param.grad = grad.detach() * grad_scale
            _InPlace.step(self)
        finally:
            for param, grad in given:
                param.grad = grad
        return loss

    def synchronize(self) -> None:
        pass

    def close(self) -> None:
        self._closed = True
