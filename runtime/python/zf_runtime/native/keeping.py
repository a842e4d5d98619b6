"""What is said of an arena that outlives its process: its name, and how long it is kept."""

from __future__ import annotations

import os
from typing import Any

from . import checks

_LONGEST_S = 30 * 24 * 60 * 60


def options(keep: str | None, keep_s: int | None, note_bytes: int) -> dict[str, Any]:
    """Returns the members of zf_options. Raises ValueError if they are wrong."""
    if keep is None:
        if keep_s is not None or note_bytes:
            raise ValueError("keep_s or note_bytes is given without keep")
        return {}
    if not isinstance(keep, str) or "\0" in keep:
        raise ValueError(f"keep is {keep!r}; it must be a name")
    return {"keep": os.fsencode(keep), "keep_s": checks.option("keep_s", keep_s, _LONGEST_S, 0, least=1),
            "note_bytes": checks.integer("note_bytes", note_bytes, checks.UINT64_MAX)}
