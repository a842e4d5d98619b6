"""Lets ZeRO's partitions outlive the trainer: what is noted with each step of an engine, and taken back by the next
one. ZeRO steps one partition after the other; here all are prepared first, then go together, in all ranks."""

from __future__ import annotations

import functools
import pickle
import warnings
import weakref
from typing import Any, Callable, NamedTuple

import torch

from ..errors import ZfError
from ..optim.tensors.engine import Kept, ParamGroup
from .arena import FlatArena, Partition
from .beside import hooks_of, reassign_later
from .layout import Unsupported, stage_of
from .messages import say
from .replacing import Function, replace, wrap

_COUNTERS = ("global_steps", "global_samples", "micro_steps", "skipped_steps")
_NEEDED = {2: ("parallel_partitioned_bit16_groups", "real_dp_process_group", "round_robin_bit16_groups",
               "update_lp_params"),
           3: ("_post_step", "_partition_all_parameters")}


class _Noted(NamedTuple):
    """What is noted of an engine, besides how often each partition was stepped."""

    counters: dict[str, int]  #: as they are behind the step
    scaler: dict[str, Any]
    powers: tuple[Any, ...]  #: of beta: see local_step.Powers
    scheduler: dict[str, Any] | None  #: before its step
    groups: list[ParamGroup]  #: param_groups, without their parameters
    note: bytes  #: of the program
    lr_kwargs: dict[str, Any] | None = None  #: what engine.step() passes to the scheduler


def kinds_of(zero: Any) -> list[Any]:
    """Returns what kept.digest_of() takes: shapes and types of a ZeRO optimizer's parameters."""
    groups = zero.fp16_groups if stage_of(zero) == 3 else zero.round_robin_bit16_groups  # as they lie in partitions
    return [(tuple(getattr(param, "ds_shape", param.shape)), str(param.dtype)) for group in groups for param in group]


def check(zero: Any, partitions: list[Partition]) -> None:
    """Raises Unsupported if the partitions of a ZeRO optimizer cannot be kept."""
    if getattr(zero, "zenflow", False):
        raise Unsupported("ZenFlow has state that is not in its partitions")
    params = [param for group in getattr(zero, "fp16_groups", ()) for param in group]  # of stage 3
    if getattr(zero, "has_moe_layers", False) or not all(getattr(param, "allreduce", True) for param in params):
        raise Unsupported("it was not tried with a mixture of experts")
    group = getattr(zero, "model_parallel_group", None)
    if group is not None and torch.distributed.get_world_size(group) > 1:
        raise Unsupported("it was not tried with a model parallel group (mpu)")
    missing = [name for name in _NEEDED[stage_of(zero)] if not hasattr(zero, name)]
    if missing:
        raise Unsupported(f"{type(zero).__name__} has no {missing[0]}")
    stage_3 = stage_of(zero) == 3
    if stage_3 and any(flat is None for flat in zero.fp16_partitioned_groups_flat):
        raise Unsupported("ZeRO-3's weights are on NVMe")
    flat = zero.fp32_partitioned_groups_flat if stage_3 else zero.single_partition_of_fp32_groups
    if len(partitions) < sum(param.numel() > 0 for param in flat):
        raise Unsupported("some partitions are stepped on the GPU (ratio)")


def with_way_out(reason: str) -> str:
    """Returns why partitions cannot be kept. If an engine of this process has them, says how to go on from there."""
    return reason.replace("close its handle first", "an engine that was made before has what is kept: end this process "
                          "and start it again to go on from there, or call that engine's destroy() to free it")


def step_together(zero: Any, arena: FlatArena) -> None:
    """Lets ZeRO's step() note the steps of all partitions, and hand them over together, before it reads a result. In
    mode "wait" it still waits for them; mode "exact" does the rest by itself."""
    wrap(zero, ("step",), functools.partial(_refuse_hooks, zero))
    if arena.mode == "exact":
        return
    publish = _publish_stage_3 if stage_of(zero) == 3 else _publish_stage_1_and_2

    def hand_over() -> None:
        if arena.is_beside and arena.has_noted:  # else ZeRO has skipped it
            arena.hand_over(lambda slot: slot.index)
            arena.wait()
            arena.is_beside = False
            publish(zero)

    @replace(zero, "step")
    def step_noting(step: Function, *args: Any, **keywords: Any) -> Any:
        arena.is_beside = arena.is_open
        try:
            return step(*args, **keywords)
        finally:
            arena.is_beside = False

    if stage_of(zero) == 3:
        reassign_later(zero, arena)
    wrap(zero, ("_post_step" if stage_of(zero) == 3 else "reset_cpu_buffers",), hand_over)


def _publish_stage_1_and_2(zero: Any) -> None:
    """Does what ZeRO's step() has left out for each partition."""
    for group, buffer in enumerate(zero.param_buffer_of_bit16_for_cpu_offload_groups):
        rank = torch.distributed.get_rank(zero.real_dp_process_group[group])
        zero.parallel_partitioned_bit16_groups[group][rank].data.copy_(buffer.data, non_blocking=True)


def _publish_stage_3(zero: Any) -> None:
    for sub_group in range(len(zero.fp16_groups)):
        zero._reassign_or_swap_out_partitioned_parameters(sub_group)


