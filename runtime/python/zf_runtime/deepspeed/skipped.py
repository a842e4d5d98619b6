"""Says when DeepSpeed skips steps because a gradient is infinite or NaN, or the norm of all gradients is.

In bf16 and fp32, DeepSpeed up to 0.19.7 does not say so, and 0.19.8 names no count. In fp16 its loss scaler does."""

from __future__ import annotations

import atexit
import time
from typing import Any

import torch

from .messages import say
from .replacing import Function, replace, wrap

INTERVAL_S = 60.0  # between two lines


class SkippedSteps:
    """Counts the steps of a ZeRO optimizer, and those that were skipped."""

    def __init__(self) -> None:
        self._steps = self._skipped = self._last = self._said = 0
        self._next_line = 0.0

    def note(self, is_skipped: bool) -> None:
        """Counts a step. Says the counts if it was skipped, at most once in INTERVAL_S."""
        self._steps += 1
        if not is_skipped:
            return
        self._skipped, self._last = self._skipped + 1, self._steps
        if time.monotonic() >= self._next_line:
            self.say()

    def say(self) -> None:
        """Says the counts unless it has."""
        if self._said == self._skipped:
            return
        self._said, self._next_line = self._skipped, time.monotonic() + INTERVAL_S
        say(f"DeepSpeed has skipped {self._skipped} of {self._steps} steps, the last of them step {self._last}: a "
            "gradient, or the norm of all, is infinite or NaN. A skipped step changes no weight and no moment. Look at "
            "the loss and the data of that step")


def announce_skipped_steps(zero: Any) -> None:
    """Lets the first rank say when steps are skipped, and at the end what it has not said yet."""
    is_first = not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0
    if getattr(zero, "dtype", None) is torch.float16 or not is_first:
        return
    skipped = SkippedSteps()

    @replace(zero, "step")
    def noted_step(step: Function, *args: Any, **keywords: Any) -> Any:
        result = step(*args, **keywords)
        skipped.note(bool(getattr(zero, "overflow", False)))
        return result

    wrap(zero, ("destroy",), skipped.say)
    atexit.register(skipped.say)  # most programs do not destroy their engine
