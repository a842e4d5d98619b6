"""zf_runtime.bind(): binds this process, and the threads that it has already, to its rank's home."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from ..native import planned
from ..native.environment import launched_ranks, local_rank, switched_off
from . import ask_tune, claims, cpu_lists, math_threads, memory, moved_threads, own_threads, ray, which_rank
from .ask_tune import Found, NotBound
from .bound import Binding, LeftThread
from .home import OURS, Home, Outer, digest_of_lists, find_outer, own_home, variables_of_call
from .which_rank import Who

PLANS = "/etc/zf-tune/plans"
_T = TypeVar("_T")


def bind(rank: int | None = None, ranks: int | None = None, plan: str | os.PathLike[str] | None = None,
         strict: bool = False) -> Binding:
    """Binds this process to the home of its rank, and returns what it did. Call it first in the training script, before
    CUDA and NCCL start; threads that run already are moved, too.

    rank, ranks: the local rank, and how many run on this node. None: the launcher's variables say it, or Ray Train; or
    the GPU that Ray, CUDA_VISIBLE_DEVICES or the like give to this process alone.
    plan: path of a zf-tune plan. None: ZF_PLAN names it, else /etc/zf-tune/plans has one for this class of nodes; else
    the home is that of this process's GPU in a plan for all GPUs of the node, or this rank's in a plan for the ranks of
    a job that lists no GPUs. The program zf-tune says which.
    strict: raise RuntimeError if the process cannot be bound as planned. Otherwise bind() never raises for that: the
    result is false, and its errors say why.

    It does nothing inside zf-tune exec, if that bound this very process, and with ZF_TUNE=off. Threads with a mask of
    their own keep it. docs/launch.md has more."""
    if switched_off():
        return Binding(notes=("ZF_TUNE is off",))
    try:
        rank, ranks = which_rank.as_number("rank", rank), which_rank.as_number("ranks", ranks)
        done = _bind(rank, ranks, None if plan is None else os.fspath(plan), strict)
    except (NotBound, claims.Claimed, RuntimeError, OSError) as error:
        done = Binding(errors=(str(error),))
    except Exception as error:  # a fault of ours, or of Ray's: the job can train all the same
        done = Binding(errors=(f"bind() failed with {type(error).__name__}: {error}",))
    if strict and done.errors:
        raise RuntimeError("; ".join(done.errors))
    return done


class _Cpus(NamedTuple):
    """The CPUs that count."""

    seen: frozenset[int]  # those of this process now; of the job, if its present mask is another rank's home
    mask_of: str = ""  # "job": the job has them alone; "outer": they were those of the rank of ZF_BINDING before
    is_inside: bool = False  # the job is one that a bound process has started, and divides its home


def _bind(rank: int | None, ranks: int | None, plan: str | None, strict: bool) -> Binding:
    variables = ray.own_variables(os.environ)
    before = _mask_of_process()
    outer = find_outer(os.environ)
    place = None if outer is None else _place_of_child(outer, rank, ranks, before, variables)
    if outer is not None and place is None and _is_bound_already(outer, rank, plan, variables):
        home, errors = outer.home, _ignored(rank, ranks, outer, variables)
        if before in (home.cpus, home.training):
            moved_threads.expect_unless_expected(home)
            return Binding(home.rank, "ZF_RANK", "zf-tune exec or a bind() before: nothing was changed", before,
                           _preferred(home), left=_left(before), errors=tuple(errors))
        again = "zf-tune exec or a bind() before: the mask was set again"
        return _move(Found(home, "ZF_RANK", again, _preferred(home), {}, [], []), before, errors)
    who, cpus = place or (which_rank.who(rank, ranks, variables), _cpus(outer, before))
    return _find_and_move(who, cpus, rank is not None, plan, before, strict)


def _preferred(home: Home) -> frozenset[int]:
    """Returns the nodes that a process prefers, unless it keeps a policy of others."""
    return home.mems if home.kept is None else frozenset()


def _place_of_child(outer: Outer, rank: int | None, ranks: int | None, before: frozenset[int],
                    variables: Mapping[str, str]) -> tuple[Who, _Cpus] | None:
    """Returns who this process is, and which CPUs count, if bind() has bound a process above it as another rank. None
    if it is the same rank or process, or if zf-tune exec has bound it. Children that are ranks of a job of their own
    divide the home of the process that has started them."""
    if outer.call is None or outer.is_own:
        return None
    own = {name: value for name, value in variables.items() if name not in OURS}
    who = which_rank.who(rank, ranks, own)
    by_gpu = who.rank is None and (ray.is_worker() or digest_of_lists(own) not in ("", outer.call.lists))
    is_same_job = not by_gpu and who.ranks in (None, outer.call.ranks) and (
        who.rank is None or outer.call.may_be_of(variables))
    if is_same_job and who.rank in (None, outer.call.rank):
        return None
    if is_same_job and outer.call.rank is not None:
        return who, _cpus(outer, before)  # another rank of the same job
    return who, _Cpus(before, "job" if before in (outer.home.cpus, outer.home.training) else "", True)


def _find_and_move(who: Who, cpus: _Cpus, is_users_rank: bool, plan: str | None, before: frozenset[int],
                   strict: bool) -> Binding:
    list_of, variables = ray.gpu_lists(who.ranks, os.environ)
    while who.rank is None and (inherited := local_rank(variables)):  # what Ray was started with is not its workers'
        del variables[inherited.variable]
    rays_threads = ray.own_threads()
    if rays_threads is not None:
        del variables["OMP_NUM_THREADS"]

    def ask(list_of: str) -> Found:
        options = {"plans": PLANS, "plan": plan, "rank": who.rank, "ranks": who.ranks, "list": list_of or None,
                   "mask": cpus.mask_of or None}
        words = [f"--{name}={value}" for name, value in options.items() if value is not None]
        return ask_tune.where([*words, *(["--named"] if is_users_rank else [])], variables, cpus.seen)

    found = ask(list_of)
    pinning = [f"{setting} is set: OpenMP pins its threads one by one, and may undo this binding; unset it"
               for setting in found.pinning]
    if strict and pinning:
        raise NotBound("; ".join(pinning))
    if list_of != "process" and not found.home.may_overlap:  # Ray gives a GPU to one worker at a time
        found = _claimed(found, who, cpus, ask)
    if rays_threads is not None and rays_threads != found.variables["OMP_NUM_THREADS"]:
        found = found._replace(notes=[*found.notes, f"OMP_NUM_THREADS={rays_threads} is taken to be Ray's"])
    told = {**found.variables, **variables_of_call(who, found.variables["ZF_BINDING"], os.environ)}
    done = _move(found._replace(source=found.source or who.source, variables=told), before, pinning)
    if not done:
        claims.give_back()
    return done


def _claimed(found: Found, who: Who, cpus: _Cpus, ask: Callable[[str], Found]) -> Found:
    """Returns the home after it was claimed. If another process has that of this rank's GPU, the number of the rank
    decides. Raises Claimed."""
    try:
        note = claims.take(found.home.whole, cpus.is_inside)
    except claims.Claimed as other:
        if (who.ranks or 1) == 1 or not found.source.startswith("GPU "):
            raise
        by_gpu = (f"another rank has the CPUs of {found.source}, too (ranks that share GPUs need CUDA_VISIBLE_DEVICES "
                  "in the environment of their launcher)")
        found = ask("nothing")
        try:
            note = claims.take(found.home.whole, cpus.is_inside) or f"{by_gpu}: the number of the rank decides"
        except claims.Claimed:
            raise NotBound(f"{by_gpu}, and those by its number: {other}") from None
    return found._replace(notes=[*([note] if note else []), *found.notes])


def _is_bound_already(outer: Outer, rank: int | None, plan: str | None, variables: Mapping[str, str]) -> bool:
    """Returns whether the home of ZF_BINDING is this process's, and the caller wants no other."""
    home = own_home(variables)
    if home is None or (not outer.is_own and rank not in (None, home.rank)):
        return False
    return plan is None or os.path.abspath(plan) == os.path.abspath(variables.get("ZF_PLAN", ""))


