"""Finds the home of this process: in a plan, or without one in a plan that every rank makes alike without talking to
others: for all GPUs of this node, or for as many ranks as there are."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import (
    ask_tune,
    cpu_lists,
    node_gpus,
    other_ranks,
    outer_binding,
    plan_files,
    rank_home,
    visible_gpus,
    which_rank,
)
from .ask_tune import TuneError
from .node_gpus import RANKS
from .plan_files import NotBound, everything
from .rank_home import Home
from .thread_counts import VARIABLES, pinning_in
from .visible_gpus import VISIBLE, Gpus
from .which_rank import Who

PLANS = "/etc/zf-tune/plans"


class Found(NamedTuple):
    """A home, where it is from, and what the user should know."""

    home: Home
    source: str  # of the rank
    plan: str  # a path, or in words
    plan_path: str  # empty if there is no file
    notes: list[str]


class Cpus(NamedTuple):
    """The CPUs that count."""

    seen: frozenset[int]  # those of this process now; of the job, if its present mask is another rank's home
    of_others: Home | None = None  # that home
    are_divided: bool = False  # the job has these alone: they are the home of a process that has started its ranks

    def of_plan(self) -> frozenset[int]:
        """Returns those for which plans are made."""
        return self.seen if self.are_divided else everything()


def find(who: Who, plan: str | None, variables: Mapping[str, str], cpus: Cpus) -> Found:
    """Returns the home of this process. `plan`: a path; None: ZF_PLAN names it, else that of this node's class in
    /etc/zf-tune/plans is taken, else there is none. Raises NotBound."""
    inherited = {name: value for name, value in variables.items() if name not in (*outer_binding.OURS, *VARIABLES)}
    path = plan or variables.get("ZF_PLAN") or _plan_of_class(inherited)
    try:
        own = which_rank.own(variables)
        if path:
            return _by_plan(who, os.path.abspath(path), inherited, own, cpus)
        return _apart(who, visible_gpus.find(who.ranks, own), inherited, cpus)
    except TuneError as error:
        ambiguous, _, _ = str(error).partition("give --cpus job")  # bind() has no such option
        raise NotBound(str(error) if ambiguous == str(error) else f"{ambiguous}start the ranks with no mask (taskset, "
                       "srun --cpu-bind), or with zf-tune exec --cpus") from None


def _plan_of_class(variables: Mapping[str, str]) -> str | None:
    """Returns the path of the plan that this node takes of PLANS; None if there is none. Asks only if there are any."""
    if not os.path.isdir(PLANS):
        return None
    try:
        return plan_files.of_class(PLANS, variables)
    except TuneError as error:
        raise NotBound(f"{PLANS} has plans, and which of them is this node's is not known: {error}") from None


def _by_plan(who: Who, path: str, variables: Mapping[str, str], own: Mapping[str, str], cpus: Cpus) -> Found:
    """`own`: the variables that are about this process."""
    plan = plan_files.fitted(path, variables)
    rank, ranks, source = who
    if rank is None and len(plan["ranks"]) == 1:
        node_gpus.need_no_other_gpu(path, plan, who, variables, own)
        rank, source = 0, "the only rank of the plan"
    elif rank is not None and (by_gpu := node_gpus.rank_of_own_gpu(path, plan, who, variables, own)) is not None:
        rank, source, ranks = by_gpu, "its GPU", len(plan["ranks"])
    if rank is None:
        gpus = visible_gpus.find(who.ranks, own)
        rank = node_gpus.rank_of_gpu(gpus, plan, variables)
        source = f"GPU {gpus.names[0]}" if gpus.names else "the one visible GPU"
    if ask_tune.find() is None:
        return Found(_as_it_stands(plan, path, rank, who, cpus), source, path, path, [])
    if visible_gpus.has_own_list(own):  # it is not to be compared with the plan's GPUs
        variables = {name: value for name, value in variables.items() if name not in VISIBLE}
    launch = _launch(path, rank, ranks, variables, cpus)
    return Found(_home_in(launch), source, path, path, launch.notes)


class _Cut(NamedTuple):
    """How CPUs are divided, and which part is this process's."""

    rank: int
    ranks: int
    source: str
    words: str
    note: str = ""


