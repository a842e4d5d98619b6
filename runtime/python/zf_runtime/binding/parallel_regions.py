"""Counts the CPUs that a parallel region of OpenMP may use, as training uses them: in a forward, and in a backward."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from typing import Any, NamedTuple

from . import cpu_lists
from .own_threads import run_apart


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


def count() -> Regions:
    """Runs parallel regions with as many threads as the calling thread would get, and as torch would. They run in a
    thread of their own; its team of GNU's runtime ends with it: a process that has one, and forks, has children that
    hang in their first region."""
    openmp = _find_openmp()
    torch: Any = sys.modules.get("torch")
    threads = 0 if openmp is None else int(openmp.omp_get_max_threads())
    found: list[Regions] = []

    def main() -> None:
        if hasattr(torch, "get_num_threads"):
            torch.get_num_threads()  # gives this thread torch's number
        forward = _region(openmp, threads)
        try:
            found.append(Regions(forward, _backward(openmp, torch)))
        except RuntimeError:  # of torch: what it says then belongs to the job's own first backward
            found.append(Regions(forward, None))

    run_apart(main)
    return found[0] if found else Regions(None, None)


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
