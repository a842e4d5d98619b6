"""Puts the partitions of a ZeRO optimizer into an arena, from outside DeepSpeed.

What an optimizer has decides, not DeepSpeed's version: partitions_of() refuses a layout that it does not know, and
DeepSpeed's own operator goes on with it.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Iterable

import torch

from ..errors import ZfError
from . import _fused
from ._arena import FlatArena, Partition, Slot
from ._operator import CpuAdamOperator

# Functions that read or write the state of a ZeRO optimizer from outside, by stage (2: stages 1 and 2).
READERS = {2: ("state_dict", "update_lp_params", "offload_states"),
           3: ("state_dict", "get_full_hp_param", "get_local_fp32_param", "offload_states")}
WRITERS = {2: ("load_state_dict", "refresh_fp32_params", "reload_states"),
           3: ("load_state_dict", "refresh_fp32_params", "set_full_hp_param", "set_local_hp_param", "reload_states")}
# Functions that read or write gradients from outside: of a ZeRO optimizer of stage 3, and of a parameter of the others.
GRADIENTS = ("get_fp32_grad_for_param", "set_fp32_grad_for_param", "get_local_fp32_grad_for_param",
             "set_local_grad_for_param", "update_fp32_grad_for_param_vectorized", "get_fp32_grad_partitions")
PARAM_GRADIENTS = ("get_full_hp_grad", "set_full_hp_grad")


class Unsupported(Exception):
    """Why the native optimizer does not take this job. DeepSpeed's own steps it."""


def attach(zero: Any, mode: str, options: dict[str, Any]) -> None:
    """Moves the partitions of a ZeRO optimizer into an arena. Call it when its initialize_optimizer_states() returns:
    all partitions and gradients exist then, all gradients are zero, and nothing holds views of them. Says in one line
    what it did, or why DeepSpeed's own optimizer goes on."""
    partitions: list[Partition] = []
    try:
        optimizer = _cpu_adam_of(zero)
        partitions = partitions_of(zero, optimizer, mode)
        for partition in partitions:  # the arena has gradients of its own: both together would be the peak of memory
            unpin(partition.param.grad)
            partition.param.grad = None
        arena = FlatArena(partitions, mode, options)
    except (Unsupported, ZfError) as reason:
        for partition in partitions:
            partition.param.grad = _zeros_like(partition.param, zero)
        say(f"{reason}. DeepSpeed's own optimizer is used")
        return
    for slot in arena.slots:
        with torch.no_grad():
            slot.master.copy_(slot.param)
        unpin(slot.param)
        slot.param.data = slot.master
        slot.param.grad = slot.grads[0]
        exp_avg, exp_avg_sq = slot.moments
        optimizer.state[slot.param] = {"step": 0, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}
    optimizer.ds_opt_adam.arena = arena
    if stage_of(zero) == 3:
        _fused.fuse_stage_3(zero, arena)
    else:
        _fused.fuse_stage_1_and_2(zero, arena)
    _make_others_wait(zero, optimizer, arena)
    if mode == "late":
        _make_late(zero, arena)
    finish(zero, arena)


def finish(zero: Any, arena: FlatArena) -> None:
    """Pins the arena if there is a GPU, ends the optimizer process with the engine, and says what runs."""
    _close_with(zero, arena)
    note = _pin(arena) if torch.cuda.is_initialized() else ""
    say(describe(arena) + (f"; {note}" if note else ""))


def say(text: str) -> None:
    print(f"zf_runtime.deepspeed: {text}", file=sys.stderr, flush=True)


