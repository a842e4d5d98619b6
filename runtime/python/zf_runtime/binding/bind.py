"""zf_runtime.bind(): binds this process, and the threads that it has already, to its rank's home."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from ..native.environment import launched_ranks, launchers_rank, switched_off
from . import (
    cpu_lists,
    find_home,
    memory,
    moved_threads,
    other_ranks,
    outer_binding,
    own_threads,
    parallel_regions,
    rank_home,
    ray,
    thread_counts,
    which_rank,
)
from .bound import Binding, LeftThread
from .find_home import Cpus, Found
from .outer_binding import Outer
from .plan_files import NotBound
from .rank_home import Home
from .which_rank import Who

_T = TypeVar("_T")


def bind(rank: int | None = None, ranks: int | None = None, plan: str | os.PathLike[str] | None = None,
         strict: bool = False) -> Binding:
    """Binds this process to the home of its rank, and returns what it did. Call it first in the training script, before
    CUDA and NCCL start; threads that run already are moved, too.

    rank, ranks: the local rank, and how many run on this node. None: the launcher's variables say it, or Ray Train; or
    the GPU that Ray, CUDA_VISIBLE_DEVICES or the like give to this process alone.
    plan: path of a zf-tune plan. None: ZF_PLAN names it, else /etc/zf-tune/plans has one for this class of nodes; else
    the home is that of this process's GPU in a plan for all GPUs of the node, or this rank's in a plan for the ranks of
    a job that lists no GPUs. That needs the program zf-tune.
    strict: raise RuntimeError if the process cannot be bound as planned. Otherwise bind() never raises for that: the
    result is false, and its errors say why.

    It does nothing inside zf-tune exec, if that bound this very process, and with ZF_TUNE=off. Threads with a mask of
    their own keep it. docs/bind.md has examples."""
    if switched_off():
        return Binding(notes=("ZF_TUNE is off",))
    pinning = thread_counts.pinning_in(os.environ)
    if strict and pinning:
        raise RuntimeError("; ".join(pinning))
    try:
        done = _bind(rank, ranks, None if plan is None else os.fspath(plan), pinning)
    except (NotBound, RuntimeError, OSError) as error:
        done = Binding(errors=(*pinning, str(error)))
    except Exception as error:  # a fault of ours, or of Ray's: the job can train all the same
        done = Binding(errors=(*pinning, f"bind() failed with {type(error).__name__}: {error}"))
    if strict and done.errors:
        raise RuntimeError("; ".join(done.errors))
    return done


def _bind(rank: int | None, ranks: int | None, plan: str | None, pinning: list[str]) -> Binding:
    variables = which_rank.own(os.environ)
    before = _mask_of_process(bool(pinning))
    outer = outer_binding.find(os.environ)
    place = None if outer is None or _last_here() is not None else _place_of_child(outer, rank, ranks, before)
    if place is not None:
        return _find_and_move(*place, plan, before, pinning)
    bound = _bound_already(rank, plan, variables)
    errors = pinning if bound is None else [*pinning, *_ignored(rank, ranks, bound, variables)]
    if bound is not None and before in (bound.cpus, bound.training):
        moved_threads.expect_unless_expected(bound)
        return Binding(bound.rank, "ZF_RANK", "zf-tune exec or a bind() before: nothing was changed", before,
                       bound.mems if bound.kept is None else frozenset(), left=_left(before), errors=tuple(errors))
    if bound is not None:
        again = Found(bound, "ZF_RANK", "zf-tune exec or a bind() before: the mask was set again", "", [])
        return _move(again, None, before, errors, bool(pinning))
    return _find_and_move(which_rank.who(rank, ranks, variables), _cpus(outer, before), plan, before, errors)


def _place_of_child(outer: Outer, rank: int | None, ranks: int | None,
                    before: frozenset[int]) -> tuple[Who, Cpus] | None:
    """Returns who this process is, and which CPUs count, if bind() has bound a process above it as another rank. None
    if it is the same rank, or if zf-tune exec has bound it. Children that are ranks of a job of their own divide the
    home of the process that has started them."""
    if outer.call is None:
        return None
    variables = {name: value for name, value in os.environ.items() if name not in outer_binding.OURS}
    own = which_rank.own(variables)
    who = which_rank.who(rank, ranks, own)
    by_gpu = who.rank is None and (ray.is_worker() or outer_binding.digest_of_lists(own) not in ("", outer.call.lists))
    is_same_job = not by_gpu and who.ranks in (None, outer.call.ranks) and (
        who.rank is None or outer_binding.is_same_job(outer.call, which_rank.own(os.environ)))
    if is_same_job and who.rank in (None, outer.call.rank):
        return None
    if is_same_job and outer.call.rank is not None:
        return who, _cpus(outer, before)  # another rank of the same job
    return who, Cpus(before, None, before in (outer.home.cpus, outer.home.training))


def _find_and_move(who: Who, cpus: Cpus, plan: str | None, before: frozenset[int], errors: list[str]) -> Binding:
    global _last  # noqa: PLW0603  a binding belongs to the process
    pins = bool(thread_counts.pinning_in(os.environ))
    done = _move(find_home.find(who, plan, os.environ, cpus), (who, cpus), before, errors, pins)
    _last = _Last(os.getpid(), os.environ.get("ZF_BINDING", ""), who, done.source)
    return done


class _Last(NamedTuple):
    """What bind() has bound, and as whom."""

    pid: int
    line: str  # ZF_BINDING
    who: Who
    source: str


_last: _Last | None = None


def _last_here() -> _Last | None:
    """Returns the last bind() if it was this process that it bound, and no other call has done so since."""
    if _last is None or _last.pid != os.getpid() or _last.line != os.environ.get("ZF_BINDING"):
        return None
    return _last


def _bound_already(rank: int | None, plan: str | None, variables: Mapping[str, str]) -> Home | None:
    """Returns the home of ZF_BINDING if it is this process's, and the caller wants no other."""
    home = rank_home.own(variables)
    if home is None or not home.is_bound or (_last_here() is None and rank is not None and rank != home.rank):
        return None
    planned = variables.get("ZF_PLAN", "")
    return None if plan is not None and os.path.abspath(plan) != os.path.abspath(planned) else home


