"""Which GPUs this process has for itself, and which all ranks of its job share. Every rank must answer by the same
facts: otherwise one takes the home of a GPU, and another a part of the node, and both have the same CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from . import _peers, _ray

# The lists of GPUs that a process may see, by who reads them.
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


class Gpus(NamedTuple):
    """GPUs, named as in CUDA_VISIBLE_DEVICES; none: the number of the rank decides."""

    names: tuple[str, ...] = ()
    are_shared: bool = False  # by all ranks of this job, in this order; False: no other rank has one of them
    variable: str = VISIBLE[0]  # who reads the names
    why_none: str = ""  # a sentence without its end
    why_unknown: str = ""  # why the number of the rank must not decide, either; empty: it may
    note: str = ""


def find(ranks: int | None, variables: Mapping[str, str]) -> Gpus:
    """Returns what Ray says, else the variables of CUDA and ROCm. `ranks`: how many run on this node, None if nothing
    says it. Of several ranks the variables count only if all are seen: as one list that all have, or as lists without a
    common GPU. `variables` are those that are about this process."""
    variable = next((name for name in VISIBLE if name in variables), VISIBLE[0])
    share = _ray.gpus()
    if share is not None:
        return _by_ray(share, variable, ranks)
    if variable not in variables:
        return Gpus(why_none="no variable says which GPU this process has")
    names = _names(variables[variable])
    found = Gpus(names, (ranks or 1) > 1, variable)
    if ranks is None and len(names) == 1:
        return _unless_others_have_it(found, variables)
    if ranks == 1 and names:
        return found
    if ranks is None or not names:
        return Gpus(why_none=f"{variable} lists {len(names)} GPUs")
    return _of_ranks(found, ranks, variables)


def has_own_list(variables: Mapping[str, str]) -> bool:
    """Returns whether the list of visible GPUs may be this process's alone."""
    lists = [variables[name] for name in VISIBLE if name in variables]
    return _ray.is_worker() or (bool(lists) and len(_names(lists[0])) == 1)


def _by_ray(share: _ray.GpuShare, variable: str, ranks: int | None) -> Gpus:
    if share.is_whole:
        return Gpus(tuple(share.ids), False, variable, f"Ray has given this worker {len(share.ids)} GPUs")
    why = f"Ray has given this worker {'a part of a GPU' if share.ids else 'no GPU'}"
    # All workers of Ray Train have the same. Others may have a GPU, and with it its home.
    are_alike = ranks == 1 or _ray.train_rank() is not None or not _ray.node_has_gpus()
    return Gpus((), False, variable, why, "" if are_alike else
                f"{why}, and other workers here may have GPUs, and with them their homes: name a plan for all workers "
                "(plan=), or give all of them GPUs")


def _unless_others_have_it(found: Gpus, variables: Mapping[str, str]) -> Gpus:
    """Nobody knows how many ranks there are, so those that have not started yet cannot be waited for."""
    lists = _lists(variables)
    if lists == _lists(_peers.own_variables()):
        other = next((peer for peer in _peers.others() if _lists(peer.variables) == lists), None)
        if other is not None:
            return Gpus(why_none=f"{found.variable}={variables[found.variable]} is that of process {other.pid}, too")
    return found


def _of_ranks(found: Gpus, ranks: int, variables: Mapping[str, str]) -> Gpus:
    said = f"{found.variable}={variables[found.variable]}"
    if _lists(variables) != _lists(_peers.own_variables()):
        return _by_number(f"{said} was set in this process itself, so that of other ranks is not known")
    peers = _peers.all_of(ranks)
    if peers is None:
        return _by_number(f"{said} may be that of other ranks, too, of which not all {ranks} were seen")
    if all(_lists(peer.variables) == _lists(variables) for peer in peers):
        if len(found.names) < ranks and found.names[0].isdigit() and _is_slurms(variables):
            return _by_number(f"Slurm may count the GPUs of each task from 0 ({said})")
        return found
    names = [name for peer in peers for name in _names(peer.variables.get(found.variable, "")) or ("",)]
    if len(set(names)) == len(names) and "" not in names and len({name.isdigit() for name in names}) == 1:
        return found._replace(are_shared=False)
    return _by_number(f"{said} is not that of all {ranks} ranks, and some have the same GPU or none")


def _by_number(why: str) -> Gpus:
    return Gpus(why_none=why, note=f"{why}: the ranks divide the whole node by their numbers")


def _lists(variables: Mapping[str, str]) -> list[str | None]:
    return [variables.get(name) for name in VISIBLE]


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip() not in ("", "-1", "NoDevFiles"))


def _is_slurms(variables: Mapping[str, str]) -> bool:
    return "SLURM_STEP_GPUS" in variables or "SLURM_JOB_GPUS" in variables