def describe(arena: FlatArena) -> str:
    """Returns what runs now, in one line."""
    stats = arena.runtime.stats()
    elements = sum(slot.param.numel() for slot in arena.slots)
    partitions, threads = _plural(len(arena.slots), "partition"), _plural(stats.threads, "thread")
    text = f"optimizer process {stats.worker_pid} steps {_count(elements)} in {partitions} with {threads} ({stats.isa})"
    if arena.mode == "late":
        text += ", one step late"
    tails = sum(slot.param.numel() % 16 for slot in arena.slots)
    if tails:
        text += f"; DeepSpeed's own would round {_plural(tails, 'element')} differently, at the partitions' ends"
    if arena.mode == "wait" and stats.training_threads < stats.home_threads:
        text += ("; the plan divides the home although training waits for the step: a plan made with --mode wait gives "
                 "both sides all of it")
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
        raise Unsupported(f"the optimizer is {type(optimizer).__name__}, not DeepSpeedCPUAdam: look at "
                          "offload_optimizer and at the optimizer's type in DeepSpeed's config")
    if not isinstance(operator, CpuAdamOperator):
        raise Unsupported("the optimizer was made before install()")
    return optimizer


def stage_of(zero: Any) -> int:
    """Returns 3, or 2 for stages 1 and 2, which are one class."""
    return 3 if hasattr(zero, "fp32_partitioned_groups_flat") else 2


def partitions_of(zero: Any, optimizer: Any, mode: str) -> list[Partition]:
    """Returns the flat fp32 partitions that this rank steps on the CPU. Raises Unsupported with the reason."""
    if "superoffload" in type(zero).__module__:
        raise Unsupported("SuperOffload steps speculatively and rolls back, which the native optimizer does not do yet")
    if mode == "late" and getattr(zero, "zenflow", False):
        raise Unsupported("ZenFlow has its own order of steps, which cannot be made late: use its overlap_step")
    if not getattr(optimizer, "fp32_optimizer_states", True):
        raise Unsupported("the moments are in half precision, and the native optimizer has them in fp32")
    if any(group.get("amsgrad") for group in optimizer.param_groups):
        raise Unsupported("amsgrad is on, and the native optimizer does not have it")
    if getattr(zero, "swap_optimizer", False):
        raise Unsupported("the optimizer's state is on NVMe")
    check_names(zero, _fused.NEEDED[stage_of(zero)])
    if stage_of(zero) == 3:
        params = zero.fp32_partitioned_groups_flat
        copies = [torch.float32 if flat is None else flat.dtype for flat in zero.fp16_partitioned_groups_flat]
    else:
        params = zero.single_partition_of_fp32_groups
        copies = [buffer.dtype for buffer in zero.param_buffer_of_bit16_for_cpu_offload_groups]
    if not params or len(params) != len(copies):
        raise Unsupported(f"{type(zero).__name__} has {len(params)} flat partitions and {len(copies)} copies of them")
    adamw = bool(getattr(optimizer, "adam_w_mode", True))
    found = []
    for index, (param, copy) in enumerate(zip(params, copies)):
        if param.device.type == "cpu" and param.numel() > 0:  # with a `ratio`, some sub-groups stay on the GPU
            check_partition(index, param, [param.grad], 1)
            found.append(Partition(param, copy, adamw))
    if not found:
        raise Unsupported("no partition is on the CPU")
    return found


def check_names(zero: Any, needed: tuple[str, ...] = ()) -> None:
    """Raises Unsupported unless a ZeRO optimizer has these names, and all functions that must wait for the step."""
    for name in needed + READERS[stage_of(zero)] + WRITERS[stage_of(zero)]:
        if not hasattr(zero, name):
            raise Unsupported(f"{type(zero).__name__} has no {name}, so its layout is not known")


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


def _zeros_like(param: torch.Tensor, zero: Any) -> torch.Tensor:
    """Returns the gradient that ZeRO had made for a partition."""
    from deepspeed.accelerator import get_accelerator

    zeros = torch.zeros(param.shape, dtype=param.dtype)
    pinned = getattr(zero, "cpu_offload_pin_memory", False) or getattr(zero, "offload_optimizer_pin_memory", False)
    return get_accelerator().pin_memory(zeros) if pinned else zeros


