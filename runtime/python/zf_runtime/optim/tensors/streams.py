"""Streams, events and copies of the device that holds tensors: all use of CUDA stands here and in _cuda.py.

A stream does what it is given in order, beside the caller. An event is reached when all is done that its stream was
given before. On the CPU the caller's own stream does everything at once, and a side stream is a thread.

The code that gives work to a stream keeps alive what that work reads, until an event after it."""

from __future__ import annotations

import queue
import threading
import weakref
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple, Protocol

import torch

from ...native import local_calls
from . import hashing
from .eligibility import TYPES
from .threads import COPIES, Latch, yield_to_the_job


class Reading(NamedTuple):
    """What was read of one tensor. The values may lie on its device, and are final after an event."""

    square: Any  #: the sum of the squares of its elements, in double
    digest: Any  #: see hashing.py


class Event:
    """The event of work that is done when its call returns. Subclasses are those of other work."""

    def synchronize(self) -> None:
        """Waits on the host."""

    def is_done(self) -> bool:
        """Returns whether it is reached, without a wait."""
        return True


REACHED = Event()


class SideStream(Protocol):
    def wait(self, event: Event) -> None:
        """Lets what is given from now on come after an event."""

    def read(self, tensors: Sequence[torch.Tensor], *, norm: bool = False, digest: bool = False,
             copies: Sequence[torch.Tensor] | None = None) -> list[Reading]:
        """Reads tensors, and copies each to where `copies` says, which may be on the other side or cast. What was not
        asked for is None in a reading."""

    def record(self) -> Event:
        """Returns the event of what was given until now."""

    def close(self) -> None:
        """Ends the stream, after what it was given."""


