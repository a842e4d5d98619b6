"""Says in one line what runs, or why DeepSpeed's own optimizer goes on."""

from __future__ import annotations

import functools
import sys

from .arena import FlatArena


def say(text: str) -> None:
    """Prints one line to stderr."""
    print(f"zf_runtime.deepspeed: {text}", file=sys.stderr, flush=True)


@functools.cache
def say_once(text: str) -> None:
    """Prints one line to stderr, unless this process has printed it already."""
    say(text)


def describe(arena: FlatArena) -> str:
    """Returns what runs now, in one line."""
    stats = arena.runtime.stats()
    elements = sum(slot.param.numel() for slot in arena.slots)
    partitions, threads = _plural(len(arena.slots), "partition"), _plural(stats.threads, "thread")
    text = f"optimizer process {stats.worker_pid} steps {count(elements)} in {partitions} with {threads} ({stats.isa})"
    if arena.mode in ("exact", "late"):
        text += ", one step late" if arena.mode == "late" else ", beside the next forward"
        text += ", beginning in backward" if arena.speculation is not None else ""
    if arena.state != "fp32":
        text += (f"; state {arena.state}: 8 bytes a parameter for master and moments instead of 12, and the losses no "
                 "longer have DeepSpeed's bits")
    tails = 0 if arena.state != "fp32" else sum(slot.param.numel() % 16 for slot in arena.slots)
    if tails:
        text += f"; DeepSpeed's own would round {_plural(tails, 'element')} differently, at the partitions' ends"
    if arena.mode == "wait" and stats.training_threads < stats.home_threads:
        text += ("; the plan divides the home although training waits for the step: a plan made with --mode wait gives "
                 "both sides all of it")
    return text


def count(elements: int) -> str:
    """Returns a number of parameters in words."""
    return f"{elements / 1e6:.1f}M parameters" if elements >= 50_000 else f"{elements} parameters"


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
