"""The part of a plan that one process obeys, and the line ZF_BINDING that carries it. docs/launch.md describes both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

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
    optimizer: str  # the list of CPUs that the optimizer has
    framework: str
    is_bound: bool  # False: zf-tune exec was told to go on without this binding
    line: str  # ZF_BINDING
    kept: frozenset[int] | None = None  # the nodes of a memory policy of others, which the process keeps


def parse(line: str) -> Home:
    """Reads ZF_BINDING. Raises ValueError if it is malformed or of another version."""
    version, *words = line.split(" ")
    if version != VERSION:
        raise ValueError(f"ZF_BINDING does not begin with {VERSION}")
    try:
        values = dict(word.split("=", 1) for word in words)
        started_on = values["started_on"]
        whole, training = cpu_lists.parse(values["home"]), cpu_lists.parse(values["training"])
        of_training = started_on == "training"
        home = Home(int(values["rank"]), training if of_training else whole,
                    int(values["threads" if of_training else "home_threads"]),
                    frozenset() if values["policy"] == "none" else cpu_lists.parse(values["mems"]),
                    whole, training, values["optimizer"], values["framework"], started_on != "nothing", line,
                    cpu_lists.parse(values["kept_nodes"]) if "kept_policy" in values else None)
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


def of_plan(plan: dict[str, Any], rank: int) -> Home:
    """Returns the home that a plan file has for a rank, as it stands there. Raises ValueError if the plan lacks it."""
    framework = plan.get("workload", {}).get("framework", "unknown")
    try:
        entry = next(entry for entry in plan["ranks"] if entry["rank"] == rank)
        home, training, optimizer = entry["home"], entry["training"], entry["optimizer"]
        started_on = "training" if framework == "native" and not entry["shared"] else "home"
        line = (f"{VERSION} rank={rank} framework={framework} started_on={started_on} home={home['cpus']} "
                f"home_threads={home['threads']} training={training['cpus']} threads={training['threads']} "
                f"optimizer={optimizer['cpus']} mems={optimizer['mems']} policy={optimizer['memory_policy']} "
                f"shared={'yes' if entry['shared'] else 'no'}")
        if "threads" in optimizer:
            line += f" optimizer_threads={optimizer['threads']}"
    except (KeyError, StopIteration, TypeError):
        raise ValueError(f"the plan has no rank {rank} that can be read") from None
    return parse(line)
