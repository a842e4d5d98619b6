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
        self._sharing = 0  # open runtimes of follow() that returned True

    def follow(self, stats: Stats, cpus_before: set[int]) -> bool:
        """Gives torch as many threads as training has, if the process was narrowed and torch still has the number that
        `zf-tune exec` set for the whole home. Another number was chosen by the user, and stays. `cpus_before`: those of
        the calling thread before the runtime was opened. Returns whether training keeps all CPUs of the home, and only
        threads are divided, because neighbours share the CPUs."""
        shares = stats.narrowed_threads > 0 and os.sched_getaffinity(0) == cpus_before
        self._sharing += shares
        torch = sys.modules.get("torch")
        if torch is not None and stats.narrowed_threads > 0 and torch.get_num_threads() == stats.home_threads:
            self._before, self._ours = stats.home_threads, stats.training_threads
            torch.set_num_threads(self._ours)
        return shares

    def go_back(self, cpus_before: set[int], shares: bool) -> None:
        """Takes that back after a close, unless the number was changed since. Does nothing while another runtime
        keeps the process narrow: the close of that one takes it back. `cpus_before`: those of the calling thread before
        the close, which then still has them. `shares`: what follow() returned for this runtime."""
        self._sharing -= shares
        torch = sys.modules.get("torch")
        is_narrow = self._sharing > 0 if shares else os.sched_getaffinity(0) == cpus_before
        if self._before is None or torch is None or is_narrow:
            return
        if torch.get_num_threads() == self._ours:
            torch.set_num_threads(self._before)
        self._before = None


torch_threads = TorchThreads()
