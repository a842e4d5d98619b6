"""The home of one rank's process, as the line ZF_BINDING carries it. docs/launch.md describes the line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..native.environment import local_rank
from . import cpu_lists

VERSION = "zf-binding/1"


class Home(NamedTuple):
    """The CPUs, threads and nodes of one rank's process, by the rule of zf-tune exec."""

    rank: int
    cpus: frozenset[int]  # those that the process is started on
    threads: int  # the right number of OpenMP threads for them
    mems: frozenset[int]  # the nodes that it prefers; empty: none
    whole: frozenset[int]  # the rank's home
    training: frozenset[int]  # the part of it that our runtime leaves to training while it is open
    framework: str
    is_bound: bool  # False: zf-tune exec was told to go on without this binding
    kept: frozenset[int] | None  # the nodes of a memory policy of others, which the process keeps
    may_overlap: bool  # neighbours share these CPUs: other ranks may have them, too


def parse(line: str) -> Home:
    """Reads ZF_BINDING. Raises ValueError if it is malformed or of another version."""
    version, *words = line.split(" ")
    if version != VERSION:
        raise ValueError(f"ZF_BINDING does not begin with {VERSION}")
    try:
        values = dict(word.split("=", 1) for word in words)
        whole, training = cpu_lists.parse(values["home"]), cpu_lists.parse(values["training"])
        of_training = values["started_on"] == "training"
        home = Home(int(values["rank"]), training if of_training else whole,
                    int(values["threads" if of_training else "home_threads"]),
                    frozenset() if values["policy"] == "none" else cpu_lists.parse(values["mems"]),
                    whole, training, values["framework"], values["started_on"] != "nothing",
                    cpu_lists.parse(values["kept_nodes"]) if "kept_policy" in values else None,
                    "optimizer_threads" in values)
    except (KeyError, ValueError) as error:
        raise ValueError(f"ZF_BINDING is malformed: {error}") from None
    if not home.cpus:
        raise ValueError("ZF_BINDING is malformed: it has no CPU")
    return home


def own(variables: Mapping[str, str]) -> Home | None:
    """Returns the home of ZF_BINDING if it is this process's. It is another's if a launcher that was itself started
    under zf-tune exec has started this process as another rank: see local_rank(). A line that cannot be read is
    no process's."""
    line = variables.get("ZF_BINDING", "")
    rank = local_rank(variables) if line else None
    if rank is None or rank.variable != "ZF_RANK":
        return None
    try:
        home = parse(line)
    except ValueError:
        return None
    return home if home.rank == rank.value else None
