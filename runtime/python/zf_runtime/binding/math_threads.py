"""Sets how many threads the math libraries of this process use, where these have read the variables already, and counts
the CPUs that a parallel region of OpenMP may use, as training uses them: in a forward, and in a backward."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import cpu_lists
from .own_threads import run_apart

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


class Region(NamedTuple):
    """What was counted inside a parallel region."""

    threads: int
    cpus: frozenset[int]  # those that its threads may run on

    def __str__(self) -> str:
        return f"{self.threads} thread{'' if self.threads == 1 else 's'} on {cpu_lists.in_words(self.cpus)}"


class Regions(NamedTuple):
    """Both, or None for one that cannot be counted: without an OpenMP runtime, and without torch."""

    forward: Region | None
    backward: Region | None


def count_regions() -> Regions:
    """Runs parallel regions with as many threads as the calling thread would get, and as torch would. They run in a
    thread of their own; its team of GNU's runtime ends with it: a process that has one, and forks, has children that
    hang in their first region."""
    openmp = _find_openmp()
    torch: Any = sys.modules.get("torch")
    threads = 0 if openmp is None else int(openmp.omp_get_max_threads())

    def count() -> Regions:
        if hasattr(torch, "get_num_threads"):
            torch.get_num_threads()  # gives this thread torch's number
        forward = _region(openmp, threads)
        try:
            return Regions(forward, _backward(openmp, torch))
        except RuntimeError:  # of torch: what it says then belongs to the job's own first backward
            return Regions(forward, None)

    return run_apart(count)


def _region(openmp: Any, threads: int) -> Region | None:
    if openmp is None:
        return None
    masks: dict[int, frozenset[int]] = {}

    def member(_: int | None) -> None:
        masks[threading.get_native_id()] = frozenset(os.sched_getaffinity(0))

    body = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(member)
    openmp.GOMP_parallel(body, None, ctypes.c_uint(threads), ctypes.c_uint(0))
    return Region(len(masks), frozenset().union(*masks.values()))


def _backward(openmp: Any, torch: Any) -> Region | None:
    """Counts in the thread that torch takes for a backward, which is another one on a GPU. No GPU is started for it."""
    if not hasattr(torch, "autograd"):
        return None
    found: list[Region | None] = []
    device = "cuda" if torch.cuda.is_initialized() else "cpu"
    with torch.enable_grad():
        leaf = torch.ones(1, device=device, requires_grad=True)
        product = leaf * 1
        product.register_hook(lambda _: found.append(_region(openmp, 0)))
        product.sum().backward()  # torch.autograd.grad() would import SymPy, which takes 2 s
    return found[0] if found else None


def _find_openmp() -> Any:
    """Returns the runtime that torch's calls reach; None if the process has none. The function that starts a region has
    GNU's name, and LLVM's runtime has it, too."""
    libraries: list[Any] = [ctypes.CDLL(None)]  # a runtime that is visible to all comes first
    with contextlib.suppress(OSError):
        libraries.append(ctypes.CDLL("libtorch_cpu.so", mode=os.RTLD_NOLOAD | os.RTLD_LAZY))
    return next((library for library in libraries
                 if hasattr(library, "GOMP_parallel") and hasattr(library, "omp_get_max_threads")), None)
