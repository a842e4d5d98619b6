"""How many threads the math libraries of this process use: the user's number, or else the plan's. The rule is that of
zf-tune exec (tuner/launch/thread_counts.hpp); a test compares both."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# By these OpenMP pins its threads.
PINNING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
# KMP_AFFINITY is a type, and modifiers and numbers around it. Without a type, or with one of these, it pins nothing.
_KMP_TYPES_OFF = ("none", "disabled")
_KMP_MODIFIERS = ("verbose", "noverbose", "warnings", "nowarnings", "respect", "norespect", "reset", "noreset", "fine",
                  "granularity=")

_MAX_CPU = 65535

# The libraries that may have read a variable already, by the beginning of their file's name: the variable, and the
# functions that set the number and return it.
_OPENMP = ("OMP_NUM_THREADS", "omp_set_num_threads", "omp_get_max_threads")
_CALLS = {"libgomp": _OPENMP, "libomp": _OPENMP, "libiomp": _OPENMP,
          "libmkl_rt": ("MKL_NUM_THREADS", "MKL_Set_Num_Threads", "MKL_Get_Max_Threads"),
          "libopenblas": ("OPENBLAS_NUM_THREADS", "openblas_set_num_threads", "openblas_get_num_threads"),
          "libscipy_openblas": ("OPENBLAS_NUM_THREADS", "scipy_openblas_set_num_threads",
                                "scipy_openblas_get_num_threads")}


class Counts(NamedTuple):
    """The numbers to set, and what the user should know."""

    set: dict[str, str]
    note: str


def pinning_in(variables: Mapping[str, str], home: frozenset[int] = frozenset()) -> list[str]:
    """Returns a sentence for each variable by which OpenMP pins its threads. The rule is that of zf-tune exec
    (runtime/launchers/openmp_variables.hpp): OMP_PROC_BIND=false overrules all but Intel's, and one place pins no
    thread within it. If the home is known, the place must hold it."""
    bind, places = variables.get("OMP_PROC_BIND", ""), variables.get("OMP_PLACES", "").strip()
    is_off = bind.strip().lower() == "false"
    place = _single_place(places)
    is_one_place = place is not None and home <= place
    found = ["KMP_AFFINITY"] if _kmp_pins(variables.get("KMP_AFFINITY", "")) else []
    if variables.get("GOMP_CPU_AFFINITY") and not is_off:
        found.append("GOMP_CPU_AFFINITY")
    if (bind or places) and not is_off and not is_one_place:
        found.append("OMP_PROC_BIND" if bind else "OMP_PLACES")
    return [f"{name}={variables[name]} is set: OpenMP pins its threads one by one, and may undo this binding; unset it"
            for name in found]


def _single_place(places: str) -> frozenset[int] | None:
    """Returns the CPUs of "{0:4,8}"; None if there are several places, or one by another name."""
    text = "".join(places.split())
    if not text.startswith("{") or text.find("}") != len(text) - 1:
        return None
    cpus: set[int] = set()
    for interval in text[1:-1].split(","):
        words = interval.split(":")
        if len(words) > 3 or not all(word.isascii() and word.isdigit() and int(word) <= _MAX_CPU for word in words):
            return None
        first, count, stride = map(int, [*words, *("0", "1", "1")[len(words):]])
        cpus.update(range(first, min(first + count * max(stride, 1), _MAX_CPU + 1), max(stride, 1)))
    return frozenset(cpus)


def _kmp_pins(affinity: str) -> bool:
    words = [word.strip() for word in affinity.lower().split(",")]
    return any(word and not word.isdigit() and word not in _KMP_TYPES_OFF and not word.startswith(_KMP_MODIFIERS)
               for word in words)


def counts_for(planned: int, by_outer: str, variables: Mapping[str, str],
               by_launcher: tuple[str, str] | None) -> Counts:
    """Returns the numbers of threads where the plan has `planned`. What the user has set stays, and holds for variables
    that are not set. These do not count as the user's: an empty value, the number `by_outer` that an outer zf-tune exec
    has set (empty: none), and the OMP_NUM_THREADS that a launcher sets by itself (its name and the number)."""
    users, unset, replaced = {}, [], False
    for name in VARIABLES:
        value = variables.get(name, "")
        is_launchers = by_launcher is not None and name == "OMP_NUM_THREADS" and value == by_launcher[1]
        replaced = replaced or is_launchers
        if value in ("", by_outer) or is_launchers:
            unset.append(name)
        else:
            users[name] = value
    first = next((value.partition(",")[0] for value in users.values()), str(planned))
    notes = []
    if replaced and by_launcher is not None and (users or str(planned) != by_launcher[1]):
        notes.append(f"OMP_NUM_THREADS={by_launcher[1]} is taken to be {by_launcher[0]}'s")
    if any(value.partition(",")[0] != str(planned) for value in users.values()):
        kept = " and ".join(f"{name}={value}" for name, value in users.items())
        notes.append(f"{kept} {'is' if len(users) == 1 else 'are'} set already and kept; the plan has {planned}")
    return Counts(dict.fromkeys(unset, first), "; ".join(notes))


def launchers_own(variables: Mapping[str, str], rays: str | None) -> tuple[str, str] | None:
    """Returns the launcher that sets OMP_NUM_THREADS by itself, and its number; None if there is none. `rays`: Ray's
    number, in a worker of Ray that got OMP_NUM_THREADS after its start."""
    if variables.get("TORCHELASTIC_RUN_ID"):
        return "torchrun", "1"
    return None if rays is None else ("Ray", rays)


def apply(variables: Mapping[str, str]) -> dict[str, int]:
    """Sets the numbers of libraries that have read their variables already. Returns what torch and each other library
    that could be asked has now."""
    threads = {name: int(first) for name in VARIABLES
               for first in [variables.get(name, "").partition(",")[0]] if first.isdigit() and int(first) > 0}
    has: dict[str, int] = {}
    torch: Any = sys.modules.get("torch")
    of_torch = threads.get("MKL_NUM_THREADS", threads.get("OMP_NUM_THREADS"))
    if of_torch is not None and hasattr(torch, "set_num_threads"):  # first: it tells its own threads, too
        torch.set_num_threads(of_torch)
    for path in _loaded():
        name = path.rpartition("/")[2]
        beginning = next(beginning for beginning in _CALLS if name.startswith(beginning))
        variable, setter, getter = _CALLS[beginning]
        number = threads.get(variable, threads.get("OMP_NUM_THREADS"))
        found = None if number is None else _call(path, setter, getter, number)
        if found is not None:
            has[name.partition(".so")[0]] = found
    if hasattr(torch, "get_num_threads"):
        has["torch"] = int(torch.get_num_threads())
    return has


def _call(path: str, setter: str, getter: str, number: int) -> int | None:
    """Sets the number in a library, and returns what the library then says; None if it cannot be asked."""
    try:
        library: Any = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return None
    for suffix in ("", "64_"):  # numpy's OpenBLAS with numbers of 64 bits has names of its own
        if hasattr(library, setter + suffix) and hasattr(library, getter + suffix):
            getattr(library, setter + suffix)(ctypes.c_int(number))
            return int(getattr(library, getter + suffix)())
    return None


def _loaded() -> list[str]:
    """Returns the paths of the libraries of _CALLS that this process has loaded."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            paths = {line.rstrip("\n")[line.index("/"):] for line in maps if "/" in line}
    except OSError:
        return []
    return sorted(path for path in paths if path.rpartition("/")[2].startswith(tuple(_CALLS)))
