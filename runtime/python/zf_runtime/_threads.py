"""Adapts the number of torch's threads when the runtime narrows the process to the training CPUs."""

from __future__ import annotations

import os
import sys

from .stats import Stats


class TorchThreads:
    """Torch's number of threads before the first open runtime changed it. There is one for the process, because the
    runtimes may be closed in any order. Does nothing if torch is not imported."""

    def __init__(self) -> None:
        self._before: int | None = None  # None: nothing was changed
        self._ours = 0

    def follow(self, stats: Stats) -> None:
        """Gives torch as many threads as training has CPUs, if the process was narrowed and torch still has the number
        that `zf-tune exec` set for the whole home. Another number was chosen by somebody, and stays."""
        torch = sys.modules.get("torch")
        if torch is None or stats.narrowed_threads == 0 or torch.get_num_threads() != stats.home_threads:
            return
        self._before, self._ours = stats.home_threads, stats.training_threads
        torch.set_num_threads(self._ours)

    def go_back(self, cpus_before: set[int]) -> None:
        """Takes that back after a close, unless somebody changed the number since. Does nothing if the calling thread
        still has the CPUs that it had before the close: then another runtime keeps the process narrow, and the close
        of that one takes it back."""
        torch = sys.modules.get("torch")
        if self._before is None or torch is None or os.sched_getaffinity(0) == cpus_before:
            return
        if torch.get_num_threads() == self._ours:
            torch.set_num_threads(self._before)
        self._before = None


torch_threads = TorchThreads()
