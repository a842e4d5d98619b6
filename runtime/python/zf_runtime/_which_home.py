"""Finds the home of this process: in a plan, or without one in a plan for all GPUs of this node, which every rank makes
alike without talking to others."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import _ask_tune, _cpu_lists, _home
from ._ask_tune import TuneError
from ._environment import COUNTING_VARIABLES
from ._home import Home
from ._thread_counts import VARIABLES
from ._which_rank import VISIBLE, Who

PLANS = "/etc/zf-tune/plans"
_OURS = ("ZF_BINDING", "ZF_RANK", "ZF_RANK_FROM", "ZF_PLAN", "ZF_OPTIMIZER_CPUS")
# What says how many ranks run here, and which of them this is. Slurm's others also say which GPUs and CPUs a step has.
_RANKS = (*COUNTING_VARIABLES, "SLURM_NTASKS_PER_NODE")


class NotBound(Exception):
    """Why this process has no home. The text is one sentence."""


class Found(NamedTuple):
    """A home, where it is from, and what the user should know."""

    home: Home
    source: str  # of the rank
    plan: str  # a path, or in words
    plan_path: str  # empty if there is no file
    notes: list[str]


class Cpus(NamedTuple):
    """Whose CPUs count: those that this process may use now, or all that its job may use if zf-tune exec gave the
    present mask to another rank, whose home that is."""

    seen: frozenset[int]
    of_others: Home | None = None


def everything() -> frozenset[int]:
    """Returns all CPUs that the kernel may know. It gives a thread those of them that its cpuset has."""
    try:
        with open("/sys/devices/system/cpu/possible") as file:
            return _cpu_lists.parse(file.read())
    except OSError:  # a container without /sys
        return frozenset(range(8192))


def find(who: Who, plan: str | None, variables: Mapping[str, str], cpus: Cpus) -> Found:
    """Returns the home of this process. `plan`: a path; None: ZF_PLAN names it, else that of this node's class in
    /etc/zf-tune/plans is taken, else there is none. Raises NotBound."""
    inherited = {name: value for name, value in variables.items() if name not in (*_OURS, *VARIABLES)}
    path = plan or variables.get("ZF_PLAN") or _plan_of_class(inherited)
    try:
        if path:
            return _by_plan(who, os.path.abspath(path), inherited, cpus)
        return _by_all_gpus(who, inherited, cpus)
    except TuneError as error:
        ambiguous, _, _ = str(error).partition("give --cpus job")  # bind() has no such option
        raise NotBound(str(error) if ambiguous == str(error) else f"{ambiguous}start the ranks with no mask (taskset, "
                       "srun --cpu-bind), or with zf-tune exec --cpus") from None


def _plan_of_class(variables: Mapping[str, str]) -> str | None:
    """Returns the path of the plan for this node's class. Asks for the class only if there are plans."""
    if not os.path.isdir(PLANS):
        return None
    try:
        probed = json.loads(_ask_tune.run("probe", "--format", "json", variables=variables, cpus=everything()))
    except TuneError as error:
        raise NotBound(f"{PLANS} has plans, and the class of this node is not known: {error}") from None
    path = os.path.join(PLANS, f"{probed['machine']['fingerprint']}.json")
    return path if os.path.exists(path) else None


def _by_plan(who: Who, path: str, variables: Mapping[str, str], cpus: Cpus) -> Found:
    plan = _read(path)
    rank, source = who.rank, who.source
    if rank is None and len(plan["ranks"]) == 1:
        rank, source = 0, "the only rank of the plan"
    if rank is None:
        rank, source = _rank_of_gpu(who, plan, variables), f"GPU {who.gpus[0]}"
    if _ask_tune.find() is None:
        return Found(_as_it_stands(plan, path, rank, who, cpus), source, path, path, [])
    if who.gpus:  # this rank's own list is not to be compared with the plan's GPUs
        variables = {name: value for name, value in variables.items() if name not in VISIBLE}
    launch = _launch(path, rank, who.ranks, variables, cpus)
    return Found(_home_in(launch), source, path, path, launch.notes)


