"""Sets how many threads the math libraries of this process use, where these have read the variables already."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from typing import Any

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# By these OpenMP pins its threads.
PINNING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")

# The libraries that may have read a variable already, by the beginning of their file's name: the variable, and the
# functions that set the number and return it.
_OPENMP = ("OMP_NUM_THREADS", "omp_set_num_threads", "omp_get_max_threads")
_CALLS = {"libgomp": _OPENMP, "libomp": _OPENMP, "libiomp": _OPENMP,
          "libmkl_rt": ("MKL_NUM_THREADS", "MKL_Set_Num_Threads", "MKL_Get_Max_Threads"),
          "libopenblas": ("OPENBLAS_NUM_THREADS", "openblas_set_num_threads", "openblas_get_num_threads"),
          "libscipy_openblas": ("OPENBLAS_NUM_THREADS", "scipy_openblas_set_num_threads",
                                "scipy_openblas_get_num_threads")}


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
