"""The other ranks of this job: processes that the same launcher has started with the same command. What they were
started with never changes, so all ranks that see each other conclude the same from it, and need not talk."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import NamedTuple

from ..native.environment import COUNTS, RANK_VARIABLES

# A rank waits so long for the others to start. If they did not all start within this time, each knows that some may
# have given up.
_PATIENCE_S = 10.0
_LOOK_EVERY_S = 0.05
# What tells two jobs with the same launcher apart.
_JOB_NAMES = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "SLURM_STEP_ID")


class Peer(NamedTuple):
    """A rank of this job: its process, and the variables that it was started with."""

    pid: int
    started: int  # clock ticks after the machine's start
    variables: Mapping[str, str]


def own_variables() -> dict[str, str]:
    """Returns the variables that this process was started with."""
    return _environ(os.getpid())


def others() -> list[Peer]:
    """Returns the other ranks of this job that run now."""
    own = os.getpid()
    return [peer for peer in _ranks() if peer.pid != own]


class Bound(NamedTuple):
    """A rank that has a mask of its own."""

    pid: int
    cpus: frozenset[int]


def bound_on(cpus: frozenset[int], before: frozenset[int] | None = None) -> Bound | None:
    """Returns another rank of this job that has some of these CPUs, and not the mask that this one has, or had
    before."""
    here = os.sched_getaffinity(os.getpid()) if before is None else before
    for peer in others():
        try:
            mask = os.sched_getaffinity(peer.pid)
        except OSError:  # it has ended
            continue
        if mask != here and mask & cpus:
            return Bound(peer.pid, frozenset(mask))
    return None


def all_of(ranks: int) -> list[Peer] | None:
    """Returns all ranks of this job on this node, this one included, as soon as `ranks` of them run; None if they do
    not within some seconds, did not start within these, or cannot be told from others. All get the same answer."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        found = _ranks()
        if len(found) > ranks or os.getppid() == 0:  # others of the same command; or a container for this rank alone
            return None
        if len(found) == ranks:
            starts = [peer.started for peer in found]
            return found if max(starts) - min(starts) < _PATIENCE_S * os.sysconf("SC_CLK_TCK") else None
        if time.monotonic() > end:
            return None
        time.sleep(_LOOK_EVERY_S)


def have_same_devices(peers: list[Peer]) -> bool:
    """Returns whether these processes surely see the same device nodes: in one mount namespace and control group."""
    try:
        return len({_devices_of(peer.pid) for peer in peers}) == 1
    except OSError:  # another user's, or it has ended
        return False


def _devices_of(pid: int) -> tuple[str, bytes]:
    with open(f"/proc/{pid}/cgroup", "rb") as groups:
        return os.readlink(f"/proc/{pid}/ns/mnt"), groups.read()


def _ranks() -> list[Peer]:
    """Returns the processes that stand where this one stands below the launcher, with its command: the oldest below
    each child of the launcher."""
    own = os.getpid()
    variables = _environ(own)
    name = next((name for name in RANK_VARIABLES if name in variables), None)
    depth, launcher = _place(own, name, variables)
    command = _command(own)
    found: dict[int, Peer] = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        top = _ancestor(pid, depth)
        stat = _stat(pid)
        if top is None or stat is None or _parent(top) != launcher or _command(pid) != command:
            continue
        peer = Peer(pid, stat[1], _environ(pid))
        if (name is None or name in peer.variables) and _job(peer.variables) == _job(variables):
            found[top] = min(found.get(top, peer), peer, key=lambda one: (one.started, one.pid))
    return list(found.values())


def _place(pid: int, name: str | None, variables: Mapping[str, str]) -> tuple[int, int]:
    """Returns how many processes stand between this one and its launcher, such as a shell per rank, and the launcher:
    the first ancestor that is not of this rank of this job, or that has started another rank."""
    depth, parent = 0, _parent(pid)
    while name is not None and parent and _is_same_rank(_environ(parent), name, variables):
        if _has_other_rank(parent, pid, name, variables[name]):
            break
        pid, depth, parent = parent, depth + 1, _parent(parent)
    return depth, parent


def _is_same_rank(one: Mapping[str, str], name: str, other: Mapping[str, str]) -> bool:
    return all(one.get(same) == other.get(same) for same in (name, *COUNTS[name], *_JOB_NAMES))


def _has_other_rank(parent: int, child: int, name: str, rank: str) -> bool:
    """Returns whether a process has started another rank with the command of this child. A launcher may have the number
    of its first rank, if a launcher has started it, too."""
    return any(_parent(pid) == parent and _environ(pid).get(name, rank) != rank and _command(pid) == _command(child)
               for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if pid != child)


def _ancestor(pid: int, steps: int) -> int | None:
    for _ in range(steps):
        pid = _parent(pid)
        if pid == 0:
            return None
    return pid


def _job(variables: Mapping[str, str]) -> list[str | None]:
    return [variables.get(name) for name in _JOB_NAMES]


def _command(pid: int) -> list[str]:
    """Returns the program and the beginning of its command line, without numbers: a rank's may be among them."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = os.fsdecode(file.read()).split("\0")
        return [os.readlink(f"/proc/{pid}/exe"), *(re.sub("[0-9]+", "", word) for word in what_runs(words))]
    except OSError:
        return []


def what_runs(words: list[str]) -> list[str]:
    """Returns the program and what it runs: of Python the code, the module, or the script and its first argument,
    without the interpreter's options; of other programs the first two arguments."""
    if not os.path.basename(words[0]).startswith("python"):
        return words[:3]
    place = 1
    while place < len(words) and words[place].startswith("-") and words[place] != "-":
        option = re.fullmatch("-[^-cmWX]*([cmWX])(.*)", words[place], re.DOTALL)
        if option and option[1] in "cm":
            return [words[0], f"-{option[1]}", option[2] or "".join(words[place + 1:place + 2])]
        place += 2 if option and not option[2] else 1
    return [words[0], *words[place:place + 2]]


def _parent(pid: int) -> int:
    stat = _stat(pid)
    return 0 if stat is None else stat[0]


def _stat(pid: int) -> tuple[int, int] | None:
    """Returns the parent, and when the process was started: fields 4 and 22 of stat (proc(5))."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[1]), int(fields[19])
    except (OSError, IndexError):
        return None


def _environ(pid: int) -> dict[str, str]:
    """Returns the variables that a process was started with; none if they cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = (os.fsdecode(entry).partition("=") for entry in file.read().split(b"\0"))
            return {name: value for name, _, value in entries if name}
    except OSError:
        return {}
