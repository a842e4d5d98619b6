"""Owns one zf_runtime handle, reads its statistics, and keeps its memory as long as a view of it exists.

zf_close unmaps the arena, and the next use of a NumPy or torch view of unmapped memory would crash the process.
Therefore every view holds the handle: the optimizer process ends at close(), and the memory is freed with the last
view.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from ..errors import ZfError
from . import abi
from .library import check, library


@dataclasses.dataclass(frozen=True)
class Stats:
    """One reading of a runtime's statistics. Times are in nanoseconds, sizes in bytes."""

    worker_pid: int
    worker_alive: bool
    threads: int  #: threads of the pool
    arena_bytes: int
    submitted: int  #: groups submitted, over all submissions
    completed: int  #: groups stepped
    batches: int  #: how often all threads were started together
    last_step_ns: int  #: of one such batch
    total_step_ns: int
    start_ns: int  #: time that the optimizer took to become ready
    isa: str  #: "avx512"
    memory_note: str  #: what the machine refused (a memory policy, huge pages, locking); "" if nothing
    restarts: int  #: how often the optimizer was restarted after its death
    last_death: str  #: why it died the last time; "" if it never did
    pages_on_plan: int  #: of the pages that move_pages checked, those on the plan's memory nodes
    pages_elsewhere: int
    pages_absent: int
    huge_bytes: int  #: of the arrays, in huge pages
    locked_bytes: int
    degraded: int  #: planned CPUs of the pool that had left when the optimizer was started
    cpu_note: str  #: which they are, and where the pool's threads run; "" if none has left
    narrow_note: str  #: why a thread of this process may still have the whole home; "" if none has
    narrowed_threads: int  #: threads of this process that got (or share) the training CPUs when it was opened
    home_threads: int  #: the right number of threads on the whole home; 0 if ZF_BINDING did not tell
    training_threads: int  #: the same on the training CPUs
    was_kept: bool  #: whether it was opened over the arena of a process that had ended (keep=)
    keep_note: str  #: why nothing was kept, or is; "" if all is well


def stats_of(raw: abi.Stats) -> Stats:
    """Returns the reading that a struct of the C ABI holds."""
    read: dict[Any, Callable[[Any], Any]] = {
        "int": int, "bool": bool, "str": functools.partial(bytes.decode, errors="replace")}
    return Stats(**{field.name: read[field.type](getattr(raw, field.name)) for field in dataclasses.fields(Stats)})


class TorchThreads:
    """Torch's number of threads before the first open runtime changed it. There is one for the process, because the
    runtimes may be closed in any order. Does nothing if torch is not imported."""

    def __init__(self) -> None:
        self._before: int | None = None  # None: nothing was changed
        self._ours = 0
        self._sharing = 0  # open runtimes of follow() that returned True

    def follow(self, stats: Stats, cpus_before: set[int]) -> bool:
        """Gives torch as many threads as training has, if the process was narrowed and torch still has the number that
        `zf-tune exec` set for the whole home. Another number was chosen by the user, and stays. `cpus_before`: those of
        the calling thread before the runtime was opened. Returns whether training keeps all CPUs of the home, and only
        threads are divided, because neighbours share the CPUs."""
        shares = stats.narrowed_threads > 0 and os.sched_getaffinity(0) == cpus_before
        self._sharing += shares
        torch = sys.modules.get("torch")
        if torch is not None and stats.narrowed_threads > 0 and torch.get_num_threads() == stats.home_threads:
            self._before, self._ours = stats.home_threads, stats.training_threads
            torch.set_num_threads(self._ours)
        return shares

    def go_back(self, cpus_before: set[int], shares: bool) -> None:
        """Takes that back after a close, unless the number was changed since. Does nothing while another runtime
        keeps the process narrow: the close of that one takes it back. `cpus_before`: those of the calling thread before
        the close, which then still has them. `shares`: what follow() returned for this runtime."""
        self._sharing -= shares
        torch = sys.modules.get("torch")
        is_narrow = self._sharing > 0 if shares else os.sched_getaffinity(0) == cpus_before
        if self._before is None or torch is None or is_narrow:
            return
        if torch.get_num_threads() == self._ours:
            torch.set_num_threads(self._before)
        self._before = None


