"""Which CPUs the bound processes of this user have on this node: each claims its own in a file, so no two ranks have
the same ones. A claim is its process's, not its children's, and lasts as long as that runs, also over exec."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import stat
import time
from collections.abc import Iterator

from . import cpu_lists
from .own_threads import stat_of

# A rank that was started again waits so long for the one before to end.
_WAITS_S = 5.0
_LOOKS_EVERY_S = 0.01


class Claimed(Exception):
    """Another process has some of the CPUs. The text is one sentence."""


def take(cpus: frozenset[int], is_inside: bool) -> str:
    """Claims CPUs for this process, instead of those that it has claimed before. Returns why no claim can be made;
    empty if it was. `is_inside`: these CPUs are a part of what an ancestor has. Raises Claimed."""
    until = time.monotonic() + _WAITS_S
    try:
        folder = _folder()
        while refusal := _refusal(folder, cpus, is_inside):
            if time.monotonic() > until:
                raise Claimed(refusal)
            time.sleep(_LOOKS_EVERY_S)
    except OSError as error:
        return (f"which CPUs other ranks have is not known: {error.filename or 'the folder of claims'}: "
                f"{error.strerror or error}; set ZF_CLAIMS to a folder of your own on this node")
    return ""


def _refusal(folder: str, cpus: frozenset[int], is_inside: bool) -> str:
    """Claims CPUs, or returns which process has them, or the lock. The lock is held for the moment of a look, by one
    thread of one process."""
    with open(os.path.join(folder, "lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return f"{folder}/lock is held by another process for {_WAITS_S:.0f} s: end it"
        try:
            for pid, its_cpus in _others(folder, _ancestors() if is_inside else set()):
                if its_cpus & cpus:
                    return (f"{cpu_lists.in_words(cpus)} would be this rank's, and process {pid} ({_command(pid)}) has "
                            f"bound itself to {cpu_lists.in_words(its_cpus)}: end it, or give each job CPUs or GPUs of "
                            "its own (taskset, CUDA_VISIBLE_DEVICES); jobs that may share CPUs get a folder each "
                            "(ZF_CLAIMS)")
            with open(os.path.join(folder, _name(os.getpid())), "w") as file:
                file.write(cpu_lists.text_of(cpus))
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # a child that was forked meanwhile keeps the file open
    return ""


def give_back() -> None:
    """Removes the claim of this process, if it has one."""
    with contextlib.suppress(OSError):
        os.remove(os.path.join(_folder(), _name(os.getpid())))


def _folder() -> str:
    """Returns the folder of this user's claims. Others must not be able to write there: what they claim, or lock, is no
    answer."""
    folder = os.environ.get("ZF_CLAIMS") or f"/dev/shm/zf-claims-{os.geteuid()}"
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "this is no folder", folder)
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PermissionError(1, "others may write there", folder)
    return folder


def _others(folder: str, ancestors: set[int]) -> Iterator[tuple[int, frozenset[int]]]:
    """Yields the claims of other processes than ancestors. Removes those of processes that have ended."""
    space = _space()
    for name in sorted(os.listdir(folder)):
        its_space, _, process = name.partition("-")
        pid = process.partition("-")[0]
        if its_space != space or not pid.isdigit():
            continue  # of another node or PID namespace, where it cannot be told whether a process runs
        path = os.path.join(folder, name)
        with contextlib.suppress(FileNotFoundError):  # its process has given it back meanwhile
            if name != _name(int(pid)):
                os.remove(path)
            elif int(pid) != os.getpid() and int(pid) not in ancestors:
                with open(path) as file:
                    yield int(pid), cpu_lists.parse(file.read())


def _name(pid: int) -> str:
    """Returns the name of a process's claim, which no other process ever has; empty if the process has ended."""
    fields = _stat(pid)
    return "" if not fields or fields[0] in ("Z", "X") else f"{_space()}-{pid}-{fields[19]}"


@functools.cache
def _boot() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip().replace("-", "")


def _space() -> str:
    """Returns what tells PID namespaces apart, also those of two nodes: the first one has the same number on all."""
    return f"{_boot()}.{os.stat('/proc/self/ns/pid').st_ino}"


def _ancestors() -> set[int]:
    found: set[int] = set()
    fields = _stat(os.getpid())
    while fields and int(fields[1]) and int(fields[1]) not in found:
        found.add(int(fields[1]))
        fields = _stat(int(fields[1]))
    return found


def _stat(pid: int) -> list[str]:
    """Returns the fields of stat as stat_of() does; none if there is no such process."""
    try:
        return stat_of(str(pid))
    except OSError:
        return []


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return " ".join(os.fsdecode(file.read()).replace("\0", " ").split())[:60]
    except OSError:
        return "it has just ended"