class Stream(SideStream, Protocol):
    def send(self, sources: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> list[Reading]:
        """Copies each source to its target. Returns the digests of the targets."""

    def differing(self, pairs: Sequence[tuple[Any, Any]]) -> list[bool]:
        """Returns for each pair of digests whether they differ, after a wait for the stream."""


class Device(Protocol):
    def current(self) -> Stream:
        """Returns the stream on which the calling thread computes: an equal one for the same stream."""

    def side(self) -> SideStream:
        """Makes a stream of its own, for gradients."""

    def sender(self) -> Stream:
        """Makes the stream by which another thread, the caller of the stream, sends parameters."""


class CudaEvent(Event):
    def __init__(self, event: Any):
        self.event = event

    def synchronize(self) -> None:
        self.event.synchronize()

    def is_done(self) -> bool:
        return bool(self.event.query())


class CudaStream:
    def __init__(self, stream: Any):
        self._stream = stream

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CudaStream) and bool(self._stream == other._stream)

    def __hash__(self) -> int:
        return hash(self._stream)

    def wait(self, event: Event) -> None:
        assert isinstance(event, CudaEvent)
        self._stream.wait_event(event.event)

    def read(self, tensors: Sequence[torch.Tensor], *, norm: bool = False, digest: bool = False,
             copies: Sequence[torch.Tensor] | None = None) -> list[Reading]:
        with torch.cuda.stream(self._stream), torch.no_grad():
            return read_by_torch(tensors, norm, digest, copies)

    def send(self, sources: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> list[Reading]:
        self.read(sources, copies=targets)
        return self.read(targets, digest=True)

    def differing(self, pairs: Sequence[tuple[Any, Any]]) -> list[bool]:
        with torch.cuda.stream(self._stream):
            return hashing.differing(pairs)

    def record(self) -> Event:
        event = torch.cuda.Event()
        event.record(self._stream)
        return CudaEvent(event)

    def close(self) -> None:
        self._stream.synchronize()


class Cuda:
    def __init__(self, device: torch.device):
        self._device = device

    def current(self) -> Stream:
        return CudaStream(torch.cuda.current_stream(self._device))

    def side(self) -> CudaStream:
        return CudaStream(torch.cuda.Stream(self._device))

    def sender(self) -> Stream:
        return self.side()


class HostStream:
    """The calling thread, or with `alone` a thread that leaves the threads of torch to the job."""

    def __init__(self, alone: bool = False):
        self._alone = alone

    def wait(self, event: Event) -> None:
        event.synchronize()

    def read(self, tensors: Sequence[torch.Tensor], *, norm: bool = False, digest: bool = False,
             copies: Sequence[torch.Tensor] | None = None) -> list[Reading]:
        with torch.no_grad():
            return read_on_host(tensors, norm, digest, copies, self._alone)

    def send(self, sources: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> list[Reading]:
        if all(_is_readable(source) and _is_twin(target, source) for source, target in zip(sources, targets)):
            return self.read(sources, digest=True, copies=targets)
        self.read(sources, copies=targets)
        return self.read(targets, digest=True)

    def differing(self, pairs: Sequence[tuple[Any, Any]]) -> list[bool]:
        return hashing.differing(pairs)

    def record(self) -> Event:
        return REACHED

    def close(self) -> None:
        pass


class _ThreadEvent(Event):
    def __init__(self, stream: ThreadStream):
        self._stream = stream
        self.latch = Latch()

    def synchronize(self) -> None:
        while not self.latch.wait(1.0):
            if not self._stream.is_alive():
                raise RuntimeError("the thread that copies gradients has ended")
        if self._stream.errors:
            raise self._stream.errors[-1]

    def is_done(self) -> bool:
        return self.latch.is_set


class ThreadStream:
    """A side stream of a CPU. It is a thread, which ends with close(), or with this object."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self._work: queue.SimpleQueue[list[Callable[[], None]]] = queue.SimpleQueue()  # []: the end
        self._given: list[Callable[[], None]] = []  # until the next record(): to wake the thread takes time
        self._own = HostStream(alone=True)
        weakref.finalize(self, self._work.put, []).atexit = False  # an interrupt may come before a close()
        self._thread = threading.Thread(target=_serve, args=(self._work, self.errors), name=COPIES, daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def wait(self, event: Event) -> None:
        if event is not REACHED:
            self._given.append(event.synchronize)

    def read(self, tensors: Sequence[torch.Tensor], *, norm: bool = False, digest: bool = False,
             copies: Sequence[torch.Tensor] | None = None) -> list[Reading]:
        found: list[Reading] = []
        self._given.append(lambda: found.extend(self._own.read(tensors, norm=norm, digest=digest, copies=copies)))
        return found

    def record(self) -> Event:
        event = _ThreadEvent(self)
        given, self._given = self._given, []
        self._work.put([*given, event.latch.set])
        return event

    def close(self) -> None:
        self._work.put([])
        self._thread.join(timeout=60)


def _serve(work: queue.SimpleQueue[list[Callable[[], None]]], errors: list[BaseException]) -> None:
    yield_to_the_job()
    while _do(work.get(), errors):
        pass


def _do(given: list[Callable[[], None]], errors: list[BaseException]) -> bool:
    for each in given:
        try:
            each()
        except BaseException as error:  # the next wait for an event raises it
            errors[:] = [error]
    return bool(given)


class Host:
    def __init__(self) -> None:
        self._current = HostStream()

    def current(self) -> Stream:
        return self._current

    def side(self) -> SideStream:
        return ThreadStream()

    def sender(self) -> Stream:
        return HostStream(alone=True)


def compared(devices: Mapping[torch.device, Device], tensors: Sequence[torch.Tensor],
             before: Sequence[Any]) -> list[tuple[Any, bool]]:
    """Reads tensors on the caller's streams. Returns the digest of each, and whether it differs from that before."""
    found: list[Any] = [None] * len(tensors)
    for device in {tensor.device for tensor in tensors}:
        numbers = [number for number, tensor in enumerate(tensors) if tensor.device == device]
        stream = devices[device].current()
        digests = [reading.digest for reading in stream.read([tensors[number] for number in numbers], digest=True)]
        differ = stream.differing([(digest, before[number]) for digest, number in zip(digests, numbers)])
        for number, digest, differs in zip(numbers, digests, differ):
            found[number] = digest, differs
    return found


def device_of(device: torch.device) -> Device:
    """Returns the interface to a device. (Tests replace it: they have no GPU.)"""
    return Cuda(device) if device.type == "cuda" else Host()


def read_by_torch(tensors: Sequence[torch.Tensor], norm: bool, digest: bool,
                  copies: Sequence[torch.Tensor] | None) -> list[Reading]:
    """Reads tensors where they are, by torch's own operations on the current stream."""
    # Digests first: a write that comes between a digest and its copy gives a digest of other values, and is found.
    digests = [hashing.by_torch(tensor) if digest else None for tensor in tensors]
    for to, tensor in zip(copies or (), tensors):
        to.copy_(tensor, non_blocking=True)
    return [Reading(_square(tensor) if norm else None, each) for tensor, each in zip(tensors, digests)]


def _square(tensor: torch.Tensor) -> torch.Tensor:
    values = tensor.detach()
    if values.is_complex():
        values = torch.view_as_real(values.resolve_conj())
    return torch.linalg.vector_norm(values, dtype=torch.float64).square()


def read_on_host(tensors: Sequence[torch.Tensor], norm: bool, digest: bool, copies: Sequence[torch.Tensor] | None,
                 alone: bool) -> list[Reading]:
    """Reads tensors of the CPU: in one pass by the library, and what the library does not take by torch."""
    found: list[Any] = [None] * len(tensors)
    regular, words = [], array("Q")
    for number, tensor in enumerate(tensors):
        to = copies[number] if copies is not None else None
        if _is_readable(tensor) and (to is None or _is_twin(to, tensor)):
            regular.append(number)
            words.extend((tensor.data_ptr(), tensor.numel(), 0 if to is None else to.data_ptr(), TYPES[tensor.dtype],
                          0, 0))
            continue
        value = hashing.by_torch(tensor).tolist() if digest else None  # first: see read_by_torch()
        if to is not None:
            to.copy_(tensor)
        found[number] = Reading(float(_square(tensor)) if norm else None, value)
    if regular:
        local_calls.engine().read(words, norm=norm, digest=digest, alone=alone)
        sums = local_calls.sums_of(words) if norm else [None] * len(regular)
        digests = local_calls.digests_of(words) if digest else [None] * len(regular)
        for number, square, value in zip(regular, sums, digests):
            found[number] = Reading(square, value)
    return found


def _is_readable(tensor: torch.Tensor) -> bool:
    """Returns whether the library can read it."""
    return (tensor.dtype in TYPES and tensor.device.type == "cpu" and tensor.layout is torch.strided
            and tensor.is_contiguous() and not tensor.is_neg() and tensor.data_ptr() % tensor.element_size() == 0)


def _is_twin(to: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Returns whether the bytes of one can be those of the other."""
    return to.dtype is tensor.dtype and to.device.type == "cpu" and to.is_contiguous() and to.numel() == tensor.numel()
