"""Ends the optimizer process with DeepSpeed's engine."""

from __future__ import annotations

import functools
from typing import Any

from ._arena import FlatArena


def close_with(zero: Any, arena: FlatArena) -> None:
    """Ends the optimizer process when the engine is destroyed."""
    destroy = getattr(zero, "destroy", None)
    if destroy is None:
        return

    @functools.wraps(destroy)
    def destroy_and_close(*args: Any, **keywords: Any) -> Any:
        try:
            return destroy(*args, **keywords)
        finally:
            arena.close()

    zero.destroy = destroy_and_close