def _apart(who: Who, gpus: Gpus, variables: Mapping[str, str], cpus: Cpus) -> Found:
    """Returns the home without a plan. If another rank of this job has some of it already, as it could not see this one
    when it was bound, their numbers decide."""
    found = _without_plan(who, gpus, variables, cpus)
    if who.ranks == 1 or pinning_in(variables):  # OpenMP then gives masks, too
        return found
    other = other_ranks.bound_on(found.home.cpus)
    if other is not None and gpus.names and who.ranks is not None:
        note = f"process {other.pid} of this job was bound before to {cpu_lists.in_words(other.cpus)}"
        found = _without_plan(who, Gpus(note=f"{note}: the numbers of the ranks decide"), variables, cpus)
        other = other_ranks.bound_on(found.home.cpus)
    if other is not None:
        raise NotBound(f"{cpu_lists.in_words(found.home.cpus)} would be this rank's, and process {other.pid} of this "
                       f"job is bound to {cpu_lists.in_words(other.cpus)}")
    return found


def _without_plan(who: Who, gpus: Gpus, variables: Mapping[str, str], cpus: Cpus) -> Found:
    """Makes a plan for all GPUs of this node, and takes the homes of this process's, or its part of those that its job
    has. If the job has the whole node, as it lists no GPUs, or if there are none, the plan is for its ranks."""
    if ask_tune.find() is None:
        raise NotBound("no plan is named, and without one zf-tune is needed, which was not found: name a plan (plan=, "
                       "ZF_PLAN), install zf-tune, or set ZF_TUNE_BINARY")
    of_node = {name: value for name, value in variables.items() if name not in (*RANKS, *VISIBLE)}
    with tempfile.TemporaryDirectory(prefix="zf-bind-") as folder:
        path = os.path.join(folder, "plan.json")
        cut = _cut(path, who, gpus, variables, of_node, cpus.of_plan(), cpus.are_divided)
        try:
            launch = _launch(path, cut.rank, cut.ranks, of_node, cpus)
        except TuneError as error:
            raise TuneError(str(error).replace(path, cut.words)) from None
    notes = [note.replace(path, cut.words) for note in launch.notes]
    return Found(_home_in(launch), cut.source, cut.words, "", [*filter(None, (gpus.note, cut.note)), *notes])


def _cut(path: str, who: Who, gpus: Gpus, variables: Mapping[str, str], of_node: Mapping[str, str],
         cpus: frozenset[int], are_divided: bool) -> _Cut:
    """Writes the plan for these CPUs. `are_divided`: as Cpus has it."""
    by_nodes: list[str] = []
    if gpus.are_unlisted and who.ranks is not None and not are_divided:
        by_nodes = node_gpus.by_nodes(who, of_node)
        gpus = gpus._replace(names=tuple(by_nodes), are_shared=who.ranks > 1)
    if not gpus.names and who.ranks is not None and not gpus.why_unknown:
        return _by_number(path, who, of_node, cpus)
    # GPUs that are hidden from this process count: others may have them.
    plan = plan_files.make(path, ["--all-gpus"], of_node, cpus)
    of_plan = [str(entry["gpu"]["pci"]) for entry in plan["ranks"] if entry.get("gpu")]
    try:
        usable = node_gpus.usable(of_node)
    except node_gpus.HiddenGpu as hidden:
        if (who.ranks or 1) == 1:
            raise NotBound(f"{hidden}: name a plan for all (plan=)") from None
        cut = _by_number(path, who, of_node, cpus)
        return cut._replace(note=f"{hidden}: the ranks divide the whole node by their numbers")
    if not of_plan:
        return _by_number(path, who, of_node, cpus)
    if gpus.why_unknown:
        raise NotBound(gpus.why_unknown)
    if not gpus.names:
        return _by_gpu(node_gpus.only_gpu(who, gpus, of_plan, usable, variables), of_plan)
    known = by_nodes or node_gpus.known(gpus, of_plan, of_node)
    if gpus.are_shared and who.rank is not None and who.ranks == len(set(known)) == len(known):
        known = [known[who.rank]]
    elif gpus.are_shared or len(known) > 1:
        return _by_part(path, who, gpus, known, plan, of_node, cpus)
    return _by_gpu(known[0], of_plan)


