"""Says which state format and which mode the plan is for."""

from __future__ import annotations

import json
import os
import warnings
from typing import Any

from ..errors import ZfError
from ..native.environment import switched_off

MODES = {"off": "wait", "late": "overlap", "exact": "exact",  # of AdamW's overlap, in the words of a plan
         "backward": "wait"}  # on the threads of training

_said: set[str] = set()


def state_format(given: str | None, plan: str | os.PathLike[str] | None = None) -> str:
    """Returns the state format of an optimizer: what its argument gives, else that of the plan, else "fp32".

    plan: the path of the plan; None: that of ZF_PLAN. If argument and plan differ, one warning says so, once."""
    planned = _found(plan, "intent", "state_format", "fp32")
    if given is None:
        return planned or "fp32"
    if planned and planned != given:
        say(f"state={given!r} is used, and the plan is for {planned!r}: make the plan with --state {given}")
    return given


def check_overlap(overlap: str, plan: str | os.PathLike[str] | None = None) -> None:
    """Raises ZfError if there is no such mode. If the plan is for another one, one warning says so, once."""
    if overlap not in MODES:
        raise ZfError(f"overlap is {overlap!r}; it must be \"off\", \"late\", \"exact\" or \"backward\"")
    planned = _found(plan, "workload", "mode", "")
    if planned and planned != MODES[overlap]:
        say(f"overlap={overlap!r} is mode {MODES[overlap]}, and the plan is for mode {planned}: make the plan with "
             f"--mode {MODES[overlap]}")


def is_there(plan: str | os.PathLike[str] | None = None) -> bool:
    """Returns whether there is a plan that can be read."""
    return part(plan, "ranks") is not None


def has_own_pool(plan: str | os.PathLike[str] | None = None) -> bool:
    """Returns whether the plan gives the optimizer CPUs that training does not have."""
    ranks = part(plan, "ranks")
    return isinstance(ranks, list) and any(isinstance(rank, dict) and rank.get("shared") is False for rank in ranks)


def _found(path: str | os.PathLike[str] | None, name: str, field: str, otherwise: str) -> str:
    """Returns a field of a plan, or "": see part()."""
    found = part(path, name)
    value = found.get(field, otherwise) if isinstance(found, dict) else ""
    return value if isinstance(value, str) else ""


def part(path: str | os.PathLike[str] | None, name: str) -> Any:
    """Returns a part of a plan; None: that of ZF_PLAN. Returns None without a plan, and also if it cannot be read: the
    runtime reports that when it opens the plan."""
    path = os.environ.get("ZF_PLAN", "") if path is None else path
    if switched_off() or not os.fspath(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)[name]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def say(line: str) -> None:
    """Warns once in this process."""
    if line not in _said:
        _said.add(line)
        warnings.warn(line, stacklevel=4)
