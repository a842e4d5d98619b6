"""Says for each parameter who waits for whom: the state machine of a step that runs beside training.

A step that is handed over is a Turn. The follower, a thread, does all of it: it submits the parameters in the order
of forward, and as soon as the optimizer process has finished the first share of them, it sends that to the parameters,
and so on, one share after the other. A parameter is

    still  ->  under way (begin)  ->  sent (by the follower)  ->  still (by the wait for its share)

Nothing of a turn is done by the training thread. So an exception that comes between two of its lines, such as Ctrl-C,
loses no step: either the follower has the turn, and does all of it, or nothing has happened."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import torch

from ...native.runtime import Runtime
from ...native.scalars import Scalars
from ..tensors import others
from ..tensors.hashing import kind
from ..tensors.streams import REACHED, Device, Event, Reading, Stream
from ..tensors.threads import OUR_THREADS, Latch
from . import graphs
from .arena import Arena, Place
from .follower import Followed, Follower
from .timeline import Timeline


class Share:
    """Parameters on one device that are sent together, and waited for together. A large one has a share of its own."""

    def __init__(self, places: Sequence[Place]):
        self.places = list(places)
        # The last one's end is that of all before it: they are stepped in this order.
        self.last = next((place for place in reversed(self.places) if place.shape.elements), self.places[-1])
        self.ends = self.last.ends if len(self.places) == 1 else [self.last.shape.elements]  # of its pieces
        self.device = self.places[0].kind[2]
        self.sent = Latch()  # set when `event` is known
        self.event: Event = REACHED  # reached when the parameters hold the step's results
        self.not_waited_for = {id(place) for place in self.places}  # no use has waited for these parameters


class Turn(Followed):
    """One step of some parameters, from begin() until its end."""

    def __init__(self, number: int, shares: list[Share], buffer: int, scalars: list[Scalars],
                 scalars_of: list[int], sources: list[Event], readers: dict[torch.device, Event], *,
                 is_late: bool, note: bytes | None):
        """scalars, scalars_of: as in Runtime.submit(), for the places of all shares in their order. After the events
        `sources` the gradients are in the arena. After the events `readers` none reads the old parameters. is_late:
        nothing is sent before `publishing` is set. note: what the program notes with the step."""
        super().__init__()
        self.number = number
        self.is_alone = _is_alone()
        self.shares = shares
        self.places = [place for share in shares for place in share.places]
        self.share_of = {id(place): share for share in shares for place in share.places}
        self.last_of = {share.device: share for share in shares}  # sent last, by the stream of the device
        self.buffer, self.scalars, self.scalars_of = buffer, scalars, scalars_of
        self.sources, self.readers, self.note = sources, readers, note
        self.submitted, self.publishing = Latch(), Latch()
        self.was_submitted = False
        self.is_released = False  # no parameter needs a wait any more: see Overlap._release()
        self.lost: list[Place] = []  # the program has written to them while the step was running
        if not is_late:
            self.publishing.set()


class Sender(Follower[Turn]):
    """Submits turns and sends them. It does not keep the optimizer alive."""

    def __init__(self, arena: Arena, streams: dict[torch.device, Stream], timeline: Timeline):
        self._arena, self._streams, self._timeline = arena, streams, timeline
        super().__init__()

    def end(self) -> None:
        if self.turn is not None:
            self.turn.publishing.set()
        super().end()

    def _goes_on(self, turn: Turn) -> bool:
        return turn.publishing.is_set

    def _leave(self) -> None:
        for stream in self._streams.values():
            stream.close()  # it reads the arena

    def _do(self, turn: Turn) -> None:
        try:
            self._follow(turn)
        except BaseException as error:  # such as ZfWorkerDied: a wait raises it
            turn.error = error
        for latch in (turn.submitted, *(share.sent for share in turn.shares), turn.ended):
            latch.set()

    def _follow(self, turn: Turn) -> None:
        for event in turn.sources:
            event.synchronize()
        began = time.perf_counter_ns()
        runtime = self._arena.runtime
        indexes = [place.index for place in turn.places]
        counted = torch.tensor(indexes, device="cpu")
        ticket = self._arena.submit(turn.scalars, indexes, counted, turn.note, buffer=turn.buffer,
                                    scalars_of=turn.scalars_of)
        self._arena.counts[counted] += 1
        self._arena.begun.clear()  # the submission has decided them
        turn.was_submitted = True
        turn.submitted.set()
        while not turn.publishing.wait(60.0):
            pass  # set by the next step, by synchronize() or by close()
        for device, event in turn.readers.items():
            self._streams[device].wait(event)
        for number, share in enumerate(turn.shares):
            if share.last.shape.elements:
                runtime.progress(share.last.index, share.ends[0], ticket=ticket)
            done = time.perf_counter_ns()
            self._send(turn, share, ticket)
            self._timeline.add("step", turn.number, number, began, done)
            began = time.perf_counter_ns()
            self._timeline.add("send", turn.number, number, done, began)
        runtime.wait(ticket)

    def _send(self, turn: Turn, share: Share, ticket: int) -> None:
        """Gives the parameters of a share their new values, except those that the program has written meanwhile. The
        first piece of the step must be done."""
        stream = self._streams[share.device]
        same = [place for place in share.places if kind(place.local) == place.kind]
        readings = stream.read([place.local for place in same], digest=True)
        differs = stream.differing([(reading.digest, place.digest) for reading, place in zip(readings, same)])
        places = [place for place, written in zip(same, differs) if not written]
        turn.lost += [place for place in share.places if place not in places]
        if places and len(share.ends) > 1 and share.last.local.is_contiguous():
            readings = [self._send_pieces(share.last, share.ends, stream, ticket)]
        else:
            if len(share.ends) > 1:  # the program has changed the layout since
                self._arena.runtime.progress(share.last.index, share.ends[-1], ticket=ticket)
            readings = stream.send([place.values for place in places], [place.local for place in places])
        for place, reading in zip(places, readings):
            others.raise_versions(place.tensors)
            place.digest = reading.digest
        share.event = stream.record()
        share.sent.set()

    def _send_pieces(self, place: Place, ends: Sequence[int], stream: Stream, ticket: int) -> Reading:
        values, param = place.values.view(-1), place.local.detach().view(-1)
        for begin, end in zip((0, *ends), ends):
            self._arena.runtime.progress(place.index, end, ticket=ticket)
            stream.read([values[begin:end]], copies=[param[begin:end]])
        return stream.read([place.local], digest=True)[0]


def _is_alone() -> bool:
    """Returns whether the program has no other Python thread than the calling one."""
    own = threading.current_thread()
    return all(thread is own or thread.name in OUR_THREADS for thread in threading.enumerate())


class Overlap:
    """The training threads' side of the state machine."""

    def __init__(self, arena: Arena, devices: dict[torch.device, Device], timeline: Timeline):
        self.devices = devices
        self._timeline = timeline
        streams = {device: each.sender() for device, each in devices.items()}
        self.follower = Sender(arena, streams, timeline)

    @property
    def turn(self) -> Turn | None:
        """The last turn, if a part of it may still have to be waited for."""
        turn = self._pending
        if turn is None or all(not share.not_waited_for and share.event is REACHED for share in turn.shares):
            return None
        return turn  # on a device each stream of the job waits: that another one has waited is not enough

    @property
    def _pending(self) -> Turn | None:
        turn = self.follower.turn
        return None if turn is None or turn.is_released else turn

    def begin(self, turn: Turn) -> None:
        """Hands a step over. Returns when it is submitted and counted. The turn before must be waited for."""
        self.follower.turn = turn  # from here on the follower does all of it
        self.follower.call()
        self._wait(turn.submitted, turn)

    def readers(self) -> dict[torch.device, Event]:
        """Returns for each device an event after all work that the caller's stream has: reads of old parameters."""
        return {device: each.current().record() for device, each in self.devices.items()}

    def wait_for(self, places: Sequence[Place]) -> list[Place] | None:
        """Waits until these parameters hold the results of the last turn: on the host until they are sent, then on the
        stream of the caller. Returns the places that no longer need a wait, on any stream. None: no place of the turn
        needs one."""
        turn = self._pending
        if turn is None:
            return None
        done = []
        for place in places:
            share = turn.share_of.get(id(place))
            if share is not None:
                self._wait_for_share(turn, share)
                share.not_waited_for.discard(id(place))
            if share is None or share.event.is_done():
                done.append(place)
        return None if graphs.now() == turn.first_node and self._release(turn) else done

    def _release(self, turn: Turn) -> bool:
        """Ends the waiting for all parameters of a turn if they are sent already, so that later uses cost nothing.
        Precondition: this thread has built no node of autograd since the step. If the program has no other thread
        either, no forward has read an old parameter unseen."""
        turn.is_released = (turn.is_alone and turn.ended.is_set and turn.error is None and _is_alone()
                            and all(share.event.is_done() for share in turn.last_of.values()))
        return turn.is_released

    def unseen(self) -> tuple[Turn | None, list[Place]]:
        """Returns the last turn, and which of its parameters no use has waited for."""
        turn = self._pending
        return turn, [] if turn is None else [place for place in turn.places if self.is_under_way(place)]

    def is_done(self, place: Place) -> bool:
        """Returns whether a parameter needs no wait any more, on any stream."""
        turn = self._pending
        share = None if turn is None else turn.share_of.get(id(place))
        return share is None or (share.sent.is_set and share.event.is_done())

    def is_just_begun(self) -> bool:
        """Returns whether a step is under way, and no parameter was used since it began. A late step is not under way
        before publish()."""
        turn = self._pending
        return turn is not None and turn.publishing.is_set and not turn.ended.is_set and all(
            len(share.not_waited_for) == len(share.places) for share in turn.shares)

    def publish(self) -> Turn | None:
        """Lets a late step be sent. Returns the last turn."""
        turn = self.follower.turn
        if turn is not None:
            if not turn.publishing.is_set:
                turn.readers = self.readers()  # forward and backward have read the old parameters since
            turn.publishing.set()  # in any case: an interrupt may have come in the middle of the last set()
        return turn

    def finish(self) -> list[Place]:
        """Waits for the whole turn. Returns the parameters that the program has written meanwhile: they keep what was
        written, and their step is lost."""
        turn = self.publish()
        if turn is None:
            return []
        for share in turn.shares:
            self._wait_for_share(turn, share)
            share.not_waited_for.clear()
        self._wait(turn.ended, turn)
        lost, turn.lost = turn.lost, []
        return lost

    def wait_for_process(self, runtime: Runtime) -> None:
        """Waits until the process has done a late step, which stays late: nothing is sent."""
        turn = self.follower.turn
        if turn is not None:
            self._wait(turn.submitted, turn)
            runtime.wait()  # the follower does not: it waits for `publishing`

    def is_under_way(self, place: Place) -> bool:
        """Returns whether no use has waited for a parameter since its last step."""
        turn = self._pending
        share = None if turn is None else turn.share_of.get(id(place))
        return share is not None and id(place) in share.not_waited_for

    def _wait_for_share(self, turn: Turn, share: Share) -> None:
        if not share.sent.is_set:
            began = time.perf_counter_ns()
            self._wait(share.sent, turn)
            self._timeline.add("wait", turn.number, turn.shares.index(share), began, time.perf_counter_ns())
        self._check(turn)
        if share.event is not REACHED:
            self.devices[share.device].current().wait(share.event)

    def _wait(self, latch: Latch, turn: Turn) -> None:
        self.follower.wait(latch)
        self._check(turn)

    def _check(self, turn: Turn) -> None:
        """Raises the error that has ended a turn, if one has. Training may go on after a step that was refused, such as
        a step with an infinite lr."""
        if turn.error is not None:
            if not turn.was_submitted:
                self.follower.turn = None
            raise turn.error
