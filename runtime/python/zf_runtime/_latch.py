"""A flag that threads wait for."""

from __future__ import annotations

import contextlib
import threading


class Latch:
    """A flag that is set once. A signal handler may wait for it in the middle of a wait, which threading.Event does not
    allow: there it would wait for a lock that its own thread holds."""

    def __init__(self) -> None:
        self.is_set = False
        self._closed = threading.Lock()
        self._closed.acquire()

    def set(self) -> None:
        self.is_set = True
        with contextlib.suppress(RuntimeError):  # it was set before
            self._closed.release()

    def wait(self, seconds: float) -> bool:
        """Waits for at most so many seconds. Returns whether the flag is set."""
        if not self.is_set and self._closed.acquire(timeout=seconds):
            self._closed.release()  # for the next one
        return self.is_set
