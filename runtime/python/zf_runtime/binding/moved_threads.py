"""Tells which threads of this process were moved since it was bound: looks at all masks once, after step 20 of an
optimizer of ours, or without one 60 s after bind(). By then NCCL, data loaders and frameworks have started. zf-tune
verify --watch looks on."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import NamedTuple

from ..native.environment import switched_off
from . import cpu_lists, own_threads, ray
from .home import Home, own_home
from .math_threads import PINNING

_AFTER_STEPS = 20
_AFTER_S = 60
# How long bind() waits for the thread that will look. If busy CPUs let it stand later, only --watch may blame bind().
_STANDS_S = 10
_NAME = "zf-look"  # zf-tune verify --watch looks for it
# Threads with these names place themselves when they begin, near a GPU or a network card.
_PLACE_THEMSELVES = ("NCCL", "RCCL", "nccl", "ib_", "mlx", "ucx", "cuda")
# These frameworks divide a home by themselves, and the plan knows it.
_DIVIDE_HOMES = ("deepspeed-zenflow", "superoffload")


class Moved(NamedTuple):
    """A thread that may run where its process was not bound to."""

    tid: int
    name: str
    before: frozenset[int] | None  # None: not known, as it began later
    now: frozenset[int]

    def __str__(self) -> str:
        now = cpu_lists.in_words(self.now)
        if self.before is None:
            return f"thread {self.tid} ({self.name}) may run on {now}"
        return f"thread {self.tid} ({self.name}) was moved from {cpu_lists.in_words(self.before)} to {now}"


class _Watch:
    """What one process expects, and whether it has looked. A forked child starts anew."""

    def __init__(self, home: Home | None) -> None:
        self.pid = os.getpid()
        self.home = home
        self.threads: dict[tuple[int, int], frozenset[int]] = {}
        self.first_step: int | None = None
        self.has_looked = False
        self.is_over = threading.Event()


_watch = _Watch(None)


def expect(home: Home | None) -> None:
    """Looks 60 s from now unless an optimizer of ours steps by then; None: takes that back. To be called before threads
    are moved to the home: the thread that will look stands there already, so that zf-tune verify --watch knows who
    moves the others."""
    global _watch  # noqa: PLW0603  masks belong to the process
    if _watch.pid == os.getpid():
        _watch.is_over.set()
    _watch = _Watch(home)
    stands = threading.Event()
    with contextlib.suppress(RuntimeError):  # no more threads may be started: then step 20 looks alone
        if home is not None:
            threading.Thread(target=_look_later, args=[_watch, home, stands], name=_NAME, daemon=True).start()
            stands.wait(_STANDS_S)


def expect_unless_expected(home: Home) -> None:
    """Does the same in a process that bind() finds bound, once."""
    if _watch.home is None or _watch.pid != os.getpid():
        expect(home)
        remember()


def remember() -> None:
    """Remembers the masks that all threads have now, after bind()."""
    _watch.threads = {(thread.tid, thread.started): thread.cpus for thread in own_threads.all_threads()}


def look(step_number: int) -> list[Moved]:
    """Looks at all masks in the 20th step that is seen here, and says on stderr which threads were moved; returns them,
    too. To be called after each step: the other calls cost nothing. Does nothing in a process that neither bind() nor
    zf-tune exec has bound."""
    watch = _watch
    if watch.has_looked or watch.pid != os.getpid():  # a forked child, such as a data loader's, does not look
        return []
    if watch.first_step is None:
        watch.first_step = step_number
    if step_number - watch.first_step + 1 < _AFTER_STEPS:
        return []
    return _look_safely(watch, f"in the first {_AFTER_STEPS} steps")


def _look_later(watch: _Watch, home: Home, stands: threading.Event) -> None:
    with contextlib.suppress(OSError):  # a mask that is refused is refused to the others, too
        if own_threads.main_cpus() != home.training:  # else our runtime has narrowed all of them
            os.sched_setaffinity(0, home.cpus)
    with contextlib.suppress(OSError), open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as name:
        name.write(_NAME)
    stands.set()
    if not watch.is_over.wait(_AFTER_S) and watch.first_step is None:
        _look_safely(watch, f"within {_AFTER_S} s after zf_runtime.bind()")


def _look_safely(watch: _Watch, when: str) -> list[Moved]:
    """Looks, and raises nothing: stderr may be closed, and the step that asks for the look must go on."""
    try:
        return _look(watch, when)
    except Exception:
        return []


def _look(watch: _Watch, when: str) -> list[Moved]:
    watch.has_looked = True
    if switched_off():
        return []
    is_by_exec = watch.home is None
    if watch.home is None:  # zf-tune exec has bound it, or it is not bound
        watch.home = own_home(ray.own_variables(os.environ))
        if watch.home is None:
            return []
        watch.threads = _start_mask(watch.home)
    moved = moved_threads(watch.home, watch.threads, own_threads.all_threads())
    if is_by_exec:  # this is the first look: the command itself may have narrowed them
        moved = [one._replace(before=None) for one in moved]
    for one in moved if sys.stderr is not None else ():  # print() would take stdout instead
        blame = f" {when}, by another part of this job" if one.before is not None else ""
        print(f"zf_runtime: {one}{blame}; its home is {cpu_lists.in_words(watch.home.cpus)}. `zf-tune verify --pid "
              f"{os.getpid()} --watch 60s` shows if it happens again", file=sys.stderr, flush=True)
    return moved


def _start_mask(home: Home) -> dict[tuple[int, int], frozenset[int]]:
    """Returns the mask with which exec has started the main thread; none if OpenMP pins it, as the user wishes."""
    if any(os.environ.get(name) for name in PINNING):
        return {}
    return {(thread.tid, thread.started): home.cpus for thread in own_threads.all_threads()
            if thread.tid == os.getpid()}


def moved_threads(home: Home, before: dict[tuple[int, int], frozenset[int]],
                  now: list[own_threads.Thread]) -> list[Moved]:
    """Returns the threads that are not where they were, nor in the home. A thread that began later may have any CPUs of
    the home, and one of those that place themselves may have any. A thread that has ended does not count."""
    found = []
    for thread in now:
        was = before.get((thread.tid, thread.started))
        if thread.cpus in (was, home.cpus, home.training):
            continue
        inside = thread.cpus <= home.whole
        if inside and (was is None or home.framework in _DIVIDE_HOMES):
            continue
        name = own_threads.name_of(thread.tid)
        if was is None and name.startswith(_PLACE_THEMSELVES):
            continue
        found.append(Moved(thread.tid, name, was, thread.cpus))
    return found
