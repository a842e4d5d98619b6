"""Plans as files: those that are read, and those that every rank of a job makes alike without talking to others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import ask_tune, cpu_lists


class NotBound(Exception):
    """Why this process has no home. The text is one sentence."""


def everything() -> frozenset[int]:
    """Returns all CPUs that the kernel may know. It gives a thread those of them that its cpuset has."""
    try:
        with open("/sys/devices/system/cpu/possible") as file:
            return cpu_lists.parse(file.read())
    except OSError:  # a container without /sys
        return frozenset(range(8192))


def make(path: str, options: list[str], variables: Mapping[str, str], cpus: frozenset[int]) -> dict[str, Any]:
    """Makes a plan for those of these CPUs that this node's job may have. Every rank makes the same one."""
    ask_tune.run("plan", "-q", "-o", path, *options, variables=variables, cpus=cpus)
    return read(path)


def of_class(folder: str, variables: Mapping[str, str]) -> str | None:
    """Returns the path of the plan that zf-tune publish would take for this node; None if there is none. Raises
    TuneError."""
    said = ask_tune.run("publish", "--plans", folder, "--dry-run", variables=variables, cpus=everything())
    return said.removesuffix("\n") or None


def fitted(path: str, variables: Mapping[str, str]) -> dict[str, Any]:
    """Returns a plan with the GPUs that its ranks have on this node, as zf-tune exec fits it; as it stands without
    zf-tune, or if zf-tune refuses: exec then says why."""
    plan = read(path)
    if ask_tune.find() is None:
        return plan
    try:
        return _parsed(path, ask_tune.run("publish", "--plan", path, "--to", "-", variables=variables,
                                          cpus=everything()))
    except ask_tune.TuneError:
        return plan


def read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            return _parsed(path, file.read())
    except (OSError, UnicodeError) as error:
        raise NotBound(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _parsed(path: str, text: str) -> dict[str, Any]:
    try:
        plan = json.loads(text)
        if not isinstance(plan, dict) or not str(plan.get("schema")).startswith("zf-plan/") or not plan["ranks"]:
            raise ValueError("it is not a plan of zf-tune")
    except (ValueError, KeyError) as error:
        raise NotBound(f"{path} cannot be read: {error}") from None
    return plan
