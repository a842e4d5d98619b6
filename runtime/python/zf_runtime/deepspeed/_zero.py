"""Puts the partitions of a ZeRO optimizer into an arena, from outside DeepSpeed.

What an optimizer has decides, not DeepSpeed's version: partitions_of() refuses a layout that it does not know, and
DeepSpeed's own operator goes on with it.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
import types
from typing import Any, Iterator

import torch

from ..errors import ZfError
from ._arena import FlatArena, Partition, Slot
from ._operator import Operator


class Unsupported(Exception):
    """Why the native optimizer does not take this job. DeepSpeed's own steps it."""


def attach(zero: Any, mode: str, options: dict[str, Any]) -> None:
    """Moves the partitions of a ZeRO optimizer into an arena. Call it when its initialize_optimizer_states() returns:
    all partitions and gradients exist then, and nothing holds views of them. Says in one line what it did, or why
    DeepSpeed's own optimizer goes on."""
    try:
        optimizer = _cpu_adam_of(zero)
        arena = FlatArena(partitions_of(zero, optimizer), mode, options)
    except (Unsupported, ZfError) as reason:
        say(f"{reason}. DeepSpeed's own optimizer is used")
        return
    for slot in arena.slots:
        _take(slot)
        exp_avg, exp_avg_sq = slot.moments
        optimizer.state[slot.param] = {"step": 0, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}
    optimizer.ds_opt_adam.arena = arena
    if stage_of(zero) == 3:
        _fuse_stage_3(zero, arena)
    else:
        fuse_scale(zero, arena)
        _fuse_copy(zero, arena)
    if mode == "late":
        _make_late(zero, optimizer, arena)
    finish(zero, arena)


def finish(zero: Any, arena: FlatArena) -> None:
    """Pins the arena if there is a GPU, ends the optimizer process with the engine, and says what runs."""
    close_with(zero, arena)
    note = _pin(arena) if torch.cuda.is_initialized() else ""
    say(describe(arena) + (f"; {note}" if note else ""))


def _take(slot: Slot) -> None:
    """Moves a partition and its gradient into the arena."""
    param = slot.param
    with torch.no_grad():
        slot.master.copy_(param)
        slot.grads[0].copy_(param.grad)
    unpin(param)
    unpin(param.grad)
    param.data = slot.master
    param.grad = slot.grads[0]


def say(text: str) -> None:
    print(f"zf_runtime.deepspeed: {text}", file=sys.stderr, flush=True)


def describe(arena: FlatArena) -> str:
    """Returns what runs now, in one line."""
    stats = arena.runtime.stats()
    elements = sum(slot.param.numel() for slot in arena.slots)
    text = (f"optimizer process {stats.worker_pid} steps {_count(elements)} in {_plural(len(arena.slots), 'partition')} with "
            f"{_plural(stats.threads, 'thread')} ({stats.isa}){', one step late' if arena.mode == 'late' else ''}")
    if arena.mode == "wait" and stats.training_threads < stats.home_threads:
        text += ("; the plan divides the home although training waits for the step: a plan made with --mode wait gives both "
                 "sides all of it")
    return text


def _count(elements: int) -> str:
    return f"{elements / 1e6:.1f}M parameters" if elements >= 50_000 else f"{elements} parameters"


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _cpu_adam_of(zero: Any) -> Any:
    """Returns the DeepSpeedCPUAdam of a ZeRO optimizer. Raises Unsupported if it has another optimizer, or if that was
    made before install()."""
    optimizer = getattr(zero, "optimizer", None)
    operator = getattr(optimizer, "ds_opt_adam", None)
    if operator is None:
        raise Unsupported(f"the optimizer is {type(optimizer).__name__}, not DeepSpeedCPUAdam: look at offload_optimizer and "
                          "at the optimizer's type in DeepSpeed's config")
    if not isinstance(operator, Operator):
        raise Unsupported("the optimizer was made before install()")
    return optimizer


def stage_of(zero: Any) -> int:
    return 3 if hasattr(zero, "fp32_partitioned_groups_flat") else 2


