"""Remembers the calls of DeepSpeed's operator, from which the factors of the next step follow."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from ..native.scalars import Scalars
from . import local_step
from .local_step import Powers, Settings, Tensors


class Call:
    """What the operator is told for a step. It is told the same for each tensor of a group."""

    def __init__(self, step: int, betas: tuple[float, float], adamw: bool, settings: Settings, powers: Powers):
        self.told = step, betas, settings
        self.powers = powers  #: after this call
        self._adamw = adamw

    @functools.cached_property
    def scalars(self) -> Scalars:
        return self.scaled(1.0)

    def scaled(self, grad_scale: float) -> Scalars:
        """Returns the factors of a step that multiplies each gradient."""
        return local_step.scalars(self.powers, self._adamw, self.told[2], grad_scale)


class OptimizerState:
    """What DeepSpeed's operator would know of one optimizer. An interrupted call counts if its tensor is stepped."""

    def __init__(self, settings: tuple[Any, ...]):
        self.settings = settings  #: lr, beta1, beta2, eps, weight_decay, adamw_mode, should_log
        self.own_powers: Powers | None = Powers()  #: those of DeepSpeed's own operator; None if they are not known
        self._adamw = bool(settings[5])
        self._last = Call(0, (0.0, 0.0), self._adamw, Settings(0.0, 0.0, 0.0, False), Powers())
        self._in_place = self._last
        self._stepped = ctypes.c_float()  # the engine counts here: no exception parts a step from its count

    @property
    def last(self) -> Call:
        """The last call that counts, of any optimizer."""
        if self._stepped.value:
            self._last = self._in_place
            self._stepped.value = 0
        return self._last

    @last.setter
    def last(self, call: Call) -> None:
        self._last = call

    def next(self, step: int, betas: tuple[float, float], settings: Settings) -> Call:
        """Returns the call that comes next. It is the last one again for another tensor of the same group."""
        last = self.last
        if last.told == (step, betas, settings):
            return last
        return Call(step, betas, self._adamw, settings, last.powers.after(step, betas))

    def step_in_place(self, call: Call, tensors: Tensors) -> None:
        """Lets the local engine step tensors that refusal() has taken."""
        scalars = call.scalars
        self._in_place = call
        local_step.step(*tensors, scalars, self._stepped)