def _ignored(rank: int | None, ranks: int | None, outer: Outer, variables: Mapping[str, str]) -> list[str]:
    """Returns a sentence if the arguments are not those by which this process was bound."""
    if outer.call is not None and not outer.is_own:  # of a process above, and they agree
        return []
    had = _ranks_of_exec(variables) if outer.call is None else outer.call.ranks
    differing = [f"rank={rank}"] if rank not in (None, outer.home.rank) else []
    if ranks not in (None, had) and (had is not None or outer.is_own):
        differing.append(f"ranks={ranks}")
    if not differing:
        return []
    return [f"{' and '.join(differing)} {'is' if len(differing) == 1 else 'are'} ignored: "
            f"{'a bind() before' if outer.is_own else 'zf-tune exec'} has bound this process as rank {outer.home.rank}"
            + ("" if had is None else f" of {had}")]


def _ranks_of_exec(variables: Mapping[str, str]) -> int | None:
    """Returns for how many ranks zf-tune exec has cut the homes: the launcher's number, else the plan's."""
    count = launched_ranks(variables)
    if count is not None:
        return count.value
    ranks = planned.part(variables.get("ZF_PLAN", ""), "ranks")
    return len(ranks) if isinstance(ranks, list) else None


def _mask_of_process() -> frozenset[int]:
    """Returns the main thread's mask. If OpenMP pins threads, its runtime may have pinned that one, too, when it was
    loaded: then returns the largest mask of all threads."""
    if not any(os.environ.get(name) for name in math_threads.PINNING):
        return own_threads.main_cpus()
    return max((thread.cpus for thread in own_threads.all_threads()), key=len)


