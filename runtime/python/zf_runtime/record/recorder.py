"""Watches a training process: its backwards and the steps of its optimizers, until it has seen enough."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import threading
import time
from typing import Any, Callable

from . import jobs, probes
from .timeline import Timeline
from .workload import WARM_UP, Replay, Seen, TooLittle, workload_of

#: One update in so many has its backward replayed; one in so many runs alone, where the optimizer runs beside training.
REPLAY_EVERY, ALONE_EVERY = 4, 2
REPLAYS = 4
#: The kernels of this update are counted.
PROFILED = WARM_UP + 1


class Recorder:
    """Records a job: watch_torch(), then the job, then stop() and workload(). A fault of the recorder ends the
    recording, not the job."""

    def __init__(self, updates: int, done: Callable[[], None] | None = None):
        """`done` is called in the job's thread when `updates` updates were seen, beside those that do not count."""
        self.job = jobs.Job()
        self._wanted = updates + WARM_UP + REPLAYS
        self._done = done
        self._timeline = Timeline()
        self._replays: list[Replay] = []
        self._replays_left = REPLAYS
        self._replayed = 0  # the last update that has a replay
        self._openmp: Any = None
        self._kernels = probes.KernelCount()
        self._thread: int | None = None  # the job's: the one of the first backward
        self._in_backward = False
        self._stepping: int | None = None  # the optimizer that steps, by identity
        self._step_begin_ns = 0
        self._counted: set[int] = set()  # parameters of the present update, by identity
        self._refusal = ""
        self._undo: list[Callable[[], None]] = []

    def watch_torch(self) -> None:
        """Installs the hooks. Raises TooLittle if torch is older than 2.0."""
        import torch
        from torch.optim import optimizer

        if not hasattr(optimizer, "register_optimizer_step_post_hook"):
            raise TooLittle(f"torch {torch.__version__} cannot be recorded; 2.0 or newer is needed")

        def ended(its: Any, args: Any, keywords: Any) -> None:
            self.end_step(its)

        ended.reads_no_parameters = True  # type: ignore[attr-defined]  # so an overlapped step goes on meanwhile
        before = optimizer.register_optimizer_step_pre_hook(lambda its, args, keywords: self.begin_step(its))
        after = optimizer.register_optimizer_step_post_hook(ended)
        self._undo += [before.remove, after.remove]
        self.replace(torch.autograd, "backward", self._watched)
        for owner, name in probes.noticing_functions():
            self.replace(owner, name, self._no_replays_after)
        if "deepspeed.runtime.engine" in sys.modules:
            self.watch_deepspeed()

    def watch_deepspeed(self) -> None:
        """Installs the hooks of DeepSpeed. Call it when DeepSpeed was imported after watch_torch()."""
        jobs.watch_deepspeed(self)

    def replace(self, owner: Any, name: str, change: Callable[[Any], Any]) -> None:
        """Replaces a function by a changed one until stop()."""
        original = getattr(owner, name)
        changed = change(original)
        setattr(owner, name, changed)

        def undo() -> None:
            if getattr(owner, name) is changed:  # else the job has wrapped it since: it does nothing from now on
                setattr(owner, name, original)

        self._undo.append(undo)

    def stop(self) -> None:
        """Takes the hooks away. The second call does nothing."""
        while self._undo:
            self._undo.pop()()
        with contextlib.suppress(Exception):  # a profile that cannot end is no reason to end the job
            self._kernels.stop()

    def workload(self, ranks: int = 1) -> dict[str, Any]:
        """Returns the document of a workload file. Raises TooLittle, which says what is missing."""
        import torch

        if self.job.is_superoffload:
            raise TooLittle("SuperOffload steps in a process of its own, which cannot be watched: tune with an "
                            "estimated workload and --framework superoffload (--mode wait if it clips gradients, else "
                            "backward)")
        if self._refusal:
            raise TooLittle(self._refusal)
        if self._thread is None:
            raise TooLittle("torch was imported, but no backward was seen")
        name = os.path.basename(sys.argv[0]) or "job"
        return workload_of(Seen(name, self.job.framework, self.job.mode, torch.get_num_threads(),
                                self._timeline.updates(), self._replays, torch.cuda.is_initialized(),
                                self._kernels.kernels, self._kernels.kernel_ns, self.job.exact,
                                self.job.step_seen), ranks)

    @property
    def steps(self) -> int:
        return self._timeline.ended

    # Events.

    def begin_step(self, optimizer: Any) -> None:
        """Notes that an optimizer begins to step. Steps inside a step do not count."""
        if self._is_job() and not jobs.ignored(optimizer) and self._stepping in (None, id(optimizer)):
            self._guard(self._kernels.stop)
            self._stepping, self._step_begin_ns = id(optimizer), time.perf_counter_ns()

    def end_step(self, optimizer: Any) -> None:
        """Notes that the optimizer has stepped, or handed over the gradients."""
        if self._is_job() and self._stepping == id(optimizer):
            end_ns = time.perf_counter_ns()
            self._stepping = None
            self._guard(self._stepped, optimizer, end_ns)

    def _stepped(self, optimizer: Any, end_ns: int) -> None:
        if jobs.steps_on_gpu(optimizer):
            self._refuse("the optimizer steps on the GPU: there is no optimizer step on the host to plan for")
            return
        self.job.look_at(optimizer)
        sizes = jobs.sizes_of(optimizer)
        params = sum(size for param, size in sizes.items() if param not in self._counted)
        self._counted |= sizes.keys()
        self._timeline.step(self._step_begin_ns, end_ns, params, **self.job.times_of(optimizer))
        number = self._timeline.ended
        if self.job.can_wait() and number % ALONE_EVERY == 0:
            step_ns = self.job.wait(optimizer)
            self._timeline.waited(time.perf_counter_ns(), step_ns)
        if number == PROFILED:
            self._kernels.start()
        if number >= self._wanted:
            self.stop()
            if self._done is not None:
                self._done()

    def _watched(self, backward: Any) -> Any:
        @functools.wraps(backward)
        def watched(tensors: Any, grad_tensors: Any = None, *args: Any, **keywords: Any) -> Any:
            if not self._undo or self._in_backward:
                return backward(tensors, grad_tensors, *args, **keywords)
            if self._thread is None:
                self._thread = threading.get_ident()
            if not self._is_job():
                return backward(tensors, grad_tensors, *args, **keywords)
            self._in_backward = True
            try:
                self._guard(self._replay_if_due, tensors, grad_tensors)
                begin_ns = time.perf_counter_ns()
                result = backward(tensors, grad_tensors, *args, **keywords)
                end_ns = time.perf_counter_ns()
                self._timeline.backward(begin_ns, end_ns)
                self._counted.clear()
                self._step_begin_ns = end_ns  # of a step that was given this backward as a closure
                return result
            finally:
                self._in_backward = False

        return watched

    def _no_replays_after(self, function: Any) -> Any:
        @functools.wraps(function)
        def noticing(*args: Any, **keywords: Any) -> Any:
            self._replays_left = 0
            return function(*args, **keywords)

        return noticing

    def _replay_if_due(self, tensors: Any, gradients: Any) -> None:
        number = self._timeline.ended
        if self._kernels.counting:
            self._timeline.disturb()
        due = number >= WARM_UP and number % REPLAY_EVERY == 0 and number != self._replayed
        if not due or self._replays_left == 0 or self.job.has_engine:
            return
        self._replayed = number
        import torch

        threads = torch.get_num_threads()
        self._openmp = self._openmp or probes.openmp()
        if self._openmp is None or threads < 2 or torch.cuda.is_initialized():
            return
        self._timeline.disturb()
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        gradients = [gradients] if isinstance(gradients, torch.Tensor) else gradients
        replay = probes.replay(self._openmp, threads, tensors, gradients)
        self._replays_left = self._replays_left - 1 if replay else 0
        if replay:
            self._replays.append(replay)

    def _is_job(self) -> bool:
        return bool(self._undo) and self._thread == threading.get_ident()

    def _guard(self, work: Callable[..., None], *args: Any) -> None:
        try:
            work(*args)
        except Exception as error:
            self._refuse(f"the recorder failed: {type(error).__name__}: {error}")

    def _refuse(self, reason: str) -> None:
        self._refusal = reason
        self.stop()
        if self._done is not None:
            self._done()


def text_of(workload: dict[str, Any]) -> str:
    """Returns the text of a workload file."""
    return json.dumps(workload, indent=2) + "\n"
