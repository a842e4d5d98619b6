"""The thread that gives the model the weights of a step beside training, piece by piece, in stages 1 and 2."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import queue
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple

import torch

from ..errors import ZfError, ZfTimeout
from ..optim.overlap import graphs
from ..optim.tensors.streams import REACHED, Event, Stream
from ..optim.tensors.threads import Latch, yield_to_the_job
from .arena import FlatArena, Slot

_LOOK_S = 0.2  # how often a wait looks whether the thread still lives
_END_S = 60.0  # how long a fork waits at most, and the end of the process


class Piece(NamedTuple):
    """A range of each rank's partition of one group."""

    slot: Slot  #: this rank's partition
    begin: int
    end: int
    targets: Sequence[torch.Tensor]  #: by rank: where the model has the whole partition
    rank: int  #: this one's


class Turn:
    """The pieces of one step, in the order in which all ranks publish them."""

    def __init__(self, pieces: Sequence[Piece], readers: Event):
        """After the event `readers` nothing reads the old weights any more."""
        self.pieces = pieces
        self.readers = readers
        self.first_node = graphs.now()  # of autograd, that is built since
        self.published = [Latch() for _ in pieces]
        self.events: list[Event] = [REACHED] * len(pieces)
        self.is_begun = False  # something was handed over
        self.ended = Latch()
        self.error: BaseException | None = None


class Publisher:
    """Publishes turns. It alone waits for the optimizer process while a turn goes on. With several ranks it gathers
    each piece, on a process group of its own, whatever this rank's program calls meanwhile."""

    def __init__(self, arena: FlatArena, stream: Stream, group: Any):
        """group: of all ranks that share the partitions; None: this one has all."""
        self.turn: Turn | None = None  # the last one
        self._arena, self._stream, self._group = arena, stream, group
        self._owner = os.getpid()
        self._calls: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="zf-publisher", daemon=True)
        self._thread.start()
        _publishers.add(self)

    def begin(self, turn: Turn, hand_over: Callable[[], None]) -> None:
        """Hands a step over, and publishes what was handed over. If an exception comes in between, finish() publishes
        it."""
        self.turn = turn
        hand_over()
        turn.is_begun = True
        self._calls.put(True)

    def wait_for(self, turn: Turn, number: int) -> Event:
        """Waits until a piece and all before it are on their way to the model. They are there after the event."""
        self._wait(turn, turn.published[number], None)
        return turn.events[number]

    def finish(self, turn: Turn, timeout: float | None = None) -> None:
        """Waits until all pieces are on their way. Raises ZfTimeout after `timeout` seconds."""
        self._wait(turn, turn.ended, timeout)

    def _wait(self, turn: Turn, latch: Latch, timeout: float | None) -> None:
        if not turn.is_begun and not self._arena.handed_over():
            return  # begin() was interrupted before: the model has the weights that it keeps
        deadline = None if timeout is None else time.monotonic() + timeout
        while not latch.wait(_LOOK_S if deadline is None else min(_LOOK_S, max(0.0, deadline - time.monotonic()))):
            self._calls.put(True)  # an interrupt may have come before the first call
            if not self._thread.is_alive():
                raise ZfError("the thread that publishes the weights has ended; make a new engine")
            if deadline is not None and time.monotonic() >= deadline:
                raise ZfTimeout(f"the step is not done after {timeout} s; the optimizer lives", "ZF_TIMEOUT")
        if turn.error is not None:
            raise turn.error

    def end(self) -> None:
        """Ends the thread, after its turn. The second call does nothing."""
        if self._owner != os.getpid():
            return
        self._calls.put(False)
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self.turn = None

    def settle(self) -> None:
        """Waits for the turn, before a fork, where a child has no thread that publishes, and before the groups of ranks
        end, which other ranks still gather in."""
        turn = self.turn
        if turn is not None and self._owner == os.getpid() and self._thread.is_alive():
            with contextlib.suppress(Exception):  # the next use of a weight raises it
                self.finish(turn, _END_S)

    def _serve(self) -> None:
        yield_to_the_job()
        with torch.no_grad():
            while self._calls.get():
                turn = self.turn
                if turn is not None and not turn.ended.is_set:
                    self._publish(turn)
        self._stream.close()
        if self._group is not None and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group(self._group)

    def _publish(self, turn: Turn) -> None:
        handed_over = self._arena.handed_over()
        if not handed_over:
            return
        turn.is_begun = True
        try:
            self._stream.wait(turn.readers)
            for number, piece in enumerate(turn.pieces):
                if piece.slot in handed_over:
                    self._send(piece)
                turn.events[number] = self._stream.record()
                turn.published[number].set()
        except BaseException as error:  # such as ZfWorkerDied: a wait raises it
            turn.error = error
        for latch in (*turn.published, turn.ended):
            latch.set()

    def _send(self, piece: Piece) -> None:
        slot, begin, end = piece.slot, piece.begin, piece.end
        self._arena.wait_piece(slot, begin, end - begin)
        values = slot.master if slot.result is None else slot.result
        targets = [target[begin:end] for target in piece.targets]
        self._stream.copy(targets[piece.rank], values[begin:end])
        if self._group is not None:
            torch.distributed.all_gather(targets, targets[piece.rank], group=self._group)


_publishers: weakref.WeakSet[Publisher] = weakref.WeakSet()


def _settle() -> None:
    for publisher in list(_publishers):
        publisher.settle()


os.register_at_fork(before=_settle)
atexit.register(_settle)


def after_turns(destroy: Callable[..., Any]) -> Callable[..., Any]:
    """Returns torch's destroy_process_group(), after a wait for all that is gathered beside."""

    @functools.wraps(destroy)
    def destroy_process_group(*args: Any, **keywords: Any) -> Any:
        _settle()
        return destroy(*args, **keywords)

    return destroy_process_group
