"""The thread that gives the model the weights of a step beside training, piece by piece, in stages 1 and 2."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple

import torch

from ..optim.overlap.follower import Followed, Follower, settle_all
from ..optim.tensors.streams import REACHED, Event, Stream
from ..optim.tensors.threads import Latch
from .arena import FlatArena, Slot


class Piece(NamedTuple):
    """A range of each rank's partition of one group."""

    slot: Slot  #: this rank's partition
    begin: int
    end: int
    targets: Sequence[torch.Tensor]  #: by rank: where the model has the whole partition
    rank: int  #: this one's


class Publication(Followed):
    """The pieces of one step, in the order in which all ranks publish them."""

    def __init__(self, pieces: Sequence[Piece], readers: Event):
        """After the event `readers` nothing reads the old weights any more."""
        super().__init__()
        self.pieces = pieces
        self.readers = readers
        self.published = [Latch() for _ in pieces]
        self.events: list[Event] = [REACHED] * len(pieces)


class Publisher(Follower[Publication]):
    """Publishes steps. With several ranks it gathers each piece, on a process group of its own, whatever this rank's
    program calls meanwhile."""

    def __init__(self, arena: FlatArena, stream: Stream, group: Any):
        """group: of all ranks that share the partitions; None: this one has all."""
        self._arena, self._stream, self._group = arena, stream, group
        super().__init__()

    def wait_for(self, turn: Publication, number: int) -> Event:
        """Waits until a piece and all before it are on their way to the model. They are there after the event."""
        self._wait(turn, turn.published[number])
        return turn.events[number]

    def finish(self, turn: Publication) -> None:
        """Waits until all pieces are on their way."""
        self._wait(turn, turn.ended)

    def _wait(self, turn: Publication, latch: Latch) -> None:
        if not latch.is_set and not self._goes_on(turn):
            return  # the step was interrupted before it was handed over: the model has the weights that it keeps
        self.wait(latch)
        if turn.error is not None:
            raise turn.error

    def _goes_on(self, turn: Publication) -> bool:
        return bool(self._arena.handed_over())

    def _leave(self) -> None:
        self._stream.close()
        if self._group is not None and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group(self._group)

    def _do(self, turn: Publication) -> None:
        handed_over = self._arena.handed_over()
        if not handed_over:
            return
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
        self._stream.read([values[begin:end]], copies=[targets[piece.rank]])
        if self._group is not None:
            torch.distributed.all_gather(targets, targets[piece.rank], group=self._group)


def after_turns(destroy: Callable[..., Any]) -> Callable[..., Any]:
    """Returns torch's destroy_process_group(), after a wait for all that is gathered beside, which other ranks need."""

    @functools.wraps(destroy)
    def destroy_process_group(*args: Any, **keywords: Any) -> Any:
        settle_all()
        return destroy(*args, **keywords)

    return destroy_process_group
