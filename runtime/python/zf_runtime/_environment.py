"""Reads what the user and launchers say in environment variables. The native library has the same rules, in
runtime/os/environment.cpp."""

from __future__ import annotations

import os
import re

# A launcher's variable with the local rank, and those of which the first that is set has the number of local ranks.
# Slurm's comes last: a batch script has it as well, and so does everything that is started there.
_LAUNCHERS: dict[str, tuple[str, ...]] = {
    "LOCAL_RANK": ("LOCAL_WORLD_SIZE", "LOCAL_SIZE"),
    "OMPI_COMM_WORLD_LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_SIZE",),
    "MPI_LOCALRANKID": ("MPI_LOCALNRANKS",),
    "MV2_COMM_WORLD_LOCAL_RANK": ("MV2_COMM_WORLD_LOCAL_SIZE",),
    "PMI_LOCAL_RANK": ("PMI_LOCAL_SIZE",),
    "PALS_LOCAL_RANKID": (),
    "SLURM_LOCALID": (),
    "ZF_RANK": (),
}


def switched_off() -> bool:
    """Returns true if ZF_TUNE is off, 0, no or false. Then no wrapper, hook or plan has any effect."""
    return os.environ.get("ZF_TUNE", "") in ("off", "0", "no", "false")


def local_rank_and_count() -> tuple[int, int]:
    """Returns the local rank of this process, and how many ranks its launcher has started on this node: 0 and 1 if no
    launcher has started it. Raises RuntimeError if the launcher gives a rank and does not say how many there are."""
    variable = next((name for name in _LAUNCHERS if _text(name)), None)
    if variable is None:
        return 0, 1
    rank = _number(variable, 0)
    count = _slurm_tasks() if variable == "SLURM_LOCALID" else None
    for name in _LAUNCHERS[variable]:
        count = count or (_number(name, 1) if _text(name) else None)
    # A batch script is no task of a step and has SLURM_LOCALID=0; zf-tune exec sets ZF_RANK=0 for a process on its own.
    if count is None and rank == 0 and variable in ("SLURM_LOCALID", "ZF_RANK"):
        count = 1
    if count is None:
        raise RuntimeError(f"{variable}={rank} is set, but nothing says how many ranks this node has: set LOCAL_RANK "
                           "and LOCAL_WORLD_SIZE for each rank, as torchrun does")
    return rank, count


def _text(name: str) -> str:
    return os.environ.get(name, "").strip(" \t")


def _number(name: str, least: int) -> int:
    text = _text(name)
    if not re.fullmatch("[0-9]+", text) or int(text) < least:
        raise RuntimeError(f'{name}="{text}" is not a whole number of {least} or more: unset {name} or correct it')
    return int(text)


def _slurm_tasks() -> int | None:
    """Returns the number of tasks of this Slurm step on this node: our node's part of a text like "4(x2),1"."""
    if not _text("SLURM_NODEID"):
        return None
    node = _number("SLURM_NODEID", 0)
    for part in _text("SLURM_STEP_TASKS_PER_NODE").split(","):
        found = re.fullmatch(r"([0-9]+)(?:\(x([0-9]+)\))?", part)
        if found is None:
            return None
        node -= int(found[2] or 1)
        if node < 0:
            return int(found[1]) or None
    return None
