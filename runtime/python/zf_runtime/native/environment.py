"""Reads what the user and launchers say in environment variables: those of this process, unless others are given. The
native library has the same rules, in runtime/launchers; tests/launchers holds both against the same cases."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

_LARGEST = 2**31 - 1  # the native library reads an int


class EnvNumber(NamedTuple):
    """The number in a variable, and the name of the variable."""

    value: int
    variable: str


class _Launcher(NamedTuple):
    """A launcher's variables: the local rank, those of the number of local ranks, and those that tell its rank from the
    same rank of another step or job."""

    rank: str
    counts: tuple[str, ...]
    job: tuple[str, ...] = ()


# The first that has set a rank has started this process. Slurm comes last, because everything that is started inside
# one of its tasks has the task's variables as well.
_LAUNCHERS = (
    _Launcher("LOCAL_RANK", ("LOCAL_WORLD_SIZE", "LOCAL_SIZE")),  # torchrun, accelerate, Ray; DeepSpeed
    _Launcher("OMPI_COMM_WORLD_LOCAL_RANK", ("OMPI_COMM_WORLD_LOCAL_SIZE",)),
    _Launcher("MPI_LOCALRANKID", ("MPI_LOCALNRANKS",)),
    _Launcher("MV2_COMM_WORLD_LOCAL_RANK", ("MV2_COMM_WORLD_LOCAL_SIZE",)),
    _Launcher("PMI_LOCAL_RANK", ("PMI_LOCAL_SIZE",)),
    _Launcher("PALS_LOCAL_RANKID", ("PALS_LOCAL_SIZE",)),
    _Launcher("JSM_NAMESPACE_LOCAL_RANK", ("JSM_NAMESPACE_LOCAL_SIZE",)),
    _Launcher("FLUX_TASK_LOCAL_ID", ("FLUX_JOB_SIZE", "FLUX_JOB_NNODES"), ("FLUX_JOB_ID",)),
    _Launcher("SLURM_LOCALID", ("SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID"), ("SLURM_STEP_ID", "SLURM_JOB_ID")),
)


RANK_VARIABLES = tuple(launcher.rank for launcher in _LAUNCHERS)


def switched_off(variables: Mapping[str, str] = os.environ) -> bool:
    """Returns true if ZF_TUNE is off, 0, no or false. Then no wrapper, hook or plan has any effect."""
    return variables.get("ZF_TUNE", "") in ("off", "0", "no", "false")


def local_rank_and_count(variables: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Returns the local rank of this process, and how many ranks this node has: 0 and 1 if no launcher has started it.
    If ZF_RANK was set by hand, the launcher around it says how many. Raises RuntimeError if nothing says it."""
    rank = local_rank(variables)
    if rank is None:
        return 0, 1
    count = launched_ranks(variables)
    around = _rank_by_launcher(variables) if rank.variable == "ZF_RANK" else None
    if count is None and around is not None:
        count = _count_by_launcher(around, variables)
    if count is not None and rank.value < count.value:
        return rank.value, count.value
    # Slurm does not always count its tasks, and zf-tune exec sets ZF_RANK=0 for a process on its own.
    if rank.value == 0 and rank.variable in ("SLURM_LOCALID", "ZF_RANK"):
        return 0, 1
    raise RuntimeError(f"{rank.variable}={rank.value} is set, but nothing says how many ranks this node has: set "
                       "LOCAL_RANK and LOCAL_WORLD_SIZE for each rank, as torchrun does")


def local_rank(variables: Mapping[str, str] = os.environ) -> EnvNumber | None:
    """Returns the local rank of this process: ZF_RANK, else that of the first launcher that has set one. ZF_RANK
    is ignored if ZF_RANK_FROM differs from launchers_rank(): then a launcher that was itself started under zf-tune exec
    has started more ranks. Raises RuntimeError if the value is not a whole number of 0 or more."""
    ours = _number("ZF_RANK", 0, variables)
    if ours is None:
        return _rank_by_launcher(variables)
    now = launchers_rank(variables)
    return ours if not now or variables.get("ZF_RANK_FROM", now) == now else _rank_by_launcher(variables)


def launchers_rank(variables: Mapping[str, str] = os.environ) -> str:
    """Returns the variable that local_rank() uses without ZF_RANK, such as "LOCAL_RANK=3", and for Slurm and Flux the
    step and the job; empty if none is set."""
    rank = _rank_by_launcher(variables)
    if rank is None:
        return ""
    job = [f"{name}={variables[name]}" for name in _launcher_of(rank).job if name in variables]
    return " ".join([f"{rank.variable}={rank.value}", *job])