def unpin(tensor: torch.Tensor) -> None:
    """Frees the memory that DeepSpeed pinned for a tensor, which is given other memory next. (DeepSpeed frees by the
    address that it wrote down, so this must be forgotten: the address may belong to another tensor later.)"""
    from deepspeed.accelerator import get_accelerator

    if hasattr(tensor, "ds_pin_base"):
        get_accelerator().unpin_memory(tensor)
        del tensor.ds_pin_base


def _pin(arena: FlatArena) -> str:
    """Pins the arena for CUDA, after torch has given back what it had pinned. Returns why memory stays pageable; "" if
    it is pinned."""
    empty_cache = getattr(torch._C, "_host_emptyCache", None)
    if empty_cache is not None:
        empty_cache()
    return arena.register()


def _make_others_wait(zero: Any, optimizer: Any, arena: FlatArena) -> None:
    """Lets everything that reads or writes the optimizer's state from outside wait for the step that is under way. In
    mode "wait" that is only a signal handler, or a program that was interrupted."""

    def loaded() -> None:
        """Takes over the moments that a checkpoint has brought."""
        for slot in arena.slots:
            state = optimizer.state.get(slot.param, {})
            if "exp_avg" in state:
                arena.adopt(slot, (state["exp_avg"], state["exp_avg_sq"]))

    wrap(optimizer, ("state_dict",), arena.wait)
    wrap(optimizer, ("load_state_dict",), arena.wait, loaded)
    wrap(zero, READERS[stage_of(zero)], arena.wait)
    wrap(zero, WRITERS[stage_of(zero)], arena.wait, arena.masters_written)
    settle = _fused.settler(zero, arena)
    wrap(zero, GRADIENTS, settle)
    wrap(zero, ("reset_cpu_buffers",), _fused.settler_after_overflow(zero, settle))
    if stage_of(zero) == 2:
        make_params_wait(zero, arena, settle)


def make_params_wait(zero: Any, arena: FlatArena, settle: Callable[[], None] = lambda: None) -> None:
    """Does the same for the functions that stages 1 and 2 give each model parameter, for safe_get_full_fp32_param() and
    its like. They are given when the optimizer is made, and again when a checkpoint is loaded."""
    link = zero._link_all_hp_params

    @functools.wraps(link)
    def link_all_hp_params(*args: Any, **keywords: Any) -> None:
        link(*args, **keywords)
        for param in (param for group in zero.bit16_groups for param in group):
            wrap(param, ("get_full_hp_param",), arena.wait)
            wrap(param, ("set_full_hp_param",), arena.wait, arena.masters_written)
            wrap(param, PARAM_GRADIENTS, settle)

    zero._link_all_hp_params = link_all_hp_params


def wrap(owner: Any, names: Iterable[str], before: Callable[[], Any], after: Callable[[], Any] = lambda: None) -> None:
    """Calls before() ahead of those functions of an object, and after() behind them."""
    for name in names:
        function = getattr(owner, name, None)
        if function is not None:
            setattr(owner, name, _between(before, function, after))


def _between(before: Callable[[], Any], function: Any, after: Callable[[], Any]) -> Any:
    @functools.wraps(function)
    def between(*args: Any, **keywords: Any) -> Any:
        before()
        result = function(*args, **keywords)
        after()
        return result

    return between


def _make_late(zero: Any, arena: FlatArena) -> None:
    """Lets ZeRO's step() publish the result of the step before, and hand over its own gradients at its end."""
    from deepspeed.accelerator import get_accelerator

    step = zero.step

    @functools.wraps(step)
    def late_step(*args: Any, **keywords: Any) -> Any:
        arena.before_late_step()
        result = step(*args, **keywords)
        get_accelerator().synchronize()  # ZeRO's copies read what the optimizer writes next
        arena.submit_and_turn()
        if hasattr(zero, "_get_offload_gradient_dict"):
            zero._get_offload_gradient_dict()  # views of the gradients, which are in the other buffer now
        return result

    zero.step = late_step


def _close_with(zero: Any, arena: FlatArena) -> None:
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
