"""Begins steps in backward, as if nothing were clipped, and takes them back where that proves wrong.

As soon as a gradient is in the arena, the optimizer process may step its parameter. Until step() decides, masters and
moments in the arena are then one step ahead. The parameters of the job are not: nothing is sent before. step() hands
all over as always, and the runtime keeps a step that was begun with the same factors. Otherwise it takes the step back
and does it again, so the bits are the same.

A thread does all of it: an exception in the training thread, such as Ctrl-C, finds a step begun or not begun."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Callable

from ...errors import ZfError, ZfTimeout
from ...native.runtime import Runtime
from ...native.scalars import Scalars, scalars
from ..tensors import clipping
from ..tensors.streams import ThreadStream
from ..tensors.threads import Latch
from .arena import Arena, Place
from .gradients import Copied
from .turn import Overlap

_LOOK_S = 0.002  # how often the thread looks whether it shall stop
_MISSES = 2  # so many steps in a row that would be taken back: then none is begun until one would be kept


class _Thread(ThreadStream):
    def call(self, work: Callable[[], None]) -> Latch:
        done = Latch()
        self._work.put([work, done.set])
        return done


class Begun:
    """The steps of a runtime's groups that are begun in backward and not decided, and the thread that begins them."""

    def __init__(self, runtime: Runtime, begun: dict[int, Scalars]):
        """begun: their factors by group. The thread alone fills it."""
        self._runtime, self._begun = runtime, begun
        self._thread = _Thread()
        self._is_allowed = False
        self._offered: set[int] = set()  # groups: their steps may be begun
        self._before = self._last = 0  # the last two tickets
        self._misses = 0
        self._was_taken_back = False

    def _count(self, would_be_kept: bool, is_allowed: bool) -> bool:
        """Is called when a step is decided. Returns whether steps may be begun now."""
        self._misses = 0 if would_be_kept and not self._was_taken_back else self._misses + 1
        self._was_taken_back = False
        self._offered = set()
        self._is_allowed = is_allowed and self._misses < _MISSES
        return self._is_allowed

    @property
    def is_begun(self) -> bool:
        """Whether a step may be begun that is not decided."""
        return bool(self._offered)

    def stop(self) -> None:
        """Returns when nothing more is begun before the next step."""
        if self._offered:
            self._is_allowed = False
            self._do(lambda: None)

    def take_back(self) -> None:
        """Takes back all that is begun: afterwards masters and moments are those of the last step. Does nothing, and
        forbids nothing, if nothing is begun. No turn may be under way. Raises ZfError if the optimizer has died."""
        if not self._offered:
            return
        self.stop()
        self._do(self._take_back)
        self._offered = set()

    def end(self) -> None:
        """Takes back, and ends the thread. The second call does nothing."""
        try:
            self.take_back()
        finally:
            self._thread.close()

    def _do(self, work: Callable[[], None]) -> None:
        """Waits until the thread has called work(), and raises what work() has raised."""
        errors: list[BaseException] = []

        def noted() -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)

        latch = self._thread.call(noted)
        while not latch.wait(1.0):
            if not self._thread.is_alive():
                raise ZfError("the thread that begins steps in backward has ended; make a new optimizer or engine")
        if errors:
            raise errors[0]

    # ---- in the thread ----

    def _has_room(self) -> bool:
        """Waits until at most two submissions are not done, so that little work is in vain if the step is clipped.
        Returns whether a step may be begun now."""
        while self._is_allowed and not _is_done(self._runtime, self._before):
            pass
        return self._is_allowed

    def _note(self, ticket: int) -> None:
        self._before, self._last = self._last, ticket

    def _take_back(self) -> None:
        if self._begun:
            self._was_taken_back = True
            ticket = self._runtime.take_back(array("I", self._begun))
            self._begun.clear()
            self._runtime.wait(ticket)


class Speculation(Begun):
    """The steps of one arena that are begun in backward: Arena.begun."""

    def __init__(self, arena: Arena, overlap: Overlap):
        super().__init__(arena.runtime, arena.begun)
        self._arena, self._overlap = arena, overlap
        self._limit: float | None = None
        self._square = 0.0  # the sum of squares of the gradients that have come

    def stepped(self, would_be_kept: bool, limit: float | None, *, is_allowed: bool) -> bool:
        """Is called when step() has handed over, or skipped. would_be_kept: whether the step had the factors of one
        that is begun in backward. limit: the norm to which it has clipped. Returns whether steps may be begun now."""
        self._limit, self._square = limit, 0.0
        return self._count(would_be_kept, is_allowed)

    def has(self, place: Place) -> bool:
        """Returns whether the step of a parameter may be begun, and is not decided."""
        return place.index in self._offered

    def offer(self, copies: Sequence[Copied]) -> None:
        """Is called when gradients are on their way into the arena. Any thread may call it."""
        some = [copied for copied in copies if copied.place.shape.speculative] if self._is_allowed else []
        if some:
            self._offered.update(copied.place.index for copied in some)
            self._thread.call(lambda: self._begin(some))

    def is_kept(self, factors: Mapping[int, Scalars]) -> bool:
        """Stops, and returns whether all that is begun has these factors, by the number of the place. Takes all back if
        one of them has none."""
        self.stop()
        begun = self._arena.begun
        if not begun.keys() <= factors.keys():
            self.take_back()
        return all(factors[index] == each for index, each in begun.items())

    # ---- in the thread ----

    def _begin(self, copies: list[Copied]) -> None:
        try:
            for event in {id(copied.event): copied.event for copied in copies}.values():
                event.synchronize()
            if self._is_allowed and not self._exceeds_limit(copies):
                self._submit([copied.place for copied in copies if not copied.is_dropped])
        except Exception:  # such as for an infinite lr: step() raises it
            self._is_allowed = False
        copies.clear()  # the next backward needs the memory of these gradients

    def _exceeds_limit(self, copies: Sequence[Copied]) -> bool:
        """Returns whether the gradients that have come will be clipped: then no step is begun any more. Squares of
        tensors on a GPU are not read: that would wait for the whole backward."""
        for square in [copied.reading.square for copied in copies] if self._limit is not None else ():
            if isinstance(square, float):
                self._square += square
        if self._limit is not None and clipping.coefficient(math.sqrt(self._square), self._limit) != 1.0:
            self._is_allowed = False
        return not self._is_allowed

    def _submit(self, places: Sequence[Place]) -> None:
        runtime, arena = self._arena.runtime, self._arena
        new = [place for place in places if place.index not in arena.begun]
        turn = self._overlap.follower.turn  # the last step: what forward does not wait for may still be under way
        while self._is_allowed and turn is not None and not turn.ended.wait(_LOOK_S):
            pass
        if not new or not self._has_room():
            return
        factors = {place.index: scalars(place.settings, float(arena.counts[place.index]) + 1, True) for place in new}
        kinds = list(dict.fromkeys(factors.values()))
        number_of = {each: number for number, each in enumerate(kinds)}
        scalars_of = [number_of[each] for each in factors.values()]
        ticket = runtime.speculate(kinds, array("I", factors), scalars_of=scalars_of)
        arena.begun.update(factors)
        self._note(ticket)


def _is_done(runtime: Runtime, ticket: int) -> bool:
    """Waits a moment for a submission; 0: there is none. Returns whether it is done."""
    try:
        if ticket:
            runtime.wait(ticket, timeout=_LOOK_S)
    except ZfTimeout:
        return False
    return True