def partitions_of(zero: Any, optimizer: Any) -> list[Partition]:
    """Returns the flat fp32 partitions that this rank steps on the CPU. Raises Unsupported with the reason."""
    if "superoffload" in type(zero).__module__:
        raise Unsupported("SuperOffload steps speculatively and rolls back, which the native optimizer does not do yet")
    if not getattr(optimizer, "fp32_optimizer_states", True):
        raise Unsupported("the moments are in half precision, and the native optimizer has them in fp32")
    if any(group.get("amsgrad") for group in optimizer.param_groups):
        raise Unsupported("amsgrad is on, and the native optimizer does not have it")
    if getattr(zero, "swap_optimizer", False):
        raise Unsupported("the optimizer's state is on NVMe")
    if stage_of(zero) == 3:
        params = list(zero.fp32_partitioned_groups_flat)
        copies = [None if flat is None else flat.dtype for flat in zero.fp16_partitioned_groups_flat]
    else:
        params = list(getattr(zero, "single_partition_of_fp32_groups", []))
        copies = [buffer.dtype for buffer in getattr(zero, "param_buffer_of_bit16_for_cpu_offload_groups", [])]
    if not params or len(params) != len(copies):
        raise Unsupported(f"{type(zero).__name__} has no flat partitions on the CPU that are known here")
    adamw = bool(getattr(optimizer, "adam_w_mode", True))
    found = [Partition(param, copy or torch.float32, adamw) for param, copy in zip(params, copies)
             if param.device.type == "cpu"]
    for index, partition in enumerate(found):
        check_partition(index, partition.param, [partition.param.grad], 1)
    if not found:
        raise Unsupported("no partition is on the CPU")
    return found


def check_partition(index: int, param: torch.Tensor, gradients: list[Any], count: int) -> None:
    """Raises Unsupported unless a partition is a flat fp32 tensor on the CPU with `count` gradients like it."""
    if param.dtype != torch.float32:
        raise Unsupported(f"partition {index} is {param.dtype}, and the native optimizer has fp32 masters")
    if param.device.type != "cpu":
        raise Unsupported(f"partition {index} is on {param.device}")
    if param.dim() != 1 or not param.is_contiguous():
        raise Unsupported(f"partition {index} is not flat: its shape is {tuple(param.shape)}")
    alike = [each for each in gradients if torch.is_tensor(each) and each.shape == param.shape
             and each.dtype == torch.float32 and each.device == param.device]
    if len(alike) != count or len(gradients) != count:
        raise Unsupported(f"partition {index} has no fp32 gradient of its own shape")


def unpin(tensor: torch.Tensor) -> None:
    """Frees the memory that DeepSpeed pinned for a tensor, which is given other memory next. (DeepSpeed frees by the
    address that it wrote down, so this must be forgotten: the address may belong to another tensor later.)"""
    from deepspeed.accelerator import get_accelerator

    if hasattr(tensor, "ds_pin_base"):
        get_accelerator().unpin_memory(tensor)
        del tensor.ds_pin_base


def _pin(arena: FlatArena) -> str:
    """Pins the arena for CUDA, after torch has given back what it had pinned. Returns why memory stays pageable; "" if it
    is pinned."""
    empty_cache = getattr(torch._C, "_host_emptyCache", None)
    if empty_cache is not None:
        empty_cache()
    return arena.register()


class CopyOut:
    """Stands in for ZeRO's bit16 buffer of a partition. The optimizer has filled the tensor in its own pass, so ZeRO's
    copy from the master parameters does nothing."""

    def __init__(self, tensor: torch.Tensor, master: torch.Tensor):
        self._tensor = tensor
        self._master = master

    @property
    def data(self) -> CopyOut:
        return self

    def copy_(self, source: torch.Tensor, *args: Any, **keywords: Any) -> CopyOut:
        if source.data_ptr() != self._master.data_ptr():
            self._tensor.copy_(source, *args, **keywords)
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tensor, name)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), keywords: Any = None) -> Any:
        return function(*(arg._tensor if isinstance(arg, cls) else arg for arg in args), **(keywords or {}))


def _fuse_copy(zero: Any, arena: FlatArena) -> None:
    """Lets the step itself round the result for the GPU, where ZeRO 1 and 2 have a pass of their own."""
    buffers = zero.param_buffer_of_bit16_for_cpu_offload_groups
    for index, param in enumerate(zero.single_partition_of_fp32_groups):
        slot = arena.slot_of(param)
        if slot is not None:
            unpin(buffers[index])
            buffers[index] = CopyOut(slot.master if slot.result is None else slot.result, slot.master)