def launched_ranks(variables: Mapping[str, str] = os.environ) -> EnvNumber | None:
    """Returns how many ranks the launcher that set local_rank() has started on this node; None if it does not say, if
    no launcher set a rank, or if ZF_RANK was set by hand. Raises RuntimeError if a variable is malformed, or if
    the rank is not below the count."""
    rank = local_rank(variables)
    by_launcher = _rank_behind_ours(rank.value, variables) if rank and rank.variable == "ZF_RANK" else rank
    if by_launcher is None:
        return None
    count = _count_by_launcher(by_launcher, variables)
    if count is not None and by_launcher.value >= count.value:
        raise RuntimeError(f"{by_launcher.variable}={by_launcher.value} is not below {count.variable}={count.value}, "
                           "and local ranks count from 0: correct or unset one of these variables")
    return count


def _number(name: str, least: int, variables: Mapping[str, str]) -> EnvNumber | None:
    text = variables.get(name, "")
    digits = text.strip(" \t")
    if not digits:
        return None
    if not re.fullmatch("-?[0-9]+", digits) or not least <= int(digits) <= _LARGEST:
        raise RuntimeError(f'{name}="{text}" is not a whole number of {least} or more: unset {name} or correct it')
    return EnvNumber(int(digits), name)


def _launcher_of(rank: EnvNumber) -> _Launcher:
    return next(launcher for launcher in _LAUNCHERS if launcher.rank == rank.variable)


def _rank_by(launcher: _Launcher, variables: Mapping[str, str]) -> EnvNumber | None:
    """Returns the local rank by this launcher. A batch script of Slurm has SLURM_LOCALID=0 like a task, but no step."""
    if launcher.rank == "SLURM_LOCALID" and "SLURM_JOB_ID" in variables and "SLURM_STEP_ID" not in variables:
        return None
    return _number(launcher.rank, 0, variables)


def _rank_by_launcher(variables: Mapping[str, str]) -> EnvNumber | None:
    ranks = (_rank_by(launcher, variables) for launcher in _LAUNCHERS)
    return next((rank for rank in ranks if rank is not None), None)


def _rank_behind_ours(ours: int, variables: Mapping[str, str]) -> EnvNumber | None:
    """Returns the launcher's rank that zf-tune exec made this ZF_RANK of; None if ZF_RANK is not from there."""
    now = launchers_rank(variables)
    rank = _rank_by_launcher(variables) if now and variables.get("ZF_RANK_FROM") == now else None
    return rank if rank is not None and rank.value == ours else None


def _count_by_launcher(rank: EnvNumber, variables: Mapping[str, str]) -> EnvNumber | None:
    """Returns the number of ranks for a rank of _rank_by_launcher()."""
    count = _launched_count(_launcher_of(rank), variables)
    if count is None and rank.variable == "LOCAL_RANK":
        return _count_behind_local_rank(rank.value, variables)
    return count


def _count_behind_local_rank(local_rank: int, variables: Mapping[str, str]) -> EnvNumber | None:
    """Returns how many ranks the launcher with this LOCAL_RANK as its own rank has started: a script may have
    copied it there. A count of 1 says nothing, because that one process may have started several ranks by hand."""
    for launcher in _LAUNCHERS:
        rank = _rank_by(launcher, variables) if launcher.rank != "LOCAL_RANK" else None
        count = _launched_count(launcher, variables) if rank is not None and rank.value == local_rank else None
        if count is not None and count.value > 1:
            return count
    return None


def _launched_count(launcher: _Launcher, variables: Mapping[str, str]) -> EnvNumber | None:
    if launcher.rank == "SLURM_LOCALID":
        return _slurm_tasks(launcher.counts[0], launcher.counts[1], variables)
    if launcher.rank == "FLUX_TASK_LOCAL_ID":
        return _quotient(launcher.counts[0], launcher.counts[1], variables)
    numbers = (_number(name, 1, variables) for name in launcher.counts)
    return next((number for number in numbers if number is not None), None)


def _quotient(ranks_name: str, nodes_name: str, variables: Mapping[str, str]) -> EnvNumber | None:
    """Returns the ranks of all nodes divided by the nodes; None if that leaves a rest."""
    ranks, nodes = _number(ranks_name, 1, variables), _number(nodes_name, 1, variables)
    if ranks is None or nodes is None or ranks.value % nodes.value:
        return None
    return EnvNumber(ranks.value // nodes.value, f"{ranks_name} / {nodes_name}")


def _slurm_tasks(list_name: str, node_name: str, variables: Mapping[str, str]) -> EnvNumber | None:
    """Returns the number of tasks of this Slurm step on this node: our node's part of a text like "4(x2),1"."""
    node = _number(node_name, 0, variables)
    if node is None:
        return None
    index = node.value
    for part in variables.get(list_name, "").split(","):
        found = re.fullmatch(r"([0-9]+)(?:\(x([0-9]+)\))?", part)
        count, nodes = (int(found[1]), int(found[2] or "1")) if found else (0, 0)
        if not 1 <= count <= _LARGEST or not 1 <= nodes <= _LARGEST:
            return None
        if index < nodes:
            return EnvNumber(count, list_name)
        index -= nodes
    return None
