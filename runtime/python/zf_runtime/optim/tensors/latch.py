"""A flag that threads wait for."""

from __future__ import annotations

import contextlib
import threading


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
