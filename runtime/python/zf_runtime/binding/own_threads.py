"""The threads of this process: which there are, which CPUs each may run on, and moving them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from . import cpu_lists

_T = TypeVar("_T")
_MOST_PASSES = 50
_END_S = 1.0  # how long a thread that has done its work may take to end


class Thread(NamedTuple):
    """A thread. Its number and its start name it for the life of the process."""

    tid: int
    started: int  # clock ticks after the machine's start
    cpus: frozenset[int]


class Moves(NamedTuple):
    """The result of move()."""

    moved: int
    problem: str  # why a thread may still have the old mask; empty: none has it


def run_apart(call: Callable[[], _T]) -> _T:
    """Calls a function in a thread of its own, and waits until that thread has ended. join() returns a moment before,
    and a list of threads would have it then. Returns or raises what the function does."""
    done: list[_T] = []
    failed: list[BaseException] = []

    def main() -> None:
        try:
            done.append(call())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=main, name="zf-bind")
    thread.start()
    thread.join()
    deadline = time.monotonic() + _END_S
    while os.path.exists(f"/proc/self/task/{thread.native_id}") and time.monotonic() < deadline:
        time.sleep(0.0002)
    if failed:
        raise failed[0]
    return done[0]


def main_cpus() -> frozenset[int]:
    """Returns the mask of the main thread, which is called the process's mask."""
    return frozenset(os.sched_getaffinity(os.getpid()))


def all_threads() -> list[Thread]:
    """Returns the threads that have not ended meanwhile."""
    found = []
    for tid in sorted(map(int, os.listdir("/proc/self/task"))):
        try:
            found.append(Thread(tid, int(stat_of(f"self/task/{tid}")[19]), frozenset(os.sched_getaffinity(tid))))
        except OSError:  # it has ended
            continue
    return found


def name_of(tid: int) -> str:
    """Returns how to call a thread: by its name, if that is not the process's. Of an unnamed one zf-tune verify says in
    which library it waits."""
    try:
        name, process = _comm(tid), _comm(os.getpid())
    except OSError:
        return "ended"
    if tid == os.getpid():
        return "the main thread"
    return name if name not in ("", process) else "unnamed"


def _comm(tid: int) -> str:
    """Returns a thread's name, which may be any bytes: it is cut off after 15, also within a letter."""
    with open(f"/proc/self/task/{tid}/comm", encoding="utf-8", errors="replace") as file:
        return file.read().rstrip("\n")


def move(old: frozenset[int], new: frozenset[int]) -> Moves:
    """Gives the mask `new` to every thread with the mask `old`. A thread with any other mask keeps it: the program
    chose it. A thread that is being started inherits the mask of the thread that starts it, so one pass may miss it:
    it looks again until a pass finds no thread with the old mask and no new thread."""
    seen: set[tuple[int, int]] = set()
    stuck: set[int] = set()
    moved, problem = 0, ""
    for _ in range(_MOST_PASSES):
        again = False
        for thread in all_threads():
            again = again or (thread.tid, thread.started) not in seen
            seen.add((thread.tid, thread.started))
            if thread.cpus != old or thread.tid in stuck:
                continue
            again = True
            why = _set(thread.tid, new)
            if why == "":
                moved += 1
            elif why is not None:
                stuck.add(thread.tid)
                problem = problem or why
        if not again:
            return Moves(moved, problem)
    return Moves(moved, problem or f"threads were still being started when all had been looked at {_MOST_PASSES} times")


def _set(tid: int, cpus: frozenset[int]) -> str | None:
    """Sets a mask. Returns why it has another one now; empty if it has this one; None if the thread has ended."""
    try:
        os.sched_setaffinity(tid, cpus)
        now = frozenset(os.sched_getaffinity(tid))
    except ProcessLookupError:
        return None
    except OSError as error:
        return f"thread {tid}: {error.strerror}"
    if now == cpus:
        return ""
    return f"thread {tid} has the mask {cpu_lists.text_of(now)} instead of {cpu_lists.text_of(cpus)}"


def stat_of(task: str) -> list[str]:
    """Returns the fields of /proc/TASK/stat (proc(5)) from field 3, the state, on. The name before it may contain
    blanks and brackets. Raises OSError if there is no such task."""
    with open(f"/proc/{task}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].decode().split()
