"""What our threads beside the job need: a flag to wait for, and to yield to the job's own threads."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import threading
from typing import Callable

FOLLOWER, COPIES, SAVER = OUR_THREADS = "zf-follower", "zf-copies", "zf-saver"  # names
_GETATTR = {"x86_64": 315, "aarch64": 275}  # numbers of the system calls; the one that sets stands before it
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")  # size, policy, flags, nice, priority, runtime ...: see sched_setattr(2)
_SLICE_NS = 50_000_000


class Latch:
    """A flag that is set once. A second set() changes nothing. A signal handler may wait for it in the middle of a
    wait, which threading.Event does not allow: there it would wait for a lock that its own thread holds.

    The lock is closed until the flag is set. Then each waiter that gets it opens it again for the next one. A second
    set() may open it in between, and another waiter may close it and open it, so each release() may find it open.
    No wait is lost: the lock is closed only while a thread is between its acquire() and its _open(), and after any
    _open() it is open, or a later waiter is there that opens it. A thread that an exception takes away from there
    leaves it closed; is_set is true by then, so the others only wait for all of their seconds."""

    def __init__(self) -> None:
        self.is_set = False
        self._closed = threading.Lock()
        self._closed.acquire()

    def set(self) -> None:
        self.is_set = True  # first: a waiter that gets the lock finds it true
        self._open()

    def wait(self, seconds: float) -> bool:
        """Waits for at most so many seconds. Returns whether the flag is set."""
        if not self.is_set and self._closed.acquire(timeout=seconds):
            self._open()
        return self.is_set

    def _open(self) -> None:
        with contextlib.suppress(RuntimeError):  # it is open
            self._closed.release()


def end_from_outside(end: Callable[[], None]) -> None:
    """Calls what ends threads of ours, in a thread of its own if this is one of them, which cannot wait for itself: the
    garbage collector runs on any."""
    if threading.current_thread().name in OUR_THREADS:
        threading.Thread(target=end, name="zf-close").start()
    else:
        end()


def yield_to_the_job() -> None:
    """Makes the calling thread five steps nicer, and gives it a long slice: since Linux 6.12 a thread with a shorter
    one that wakes need not wait until this one's has passed (sched(7); before, the slice changes nothing). Where that
    is refused, everything stays as it is."""
    number = _GETATTR.get(platform.machine())
    if number is None:
        return
    call = ctypes.CDLL(None).syscall
    buffer = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if call(number, 0, buffer, _ATTRIBUTES.size, 0) != 0:
        return
    _, policy, flags, nice, *_ = _ATTRIBUTES.unpack(buffer.raw)
    if policy in (os.SCHED_OTHER, os.SCHED_BATCH):
        wanted = (_ATTRIBUTES.size, policy, flags, min(19, nice + 5), 0, _SLICE_NS, 0, 0)
        call(number - 1, 0, _ATTRIBUTES.pack(*wanted), 0)
