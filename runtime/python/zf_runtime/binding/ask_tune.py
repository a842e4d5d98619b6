"""Asks the zf-tune program where this process belongs."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from . import cpu_lists
from .home import Home, parse_home
from .own_threads import run_apart

SCHEMA = "zf-where/1"  # docs/launch.md has its fields
_DEADLINE_S = 60


class NotBound(Exception):
    """Why this process has no home. The text is one sentence."""


class Found(NamedTuple):
    """A home, where it is from, and what the user should know."""

    home: Home
    source: str  # of the rank; empty: the caller's
    plan: str  # a path, or in words
    mems: frozenset[int]  # the nodes that the process should prefer
    variables: Mapping[str, str]  # to be set for this process
    pinning: Sequence[str]  # the variables by which OpenMP pins its threads, "NAME=value"
    notes: Sequence[str]


def find() -> str | None:
    """Returns the path of zf-tune: ZF_TUNE_BINARY, else that of the source tree that contains the package, of its
    prefix, or of PATH. None if there is none."""
    wish = os.environ.get("ZF_TUNE_BINARY")
    if wish:
        return wish
    package = pathlib.Path(__file__).resolve().parents[1]
    places = [os.path.join(sys.prefix, "bin", "zf-tune")]
    if len(package.parents) > 2 and (package.parents[2] / "CMakeLists.txt").exists():
        places.insert(0, str(package.parents[2] / "build" / "bin" / "zf-tune"))
    return next((path for path in places if os.access(path, os.X_OK)), shutil.which("zf-tune"))


def where(options: Sequence[str], variables: Mapping[str, str], cpus: frozenset[int]) -> Found:
    """Returns what `zf-tune where` says for a process with these variables on these CPUs. Raises NotBound with the line
    that it says instead."""
    program = find()
    if program is None:
        raise NotBound("zf-tune, which finds the homes, was not found: install it (docs/install.md), or set "
                       "ZF_TUNE_BINARY")
    done = _run_on(cpus, [program, "where", "--format", "json", *options], variables)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise NotBound(lines[-1].removeprefix("zf-tune: ") if lines else f"{program} ended with {done.returncode}")
    try:
        said = json.loads(done.stdout)
        if said["schema"] != SCHEMA:
            raise NotBound(f"{program} says {said['schema']}, and this package reads {SCHEMA}: install both of one "
                           "version")
        return Found(parse_home(said["set"]["ZF_BINDING"]), said["source"], said["plan"],
                     cpu_lists.parse(said["mems"]), said["set"], said["openmp"], said["notes"])
    except (ValueError, KeyError, TypeError) as error:
        raise NotBound(f"{program} is of another version than this package: {error!r}") from None


def _run_on(cpus: frozenset[int], words: list[str], variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a program from a thread of its own that may run on these CPUs: children inherit that. Masks of others do not
    change."""
    def run() -> subprocess.CompletedProcess[str]:
        os.sched_setaffinity(0, cpus)
        return subprocess.run(words, env=dict(variables), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=_DEADLINE_S, check=False)

    try:
        return run_apart(run)
    except subprocess.TimeoutExpired:
        raise NotBound(f"zf-tune did not end within {_DEADLINE_S} s") from None
    except OSError as error:
        named = f"; ZF_TUNE_BINARY={wish} names it" if (wish := os.environ.get("ZF_TUNE_BINARY")) else ""
        raise NotBound(f"zf-tune cannot be started on {cpu_lists.in_words(cpus)}: {error}{named}") from None
