"""What zf_runtime.bind() did, as a value."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from . import cpu_lists
from .math_threads import Region


class LeftThread(NamedTuple):
    """A thread that keeps a mask of its own, which NCCL, verbs, this runtime or the user chose."""

    tid: int
    name: str
    cpus: frozenset[int]

    def __str__(self) -> str:
        return f"{self.name} ({self.tid}) on {cpu_lists.in_words(self.cpus)}"


@dataclasses.dataclass(frozen=True)
class Binding:
    """What bind() did. It is true if the process is bound to its home now.

    rank, source: the local rank, and what it was known by; None if it is not known.
    plan: where the home is from: a path; in words, such as "a plan for all 2 GPUs of this node", if the plan was made
    for this call; or that zf-tune exec or a bind() before had bound the process. Empty if it is not bound.
    cpus, mems: the home, and the nodes that the calling thread prefers; empty if none, if it was refused,
    or if a memory policy that others have set is kept.
    moved: threads that were moved. left: threads with masks of their own.
    threads: the number that each library has now. region, backward: counted in parallel regions, None if there is no
    OpenMP runtime (for `backward`: no torch).
    pages_elsewhere: the share of this process's memory on other nodes than the home's; None if the kernel does not say.
    notes: what the user should know. errors: what went wrong; with strict=True it was raised.
    """

    rank: int | None = None
    source: str = ""
    plan: str = ""
    cpus: frozenset[int] = frozenset()
    mems: frozenset[int] = frozenset()
    moved: int = 0
    left: tuple[LeftThread, ...] = ()
    threads: dict[str, int] = dataclasses.field(default_factory=dict)
    region: Region | None = None
    backward: Region | None = None
    pages_elsewhere: float | None = None
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.plan)

    def __str__(self) -> str:
        return "\n".join(f"zf_runtime.bind: {line}" for line in self._lines())

    def _lines(self) -> list[str]:
        lines = []
        if self.plan:
            memory = f", memory preferred on node {cpu_lists.text_of(self.mems)}" if self.mems else ""
            home = f"{cpu_lists.in_words(self.cpus)}{memory}"
            lines.append(f"rank {self.rank} ({self.source}) is on {home}, by {self.plan}")
            lines.append(f"{self.moved} thread{'' if self.moved == 1 else 's'} moved" + "".join(
                f"; {count} thread{'' if count == 1 else 's'} in {name}" for name, count in self.threads.items()))
        else:
            lines.append("not bound" if self.errors else "nothing to do")
        lines += [f"left: {thread}" for thread in self.left]
        lines += [f"counted in {where}: {region}" for where, region in (
            ("a parallel region", self.region), ("a backward", self.backward)) if region is not None]
        if self.pages_elsewhere is not None and self.pages_elsewhere >= 0.01:
            lines.append(f"{self.pages_elsewhere:.0%} of the memory lies on other nodes: it was touched before")
        return lines + [f"note: {note}" for note in self.notes] + [f"error: {error}" for error in self.errors]
