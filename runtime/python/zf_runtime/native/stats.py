"""Statistics of a runtime."""

from __future__ import annotations

import dataclasses

from . import abi


@dataclasses.dataclass(frozen=True)
class Stats:
    """One reading. Times are in nanoseconds, sizes in bytes."""

    worker_pid: int
    worker_alive: bool
    threads: int  #: threads of the pool
    arena_bytes: int
    submitted: int  #: groups submitted, over all submissions
    completed: int  #: groups stepped
    batches: int  #: how often all threads were started together
    last_step_ns: int  #: of one such batch
    total_step_ns: int
    start_ns: int  #: time that the optimizer took to become ready
    isa: str  #: "avx512"
    memory_note: str  #: what the machine refused (a memory policy, huge pages, locking); "" if nothing
    restarts: int  #: how often the optimizer was restarted after its death
    last_death: str  #: why it died the last time; "" if it never did
    pages_on_plan: int  #: of the pages that move_pages checked, those on the plan's memory nodes
    pages_elsewhere: int
    pages_absent: int
    huge_bytes: int  #: of the arrays, in huge pages
    locked_bytes: int
    degraded: int  #: planned CPUs of the pool that had left when the optimizer was started
    cpu_note: str  #: which they are, and where the pool's threads run; "" if none has left
    narrow_note: str  #: why a thread of this process may still have the whole home; "" if none has
    narrowed_threads: int  #: threads of this process that got (or share) the training CPUs when it was opened
    home_threads: int  #: the right number of threads on the whole home; 0 if ZF_BINDING did not tell
    training_threads: int  #: the same on the training CPUs


def stats_of(raw: abi.Stats) -> Stats:
    """Returns the reading that a struct of the C ABI holds."""
    values = {field.name: getattr(raw, field.name) for field in dataclasses.fields(Stats)}
    values["worker_alive"] = bool(raw.worker_alive)
    for text in ("isa", "memory_note", "last_death", "cpu_note", "narrow_note"):
        values[text] = values[text].decode(errors="replace")
    return Stats(**values)
