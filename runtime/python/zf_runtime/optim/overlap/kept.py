"""What a step notes beside it in the arena: how often each parameter was stepped, and the program's own bytes."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from ...errors import ZfError, ZfStateError
from ..tensors.engine import Kept

NOTE_BYTES = 1 << 16  # of the program, unless it says otherwise
_HEAD = struct.Struct("<Q16sQII")  # bytes of the program, digest_of(), number of the step, rank and ranks


def keep_name(keep: str | None, overlap: str) -> str | None:
    """Returns the name to keep an arena under: that of the argument, else of ZF_KEEP. Raises ZfError if the mode has
    nothing that can be kept."""
    name = os.environ.get("ZF_KEEP") or None if keep is None else keep
    if name is None or overlap in ("off", "exact"):
        return name
    why = ("steps in place: the memory is the job's own, and ends with it" if overlap == "backward" else
           "gives the model parameters that are one step older than what is kept")
    given = f"ZF_KEEP={name}" if keep is None else f"keep={name!r}"
    raise ZfError(f"{given} with overlap={overlap!r}, which {why}: use overlap=\"exact\" or \"off\"")


def digest_of(kinds: Iterable[Any]) -> bytes:
    """Returns a digest of shapes and types: another model's parameters may have as many elements."""
    return hashlib.sha256(repr(list(kinds)).encode()).digest()[:16]


class Owner(NamedTuple):
    """What a note belongs to."""

    model: bytes  #: digest_of() its parameters
    rank: int = 0
    ranks: int = 1


def noted(counts: torch.Tensor, note: bytes, step: int, owner: Owner) -> bytes:
    """Returns the note of a step. step: counted in this memory."""
    numbers: bytes = counts.numpy().tobytes()
    return _HEAD.pack(len(note), owner.model, step, owner.rank, owner.ranks) + numbers + note


def step_of(noted_step: tuple[int, bytes] | None) -> int:
    """Returns the step of a note; 0 if there is none."""
    return 0 if noted_step is None else int(_HEAD.unpack_from(noted_step[1])[2])


def size_of(parameters: int, note_bytes: int) -> int:
    """Returns the room that noted() needs."""
    return _HEAD.size + 4 * parameters + note_bytes


def check(raw: bytes, owner: Owner) -> None:
    """Raises ZfStateError if a note is of another model or rank."""
    _, model, _, rank, ranks = _HEAD.unpack_from(raw)
    free = "or end this program and free it with: zf-tune kept --drop NAME"
    if model != owner.model:
        raise ZfStateError("what is kept is of a model with parameters of other shapes: make the same model, " + free,
                           "ZF_ERROR_STATE")
    if (rank, ranks) != (owner.rank, owner.ranks):
        raise ZfStateError(f"what is kept here is that of rank {rank} of {ranks}, and this is rank {owner.rank} of "
                           f"{owner.ranks}: start the same ranks on the same nodes, {free}", "ZF_ERROR_STATE")


def take(raw: bytes, counts: torch.Tensor) -> Kept:
    """Fills `counts` from a note, and returns what is there for the program."""
    length = _HEAD.unpack_from(raw)[0]
    begin = _HEAD.size + 4 * len(counts)
    counts.copy_(torch.frombuffer(bytearray(raw[_HEAD.size:begin]), dtype=torch.float32))
    return Kept(int(counts.max()), bytes(raw[begin:begin + length]))
