"""What happened when, of the last steps."""

from __future__ import annotations

import collections
import json
import os
from typing import NamedTuple

from ...native.whole_file import write_whole

KINDS = {"copy": "step(): last gradients and their norm", "check": "step(): what the program has written",
         "step": "optimizer process: step", "send": "parameters to training", "wait": "forward waits"}


class Span(NamedTuple):
    """One piece of work. Times are those of time.perf_counter_ns()."""

    kind: str  #: a key of KINDS
    turn: int  #: the number of the optimizer's step, from 1 on
    share: int  #: of the parameters, in the order of forward; -1: all
    begin_ns: int
    end_ns: int


class Timeline:
    """Keeps the spans of the last steps. Any thread may add one."""

    def __init__(self, most: int = 4096) -> None:
        self._spans: collections.deque[Span] = collections.deque(maxlen=most)

    def add(self, kind: str, turn: int, share: int, begin_ns: int, end_ns: int) -> None:
        self._spans.append(Span(kind, turn, share, begin_ns, end_ns))

    def spans(self) -> list[Span]:
        return sorted(self._spans.copy(), key=lambda span: span.begin_ns)


def write_for_perfetto(spans: list[Span], path: str | os.PathLike[str]) -> None:
    """Writes spans in the Trace Event Format, which Perfetto and chrome://tracing show."""
    lanes = list(KINDS)
    events: list[dict[str, object]] = [
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": lane, "args": {"name": KINDS[kind]}}
        for lane, kind in enumerate(lanes)]
    for span in spans:
        events.append({"name": f"{span.kind} {span.share}" if span.share >= 0 else span.kind, "ph": "X", "pid": 1,
                       "tid": lanes.index(span.kind), "ts": span.begin_ns / 1000,
                       "dur": (span.end_ns - span.begin_ns) / 1000, "args": {"step": span.turn, "share": span.share}})
    write_whole(path, json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))
