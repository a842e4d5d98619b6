"""Copies gradients into the arena, early if it can, and always with the values that step() finds.

A gradient that was just accumulated is copied at once, on a side stream, if it has got as many backwards as before the
last step: then it is expected to be complete. step() compares each early copy with the gradient: the object, its place,
its version, and a digest of its values, because some programs write without raising the version (GradScaler, `.data`).
A gradient that differs is copied again. That is right, but nothing hides the time of this copy."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Callable

import torch

from ..tensors import hashing
from ..tensors.eligibility import refuse_sparse
from ..tensors.streams import Device, Event, Reading, SideStream, Stream, compared
from .arena import Place

_AT_ONCE = 1 << 20  # bytes of gradients that are copied together: each copy costs the job some 0.1 ms
_PAUSE = 100  # steps without early copies, after one in which the program had written its gradients again


class Copied:
    """One copy of a gradient in the arena."""

    def __init__(self, place: Place, gradient: torch.Tensor, buffer: int, readings: list[Reading], at: int,
                 event: Event, version: int | None):
        """version: of the gradient when the copy began. None: this tensor becomes the parameter's gradient later, so
        only the values can be compared."""
        self.place = place
        self.gradient, self.pointer, self.version = gradient, gradient.data_ptr(), version
        self.buffer = buffer
        self._readings, self._at = readings, at  # filled in when the event is reached
        self.event = event

    @property
    def reading(self) -> Reading:
        return self._readings[self._at]

    @property
    def is_dropped(self) -> bool:
        """Whether the parameter has another gradient now, or none."""
        return self.version is not None and self.place.gradient is not self.gradient

    def is_of(self, gradient: torch.Tensor, buffer: int) -> bool:
        """Returns whether this is a copy of the gradient, and the version of the gradient has not changed."""
        if self.version is None:
            return self.buffer == buffer
        return (self.gradient is gradient and self.pointer == gradient.data_ptr() and self.buffer == buffer
                and self.version == _version_of(gradient))


class Collected:
    """The gradients of one step, in the arena after `events`."""

    def __init__(self, squares: list[float], events: list[Event], rewritten: int):
        self.squares = squares  # the sum of squares of each gradient, in the order of the places; none if not wanted
        self.events = events
        self.rewritten = rewritten  # early copies that the program had overtaken


class Gradients:
    """Follows the gradients of an optimizer from backward to step()."""

    def __init__(self, devices: dict[torch.device, Device], *, early: bool):
        self._devices, self._early = devices, early
        self._streams: dict[torch.device, SideStream] = {}
        self._copied: dict[int, Copied] = {}  # by the number of the place
        self._arrivals: dict[int, int] = {}  # since the last step
        self._expected: dict[int, int] = {}  # of the step before
        self._averages: dict[int, int] = {}  # since the last step, of DDP; they are not among the arrivals
        self._expected_averages: dict[int, int] = {}
        self._pause = 0
        self._arriving = threading.RLock()  # autograd has a thread for each GPU, and gloo some
        self._pending: list[Place] = []  # their gradients have come, and are not copied yet
        self._pending_bytes = 0
        self._pending_on: dict[torch.device, list[Stream]] = {}  # the job's streams that have made them
        self._is_copying = False  # on a side stream, and nothing has waited for it
        self.has_new = False  # copies, since the last forward
        #: Is told of copies that are expected to be the last of their step. They may still be under way.
        self.on_copied: Callable[[Sequence[Copied]], None] = lambda copies: None
        #: Is called before copies of the gradients of these places are written.
        self.before_copy: Callable[[Sequence[Place]], None] = lambda places: None

    @property
    def is_early(self) -> bool:
        """Whether gradients are copied in backward now."""
        return self._early and self._pause == 0

    def arrived(self, place: Place, wants_norm: bool) -> None:
        """Is called when a gradient has been accumulated."""
        with self._arriving:
            self._arrived(place, wants_norm)

    def _arrived(self, place: Place, wants_norm: bool) -> None:
        count = self._arrivals[place.index] = self._arrivals.get(place.index, 0) + 1
        if not self.is_early or count != self._expected.get(place.index):
            return
        current, streams = self._devices[place.kind[2]].current(), self._pending_on.setdefault(place.kind[2], [])
        if current not in streams:
            streams.append(current)
        self._pending.append(place)
        self._pending_bytes += place.local.nbytes
        if self._pending_bytes >= _AT_ONCE:
            made = {device: [stream.record() for stream in streams] for device, streams in self._pending_on.items()}
            pending = self._take_pending()
            self.on_copied(self._copy_own(pending, 0, wants_norm, wants_digest=True, made=made))

    def _take_pending(self) -> list[Place]:
        """Returns the places with gradients that have come and that the program has not dropped since."""
        pending, self._pending, self._pending_bytes, self._pending_on = self._pending, [], 0, {}
        return [place for place in pending if place.param.grad is not None]

    def reduced(self, places: Sequence[Place], gradients: Sequence[torch.Tensor], wants_norm: bool) -> None:
        """Copies the gradients of these places, which DDP has averaged."""
        with self._arriving:
            if not self.is_early:
                return
            copies = self._copy(places, gradients, [None] * len(places), 0, wants_norm, True)
            for place in places:
                self._averages[place.index] = self._averages.get(place.index, 0) + 1
            self.on_copied([copied for copied in copies if self._averages[copied.place.index]
                            == self._expected_averages.get(copied.place.index)])

    def _copy_own(self, places: Sequence[Place], buffer: int, wants_norm: bool, wants_digest: bool,
                  made: dict[torch.device, list[Event]] | None = None) -> list[Copied]:
        """Begins to copy the gradients of parameters: see _copy()."""
        gradients = [_gradient_of(place) for place in places]
        return self._copy(places, gradients, list(map(_version_of, gradients)), buffer, wants_norm, wants_digest, made)

    def _copy(self, places: Sequence[Place], gradients: Sequence[torch.Tensor], versions: Sequence[int | None],
              buffer: int, wants_norm: bool, wants_digest: bool,
              made: dict[torch.device, list[Event]] | None = None) -> list[Copied]:
        """Begins copies on one stream for each device. wants_digest: step() compares the copy with its gradient, so the
        copy may run beside the job. made: for each device the events after which its gradients are written; without
        it, they are written after all work that the caller's stream has."""
        by_device: dict[torch.device, list[int]] = {}
        self.before_copy(places)
        self.has_new = True
        for number, gradient in enumerate(gradients):
            by_device.setdefault(gradient.device, []).append(number)
        for device, numbers in by_device.items():
            current = self._devices[device].current()
            stream: SideStream = self._stream(device) if wants_digest else current
            for number in numbers:  # of a backward with gradients that were dropped
                if (last := self._copied.get(places[number].index)) is not None:
                    current.wait(last.event)
            for event in [current.record()] if made is None else made[device]:
                stream.wait(event)
            self._is_copying = self._is_copying or stream is not current
            readings = stream.read([gradients[number] for number in numbers], norm=wants_norm, digest=wants_digest,
                                   copies=[places[number].grads[buffer] for number in numbers])
            event = stream.record()
            for at, number in enumerate(numbers):
                self._copied[places[number].index] = Copied(places[number], gradients[number], buffer, readings, at,
                                                            event, versions[number])
        return [self._copied[place.index] for place in places]

    def settle(self) -> None:
        """Makes later writers of the gradients wait until the copies are done: a backward that was not expected adds to
        the gradients."""
        if self._is_copying:
            for device, stream in self._streams.items():  # also for copies that an exception has kept out of _copied
                self._devices[device].current().wait(stream.record())
            self._is_copying = False

    def begin(self) -> None:
        """Is called in forward. Calls settle(), and forgets gradients that the program has dropped without step(), as
        GradScaler does: the next gradients need this memory."""
        self.settle()
        if self.has_new:
            self.has_new = False
            self._copied = {index: copied for index, copied in self._copied.items() if not copied.is_dropped}

    def collect(self, places: Sequence[Place], buffer: int, wants_norm: bool, is_last: bool = True) -> Collected:
        """Copies the gradients into the arena that are not there as they are now. Returns those of `places`, in this
        order. is_last: no other call follows before stepped()."""
        self.settle()  # nothing writes gradients, or to the arena, while copies are under way
        overtaken = self._overtaken(places, buffer)
        rewritten = sum(map(self._is_rewritten, overtaken)) if self._early else 0
        if wants_norm:  # an early copy was made when it was not asked for yet
            again = {place.index for place in overtaken}
            overtaken += [place for place in places if place.index not in again
                          and self._copied[place.index].reading.square is None]
        self._copy_own(overtaken, buffer, wants_norm, wants_digest=not is_last)
        self.settle()
        copies = [self._copied[place.index] for place in places]
        events = list({id(copied.event): copied.event for copied in copies}.values())
        squares = hashing.on_host([copied.reading.square for copied in copies]) if wants_norm else []
        return Collected(squares, events, rewritten)

    def _is_rewritten(self, place: Place) -> bool:
        """Returns whether the program has written a gradient after its early copy. If a backward too many came, that
        backward may have written it, so the answer is no."""
        copied = self._copied.get(place.index)
        return (copied is not None and copied.reading.digest is not None
                and self._arrivals.get(place.index) == self._expected.get(place.index))

    def _overtaken(self, places: Sequence[Place], buffer: int) -> list[Place]:
        """Returns the places without a copy of their gradients as they are now."""
        held, overtaken = [], []
        for place in places:
            copied, gradient = self._copied.get(place.index), _gradient_of(place)
            if copied is not None and copied.is_of(gradient, buffer):
                held.append((place, copied))
            else:
                overtaken.append(place)
        found = compared(self._devices, [_gradient_of(place) for place, _ in held],
                         [copied.reading.digest for _, copied in held])
        overtaken += [place for (place, _), (_, written) in zip(held, found) if written]
        return overtaken

    def stepped(self, rewritten: int) -> bool:
        """Forgets the gradients of a step. Returns whether early copies pause now, because the program had written
        again what was copied."""
        self._copied.clear()
        self._take_pending()
        self._expected, self._arrivals = self._arrivals, {}
        self._expected_averages, self._averages = self._averages, {}
        paused, self._pause = self._pause, max(0, self._pause - 1)
        if rewritten and paused == 0:
            self._pause = _PAUSE
            return True
        return False

    def forget(self) -> None:
        """Drops the copies in the arena: step() takes all gradients anew."""
        for copied in self._copied.values():
            copied.event.synchronize()
        self._copied.clear()

    def close(self) -> None:
        """Ends the side streams."""
        for stream in self._streams.values():
            stream.close()

    def _stream(self, device: torch.device) -> SideStream:
        if device not in self._streams:
            self._streams[device] = self._devices[device].side()
        return self._streams[device]


def _gradient_of(place: Place) -> torch.Tensor:
    refuse_sparse(place.param)
    gradient = place.gradient
    assert gradient is not None
    return gradient


def _version_of(gradient: torch.Tensor) -> int:
    """Returns the version of a gradient; 0 for a view. Views of one memory share one version, such as FSDP2's gradients
    of a group: only their values show that one of them has changed."""
    return 0 if gradient._is_view() else gradient._version
