"""Cuts the stream of backwards and optimizer steps into updates. Knows neither torch nor a clock."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Update:
    """From the end of one optimizer step to the end of the next one. Times are in ns."""

    begin_ns: int
    end_ns: int = 0
    backwards: int = 0
    backward_ns: int = 0
    forward_ns: int = 0  #: before each backward: data, zero_grad and forward
    step_ns: int = 0  #: the optimizer's own time
    blocked_ns: int = 0  #: how long training waited for it
    params: int = 0
    alone: bool = False  #: no optimizer ran beside training
    disturbed: bool = False  #: the recorder did something in it

    @property
    def period_ns(self) -> int:
        return self.end_ns - self.begin_ns

    @property
    def training_ns(self) -> float:
        """The mean of its training steps: all that is not waiting for the optimizer."""
        return (self.period_ns - self.blocked_ns) / self.backwards


class Timeline:
    """Takes events in the order of their times. Steps with no backward between them are one step: DeepSpeed steps each
    group by itself."""

    def __init__(self) -> None:
        self._finished: list[Update] = []
        self._present: Update | None = None  # None before the first step
        self._mark_ns = 0  # the end of the last event
        self._stepped = False  # the present update has ended, unless another step follows
        self._next_alone = False

    @property
    def ended(self) -> int:
        """How many updates have ended. It is the number of the present one."""
        return len(self._finished) + int(self._stepped)

    def backward(self, begin_ns: int, end_ns: int) -> None:
        self._begin_next()
        if self._present is not None:
            self._present.backwards += 1
            self._present.backward_ns += end_ns - begin_ns
            self._present.forward_ns += begin_ns - self._mark_ns
        self._mark_ns = end_ns

    def step(self, begin_ns: int, end_ns: int, params: int, step_ns: int | None = None,
             blocked_ns: int | None = None) -> None:
        """step_ns, blocked_ns: None if they are the time between begin and end."""
        if self._present is None:
            self._present = Update(begin_ns, disturbed=True)  # it began before the recording
        update, took_ns = self._present, end_ns - begin_ns
        update.step_ns += took_ns if step_ns is None else step_ns
        update.blocked_ns += took_ns if blocked_ns is None else blocked_ns
        update.params += params
        update.end_ns = self._mark_ns = end_ns
        self._stepped = True

    def waited(self, end_ns: int, step_ns: int) -> None:
        """Says that the recorder waited for the optimizer after a step; its time is known now. The next update begins
        at end_ns, and is alone."""
        if self._present is not None:
            self._present.step_ns = step_ns
        self._mark_ns, self._next_alone = end_ns, True

    def disturb(self) -> None:
        """Says that the recorder does something in the present update. Call it before the update's next event."""
        self._begin_next()
        if self._present is not None:
            self._present.disturbed = True

    def updates(self) -> list[Update]:
        """Returns the updates that have ended."""
        ended = self._present if self._stepped else None
        return [*self._finished, *([] if ended is None else [ended])]

    def _begin_next(self) -> None:
        if self._stepped and self._present is not None:
            self._finished.append(self._present)
            self._present = Update(self._mark_ns, alone=self._next_alone)
            self._stepped = self._next_alone = False
