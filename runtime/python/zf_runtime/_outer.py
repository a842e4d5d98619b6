"""What zf-tune exec or bind() has left in the environment: who was bound, by whom, and which CPUs there were before."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import NamedTuple

from . import _cpu_lists, _home, _which_gpus
from ._home import Home
from ._which_rank import Who

# Variables that are set for the processes below.
OURS = ("ZF_BINDING", "ZF_RANK", "ZF_RANK_FROM", "ZF_PLAN", "ZF_OPTIMIZER_CPUS", "ZF_ALLOWED", "ZF_BIND")


class Call(NamedTuple):
    """What bind() has bound a process as; None: it was not known."""

    rank: int | None
    ranks: int | None
    lists: str  # a digest of its lists of GPUs


class Outer(NamedTuple):
    """A process that was bound: this one, or one above it."""

    home: Home
    allowed: frozenset[int] | None  # the CPUs that it might use before; None: not said
    call: Call | None  # of bind(); None: zf-tune exec has bound it


def find(variables: Mapping[str, str]) -> Outer | None:
    """Returns what the environment says; None if nobody was bound, or if that cannot be read."""
    line = variables.get("ZF_BINDING", "")
    try:
        home = _home.parse(line)
        allowed = _cpu_lists.parse(variables.get("ZF_ALLOWED", "")) or None
    except ValueError:
        return None
    return Outer(home, allowed, _call(variables.get("ZF_BIND", ""), line)) if home.is_bound else None


def variables_of_call(who: Who, line: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Returns what find() reads a Call from, after bind() has set ZF_BINDING to the line."""
    rank, ranks = ("" if number is None else str(number) for number in (who.rank, who.ranks))
    return {"ZF_BIND": f"{_digest(line)}:{rank}:{ranks}:{digest_of_lists(variables)}"}


def digest_of_lists(variables: Mapping[str, str]) -> str:
    """Returns a digest of the lists of GPUs; empty if no list has one."""
    lists = [variables.get(name, "") for name in _which_gpus.VISIBLE]
    return _digest("\n".join(lists)) if any(lists) else ""


def _call(text: str, line: str) -> Call | None:
    """Returns None if a zf-tune exec inside has set ZF_BINDING since."""
    words = text.split(":")
    if len(words) != 4 or words[0] != _digest(line):
        return None
    rank, ranks = (int(word) if word.isdigit() else None for word in words[1:3])
    return Call(rank, ranks, words[3])


def _digest(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
