"""Sees what is running: a signal handler that calls us does so in the middle of one of our own calls."""

from __future__ import annotations

import sys
from typing import Any


def is_running(method: Any) -> bool:
    """Returns whether this thread is inside a call of a bound method, for the same object."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is method.__func__.__code__ and frame.f_locals.get("self") is method.__self__:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