def fuse_scale(zero: Any, arena: FlatArena) -> None:
    """Lets the step itself unscale and clip the gradients, where ZeRO 1 and 2 have a pass of their own."""
    original = zero.unscale_and_clip_grads
    slots = {grads.data_ptr(): slot for slot in arena.slots for grads in slot.grads}

    @functools.wraps(original)
    def unscale_and_clip_grads(grads: Any, total_norm: Any) -> None:
        slot = slots.get(grads[0].data_ptr()) if len(grads) == 1 and torch.is_tensor(grads[0]) else None
        if slot is None or not _take_scale(slot, lambda probe: original([probe], total_norm)):
            original(grads, total_norm)

    zero.unscale_and_clip_grads = unscale_and_clip_grads


def _fuse_stage_3(zero: Any, arena: FlatArena) -> None:
    """Lets the step itself unscale, clip and round in stage 3, whose functions name a partition by its sub-group."""
    partitions = zero.fp32_partitioned_groups_flat
    unscale = zero.unscale_and_clip_grads
    reassign = zero._reassign_or_swap_out_partitioned_parameters

    @functools.wraps(unscale)
    def unscale_and_clip_grads(sub_group: int, total_norm: Any) -> None:
        def on(probe: torch.Tensor) -> None:
            with _standing_in(partitions, sub_group, types.SimpleNamespace(grad=probe)):
                unscale(sub_group, total_norm)

        slot = arena.slot_of(partitions[sub_group])
        if slot is None or not _take_scale(slot, on):
            unscale(sub_group, total_norm)

    @functools.wraps(reassign)
    def reassign_or_swap_out(sub_group: int) -> None:
        slot = arena.slot_of(partitions[sub_group])
        if slot is None or slot.result is None:
            reassign(sub_group)
            return
        with _standing_in(partitions, sub_group, types.SimpleNamespace(data=slot.result)):
            reassign(sub_group)

    zero.unscale_and_clip_grads = unscale_and_clip_grads
    zero._reassign_or_swap_out_partitioned_parameters = reassign_or_swap_out


@contextlib.contextmanager
def _standing_in(items: list[Any], index: int, stand_in: Any) -> Iterator[None]:
    original, items[index] = items[index], stand_in
    try:
        yield
    finally:
        items[index] = original


def _take_scale(slot: Slot, unscale: Any) -> bool:
    """Asks ZeRO what it multiplies a gradient of 1 with, and lets the next step multiply with it instead. Returns False
    if the factor is not finite: the runtime refuses such a factor, and ZeRO writes it into the gradients."""
    probe = torch.ones(1)
    unscale(probe)
    scale = probe.item()
    if math.isfinite(scale):
        slot.grad_scale = scale
        return True
    return False


def _make_late(zero: Any, optimizer: Any, arena: FlatArena) -> None:
    """Lets ZeRO's step() publish the result of the step before, and hand over its own gradients at its end. All that
    reads or writes the optimizer's state waits first."""
    from deepspeed.accelerator import get_accelerator

    step = zero.step

    @functools.wraps(step)
    def late_step(*args: Any, **keywords: Any) -> Any:
        result = step(*args, **keywords)
        get_accelerator().synchronize()  # ZeRO's copies read what the optimizer writes next
        arena.submit_and_turn()
        if hasattr(zero, "_get_offload_gradient_dict"):
            zero._get_offload_gradient_dict()  # views of the gradients, which are in the other buffer now
        return result

    zero.step = late_step
    for owner, names in ((zero, ("state_dict", "load_state_dict", "refresh_fp32_params", "update_lp_params",
                                 "offload_states", "get_full_hp_param", "set_full_hp_param", "get_local_fp32_param",
                                 "set_local_hp_param", "get_local_hp_param")),
                         (optimizer, ("state_dict", "load_state_dict"))):
        for name in names:
            if hasattr(owner, name):
                setattr(owner, name, after_wait(arena, getattr(owner, name)))
    for param in (param for group in getattr(zero, "bit16_groups", []) for param in group):
        for name in ("get_full_hp_param", "set_full_hp_param"):
            if hasattr(param, name):
                setattr(param, name, after_wait(arena, getattr(param, name)))


def after_wait(arena: FlatArena, function: Any) -> Any:
    @functools.wraps(function)
    def waited(*args: Any, **keywords: Any) -> Any:
        arena.wait()
        return function(*args, **keywords)

    return waited


def close_with(zero: Any, arena: FlatArena) -> None:
    """Ends the optimizer process when the engine is destroyed."""
    destroy = getattr(zero, "destroy", None)
    if destroy is None:
        return

    @functools.wraps(destroy)
    def destroy_and_close(*args: Any, **keywords: Any) -> Any:
        try:
            return destroy(*args, **keywords)
        finally:
            arena.close()

    zero.destroy = destroy_and_close