def _cpus(outer: Outer | None, before: frozenset[int]) -> _Cpus:
    """Returns which CPUs count. If this process has the mask that was given to another rank, which started it, that is
    not the job's: the job has what that one might use before."""
    if outer is None or before not in (outer.home.cpus, outer.home.training):
        return _Cpus(before)
    if outer.allowed is None:
        raise NotBound("which CPUs this job has is not known: ZF_BINDING is set, and ZF_ALLOWED is not. Start it with "
                       "the zf-tune exec of this version")
    return _Cpus(outer.allowed, "outer")


def _move(found: Found, before: frozenset[int], said: list[str]) -> Binding:
    home = found.home
    moved_threads.expect(home)
    moves = own_threads.move(before, home.cpus) if before != home.cpus else own_threads.Moves(0, "")
    if own_threads.main_cpus() == before != home.cpus:  # refused: this process must not pass for a bound one
        moved_threads.expect(None)
        return Binding(home.rank, found.source, errors=(*said, moves.problem), notes=tuple(found.notes))
    os.environ.update(found.variables)  # for our runtime in this process, and for processes that it starts
    return _done(found, moves, said)


def _done(found: Found, moves: own_threads.Moves, said: list[str]) -> Binding:
    """Does what follows a move, and reads back. What fails is an error of a process that is bound all the same."""
    home, mems = found.home, found.mems
    notes, errors = list(found.notes), [*said, *filter(None, [moves.problem])]

    def tried(what: str, call: Callable[[], _T], otherwise: _T) -> _T:
        try:
            return call()
        except Exception as error:  # of torch, of a library, or a fault of ours: the job can train all the same
            errors.append(f"{what} failed with {type(error).__name__}: {error}")
            return otherwise

    refused = tried("preferring memory", lambda: memory.prefer(mems), "it failed") if mems else ""
    none: dict[str, int] = {}
    threads = tried("setting the numbers of threads", lambda: math_threads.apply(os.environ), none)
    regions = tried("counting CPUs in a region", math_threads.count_regions, math_threads.Regions(None, None))
    now = own_threads.main_cpus()
    if not moves.problem and now != home.cpus and not found.pinning:
        errors.append(f"the main thread has {cpu_lists.in_words(now)} instead of {cpu_lists.in_words(home.cpus)}")
    for where, region in (("a parallel region", regions.forward), ("a backward", regions.backward)):
        if region is not None and not region.cpus <= home.cpus:
            errors.append(f"{where} runs on {cpu_lists.in_words(region.cpus)}, outside the home")
    notes += [f"{refused}: a page goes to the node of the CPU that touches it first"] if refused else []
    near = home.mems | (home.kept or frozenset())
    elsewhere = tried("reading where the memory lies", lambda: memory.share_elsewhere(near), None)
    tried("remembering the masks", moved_threads.remember, None)
    no_threads: tuple[LeftThread, ...] = ()
    left = tried("listing the threads", lambda: _left(home.cpus), no_threads)
    return Binding(home.rank, found.source, found.plan, home.cpus, frozenset() if refused else mems, moves.moved,
                   left, threads, regions.forward, regions.backward, elsewhere if home.mems else None,
                   tuple(notes), tuple(errors))


def _left(cpus: frozenset[int]) -> tuple[LeftThread, ...]:
    """Returns the threads that have another mask."""
    return tuple(LeftThread(thread.tid, own_threads.name_of(thread.tid), thread.cpus)
                 for thread in own_threads.all_threads() if thread.cpus != cpus)
