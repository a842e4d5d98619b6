"""Which GPUs of this node a process has: finds them by what zf-tune says of the lists and the device nodes."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from ..native.environment import COUNTING_VARIABLES
from . import ask_tune, other_ranks, plan_files, visible_gpus
from .plan_files import NotBound, everything
from .visible_gpus import VISIBLE, Gpus
from .which_rank import Who

# What says how many ranks run here, and which of them this is. Slurm's others also say which GPUs and CPUs a step has.
RANKS = (*COUNTING_VARIABLES, "SLURM_NTASKS_PER_NODE")


class HiddenGpu(Exception):
    """Why the homes of GPUs are not known. The text is one sentence."""


def usable(variables: Mapping[str, str]) -> list[str]:
    """Returns the PCI addresses of the GPUs that this process may use. Raises HiddenGpu if this node has GPUs that are
    hidden otherwise than by their device nodes: then the plan for all GPUs lacks them."""
    gpus = json.loads(_probe(variables))["gpus"]
    for gpu in gpus:
        if not gpu["usable"] and not gpu["why_unusable"].startswith("/dev/"):
            raise HiddenGpu(f"GPU {gpu['pci']} of this node is not for this process ({gpu['why_unusable']}), and may "
                            "be another's, with CPUs that are not known")
    return [gpu["pci"] for gpu in gpus if gpu["usable"]]


def by_nodes(who: Who, variables: Mapping[str, str]) -> list[str]:
    """Returns the PCI addresses of the GPUs that this process, or all ranks of its job, may use, if device nodes hide
    others: a pod has its GPUs without a list. Empty if nothing is hidden, and if the job has CPUs of its own as well:
    then those are for all its ranks. Raises NotBound if it is not known."""
    probed = json.loads(_probe(variables))
    hidden = [gpu for gpu in probed["gpus"] if not gpu["usable"]]
    usable = [str(gpu["pci"]) for gpu in probed["gpus"] if gpu["usable"]]
    if not hidden or not usable or probed["allowed"]["cpus"] != probed["machine"]["cpus"]:
        return []
    others = f"GPU {hidden[0]['pci']} of this node is not for this process ({hidden[0]['why_unusable']})"
    if not all(gpu["why_unusable"].startswith("/dev/") for gpu in hidden):
        if (who.ranks or 1) > 1:
            return []
        raise NotBound(f"{others}, and may be another's, with CPUs that are not known: name a plan for all (plan=)")
    if who.ranks is not None and who.ranks > 1:
        peers = other_ranks.all_of(who.ranks)
        if peers is None or not other_ranks.have_same_devices(peers):
            raise NotBound(f"{others}, and not all {who.ranks} ranks were seen to have the same GPUs: list them in "
                           f"{VISIBLE[0]}, or name a plan (plan=)")
    return usable


def only_gpu(who: Who, gpus: Gpus, of_plan: list[str], usable: list[str], variables: Mapping[str, str]) -> str:
    """Returns the address of the GPU of this rank, where nothing says of how many; or of the only one here."""
    if who.rank is None and len(usable) == 1 and usable[0] in of_plan:
        return usable[0]
    if who.rank is None:
        raise NotBound(f"{gpus.why_none}, this node has {len(of_plan)}, and nothing says which rank it is: give rank= "
                       "and ranks=")
    seen = {name: value for name, value in variables.items() if name not in RANKS}
    address = _gpus_of_ranks(who.rank + 1, seen)[who.rank]
    if address is None or address not in of_plan:
        raise NotBound(f"the GPU of rank {who.rank} cannot be found among the GPUs of this node "
                       f"({', '.join(of_plan)}): give ranks=")
    return address


def rank_of_gpu(gpus: Gpus, plan: dict[str, Any], variables: Mapping[str, str]) -> int:
    """Returns the rank to which the plan gives the GPU of this process."""
    why = f"nothing says which of the plan's {len(plan['ranks'])} ranks this process is"
    mine: list[str | None] = [*visible] if gpus.are_unlisted and len(visible := _visible(variables)) == 1 else []
    if not mine and (len(gpus.names) != 1 or gpus.are_shared):
        raise NotBound(f"{why}, and {gpus.why_none}: give rank=")
    address, = mine or _addresses(gpus, variables)
    found = _ranks_of(address, plan)
    if len(found) != 1:
        raise NotBound(f"{why}, and it does not say which rank has GPU {', '.join(gpus.names) or address}: give rank=")
    return found[0]


def _visible(variables: Mapping[str, str]) -> list[str]:
    """Returns the PCI addresses of the usable GPUs; none without zf-tune, or if some are hidden in an unknown way."""
    try:
        return [] if ask_tune.find() is None else usable(variables)
    except HiddenGpu:
        return []


def _ranks_of(address: str | None, plan: dict[str, Any]) -> list[int]:
    """Returns the ranks to which the plan gives this GPU."""
    return [int(entry["rank"]) for entry in plan["ranks"] if address and entry.get("gpu", {}).get("pci") == address]


def rank_of_own_gpu(path: str, plan: dict[str, Any], who: Who, variables: Mapping[str, str],
                    own: Mapping[str, str]) -> int | None:
    """Returns the rank to which the plan gives the GPU of a process that has a number: each of several jobs has a rank
    0. None if its number counts: the plan names no GPUs, more ranks run than it has, rank= was given for as many, or
    nothing says which GPUs the job has. Raises NotBound if fewer ranks run than the plan has, and another job may have
    the others of its GPUs."""
    of_plan = {str(gpu["pci"]) for entry in plan["ranks"] for gpu in (entry.get("gpu"), *entry.get("more_gpus", []))
               if gpu}
    ranks = len(plan["ranks"])
    if not of_plan or (who.ranks or 0) > ranks or (who.source == "rank=" and who.ranks in (None, ranks)):
        return None
    if ask_tune.find() is None:  # then as many ranks run as the plan has
        return None
    gpus = visible_gpus.find(who.ranks, own)
    are_all = who.ranks == ranks > 1
    mine: list[str | None] = [*_addresses(gpus, variables)] if gpus.names else []
    if gpus.are_unlisted and not are_all:
        mine = [*by_nodes(who, variables)]
    found = _ranks_of(mine[0], plan) if len(mine) == 1 and not gpus.are_shared else []
    if len(found) == 1:
        return found[0]
    if gpus.why_unknown:
        raise NotBound(gpus.why_unknown)
    if mine and who.ranks is not None and not are_all and not of_plan <= set(mine):
        raise NotBound(f"{path} is for {ranks} rank{'' if ranks == 1 else 's'} with GPU "
                       f"{', '.join(sorted(of_plan))}, and this job has "
                       f"{', '.join(gpus.names) or ', '.join(map(str, mine))}, so others may have the others: give "
                       "rank= and ranks= as the plan has them, or make a plan for these")
    return None


def need_no_other_gpu(path: str, plan: dict[str, Any], who: Who, variables: Mapping[str, str],
                       own: Mapping[str, str]) -> None:
    """Raises NotBound if this process has another GPU than the only rank of the plan: another process may be that."""
    gpus = visible_gpus.find(who.ranks, own)
    if gpus.why_unknown:
        raise NotBound(gpus.why_unknown)
    unlisted = by_nodes(who, variables) if gpus.are_unlisted and ask_tune.find() is not None else []
    if not gpus.names and not unlisted:
        return
    named = ", ".join(gpus.names or unlisted)
    entry = plan["ranks"][0]
    of_rank = [str(gpu["pci"]) for gpu in (entry.get("gpu"), *entry.get("more_gpus", [])) if gpu]
    mine: list[str | None]
    if unlisted:
        mine = [*unlisted]
    elif ask_tune.find() is None:
        names = {str(gpu.get(key)) for gpu in (entry.get("gpu") or {},) for key in ("uuid", "cuda_number")}
        mine = [*of_rank] if set(gpus.names) & names else []
    else:
        mine = _addresses(gpus, variables)
    if of_rank and not set(mine) & set(of_rank):
        raise NotBound(f"the only rank of {path} has GPU {', '.join(of_rank)}, and this process has "
                       f"{named}: give rank=, or make a plan for all GPUs")
    if not of_rank and ask_tune.find() is not None and _count(variables) > len(mine):
        raise NotBound(f"the only rank of {path} has no GPU, this process has {named}, and others may "
                       "have the others of this node: give rank=, or make a plan for all GPUs")


def _count(variables: Mapping[str, str]) -> int:
    """Returns how many GPUs this node has, also if this process cannot use them."""
    return len(json.loads(_probe(variables))["gpus"])


def _probe(variables: Mapping[str, str]) -> str:
    return ask_tune.run("probe", "--format", "json", variables=variables, cpus=everything())


def known(gpus: Gpus, of_plan: list[str], variables: Mapping[str, str]) -> list[str]:
    """Returns the PCI addresses of GPUs of this node."""
    known = []
    for name, address in zip(gpus.names, _addresses(gpus, variables)):
        if address is None or address not in of_plan:
            raise NotBound(f"GPU {name} cannot be found among the GPUs of this node ({', '.join(of_plan)}): give rank= "
                           "and a plan")
        known.append(address)
    return known


def _addresses(gpus: Gpus, variables: Mapping[str, str]) -> list[str | None]:
    """Returns the PCI addresses of GPUs; None for one that zf-tune does not know."""
    seen = {name: value for name, value in variables.items() if name not in (*RANKS, *VISIBLE)}
    return _gpus_of_ranks(len(gpus.names), {**seen, **gpus.lists})


def _gpus_of_ranks(ranks: int, variables: Mapping[str, str]) -> list[str | None]:
    with tempfile.TemporaryDirectory(prefix="zf-bind-") as folder:
        plan = plan_files.make(os.path.join(folder, "plan.json"), ["--ranks", str(ranks)], variables, everything())
    return [entry.get("gpu", {}).get("pci") for entry in plan["ranks"]]
