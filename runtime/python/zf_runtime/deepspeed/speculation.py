"""Begins steps of ZeRO's partitions in backward, as if nothing were clipped, and takes them back where that proves
wrong.

Gradients of a partition come from its end to its beginning. As soon as those of a chunk are in the arena, the optimizer
process may step it. ZeRO's step() decides as always, and the runtime keeps what was begun with the factors that step()
gives. Otherwise it takes that back and does the step again, so the bits are the same. Until then masters and moments
may be one step ahead, and what reads or writes them from outside takes back first; see FlatArena.wait(). No weight is
published before.

A thread does all of it where anything is begun: an exception in the training thread, such as Ctrl-C, finds a step begun
or not begun, and handed over or not."""

from __future__ import annotations

import collections
import contextlib
import functools
import math
import os
import weakref
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Callable, NamedTuple, Protocol

import torch

from ..errors import ZfError
from ..native.runtime import Runtime
from ..native.scalars import Scalars
from ..optim.overlap.speculation import Begun
from ..optim.tensors.engine import ParamGroup
from ..optim.tensors.streams import Event, device_of
from .local_step import Call
from .replacing import Function, replace

_MOST_CALLS = 64  # of one group in one step: see zf_submit_args


class Span(NamedTuple):
    """Where a parameter lies in a group: elements [begin, end)."""

    param: int  #: its number
    group: int
    begin: int
    end: int


