"""What install() replaces of DeepSpeed, and of torch under it: one table. docs/deepspeed.md shows it.

Two things are beside it, and stay. DeepSpeedEngine gets `kept`, which is None: a program may ask an engine for it
whenever it likes. And DeepSpeedCPUAdam's step is hooked before it is replaced, as torch hooks it when the first one is
made: one that is made in between is stepped by what stays, and has hooks."""

from __future__ import annotations

import functools
import importlib
from typing import Any, Callable, NamedTuple

from ..errors import ZfError
from . import compiling, exact_stage_3, keeping, operator, publisher, superoffload, zenflow
from .attach import attach
from .messages import say


class Asked(NamedTuple):
    """What install() was asked for."""

    mode: str
    state: str
    speculates: bool
    keep: str | None
    options: dict[str, Any]  #: for Runtime


class Seam(NamedTuple):
    """A function or class that is replaced."""

    owner: str  #: a module, or a class of it behind a colon
    name: str
    ours: Callable[[Any, Asked], Any]  #: returns what takes the place of the original
    when: str = "always"  #: a name of WHEN
    is_needed: bool = False  #: without it nothing is replaced
    part: str = ""  #: those of one part are replaced together or not at all
    is_used: Callable[[], bool] = lambda: False  #: by an engine that exists: until it ends, uninstall() leaves it

    @property
    def path(self) -> str:
        """Where it is, as docs/deepspeed.md names it."""
        return f"{self.owner.replace(':', '.')}.{self.name}"

    @property
    def is_there(self) -> bool:
        """Whether this DeepSpeed has it."""
        owner = find(self.owner)
        return owner is not None and hasattr(owner, self.name)


def find(owner: str) -> Any:
    """Returns the module or class, or None if this DeepSpeed does not have it."""
    module, _, kind = owner.partition(":")
    try:
        found = importlib.import_module(module)
    except ImportError:
        return None
    return getattr(found, kind, None) if kind else found


WHEN: dict[str, Callable[[Asked], bool]] = {
    "always": lambda asked: True,
    "exact": lambda asked: asked.mode == "exact",
    "speculate": lambda asked: asked.speculates and asked.state == "fp32",
    "keep": lambda asked: asked.keep is not None,
}


def _attaching(initialize: Any, asked: Asked) -> Any:
    @functools.wraps(initialize)
    def initialize_optimizer_states(zero: Any) -> None:
        initialize(zero)
        attach(zero, asked.mode, asked.options, asked.state, asked.speculates)

    return initialize_optimizer_states


def _starting_ours(start: Any, asked: Asked) -> Any:
    @functools.wraps(start)
    def start_optimizer_process(zero: Any) -> None:
        if asked.keep is not None:
            raise ZfError(f"keep={asked.keep!r} with ZenFlow's overlap_step, which is not kept: leave it out")
        if asked.state != "fp32":
            say(f"ZenFlow with overlap_step has two sets of moments, which are fp32 and not {asked.state}")
        zenflow.start_optimizer_process(zero, start, asked.options)

    return start_optimizer_process


def _by_stage_3(kind: Any, asked: Asked) -> Any:
    return superoffload.by_stage_3(asked.options["plan"], find(_STAGE_3))(kind)


def _always(wrap: Callable[[Any], Any]) -> Callable[[Any, Asked], Any]:
    """Returns a wrapper that does the same whatever was asked for."""
    return lambda original, asked: wrap(original)


_CPU_ADAM = "deepspeed.ops.adam.cpu_adam"
_STAGES_1_AND_2 = "deepspeed.runtime.zero.stage_1_and_2:DeepSpeedZeroOptimizer"
_STAGE_3 = "deepspeed.runtime.zero.stage3:DeepSpeedZeroOptimizer_Stage3"
_ZENFLOW_1_AND_2 = "deepspeed.runtime.zenflow.zenflow_stage_1_and_2"
_ZENFLOW_3 = "deepspeed.runtime.zenflow.engine_stage3"
_ENGINE = "deepspeed.runtime.engine:DeepSpeedEngine"

# ZenFlow and SuperOffload are younger than what is needed. Where one of ZenFlow's is missing, its own optimizer process
# goes on.
SEAMS = (
    Seam(_CPU_ADAM, "CPUAdamBuilder", lambda builder, asked: operator.deferred(builder, asked.keep), is_needed=True),
    Seam(_STAGES_1_AND_2, "initialize_optimizer_states", _attaching, is_needed=True),
    Seam(_STAGE_3, "initialize_optimizer_states", _attaching, is_needed=True),
    Seam(f"{_CPU_ADAM}:DeepSpeedCPUAdam", "step", _always(operator.with_one_call)),
    Seam(f"{_CPU_ADAM}:DeepSpeedCPUAdam", "step_subgroup", _always(operator.with_own)),
    Seam(_ZENFLOW_1_AND_2, "start_optimizer_process", _starting_ours, part="ZenFlow 1 and 2"),
    Seam(f"{_ZENFLOW_1_AND_2}:ZenFlowZeroOptimizerParallel", "load_state_dict", _always(zenflow.announcing),
         part="ZenFlow 1 and 2"),
    Seam(_ZENFLOW_3, "start_optimizer_process", _starting_ours, part="ZenFlow 3"),
    Seam(_ZENFLOW_3, "sync_fp32_param_from_gpu", _always(zenflow.before_selection), part="ZenFlow 3"),
    Seam(_STAGE_3, "load_state_dict", _always(zenflow.announcing), part="ZenFlow 3"),
    Seam("deepspeed.comm.torch", "build_shm_op", _always(compiling.without_compiler)),
    Seam("torch.utils.file_baton:FileBaton", "wait", _always(compiling.naming_the_lock)),
    Seam("deepspeed.runtime.superoffload.superoffload_stage3", "SuperOffloadOptimizer_Stage3", _by_stage_3,
         when="speculate"),
    Seam(_ENGINE, "__init__", _always(keeping.resuming), when="keep", is_needed=True),
    Seam(_ENGINE, "step", _always(keeping.noting), when="keep", is_needed=True),
    Seam("torch.distributed", "destroy_process_group", _always(publisher.after_turns), when="exact"),
    Seam("deepspeed.runtime.zero.partition_parameters:Init", exact_stage_3.AVAILABLE, _always(exact_stage_3.gathering),
         when="exact", is_used=exact_stage_3.is_open),
    Seam(_STAGE_3, "_create_fp16_partitions_with_defragmentation", _always(exact_stage_3.taking_over), when="exact",
         is_used=exact_stage_3.is_open),
)
