"""Asks the zf-tune program what only it knows: the class of this machine, where GPUs are, and how a plan is fitted."""

from __future__ import annotations

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

from . import memory
from .thread_counts import PINNING

_DEADLINE_S = 60


class TuneError(Exception):
    """zf-tune was not found, or it refused. The text is one line."""


class Launch(NamedTuple):
    """What zf-tune exec would do."""

    variables: dict[str, str]
    notes: list[str]


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


def run(*words: str, variables: Mapping[str, str], cpus: frozenset[int]) -> str:
    """Runs zf-tune on these CPUs, and returns what it prints. Raises TuneError with the line that it says instead."""
    program = find()
    if program is None:
        raise TuneError("zf-tune was not found: install it (docs/install.md), or set ZF_TUNE_BINARY")
    done = _on(cpus, lambda: subprocess.run([program, *words], env=dict(variables), stdin=subprocess.DEVNULL,
                                            capture_output=True, text=True, timeout=_DEADLINE_S, check=False))
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        said = lines[-1] if lines else f"it ended with {done.returncode} and said nothing"
        raise TuneError(f"{said if said.startswith('zf-tune') else f'zf-tune {words[0]}: {said}'}")
    return done.stdout


def launch(plan: str, rank: int | None, variables: Mapping[str, str], cpus: frozenset[int],
           are_jobs: bool = False) -> Launch:
    """Returns what `zf-tune exec --plan` would do on these CPUs. `rank` None: the variables say it. `are_jobs`: all
    ranks have them, which exec need not find out."""
    options = [] if rank is None else ["--rank", str(rank)]
    options += ["--cpus", "job"] if are_jobs else []
    # A preference that zf-tune exec or bind() has set is not others', and the variables that would tell are not passed.
    is_ours = memory.has_policy() and not memory.is_given_by_others(os.environ.get("ZF_BINDING", ""))
    options += ["--memory-policy", "plan"] if is_ours else []
    variables = {name: value for name, value in variables.items() if name not in PINNING}  # bind() reports them
    said = run("exec", "--plan", plan, *options, "--dry-run", "--", "true", variables=variables, cpus=cpus)
    found = Launch({}, [])
    for line in said.splitlines():
        if line.startswith("export "):
            name, _, value = shlex.split(line)[1].partition("=")
            found.variables[name] = value
        elif line.startswith("# ") and not line.startswith(("# rank ", "# memory: ")):
            note, _, _ = line[2:].removeprefix("warning: ").partition("; --memory-policy")  # bind() has no options
            found.notes.append(note)
    return found


def _on(cpus: frozenset[int], call: Callable[[], subprocess.CompletedProcess[str]]) -> subprocess.CompletedProcess[str]:
    """Calls a function in a thread of its own that may run on these CPUs: children inherit that. Masks of others do not
    change."""
    done: list[subprocess.CompletedProcess[str]] = []
    why: list[str] = []

    def main() -> None:
        try:
            os.sched_setaffinity(0, cpus)
        except OSError as error:
            why.append(f"the CPUs of a thread cannot be set here: {error.strerror}")
            return
        try:
            done.append(call())
        except subprocess.TimeoutExpired:
            why.append(f"zf-tune did not end within {_DEADLINE_S} s")
        except OSError as error:
            why.append(f"zf-tune cannot be started: {error}")

    thread = threading.Thread(target=main, name="zf-bind")
    thread.start()
    thread.join()
    if why or not done:
        raise TuneError(why[0] if why else "zf-tune was not run")
    return done[0]