torch_threads = TorchThreads()


class Handle:
    """The memory and the end of an opened runtime: what Runtime inherits."""

    def __init__(self, options: abi.Options, groups: ctypes.Array[abi.Group]):
        self._library = library()  # first: __del__ needs it
        self._lock = threading.RLock()  # a finalizer may run inside any of our own calls
        self._pointer: ctypes.c_void_p | None = ctypes.c_void_p()
        self._buffers = 0  # memory objects that are alive
        self._closing = False
        self._keeps = bool(options.keep)  # the memory may outlive the process
        self._shares_cpus = False  # see TorchThreads.follow()
        self._owner = os.getpid()
        cpus = os.sched_getaffinity(0)
        try:
            check(self._library.zf_open(ctypes.byref(options), groups, len(groups), ctypes.byref(self._pointer)))
        except ZfError:
            self._pointer = None
            raise
        self._shares_cpus = torch_threads.follow(self.stats(), cpus)

    @property
    def _open_pointer(self) -> ctypes.c_void_p:
        """The pointer for a call into the library. Raises ZfError after close()."""
        if self._closing or self._pointer is None:
            raise ZfError("the runtime is closed")
        return self._pointer

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closing

    @property
    def forked(self) -> bool:
        """Whether this process is a forked child of the one that opened the runtime. Such a child must not use it."""
        return os.getpid() != self._owner

    def save_end(self) -> None:
        """Lets the next copy have the memory of this one, if there is one. A process that still copies has
        close_timeout to stop. Until it answers, save_begin() and export_begin() raise ZfBusy."""
        if self.forked:
            return
        with self._lock:
            if self._pointer is not None:
                self._library.zf_save_end(self._pointer)

    def _memory(self, function: Any, pointer: ctypes.c_void_p, group: int,
                kind: int) -> ctypes.Array[ctypes.c_char]:
        """Returns the bytes of an array, by zf_buffer or zf_saved, as a buffer that keeps the memory alive."""
        address, size = ctypes.c_void_p(), ctypes.c_size_t()
        check(function(pointer, group, kind, ctypes.byref(address), ctypes.byref(size)))
        assert address.value is not None  # not even for an array without elements
        buffer = (ctypes.c_char * size.value).from_address(address.value)
        with self._lock:
            self._buffers += 1
        # The callback holds the handle, so the handle lives at least as long as the buffer.
        weakref.finalize(buffer, self._release).atexit = False
        return buffer

    def stats(self) -> Stats:
        """Returns a reading. Works also after the optimizer has died, and after close() while views exist."""
        raw = abi.sized(abi.Stats)
        check(self._library.zf_get_stats(self._any_pointer(), ctypes.byref(raw)))
        return stats_of(raw)

    def close(self) -> None:
        """Finishes what is submitted and ends the process. The memory is freed now, or with the last view. The second
        call does nothing.

        Raises ZfTimeout if the process had not finished within close_timeout and was killed, and ZfWorkerDied if it
        had died before. The runtime is closed in all cases. In a forked child it only refuses further calls: process
        and memory belong to the parent."""
        if self.forked:  # without the lock, which a thread that the child lacks may have held
            self._closing = True
            return
        with self._lock:
            if self._closing:
                return
            self._closing = True
            cpus = os.sched_getaffinity(0)
            try:
                if self._buffers == 0:
                    self._free()
                else:
                    check(self._library.zf_end(self._pointer))
            finally:
                torch_threads.go_back(cpus, self._shares_cpus)

    def _any_pointer(self) -> ctypes.c_void_p:
        if self._pointer is None:
            raise ZfError("the runtime is closed, and its memory is freed")
        return self._pointer

    def _release(self) -> None:
        if self.forked:  # the memory is the parent's, and the lock may be held for ever
            return
        with self._lock:
            self._buffers -= 1
            if self._buffers == 0 and self._closing and self._pointer is not None:
                self._library.zf_close(self._pointer)  # close() has already reported its result
                self._pointer = None

    def _free(self) -> None:
        pointer, self._pointer = self._pointer, None
        check(self._library.zf_close(pointer))

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) is None or self.forked:
            return
        if not self._keeps:  # else close() alone frees it: who has caught an exception has not called that
            self._library.zf_close(self._pointer)
