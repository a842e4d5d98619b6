"""Counts the kernels of some training steps with torch's profiler."""

from __future__ import annotations

from typing import Any


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
