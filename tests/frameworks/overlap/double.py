"""A stand-in for a GPU, for tests: tensors lie on the CPU, and streams do as late as possible what they are given.

- A copy's destination is NaN when the copy is issued, and has the data when its event is reached.
- A stream that touches memory without a wait for the last that wrote it, or writes it without a wait for all that read
  it, raises Race. Every stream, and the host, knows how far it has seen each other stream: by the events that it waited
  for, as in a race detector of threads.
- A source that has been freed, or has changed, when the copy is done raises Race, too.

What the job itself reads and writes on its stream it tells by reads() and writes()."""

import weakref

import torch
from zf_runtime.optim.tensors import hashing
from zf_runtime.optim.tensors.streams import Reading, read_by_torch


class Race(AssertionError):
    pass


class Clocks(dict):
    """How far each stream is seen."""

    def merge(self, other):
        for stream, clock in other.items():
            self[stream] = max(self.get(stream, 0), clock)


class Event:
    def __init__(self, device, stream, seen):
        self.device, self.stream, self.seen = device, stream, Clocks(seen)
        self.count = len(stream.done_or_queued)

    def synchronize(self):
        self.stream.catch_up(self.count)
        self.device.host.merge(self.seen)

    def is_done(self):
        return all(self.device.host.get(stream, 0) >= clock for stream, clock in self.seen.items())


class Stream:
    def __init__(self, device, name, is_lazy):
        self.device, self.name, self.is_lazy = device, name, is_lazy
        self.seen, self.clock = Clocks(), 0
        self.done_or_queued, self.next = [], 0  # what is given; the first that is not done

    def wait(self, event):
        self.seen.merge(event.seen)
        self._give(lambda: event.stream.catch_up(event.count))

    def record(self):
        return Event(self.device, self, self.seen)

    def close(self):
        self.catch_up(len(self.done_or_queued))
        self.device.host.merge(self.seen)

    def send(self, sources, targets):
        self.read(sources, copies=targets)
        return self.read(targets, digest=True)

    def differing(self, pairs):
        if any(isinstance(now, torch.Tensor) and isinstance(then, torch.Tensor) for now, then in pairs):
            self.record().synchronize()
        return hashing.differing(pairs)

    def read(self, tensors, *, norm=False, digest=False, copies=None):
        self._touch(tensors, self.device.read_by, lambda tensor: [self.device.written_by])
        if copies is not None:
            self._touch(copies, self.device.written_by, lambda tensor: [self.device.written_by, self.device.read_by])
        readings = [Reading(torch.full((), torch.nan, dtype=torch.float64) if norm else None,
                            torch.full((-(-tensor.numel() // hashing.BLOCK),), 7, dtype=torch.int64)
                            if digest else None) for tensor in tensors]
        held = [(weakref.ref(tensor), tensor.detach().clone()) for tensor in tensors]
        if copies is not None and self.is_lazy:
            for to in copies:
                to.fill_(torch.nan)

        def do():
            for at, (reference, before) in enumerate(held):
                tensor = reference()
                if tensor is None:
                    raise Race(f"{self.name}: what is read was freed before it was read")
                if copies is not None and not torch.equal(hashing.bits(tensor), hashing.bits(before)):
                    raise Race(f"{self.name}: the source of a copy changed before it was done")
                found, = read_by_torch([tensor], norm, digest, None if copies is None else [copies[at]])
                if norm:
                    readings[at].square.copy_(found.square)
                if digest:
                    readings[at].digest.copy_(found.digest)

        self._give(do)
        return readings

    def _give(self, work):
        self.done_or_queued.append(work)
        if not self.is_lazy:
            self.catch_up(len(self.done_or_queued))

    def catch_up(self, count):
        with torch.no_grad():
            while self.next < count:
                self.next += 1
                self.done_or_queued[self.next - 1]()
                self.done_or_queued[self.next - 1] = None

    def _touch(self, tensors, log, others):
        self.seen.merge(self.device.host)  # it is given after what the host has seen
        self.clock += 1
        self.seen[self] = self.clock
        for tensor in tensors:
            self.device.check(self.name, self.seen, tensor, others(tensor))
            log.setdefault(tensor.data_ptr(), {})[self] = self.clock


class Double:
    """A device. `host` is what the threads of the host have seen."""

    def __init__(self):
        self.host = Clocks()
        self.read_by, self.written_by = {}, {}  # by address: the last clock of each stream
        self._current = self._first = Stream(self, "the job", is_lazy=False)
        self._sides = []

    def current(self):
        return self._current

    def use_another_stream(self):
        """Lets the job compute on a stream that has waited for all that its first one was given, and no more."""
        event = self._first.record()
        self._current = Stream(self, "the job's other stream", is_lazy=False)
        self._current.wait(event)

    def side(self):
        self._sides.append(Stream(self, f"side stream {len(self._sides) + 1}", is_lazy=True))
        return self._sides[-1]

    sender = side

    def reads(self, *tensors):
        """Tells that the job reads tensors on its stream."""
        self._current._touch(tensors, self.read_by, lambda tensor: [self.written_by])

    def writes(self, *tensors):
        self._current._touch(tensors, self.written_by, lambda tensor: [self.written_by, self.read_by])

    def host_reads(self, *tensors):
        """Tells that a process on the host reads memory, as the optimizer's reads gradients."""
        for tensor in tensors:
            self.check("the host", self.host, tensor, [self.written_by])

    def ends(self):
        """Tells that all memory is freed."""
        for stream in self._sides:
            if stream.next < len(stream.done_or_queued):
                raise Race(f"{stream.name} has work left when its memory is freed")

    @staticmethod
    def check(name, seen, tensor, logs):
        for log in logs:
            for stream, clock in log.get(tensor.data_ptr(), {}).items():
                if seen.get(stream, 0) < clock:
                    raise Race(f"{name} does not wait for {stream.name} at a tensor of shape {list(tensor.shape)}")