def _ignored(rank: int | None, ranks: int | None, home: Home, variables: Mapping[str, str]) -> list[str]:
    """Returns a sentence if the arguments are not those by which this process was bound."""
    last = _last_here()
    outer = outer_binding.find(os.environ)
    if last is None and outer is not None and outer.call is not None:  # of a process above, and they agree
        return []
    was = Who(home.rank, _ranks_of_exec(variables), "") if last is None else last.who
    differing = [f"{name}={given}" for name, given, had in (("rank", rank, was.rank), ("ranks", ranks, was.ranks))
                 if given is not None and given != had]
    if not differing or (last is None and was.ranks is None):
        return []
    by = "zf-tune exec" if last is None else "a bind() before"
    known = (f"by {last.source}" if last is not None and was.rank is None else
             f"as rank {was.rank}" + ("" if was.ranks is None else f" of {was.ranks}"))
    return [f"{' and '.join(differing)} {'is' if len(differing) == 1 else 'are'} ignored: {by} has bound this process "
            f"{known}"]


def _ranks_of_exec(variables: Mapping[str, str]) -> int | None:
    """Returns for how many ranks zf-tune exec has cut the homes: the launcher's number, else the plan's."""
    count = launched_ranks(variables)
    if count is not None:
        return count.value
    try:
        with open(variables.get("ZF_PLAN", ""), encoding="utf-8") as file:
            return len(json.load(file)["ranks"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _mask_of_process(is_pinned: bool) -> frozenset[int]:
    """Returns the main thread's mask. If OpenMP pins threads, its runtime has pinned that one, too, when it was loaded:
    then returns the largest mask of all threads."""
    main = own_threads.main_cpus()
    return max((thread.cpus for thread in own_threads.all_threads()), key=len) if is_pinned else main


def _cpus(outer: Outer | None, before: frozenset[int]) -> Cpus:
    """Returns which CPUs count. If this process has the mask that was given to another rank, which started it, that is
    not the job's: the job has what that one might use before."""
    if outer is None or before not in (outer.home.cpus, outer.home.training):
        return Cpus(before)
    if outer.allowed is None:
        raise NotBound("which CPUs this job has is not known: ZF_BINDING is set, and ZF_ALLOWED is not. Start it with "
                       "the zf-tune exec of this version")
    return Cpus(outer.allowed, outer.home)


def _move(found: Found, call: tuple[Who, Cpus] | None, before: frozenset[int], said: list[str],
          is_pinned: bool) -> Binding:
    """`call`: whom the home was found for; None: it is set anew."""
    home = found.home
    outer = outer_binding.find(os.environ)
    keeps = memory.is_given_by_others(os.environ.get("ZF_BINDING", ""))
    said = [*said, *(text for text in thread_counts.pinning_in(os.environ, home.cpus) if text not in said)]
    counts = thread_counts.counts_for(home.threads, "" if outer is None else str(outer.home.threads), os.environ,
                                       thread_counts.launchers_own(os.environ, _rays_threads()))
    moved_threads.expect(home, home.cpus)
    try:
        moves = own_threads.move(before, home.cpus) if before != home.cpus else own_threads.Moves(0, "")
        now = own_threads.main_cpus()
        if now == before != home.cpus:  # refused: this process must not pass for a bound one
            raise NotBound(moves.problem)
        if call is not None and call[0].ranks != 1 and not is_pinned and now == home.cpus != before:
            _need_alone(home, before)
    except NotBound as refused:
        moved_threads.expect_no_more()
        return Binding(home.rank, found.source, errors=(*said, str(refused)), notes=tuple(found.notes))
    _tell_runtime(found, call, counts.set)
    return _done(found, moves, counts, said, is_pinned, keeps)


def _need_alone(home: Home, before: frozenset[int]) -> None:
    """Moves all threads back and raises NotBound if another rank of this job has been bound to some of these CPUs
    meanwhile."""
    other = other_ranks.bound_on(home.cpus, before)
    if other is None:
        return
    own_threads.move(home.cpus, before)
    raise NotBound(f"{cpu_lists.in_words(home.cpus)} would be this rank's, and process {other.pid} of this job has "
                   f"bound itself to {cpu_lists.in_words(other.cpus)} meanwhile")


def _done(found: Found, moves: own_threads.Moves, counts: thread_counts.Counts, said: list[str],
          is_pinned: bool, keeps: bool) -> Binding:
    """Does what follows a move, and reads back. What fails is an error of a process that is bound all the same.
    `keeps`: others have set a memory policy."""
    home = found.home
    mems = frozenset() if keeps else home.mems
    notes, errors = list(found.notes), [*said, *filter(None, [moves.problem])]

    def tried(what: str, call: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return call()
        except Exception as error:  # of torch, of a library, or a fault of ours: the job can train all the same
            errors.append(f"{what} failed with {type(error).__name__}: {error}")
            return otherwise

    refused = tried("preferring memory", lambda: memory.prefer(mems), "it failed") if mems else ""
    none: dict[str, int] = {}
    threads = tried("setting the numbers of threads", lambda: thread_counts.apply(os.environ), none)
    regions = tried("counting CPUs in a region", parallel_regions.count, parallel_regions.Regions(None, None))
    now = own_threads.main_cpus()
    if not moves.problem and now != home.cpus and not is_pinned:
        errors.append(f"the main thread has {cpu_lists.in_words(now)} instead of {cpu_lists.in_words(home.cpus)}")
    for where, region in (("a parallel region", regions.forward), ("a backward", regions.backward)):
        if region is not None and not region.cpus <= home.cpus:
            errors.append(f"{where} runs on {cpu_lists.in_words(region.cpus)}, outside the home")
    notes += [counts.note] if counts.note else []
    notes += ["the memory policy that was set before is kept"] if keeps and home.kept is None else []
    notes += [f"{refused}: a page goes to the node of the CPU that touches it first"] if refused else []
    near = home.mems | (home.kept or frozenset())
    elsewhere = tried("reading where the memory lies", lambda: memory.share_elsewhere(near), None)
    tried("remembering the masks", moved_threads.remember, None)
    no_threads: tuple[LeftThread, ...] = ()
    left = tried("listing the threads", lambda: _left(home.cpus), no_threads)
    return Binding(home.rank, found.source, found.plan, home.cpus, frozenset() if refused else mems, moves.moved,
                   left, threads, regions.forward, regions.backward, elsewhere if home.mems else None,
                   tuple(notes), tuple(errors))


def _rays_threads() -> str | None:
    """Returns the number of threads that Ray has set in this worker; None outside, and if it came with the process."""
    value = os.environ.get("OMP_NUM_THREADS", "")
    if not ray.is_worker() or f"OMP_NUM_THREADS={value}" in ray.variables_at_start():
        return None
    return ray.default_threads()


def _tell_runtime(found: Found, call: tuple[Who, Cpus] | None, counts: Mapping[str, str]) -> None:
    """Sets what zf-tune exec would set, for our runtime in this process, and for processes that it starts."""
    home = found.home
    if found.plan_path:
        os.environ["ZF_PLAN"] = found.plan_path
    try:
        of_launcher = launchers_rank()
    except RuntimeError:  # malformed; the caller has given the rank
        of_launcher = ""
    os.environ.update(counts, ZF_BINDING=home.line, ZF_RANK=str(home.rank), ZF_OPTIMIZER_CPUS=home.optimizer,
                      ZF_RANK_FROM=of_launcher)
    if call is not None:
        os.environ.update(outer_binding.variables_of_call(call[0], home.line, os.environ),
                          ZF_ALLOWED=cpu_lists.text_of(call[1].seen))


def _left(cpus: frozenset[int]) -> tuple[LeftThread, ...]:
    """Returns the threads that have another mask."""
    return tuple(LeftThread(thread.tid, own_threads.name_of(thread.tid), thread.cpus)
                 for thread in own_threads.all_threads() if thread.cpus != cpus)
