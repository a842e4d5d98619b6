"""What is said of an arena that outlives its process: its name, and how long it is kept."""

from __future__ import annotations

import os
import sys
from typing import Any

from ..errors import ZfError
from . import checks
from .environment import launched_ranks

_LONGEST_S = 30 * 24 * 60 * 60


def options(keep: str | None, keep_s: int | None, note_bytes: int) -> dict[str, Any]:
    """Returns the members of zf_options. Raises ZfError if this process is one of several ranks."""
    if keep is None:
        if keep_s is not None or note_bytes:
            raise ValueError("keep_s or note_bytes is given without keep")
        return {}
    if not isinstance(keep, str) or "\0" in keep:
        raise ValueError(f"keep is {keep!r}; it must be a name")
    if keep_s is not None and keep_s < 1:
        raise ValueError(f"keep_s is {keep_s}; it must be 1 or more, or None for the default")
    ranks = _ranks()
    if ranks > 1:
        raise ZfError(f"keep={keep!r} with {ranks} ranks: after a death they may come back one step apart, and nothing "
                      "brings them to one step yet. Use checkpoints there")
    return {"keep": os.fsencode(keep), "keep_s": checks.option("keep_s", keep_s, _LONGEST_S, 0),
            "note_bytes": checks.integer("note_bytes", note_bytes, checks.UINT64_MAX)}


def _ranks() -> int:
    """Returns how many ranks the job has, as far as this process is told."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    here = launched_ranks()
    world = os.environ.get("WORLD_SIZE", "").strip()
    return max(here.value if here else 1, int(world) if world.isdigit() else 1)
