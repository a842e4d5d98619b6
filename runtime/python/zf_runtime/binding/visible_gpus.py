"""Which GPUs this process has for itself, and which all ranks of its job share. Every rank must answer by the same
facts: otherwise one takes the home of a GPU, and another a part of the node, and both have the same CPUs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from . import other_ranks, ray

# The lists of GPUs that a process may see, by who reads them.
VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_ROCR = VISIBLE[2]


class Gpus(NamedTuple):
    """GPUs, named as in CUDA_VISIBLE_DEVICES; none: the number of the rank decides."""

    names: tuple[str, ...] = ()
    are_shared: bool = False  # by all ranks of this job, in this order; False: no other rank has one of them
    lists: Mapping[str, str] = {}  # the variables that say it: HIP counts what ROCR_VISIBLE_DEVICES lists
    why_none: str = ""  # a sentence without its end
    why_unknown: str = ""  # why the number of the rank must not decide, either; empty: it may
    note: str = ""
    are_unlisted: bool = False  # neither Ray nor a variable says anything: device nodes may


def find(ranks: int | None, variables: Mapping[str, str]) -> Gpus:
    """Returns what Ray says, else the variables of CUDA and ROCm. `ranks`: how many run on this node, None if nothing
    says it. Of several ranks the variables count only if all are seen: as one list that all have, or as lists without a
    common GPU. `variables` are those that are about this process."""
    share = ray.gpus()
    if share is not None:
        return _by_ray(share, next((name for name in VISIBLE if name in variables), VISIBLE[0]), ranks)
    lists = {name: variables[name] for name in VISIBLE if name in variables}
    if not lists:
        return Gpus(why_none="no variable says which GPU this process has", are_unlisted=True)
    names = _listed(variables)
    if not names or (ranks is None and len(names) > 1):
        return Gpus(why_none=f"{next(iter(lists))} lists {len(names)} GPUs")
    found = Gpus(names, (ranks or 1) > 1, lists)
    return _of_ranks(found, ranks, variables) if ranks is not None and ranks > 1 else _of_one(found, ranks, variables)


def has_own_list(variables: Mapping[str, str]) -> bool:
    """Returns whether the list of visible GPUs may be this process's alone."""
    return ray.is_worker() or len(_listed(variables)) == 1


def _by_ray(share: ray.GpuShare, variable: str, ranks: int | None) -> Gpus:
    are_whole = share.is_whole and not any(map(_is_instance, share.ids))
    if are_whole:
        lists = {variable: ",".join(share.ids)}
        if variable != _ROCR and _ROCR in os.environ:  # Ray's own, within which HIP counts
            lists[_ROCR] = os.environ[_ROCR]
        return Gpus(tuple(share.ids), False, lists, f"Ray has given this worker {len(share.ids)} GPUs")
    why = f"Ray has given this worker {'a part of a GPU' if share.ids else 'no GPU'}"
    # All workers of Ray Train have the same. Others may have a GPU, and with it its home.
    are_alike = ranks == 1 or ray.train_rank() is not None or not ray.node_has_gpus()
    return Gpus((), False, {}, why, "" if are_alike else
                f"{why}, and other workers here may have GPUs, and with them their homes: name a plan for all workers "
                "(plan=), or give all of them GPUs")


def _of_one(found: Gpus, ranks: int | None, variables: Mapping[str, str]) -> Gpus:
    """If it is not known how many ranks there are, those that have not started yet cannot be waited for. Two that a
    launcher has started as the only rank each have the same number."""
    said = _said(found.lists)
    if any(map(_is_instance, found.names)):
        why = f"{said}, and other processes may have other MIG instances of that GPU"
        return Gpus(why_none=why, why_unknown=f"{why}, and with them its home: name a plan for all (plan=)")
    lists = _lists(variables)
    if lists == _lists(other_ranks.own_variables()):
        other = next((peer for peer in other_ranks.others() if _lists(peer.variables) == lists), None)
        if other is not None:
            why = f"{said} is that of process {other.pid}, too"
            which = "nothing says which rank it is" if ranks is None else "the number of ranks here is said to be 1"
            return Gpus(why_none=why, why_unknown=f"{why}, and {which}: give rank= and ranks=")
    return found


def _of_ranks(found: Gpus, ranks: int, variables: Mapping[str, str]) -> Gpus:
    said = _said(found.lists)
    if _lists(variables) != _lists(other_ranks.own_variables()):
        return _by_number(f"{said} was set in this process itself, so that of other ranks is not known")
    peers = other_ranks.all_of(ranks)
    if peers is None:
        return _by_number(f"{said} may be that of other ranks, too, of which not all {ranks} were seen")
    if all(_lists(peer.variables) == _lists(variables) for peer in peers):
        if len(found.names) < ranks and found.names[0].isdigit() and _is_slurms(variables):
            return _by_number(f"Slurm may count the GPUs of each task from 0 ({said})")
        return found
    names, by_cuda = ([name for peer in peers for name in read(peer.variables) or ("",)]
                      for read in (_listed, _first_list))
    why = f"{said} is not that of all {ranks} ranks"
    if any(map(_is_instance, names)):
        why += ", and several MIG instances may be of one GPU"
    elif _are_distinct(names) and (VISIBLE[0] not in variables or _are_distinct(by_cuda)):
        return found._replace(are_shared=False)
    else:
        why += ", and some have the same GPU or none"
    return _by_number(why)


def _by_number(why: str) -> Gpus:
    return Gpus(why_none=why, note=f"{why}: the ranks divide the whole node by their numbers")


def _lists(variables: Mapping[str, str]) -> list[str | None]:
    return [variables.get(name) for name in VISIBLE]


def _said(lists: Mapping[str, str]) -> str:
    return " and ".join(f"{name}={value}" for name, value in lists.items())


def _listed(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the GPUs of a process as HIP finds them: its list selects from ROCR_VISIBLE_DEVICES, if that is set, too.
    The rule is that of zf-tune (visible_devices() in runtime/os/environment.hpp). If the list selects more than there
    is, it is CUDA's, which does not read the other."""
    first = _first_list(variables)
    rocr = _names(variables.get(_ROCR, ""))
    if not rocr or not any(name in variables for name in VISIBLE[:2]):
        return first
    if any(name.isdigit() and int(name) >= len(rocr) for name in first):
        return first
    return tuple(rocr[int(name)] if name.isdigit() else name for name in first)


def _first_list(variables: Mapping[str, str]) -> tuple[str, ...]:
    return _names(next((variables[name] for name in VISIBLE if name in variables), ""))


def _names(text: str) -> tuple[str, ...]:
    """Returns the names before the first that is none: there the list ends for the driver, too."""
    names = [name.strip() for name in text.split(",")]
    end = next((place for place, name in enumerate(names) if name in ("", "-1", "NoDevFiles")), len(names))
    return tuple(names[:end])


def _is_instance(name: str) -> bool:
    """Returns whether it is a MIG instance, which is a part of a GPU."""
    return name.startswith("MIG-")


def _are_distinct(names: list[str]) -> bool:
    return len(set(names)) == len(names) and "" not in names and len({name.isdigit() for name in names}) == 1


def _is_slurms(variables: Mapping[str, str]) -> bool:
    return "SLURM_STEP_GPUS" in variables or "SLURM_JOB_GPUS" in variables