def _refuse_hooks(zero: Any) -> None:
    """Raises ZfError before a step with hooks: they would read partitions that are not stepped yet."""
    if any(hooks_of(zero.optimizer)):
        raise ZfError("with keep= all partitions are stepped together, behind all hooks of the optimizer's step: "
                      "remove those hooks, or leave keep out")


def resuming(init: Callable[..., None]) -> Callable[..., None]:
    """Returns the __init__ of DeepSpeed's engine, which then goes on from what is kept."""

    @functools.wraps(init)
    def init_and_resume(engine: Any, *args: Any, **keywords: Any) -> None:
        if any(kind.__name__ == "PipelineEngine" for kind in type(engine).__mro__):
            raise ZfError("keep= and ZF_KEEP were not tried with DeepSpeed's pipelines: leave them out")
        init(engine, *args, **keywords)
        _resume(engine)

    return init_and_resume


def noting(step: Callable[..., None]) -> Callable[..., None]:
    """Returns the step() of DeepSpeed's engine, which notes what the scheduler's step will be given."""

    @functools.wraps(step)
    def step_noting(engine: Any, lr_kwargs: dict[str, Any] | None = None, *args: Any, **keywords: Any) -> None:
        engine._zf_lr_kwargs = lr_kwargs
        step(engine, lr_kwargs, *args, **keywords)

    return step_noting


def _resume(engine: Any) -> None:
    zero = engine.optimizer
    arena: FlatArena | None = getattr(zero, "_zf_arena", None)
    if getattr(zero, "optimizer", None) is None and not isinstance(zero, torch.optim.Optimizer):
        return  # it trains nothing, as a reference model
    if arena is None:
        raise ZfError("keep= or ZF_KEEP is set, and this engine has no ZeRO partitions on the CPU with a "
                      "DeepSpeedCPUAdam, so nothing would be kept: leave it out, or set offload_optimizer")
    engine.note, engine._zf_lr_kwargs = b"", None
    arena.note_of_job = functools.partial(_noted_of, weakref.ref(engine), arena.steps.note_bytes)
    if arena.steps.kept is None:
        return
    _publish_kept(zero, arena)
    noted = _Noted(*pickle.loads(arena.steps.kept.note))
    vars(engine).update(noted.counters)
    vars(zero.loss_scaler).update(noted.scaler)
    zero.optimizer.ds_opt_adam.resume(zero.optimizer.opt_id, noted.powers)
    if engine.lr_scheduler is not None and noted.scheduler is not None:
        for group, settings in zip(zero.optimizer.param_groups, noted.groups):
            group.update(settings)
        engine.lr_scheduler.load_state_dict(noted.scheduler)
        _step_scheduler(engine, noted.lr_kwargs or {})
    engine.kept = Kept(engine.global_steps, noted.note)
    say(f"training goes on behind step {engine.global_steps}, which was kept")


def _step_scheduler(engine: Any, lr_kwargs: dict[str, Any]) -> None:
    """Does the step of the scheduler that follows a step, as the engine does."""
    with warnings.catch_warnings():  # torch knows of no step before it
        warnings.filterwarnings("ignore", message="Detected call of")
        try:
            engine.lr_scheduler.step(**lr_kwargs)
        except TypeError:  # Megatron's wants the number of samples
            engine.lr_scheduler.step(engine.train_batch_size())


def _publish_kept(zero: Any, arena: FlatArena) -> None:
    """Gives the model the weights of the masters."""
    if stage_of(zero) == 2:
        zero.update_lp_params()
        return
    for slot in arena.slots:
        if slot.result is not None:
            slot.result.copy_(slot.master)
    zero._partition_all_parameters()
    _publish_stage_3(zero)
    zero._post_step(set())  # gathers those that persist


def _samples_of(engine: Any) -> int:
    """Returns how many samples the step that is running counts."""
    if engine.managed_gradient_accumulation():
        return int(engine.train_batch_size())
    return int(engine.train_batch_size() // engine.gradient_accumulation_steps() * engine._unmanaged_backward_count)


def _noted_of(its: Callable[[], Any], room: int) -> bytes:
    """Returns what is noted with the step that is handed over. its(): the engine. Raises ZfError if it has more than
    `room` bytes."""
    engine = its()
    zero, scheduler = engine.optimizer, engine.lr_scheduler
    counters = {name: getattr(engine, name) for name in _COUNTERS}
    counters["global_steps"] += 1
    counters["micro_steps"] += 1
    counters["global_samples"] += _samples_of(engine)
    scaler = {name: value for name, value in vars(zero.loss_scaler).items() if isinstance(value, (bool, int, float))}
    groups = [{name: value for name, value in group.items() if name != "params"}
              for group in zero.optimizer.param_groups]
    note = bytes(memoryview(engine.note))  # bytes() alone makes zeros of a number
    noted = _Noted(counters, scaler, zero.optimizer.ds_opt_adam.powers(zero.optimizer.opt_id),
                   None if scheduler is None else scheduler.state_dict(), groups, note, engine._zf_lr_kwargs)
    try:
        packed = pickle.dumps(tuple(noted))
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise ZfError("with keep= the scheduler's state and lr_kwargs of engine.step() are noted, and pickle refuses "
                      f"them: {error}") from error
    if len(packed) > room:
        raise ZfError(f"engine.note and the scheduler's state have {len(packed)} bytes, and there is room for "
                      f"{room}: raise note_bytes of install()")
    return packed
