"""Tells which framework steps, in which mode, and what its steps cost, by looking at optimizers and engines."""

from __future__ import annotations

import functools
import importlib
import statistics
import weakref
from typing import Any

from .workload import Exact

#: ZenFlow steps the most important gradients with the training: that is no step of the CPU optimizer.
SELECTIVE = "deepspeed.ops.adam.zenflow_torch_adam"
NATIVE = "zf_runtime.optim.overlap.engine"  # in place, ours is a torch optimizer on torch's threads
#: The modes of a workload, by AdamW.overlap.
MODES = {"off": "wait", "late": "overlap", "exact": "exact", "backward": "wait"}


def modules_of(thing: Any) -> list[str]:
    """Returns the modules in which the class of something, and its bases, were defined."""
    return [kind.__module__ for kind in type(thing).__mro__]


def is_native(optimizer: Any) -> bool:
    """Returns whether an optimizer is our own, with a process."""
    return NATIVE in modules_of(getattr(optimizer, "_engine", None))


def ignored(optimizer: Any) -> bool:
    """Returns whether this optimizer's steps are not those of the CPU optimizer."""
    return SELECTIVE in modules_of(optimizer)


class Job:
    """What the job is, as far as its steps have shown it."""

    def __init__(self) -> None:
        self.framework = "unknown"
        self.mode = "wait"
        self.exact: Exact | None = None  # of mode exact
        self.step_seen = True  # False: the steps run in a process of another project, which does not tell their time
        self._engine: Any = lambda: None

    def take_engine(self, engine: Any) -> None:
        """Notes a DeepSpeed engine. The last one counts."""
        self._engine = weakref.ref(engine)

    @property
    def has_engine(self) -> bool:
        return self._engine() is not None

    @property
    def is_superoffload(self) -> bool:
        """Returns whether DeepSpeed's SuperOffload steps. It does so in a process of its own, where no hook sees it."""
        modules = modules_of(getattr(self._engine(), "optimizer", None))
        return any("superoffload" in module for module in modules)

    def look_at(self, optimizer: Any) -> None:
        """Finds out what it is that has just stepped."""
        engine = self._engine()
        if is_native(optimizer):
            self.framework, self.mode = "native", MODES[optimizer.overlap]
            self.exact = _exact_of(optimizer) if self.mode == "exact" else None
        elif getattr(engine, "zenflow", False):
            late = bool(getattr(engine, "overlap_step", False))
            self.framework, self.mode, self.step_seen = "deepspeed-zenflow", "overlap" if late else "wait", not late
        elif engine is not None:
            self.framework = "deepspeed-offload"
        else:
            self.framework = "torch"

    def times_of(self, optimizer: Any) -> dict[str, int]:
        """Returns step_ns and blocked_ns of the last step, if they differ from the time of the call."""
        if self.framework == "native":
            if self.mode != "wait":
                return {"step_ns": 0, "blocked_ns": 0}
            last_ns = optimizer.runtime.stats().last_step_ns
            return {"step_ns": last_ns, "blocked_ns": last_ns}
        return {} if self.step_seen else {"step_ns": 0}

    def can_wait(self) -> bool:
        """Returns whether wait() works: a step can be waited for without giving the job its result early."""
        return self.framework == "native" and self.mode != "wait"

    def wait(self, optimizer: Any) -> int:
        """Waits until the optimizer's process is idle. Returns the time of its last step."""
        optimizer._engine.wait_for_process()
        last_ns: int = optimizer.runtime.stats().last_step_ns
        return last_ns


def _exact_of(optimizer: Any) -> Exact:
    """Returns what counts in mode exact: of the last steps, by their medians."""
    spans = [span for span in optimizer.timeline() if span.kind in ("copy", "check")]
    by_turn: dict[int, int] = {}
    for span in spans:
        by_turn[span.turn] = by_turn.get(span.turn, 0) + span.end_ns - span.begin_ns
    return Exact(optimizer._engine.first_share(), round(statistics.median(by_turn.values())) if by_turn else 0)


def sizes_of(optimizer: Any) -> dict[int, int]:
    """Returns the number of elements of each parameter, by identity."""
    return {id(param): param.numel() for group in optimizer.param_groups for param in group["params"]}


def steps_on_gpu(optimizer: Any) -> bool:
    """Returns whether all that it steps is on a GPU. Our own optimizer steps on the host in any case."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    return not is_native(optimizer) and bool(params) and all(param.is_cuda for param in params)


def watch_deepspeed(recorder: Any) -> None:
    """Tells the recorder of engines, and of the steps of ZenFlow, which do not pass torch's hooks."""
    engine = importlib.import_module("deepspeed.runtime.engine")

    def noting(initialize: Any) -> Any:
        @functools.wraps(initialize)
        def noted(self: Any, *args: Any, **keywords: Any) -> None:
            recorder.job.take_engine(self)
            initialize(self, *args, **keywords)

        return noted

    def stepping(step: Any) -> Any:
        @functools.wraps(step)
        def stepped(zero: Any, *args: Any, **keywords: Any) -> Any:
            optimizer = getattr(zero, "optimizer", None)
            recorder.begin_step(optimizer)
            result = step(zero, *args, **keywords)
            recorder.end_step(optimizer)
            return result

        return stepped

    recorder.replace(engine.DeepSpeedEngine, "__init__", noting)
    name = "zenflow_cpu_optimizer_step"
    for module_name in ("zenflow_stage_1_and_2", "engine_stage3"):
        try:
            module = importlib.import_module(f"deepspeed.runtime.zenflow.{module_name}")
        except ImportError:  # ZenFlow is younger than what is needed here
            continue
        for owner in [module, *(thing for thing in vars(module).values() if isinstance(thing, type))]:
            if name in vars(owner) and getattr(owner, "__module__", module.__name__) == module.__name__:
                recorder.replace(owner, name, stepping)
