"""What zf-tune exec and bind() leave in the environment: the home of a rank's process (ZF_BINDING, see docs/launch.md),
who was bound, and which CPUs there were before."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from ..native.environment import local_rank
from . import cpu_lists
from .own_threads import stat_of
from .ray import LISTS
from .which_rank import Who

VERSION = "zf-binding/1"


class Home(NamedTuple):
    """The CPUs and nodes of one rank's process, by the rule of zf-tune exec."""

    rank: int
    cpus: frozenset[int]  # those that the process is started on
    mems: frozenset[int]  # the nodes that it prefers; empty: none
    whole: frozenset[int]  # the rank's home
    training: frozenset[int]  # the part of it that our runtime leaves to training while it is open
    framework: str
    kept: frozenset[int] | None  # the nodes of a memory policy of others, which the process keeps
    may_overlap: bool  # neighbours share these CPUs: other ranks may have them, too


def parse_home(line: str) -> Home:
    """Reads ZF_BINDING. Raises ValueError if it is malformed or of another version, or if zf-tune exec was told to go
    on without this binding."""
    version, *words = line.split(" ")
    if version != VERSION:
        raise ValueError(f"ZF_BINDING does not begin with {VERSION}")
    if "started_on=nothing" in words:
        raise ValueError("ZF_BINDING binds nothing")
    try:
        values = dict(word.split("=", 1) for word in words)
        whole, training = cpu_lists.parse(values["home"]), cpu_lists.parse(values["training"])
        home = Home(int(values["rank"]), training if values["started_on"] == "training" else whole,
                    frozenset() if values["policy"] == "none" else cpu_lists.parse(values["mems"]),
                    whole, training, values["framework"],
                    cpu_lists.parse(values["kept_nodes"]) if "kept_policy" in values else None,
                    "optimizer_threads" in values)
    except (KeyError, ValueError) as error:
        raise ValueError(f"ZF_BINDING is malformed: {error}") from None
    if not home.cpus:
        raise ValueError("ZF_BINDING is malformed: it has no CPU")
    return home


def own_home(variables: Mapping[str, str]) -> Home | None:
    """Returns the home of ZF_BINDING if it is this process's. It is another's if a launcher that was itself started
    under zf-tune exec has started this process as another rank: see local_rank(). A line that cannot be read is
    no process's."""
    line = variables.get("ZF_BINDING", "")
    rank = local_rank(variables) if line else None
    if rank is None or rank.variable != "ZF_RANK":
        return None
    try:
        home = parse_home(line)
    except ValueError:
        return None
    return home if home.rank == rank.value else None


# Variables that are set for the processes below.
OURS = ("ZF_BINDING", "ZF_RANK", "ZF_RANK_FROM", "ZF_PLAN", "ZF_OPTIMIZER_CPUS", "ZF_ALLOWED", "ZF_BIND")
# Names that tell a job from one that a rank of it has started. Only launchers set the first two;
# scripts set the others, too.
_OF_LAUNCHER = ("TORCHELASTIC_RUN_ID", "SLURM_STEP_ID")
_OF_MASTER = ("MASTER_ADDR", "MASTER_PORT")


class Call(NamedTuple):
    """What bind() has bound a process as; None: it was not known."""

    process: str  # see _own_process()
    rank: int | None
    ranks: int | None
    lists: str  # a digest of its lists of GPUs
    launcher: str  # a digest of what its launcher calls the job
    master: str  # a digest of where its ranks meet; empty unless both names are set

    def may_be_of(self, variables: Mapping[str, str]) -> bool:
        """Returns whether a process below with these variables may be a rank of the same job. A rank may say where the
        ranks meet, or the half of it that the user has not, after bind(), and then start the others, as Lightning."""
        return _digest_of(_OF_LAUNCHER, variables) == self.launcher and self.master in ("", _meeting(variables))


class Outer(NamedTuple):
    """A process that was bound: this one, or one above it."""

    home: Home
    allowed: frozenset[int] | None  # the CPUs that it might use before; None: not said
    call: Call | None  # of bind(); None: zf-tune exec has bound it

    @property
    def is_own(self) -> bool:
        """True if bind() has bound this very process."""
        return self.call is not None and self.call.process == _own_process()


def find_outer(variables: Mapping[str, str]) -> Outer | None:
    """Returns what the environment says; None if no process was bound, or if that cannot be read."""
    line = variables.get("ZF_BINDING", "")
    try:
        home = parse_home(line)
        allowed = cpu_lists.parse(variables.get("ZF_ALLOWED", "")) or None
    except ValueError:
        return None
    return Outer(home, allowed, _call(variables.get("ZF_BIND", ""), line))


def variables_of_call(who: Who, line: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Returns what find_outer() reads a Call from, after bind() has set ZF_BINDING to the line."""
    rank, ranks = ("" if number is None else str(number) for number in (who.rank, who.ranks))
    digests = (digest_of_lists(variables), _digest_of(_OF_LAUNCHER, variables), _meeting(variables))
    return {"ZF_BIND": ":".join((_digest(line), _own_process(), rank, ranks, *digests))}


def digest_of_lists(variables: Mapping[str, str]) -> str:
    """Returns a digest of the lists of GPUs; empty if no list has one."""
    return _digest_of(LISTS, variables)


def _meeting(variables: Mapping[str, str]) -> str:
    return _digest_of(_OF_MASTER, variables) if all(variables.get(name) for name in _OF_MASTER) else ""


def _own_process() -> str:
    """Returns a digest of this process's number and start, which together no other process has."""
    return _digest(f"{os.getpid()}-{stat_of('self')[19]}")


def _digest_of(names: tuple[str, ...], variables: Mapping[str, str]) -> str:
    """Returns a digest of these variables; empty if none is set."""
    values = [variables.get(name, "") for name in names]
    return _digest("\n".join(values)) if any(values) else ""


def _call(text: str, line: str) -> Call | None:
    """Returns None if a zf-tune exec inside has set ZF_BINDING since."""
    words = text.split(":")
    if len(words) != 7 or words[0] != _digest(line):
        return None
    rank, ranks = (int(word) if word.isdigit() else None for word in words[2:4])
    return Call(words[1], rank, ranks, *words[4:])


def _digest(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
