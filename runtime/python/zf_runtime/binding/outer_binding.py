"""What zf-tune exec or bind() has left in the environment: who was bound, by whom, and which CPUs there were before."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import NamedTuple

from . import cpu_lists, rank_home
from .rank_home import Home
from .ray import LISTS
from .which_rank import Who

# Variables that are set for the processes below.
OURS = ("ZF_BINDING", "ZF_RANK", "ZF_RANK_FROM", "ZF_PLAN", "ZF_OPTIMIZER_CPUS", "ZF_ALLOWED", "ZF_BIND")
# Names that tell a job from one that a rank of it has started. Only launchers set the first two;
# scripts set the others, too.
_OF_LAUNCHER = ("TORCHELASTIC_RUN_ID", "SLURM_STEP_ID")
_OF_MASTER = ("MASTER_ADDR", "MASTER_PORT")


class Call(NamedTuple):
    """What bind() has bound a process as; None: it was not known."""

    rank: int | None
    ranks: int | None
    lists: str  # a digest of its lists of GPUs
    launcher: str  # a digest of what its launcher calls the job
    master: str  # a digest of where its ranks meet


class Outer(NamedTuple):
    """A process that was bound: this one, or one above it."""

    home: Home
    allowed: frozenset[int] | None  # the CPUs that it might use before; None: not said
    call: Call | None  # of bind(); None: zf-tune exec has bound it


def find(variables: Mapping[str, str]) -> Outer | None:
    """Returns what the environment says; None if no process was bound, or if that cannot be read."""
    line = variables.get("ZF_BINDING", "")
    try:
        home = rank_home.parse(line)
        allowed = cpu_lists.parse(variables.get("ZF_ALLOWED", "")) or None
    except ValueError:
        return None
    return Outer(home, allowed, _call(variables.get("ZF_BIND", ""), line)) if home.is_bound else None


def variables_of_call(who: Who, line: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Returns what find() reads a Call from, after bind() has set ZF_BINDING to the line."""
    rank, ranks = ("" if number is None else str(number) for number in (who.rank, who.ranks))
    digests = (digest_of_lists(variables), _digest_of(_OF_LAUNCHER, variables), _digest_of(_OF_MASTER, variables))
    return {"ZF_BIND": ":".join((_digest(line), rank, ranks, *digests))}


def digest_of_lists(variables: Mapping[str, str]) -> str:
    """Returns a digest of the lists of GPUs; empty if no list has one."""
    return _digest_of(LISTS, variables)


def is_same_job(call: Call, variables: Mapping[str, str]) -> bool:
    """Returns whether a process below may be a rank of the same job. A rank may say where the ranks meet after bind(),
    and then start the others, as Lightning does. `variables`: those that are about this process."""
    return _digest_of(_OF_LAUNCHER, variables) == call.launcher and (
        not call.master or _digest_of(_OF_MASTER, variables) == call.master)


def _digest_of(names: tuple[str, ...], variables: Mapping[str, str]) -> str:
    """Returns a digest of these variables; empty if none is set."""
    values = [variables.get(name, "") for name in names]
    return _digest("\n".join(values)) if any(values) else ""


def _call(text: str, line: str) -> Call | None:
    """Returns None if a zf-tune exec inside has set ZF_BINDING since."""
    words = text.split(":")
    if len(words) != 6 or words[0] != _digest(line):
        return None
    rank, ranks = (int(word) if word.isdigit() else None for word in words[1:3])
    return Call(rank, ranks, *words[3:])


def _digest(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