def _by_all_gpus(who: Who, variables: Mapping[str, str], cpus: Cpus) -> Found:
    """Makes a plan for all GPUs of this node, and takes the home of this process's GPU. If there are no GPUs, or more
    ranks than GPUs, the plan is for the ranks."""
    if _ask_tune.find() is None:
        raise NotBound("no plan is named, and without one zf-tune is needed, which was not found: name a plan (plan=, "
                       "ZF_PLAN), install zf-tune, or set ZF_TUNE_BINARY")
    of_node = {name: value for name, value in variables.items() if name not in (*_RANKS, *VISIBLE)}
    with tempfile.TemporaryDirectory(prefix="zf-bind-") as folder:
        path = os.path.join(folder, "plan.json")
        plan = _make_plan(path, [], of_node)
        gpus = [entry["gpu"]["pci"] for entry in plan["ranks"] if entry.get("gpu")]
        if gpus and not who.has_none and len(who.gpus) <= 1 and (who.ranks is None or who.ranks <= len(gpus)):
            rank, ranks = _index_of_gpu(who, gpus, variables), len(gpus)
            source = f"GPU {gpus[rank]}"
            words = f"a plan for {'the GPU' if ranks == 1 else f'all {ranks} GPUs'} of this node"
        else:
            rank, ranks, source = _need_rank(who, bool(gpus)), who.ranks or 1, who.source
            words = f"a plan for {ranks} rank{'' if ranks == 1 else 's'}"
            each = ["--gpus-per-rank", str(len(who.gpus))] if len(who.gpus) > 1 else []
            _make_plan(path, ["--ranks", str(ranks), *each], of_node)
        try:
            launch = _launch(path, rank, ranks, of_node, cpus)
        except TuneError as error:
            raise TuneError(str(error).replace(path, words)) from None
    return Found(_home_in(launch), source, words, "", [note.replace(path, words) for note in launch.notes])


def _need_rank(who: Who, has_gpus: bool) -> int:
    if who.rank is None:
        raise NotBound("nothing says which rank this process is"
                       + (f", and {who.why_no_gpu}" if has_gpus and who.why_no_gpu else "")
                       + ": give rank= and ranks=, or name a plan")
    if who.ranks is None:
        raise NotBound(f"it is rank {who.rank} ({who.source}), but nothing says of how many: give ranks=")
    return who.rank


def _index_of_gpu(who: Who, gpus: list[str], variables: Mapping[str, str]) -> int:
    """Returns which of the node's GPUs this process has."""
    if who.gpus:
        address, called = _address(who.gpus[0], who.gpu_variable, 0, variables), f"GPU {who.gpus[0]}"
    elif who.rank is not None:
        address, called = _address(None, "", who.rank, variables), f"the GPU of rank {who.rank}"
    elif len(gpus) == 1:
        address, called = gpus[0], ""
    else:
        raise NotBound(f"{who.why_no_gpu}, this node has {len(gpus)}, and nothing says which rank it is: give rank= "
                       "and ranks=")
    if address not in gpus:
        raise NotBound(f"{called} cannot be found among the GPUs of this node ({', '.join(gpus)}): give rank= and a "
                       "plan")
    return gpus.index(address)


def _rank_of_gpu(who: Who, plan: dict[str, Any], variables: Mapping[str, str]) -> int:
    """Returns the rank to which the plan gives the GPU of this process."""
    why = f"nothing says which of the plan's {len(plan['ranks'])} ranks this process is"
    if len(who.gpus) != 1:
        raise NotBound(f"{why}, and {who.why_no_gpu}: give rank=")
    address = _address(who.gpus[0], who.gpu_variable, 0, variables)
    found = [entry["rank"] for entry in plan["ranks"] if entry.get("gpu", {}).get("pci") == address]
    if address is None or len(found) != 1:
        raise NotBound(f"{why}, and it does not say whose GPU {who.gpus[0]} is: give rank=")
    return int(found[0])


