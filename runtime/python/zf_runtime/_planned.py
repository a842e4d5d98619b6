"""Says which state format the plan names."""

from __future__ import annotations

import json
import os
import warnings

from ._environment import switched_off

_said: set[str] = set()


def state_format(given: str | None, plan: str | os.PathLike[str] | None = None) -> str:
    """Returns the state format of an optimizer: what its argument gives, else that of the plan, else "fp32".

    plan: the path of the plan; None: that of ZF_PLAN. If argument and plan differ, one warning says so, once."""
    planned = _of_plan(os.environ.get("ZF_PLAN", "") if plan is None else plan)
    if given is None:
        return planned or "fp32"
    if planned and planned != given:
        line = f"state={given!r} is used, and the plan is for {planned!r}: make the plan with --state {given}"
        if line not in _said:
            _said.add(line)
            warnings.warn(line, stacklevel=4)
    return given


def _of_plan(path: str | os.PathLike[str]) -> str:
    """Returns the format that a plan names. Returns "" without a plan, and also if it cannot be read: the runtime
    reports that when it opens the plan."""
    if switched_off() or not os.fspath(path):
        return ""
    try:
        with open(path, encoding="utf-8") as file:
            intent = json.load(file)["intent"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    name = intent.get("state_format", "fp32") if isinstance(intent, dict) else ""
    return name if isinstance(name, str) else ""