class Speculation(Begun):
    """The steps of one arena that are begun in backward. It holds neither the arena nor the ZeRO optimizer."""

    def __init__(self, runtime: Runtime, chunk_bytes: int):
        super().__init__(runtime, {})
        self._owner = os.getpid()
        self._elements = [group.elements for group in runtime.groups]
        self._chunk = [group.chunk_elements(chunk_bytes) for group in runtime.groups]
        self._needed = [[0] * -(-elements // each) for elements, each in zip(self._elements, self._chunk)]
        self._with_params: set[int] = set()  # groups; another one has only padding
        self._ready: collections.deque[tuple[int, int]] = collections.deque()  # groups and chunks
        self._events: collections.deque[Event] = collections.deque()  # before these are reached, nothing is ready
        self._is_kept = False
        self._forget()
        _open.add(self)

    def _forget(self) -> None:
        self._left: dict[int, list[int]] = {}  # by group: how many elements of each chunk have none
        self._expected: dict[int, Scalars] = {}  # by group: the factors if nothing is clipped
        self._calls = [0] * len(self._chunk)
        self._square = 0.0  # the sum of squares of the gradients that have come
        self._is_refused = False
        self._ready.clear()
        self._events.clear()
        # Parameters with a gradient since the last step. This comes last: until then each gradient is a second one.
        self._seen: set[int] = set()

    def expect(self, spans: Iterable[Span]) -> None:
        """Says which parameters get gradients in each step. All else, such as padding, needs none."""
        for span in spans:
            self._with_params.add(span.group)
            for chunk, elements in self._chunks_of(span):
                self._needed[span.group][chunk] += elements

    def has(self, group: int) -> bool:
        """Returns whether a step of a group may be begun, and is not decided."""
        return group in self._offered

    def comes(self, span: Span) -> None:
        """Is called before a gradient is written. If the parameter has one already, takes the begun steps back: the
        second gradient changes the first."""
        if span.param in self._seen:
            self.refuse()

    def came(self, span: Span, norm: float | None, limit: float | None,
             expected: Callable[[], Iterable[tuple[int, Scalars]]], before_first: Callable[[], None],
             event: Event) -> None:
        """Is called when a gradient is written. norm: of this gradient; None: unknown. limit: gradients with a larger
        norm in all are clipped. expected(): returns groups, with the factors of their steps if nothing is clipped.
        before_first(): is called before the first step of the group is begun. event: the gradient is written then."""
        if span.param in self._seen:
            return
        if not self._seen:
            with contextlib.suppress(Exception):  # such as for an infinite lr: step() raises it
                self._expected.update(expected())  # one after the other: those that come before it stay
        self._seen.add(span.param)  # first: an interrupted call must not count its elements twice
        group = span.group
        if norm is not None:
            self._square += norm * norm
        if not math.isfinite(self._square) or (limit is not None and math.sqrt(self._square) > limit):
            self._is_allowed = False  # this step is clipped, or skipped
        self._events.append(event)
        left = self._left.setdefault(group, list(self._needed[group]))
        ready = []
        for chunk, elements in self._chunks_of(span):
            left[chunk] -= elements
            if left[chunk] == 0:
                ready.append(chunk)
        if not ready or not self._is_allowed or group not in self._expected:
            return
        if group not in self._offered:
            self._offered.add(group)  # first: a signal handler in between takes back, and forbids what follows
            before_first()
        self._ready.extend((group, chunk) for chunk in ready)
        self._thread.call(self._begin)

    def _chunks_of(self, span: Span) -> Iterator[tuple[int, int]]:
        """Returns the chunks in which a parameter lies, each with the number of its elements there."""
        each = self._chunk[span.group]
        for chunk in range(span.begin // each, -(-span.end // each)):
            yield chunk, min(span.end, (chunk + 1) * each) - max(span.begin, chunk * each)

    def refuse(self) -> None:
        """Takes the begun steps back. They count as a failed guess, whatever factors step() gives."""
        self._is_allowed, self._is_refused = False, True
        self.take_back()

    def decide(self, factors: Mapping[int, Scalars], submit: Callable[[], None]) -> None:
        """Hands over the step of these groups by submit(). A step that was begun with the same factors is kept; all
        other begun steps are taken back first."""
        self._is_allowed = False
        if not self._offered:  # nothing is begun: to wake the thread would take time
            self._decide(factors, submit)
            return
        self._offered.update(factors)  # from here on take_back() waits for the thread
        self._do(lambda: self._decide(factors, submit))
        self._offered = set()

    def stepped(self, is_allowed: bool) -> bool:
        """Is called when step() has ended. is_allowed: steps may be begun in the next backward. Returns whether any
        will."""
        self.take_back()  # it has skipped the step
        may_begin = self._count(self._is_kept and not self._is_refused, is_allowed)
        self._is_kept = False
        self._forget()
        return may_begin

    def end(self) -> None:
        if self._owner == os.getpid():
            super().end()

    # ---- in the thread ----

    def _begin(self) -> None:
        try:
            ready = []
            while self._ready:
                ready.append(self._ready.popleft())
            while self._events:
                self._events.popleft().synchronize()
            for group, begin, end in _runs(ready):
                if self._has_room() and self._calls[group] < _MOST_CALLS:
                    self._speculate(group, begin * self._chunk[group],
                                    min(end * self._chunk[group], self._elements[group]))
        except Exception:  # such as ZfWorkerDied: step() raises it
            self._is_allowed = False

    def _speculate(self, group: int, begin: int, end: int) -> None:
        scalars = self._expected[group]
        self._calls[group] += 1
        ticket = self._runtime.speculate(scalars, array("I", [group]), elements=(begin, end))
        self._begun[group] = scalars
        self._note(ticket)

    def _decide(self, factors: Mapping[int, Scalars], submit: Callable[[], None]) -> None:
        self._ready.clear()
        differing = [group for group, scalars in self._begun.items() if factors.get(group) != scalars]
        self._is_kept = not differing and all(
            self._expected.get(group) == each for group, each in factors.items() if group in self._with_params)
        if differing:
            self._runtime.take_back(array("I", differing))
            for group in differing:
                del self._begun[group]
        submit()
        self._begun.clear()


class Arena(Protocol):
    """A FlatArena, as far as its steps begin in backward."""

    @property
    def speculation(self) -> Speculation | None: ...


def begin_behind(zero: Any, arena: Arena, name: str, span_of: Callable[[Any], Span | None],
                 expected: Callable[[], Iterable[tuple[int, Scalars]]],
                 before_first: Callable[[Span], None]) -> None:
    """Lets steps begin behind a function of a ZeRO optimizer that writes the gradient of a parameter. span_of(param) is
    None if the call writes none. For the others see Speculation.came()."""
    from deepspeed.accelerator import get_accelerator

    device = device_of(torch.device(get_accelerator().current_device_name()))

    @replace(zero, name)
    def place_and_begin(place: Function, param: torch.nn.Parameter, *args: Any, **keywords: Any) -> Any:
        span, speculation = span_of(param), arena.speculation
        if span is None or speculation is None:
            return place(param, *args, **keywords)
        speculation.comes(span)
        result = place(param, *args, **keywords)
        norm = zero.norm_for_param_grads[zero.get_param_id(param)]
        speculation.came(span, float(norm) if norm.device.type == "cpu" else None,
                         zero.clip_grad * zero.loss_scale if zero.clip_grad > 0 else None,
                         expected, functools.partial(before_first, span), device.current().record())
        return result


def calls_of_next(optimizer: Any, steps: Iterable[tuple[torch.Tensor, ParamGroup]]) -> Iterator[Call]:
    """Returns the calls that a DeepSpeedCPUAdam will make for these steps: partitions and their param_groups, in the
    order in which they are stepped. The powers of beta depend on what is stepped before."""
    numbered = ((optimizer.state[partition]["step"] + 1, group) for partition, group in steps)
    calls: Iterator[Call] = optimizer.ds_opt_adam.expected(optimizer.opt_id, numbered)
    return calls


def _runs(chunks: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Returns groups with ranges of chunks, [begin, end): neighbours together, in the order in which they came."""
    runs: list[tuple[int, int, int]] = []
    for group, chunk in chunks:
        last, begin, end = runs[-1] if runs else (-1, 0, 0)
        if last == group and chunk in (begin - 1, end):
            runs[-1] = (group, min(begin, chunk), max(end, chunk + 1))
        else:
            runs.append((group, chunk, chunk + 1))
    return runs


_open: weakref.WeakSet[Speculation] = weakref.WeakSet()


def _before_fork() -> None:
    """Lets a child find the state of the last step."""
    for speculation in list(_open):
        with contextlib.suppress(ZfError):  # the next wait raises it
            speculation.take_back()


os.register_at_fork(before=_before_fork)