def _address(gpu: str | None, variable: str, rank: int, variables: Mapping[str, str]) -> str | None:
    """Returns the PCI address of a GPU by its name, or of a rank's by the list of visible ones; None if zf-tune does
    not know it."""
    seen = {name: value for name, value in variables.items() if name not in _RANKS}
    if gpu is not None:
        seen = {name: value for name, value in seen.items() if name not in VISIBLE} | {variable: gpu}
    with tempfile.TemporaryDirectory(prefix="zf-bind-") as folder:
        plan = _make_plan(os.path.join(folder, "plan.json"), ["--ranks", str(rank + 1)], seen)
    address = plan["ranks"][rank].get("gpu", {}).get("pci")
    return None if address is None else str(address)


def _make_plan(path: str, options: list[str], variables: Mapping[str, str]) -> dict[str, Any]:
    """Makes a plan for all CPUs that this node's job may have. Every rank makes the same one."""
    _ask_tune.run("plan", "-q", "-o", path, *options, variables=variables, cpus=everything())
    return _read(path)


def _launch(path: str, rank: int, ranks: int | None, variables: Mapping[str, str], cpus: Cpus) -> _ask_tune.Launch:
    """Asks zf-tune for the home of a rank, where `ranks` run; None: as many as the plan has, or the launcher says."""
    if ranks is not None:  # as a launcher would say it
        others = {name: value for name, value in variables.items() if name not in _RANKS}
        variables, given = others | {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks)}, None
    else:
        given = rank
    if cpus.of_others is not None:
        # The mask is another rank's. What the job may use was that of zf-tune exec, if it gave that rank this home.
        other = _home_in(_ask_tune.launch(path, cpus.of_others.rank, variables, cpus.seen))
        if other.cpus != cpus.of_others.cpus:
            raise NotBound(f"zf-tune exec has bound whoever started this process to "
                           f"{_cpu_lists.in_words(cpus.of_others.cpus)}, and the plan has "
                           f"{_cpu_lists.in_words(other.cpus)} for it: which CPUs the job has is not known. Start it "
                           "without zf-tune exec")
    return _ask_tune.launch(path, given, variables, cpus.seen)


def _home_in(launch: _ask_tune.Launch) -> Home:
    try:
        return _home.parse(launch.variables.get("ZF_BINDING", ""))
    except ValueError as error:
        raise NotBound(f"{_ask_tune.find()} is of another version than this package: {error}") from None


def _as_it_stands(plan: dict[str, Any], path: str, rank: int, who: Who, cpus: Cpus) -> Home:
    """Returns the plan's own home for a rank. Without zf-tune nobody fits the plan to this allocation, so all homes
    must be allowed here, and as many ranks must run as the plan has."""
    try:
        homes = [_home.of_plan(plan, entry["rank"]) for entry in plan["ranks"]]
        home = _home.of_plan(plan, rank)
    except (KeyError, ValueError) as error:
        raise NotBound(f"{path}: {error}") from None
    without = "zf-tune, which would fit the plan, was not found: install it, or set ZF_TUNE_BINARY"
    if who.ranks not in (None, len(homes)):
        raise NotBound(f"{path} has {len(homes)} ranks, and {who.ranks} run here; {without}")
    seen = cpus.seen if cpus.of_others is None else everything()
    lost = frozenset().union(*(home.whole for home in homes)) - seen
    if lost:
        raise NotBound(f"{path} has {_cpu_lists.in_words(lost)}, not allowed here; {without}")
    return home


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            plan = json.load(file)
        if not isinstance(plan, dict) or not str(plan.get("schema")).startswith("zf-plan/") or not plan["ranks"]:
            raise ValueError("it is not a plan of zf-tune")
    except (OSError, ValueError, KeyError) as error:
        raise NotBound(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return plan
