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


def read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            plan = json.load(file)
        if not isinstance(plan, dict) or not str(plan.get("schema")).startswith("zf-plan/") or not plan["ranks"]:
            raise ValueError("it is not a plan of zf-tune")
    except (OSError, ValueError, KeyError) as error:
        raise NotBound(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return plan