def _by_part(path: str, who: Who, gpus: Gpus, known: list[str], plan: dict[str, Any],
             of_node: Mapping[str, str], cpus: frozenset[int]) -> _Cut:
    """Writes a plan for the homes that GPUs have in a plan for all: for the ranks that share them, or for this process
    alone."""
    known = sorted(set(known))  # MIG instances may be of one
    named = f"GPU{'' if len(known) == 1 else 's'} {', '.join(known)}"
    sharing = who if gpus.are_shared else Who(0, 1, named)
    with_list = {**of_node, **gpus.lists}
    homes = {entry["gpu"]["pci"]: rank_home.of_plan(plan, entry["rank"]).whole for entry in plan["ranks"]}
    if homes.keys() == set(known):
        return _by_number(path, sharing, with_list, cpus)
    part = frozenset().union(*(homes[address] for address in known))
    try:
        return _by_number(path, sharing, with_list, part, f" on the CPUs of {named}")
    except TuneError as error:  # they have too few cores: all ranks get the same answer
        why, _, _ = str(error).removeprefix("zf-tune: ").partition(";")  # what it advises is for the whole node
        cut = _by_number(path, sharing, with_list, cpus)
        return cut._replace(note="the ranks divide the whole node, as they cannot divide "
                                 f"{cpu_lists.in_words(part)} of {named}: {why}")


def _by_gpu(address: str, of_plan: list[str]) -> _Cut:
    rank, ranks = of_plan.index(address), len(of_plan)
    return _Cut(rank, ranks, f"GPU {of_plan[rank]}",
                f"a plan for {'the GPU' if ranks == 1 else f'all {ranks} GPUs'} of this node")


def _by_number(path: str, who: Who, variables: Mapping[str, str], cpus: frozenset[int], where: str = "") -> _Cut:
    """Writes a plan for as many ranks as the job has, which divide these CPUs."""
    if who.rank is None:
        raise NotBound("nothing says which rank this process is: give rank= and ranks=, or name a plan")
    if who.ranks is None:
        raise NotBound(f"it is rank {who.rank} ({who.source}), but nothing says of how many: give ranks=")
    plan_files.make(path, ["--ranks", str(who.ranks)], variables, cpus)
    return _Cut(who.rank, who.ranks, who.source,
                f"a plan for {who.ranks} rank{'' if who.ranks == 1 else 's'}{where}")


def _launch(path: str, rank: int, ranks: int | None, variables: Mapping[str, str], cpus: Cpus) -> ask_tune.Launch:
    """Asks zf-tune for the home of a rank, where `ranks` run; None: as many as the plan has, or the launcher says."""
    if ranks is not None:  # as a launcher would say it
        others = {name: value for name, value in variables.items() if name not in RANKS}
        variables, given = others | {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks)}, None
    else:
        given = rank
    if cpus.are_divided:
        return ask_tune.launch(path, given, variables, cpus.seen, are_jobs=True)
    if cpus.of_others is not None:
        # The mask is another rank's. What the job may use was that of zf-tune exec, if it gave that rank this home.
        other = _home_in(ask_tune.launch(path, cpus.of_others.rank, variables, cpus.seen))
        if other.cpus != cpus.of_others.cpus:
            raise NotBound(f"zf-tune exec has bound the process that started this one to "
                           f"{cpu_lists.in_words(cpus.of_others.cpus)}, and the plan has "
                           f"{cpu_lists.in_words(other.cpus)} for it: which CPUs the job has is not known. Start it "
                           "without zf-tune exec")
    return ask_tune.launch(path, given, variables, cpus.seen)


def _home_in(launch: ask_tune.Launch) -> Home:
    try:
        return rank_home.parse(launch.variables.get("ZF_BINDING", ""))
    except ValueError as error:
        raise NotBound(f"{ask_tune.find()} is of another version than this package: {error}") from None


def _as_it_stands(plan: dict[str, Any], path: str, rank: int, who: Who, cpus: Cpus) -> Home:
    """Returns the plan's own home for a rank. Without zf-tune the plan is not fitted to this allocation, so all homes
    must be allowed here, and as many ranks must run as the plan has."""
    try:
        homes = [rank_home.of_plan(plan, entry["rank"]) for entry in plan["ranks"]]
        home = rank_home.of_plan(plan, rank)
    except (KeyError, ValueError) as error:
        raise NotBound(f"{path}: {error}") from None
    without = "zf-tune, which would fit the plan, was not found: install it, or set ZF_TUNE_BINARY"
    if who.ranks not in (None, len(homes)):
        raise NotBound(f"{path} has {len(homes)} ranks, and {who.ranks} run here; {without}")
    seen = cpus.seen if cpus.of_others is None else everything()
    lost = frozenset().union(*(home.whole for home in homes)) - seen
    if lost:
        raise NotBound(f"{path} has {cpu_lists.in_words(lost)}, not allowed here; {without}")
    return home
