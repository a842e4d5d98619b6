"""Which local rank this process is, and which GPU it has, by whoever knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from . import _ray
from ._environment import launched_ranks, local_rank

# The lists of GPUs that a process may see, by who reads them.
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


class Who(NamedTuple):
    """What is known of this process. `gpus` are names as in CUDA_VISIBLE_DEVICES, and `gpu_variable` who reads them."""

    rank: int | None
    ranks: int | None
    source: str  # of the rank: "rank=", "LOCAL_RANK", "Ray Train"; empty: it is not known
    gpus: tuple[str, ...] = ()  # those that this process has for itself; empty: not known, or none
    gpu_variable: str = VISIBLE[0]
    why_no_gpu: str = ""  # a sentence; empty if this process has one GPU
    has_none: bool = False  # it is known to have no GPU for itself


def who(rank: int | None, ranks: int | None, variables: Mapping[str, str]) -> Who:
    """Returns what is known by the arguments of bind(), else by the launcher's variables, else by Ray Train; and the
    GPUs by Ray, else by the variables of CUDA and ROCm. `variables` are those that are about this process: see own().
    Raises RuntimeError if a variable is malformed or contradicts another."""
    source = "" if rank is None else "rank="
    if rank is None:
        by_launcher = local_rank(variables)
        if by_launcher is not None:
            rank, source = by_launcher
            count = launched_ranks(variables)
            ranks = ranks if ranks is not None or count is None else count.value
    if rank is None:
        by_train = _ray.train_rank()
        if by_train is not None:
            rank, source = by_train[0], "Ray Train"
            ranks = by_train[1] if ranks is None else ranks
    if rank is not None and ranks is not None and not 0 <= rank < ranks:
        raise RuntimeError(f"rank {rank} of {ranks}: local ranks count from 0")
    return _with_gpus(Who(rank, ranks, source), variables)


def own(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that are about this process. A worker of Ray has those of whoever started Ray as well."""
    return _ray.without_inherited(variables) if _ray.is_worker() else dict(variables)


def _with_gpus(who: Who, variables: Mapping[str, str]) -> Who:
    share = _ray.gpus()
    variable = next((name for name in VISIBLE if name in variables), VISIBLE[0])
    if share is not None:
        words = ("no GPU" if not share.ids else "a part of a GPU" if not share.is_whole else f"{len(share.ids)} GPUs")
        why = "" if share.is_whole and len(share.ids) == 1 else f"Ray has given this worker {words}"
        return who._replace(gpus=tuple(share.ids) if share.is_whole else (), gpu_variable=variable, why_no_gpu=why,
                            has_none=not share.is_whole)
    if variable not in variables:
        return who._replace(why_no_gpu="no variable says which GPU this process has")
    names = [name.strip() for name in variables[variable].split(",") if name.strip() not in ("", "-1", "NoDevFiles")]
    if len(names) != 1:
        return who._replace(why_no_gpu=f"{variable} lists {len(names)} GPUs", has_none=not names)
    if (who.ranks or 1) > 1 and _may_be_others(variable, names[0], variables):
        return who._replace(why_no_gpu=f"{variable}={names[0]} may be that of all {who.ranks} ranks", has_none=True)
    return who._replace(gpus=(names[0],), gpu_variable=variable)


def _may_be_others(variable: str, name: str, variables: Mapping[str, str]) -> bool:
    """Returns whether a list of one GPU may name the same GPU in several ranks: it is the launcher's, too; or it is a
    number in a step of Slurm, which may count the GPUs of each task from 0."""
    if f"{variable}={variables[variable]}" in _ray.parents_variables():
        return True
    return name.isdigit() and ("SLURM_STEP_GPUS" in variables or "SLURM_JOB_GPUS" in variables)
