"""Measures two things more: how long a backward takes with one thread and with all of them, and how many kernels some
training steps launch.

The first says how much of a backward is parallel work. It runs the backward again, into gradients that are thrown
away. CPU times of threads do not say it: threads of OpenMP that have nothing to do spin, and use as much CPU time as
those that work.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

from .workload import Replay


def openmp() -> Any:
    """Returns the OpenMP runtime that this process has loaded, or None if there is none or if there are several. The
    number of threads that omp_set_num_threads() sets is the calling thread's alone, so setting it back leaves nothing
    behind. torch.set_num_threads() would."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        paths = {line.rstrip("\n")[line.index("/"):] for line in maps if "/" in line}
    found = [path for path in paths if path.rsplit("/", 1)[-1].startswith(("libgomp", "libiomp", "libomp"))]
    return ctypes.CDLL(found[0]) if len(found) == 1 else None


def noticing_functions() -> list[tuple[Any, str]]:
    """Returns the owners and names of functions by which a job notices a backward that runs twice: they
    hook tensors that are no leaves, or (as checkpoints do) what the graph saves."""
    import torch

    graph = getattr(torch.autograd, "graph", None)
    found = [(torch.Tensor, "register_hook"), (torch.Tensor, "retain_grad"),
             (getattr(graph, "saved_tensors_hooks", None), "__enter__")]
    return [(owner, name) for owner, name in found if hasattr(owner, name)]


def leaves_of(tensors: list[Any]) -> list[Any]:
    """Returns the tensors that a backward would give gradients to. Returns an empty list if it must not run twice,
    because the job would notice: by a hook on a leaf, or by an autograd function of the job's own."""
    from torch.autograd.function import BackwardCFunction

    leaves, seen = [], set()
    nodes = [tensor.grad_fn for tensor in tensors]
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, BackwardCFunction):
            return []
        variable = getattr(node, "variable", None)
        if variable is not None:
            if getattr(variable, "_backward_hooks", None):
                return []
            leaves.append(variable)
        nodes += [following for following, _ in node.next_functions]
    return leaves


def replay(library: Any, threads: int, tensors: list[Any], gradients: Any) -> Replay | None:
    """Returns the times of a backward with one thread and with all of them. The graph and the gradients stay as they
    are. Returns None if it cannot be replayed."""
    import torch

    leaves = leaves_of(tensors)
    if not leaves:
        return None

    def took(count: int) -> int:
        library.omp_set_num_threads(count)
        try:
            begin_ns = time.perf_counter_ns()
            torch.autograd.grad(tensors, leaves, gradients, retain_graph=True, allow_unused=True)
            return time.perf_counter_ns() - begin_ns
        finally:
            library.omp_set_num_threads(threads)

    try:
        return Replay(took(1), took(threads))
    except RuntimeError:  # something in the graph refuses this (checkpoints)
        return None


class KernelCount:
    """Counts the kernels from start() to stop(): those of all training steps between them. Does nothing if there is no
    CUDA, or if the job profiles."""

    def __init__(self) -> None:
        self._profiler: Any = None
        self.kernels = 0
        self.kernel_ns = 0

    @property
    def counting(self) -> bool:
        """Returns whether the count is under way."""
        return self._profiler is not None

    def start(self) -> None:
        import torch

        if not torch.cuda.is_initialized():
            return
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
        try:
            profiler.start()
            self._profiler = profiler
        except RuntimeError:  # the job profiles
            pass

    def stop(self) -> None:
        """Ends the profile and counts. Copies and fills are no kernels."""
        if self._profiler is None:
            return
        import torch

        torch.cuda.synchronize()
        self._profiler.stop()
        events = [event for event in self._profiler.events()
                  if event.device_type == torch.autograd.DeviceType.CUDA and not event.name.startswith("Mem")]
        self._profiler = None
        self.kernels = len(events)
        self.kernel_ns = round(sum(event.time_range.elapsed_us() for event in events) * 1000)
