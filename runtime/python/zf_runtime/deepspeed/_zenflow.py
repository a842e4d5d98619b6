"""Lets ZenFlow with overlap_step use zf-optimizer in the place of its own optimizer process.

ZenFlow keeps one set of moments per gradient buffer, so each set sees every second step, and numbers the steps U, 2U, ….
The arena has two sets, too. Unlike ZenFlow's own, they are part of a checkpoint.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch

from ..errors import ZfError, ZfTimeout
from ._arena import FlatArena, Partition, Slot
from ._zero import Unsupported, after_wait, check_partition, finish, fuse_scale, say, unpin

MOMENTS = ("exp_avg", "exp_avg_sq", "exp_avg_set_1", "exp_avg_sq_set_1")


def start_optimizer_process(zero: Any, original: Callable[[Any], None], options: dict[str, Any]) -> None:
    """Does what ZenFlow's function of this name does, with zf-optimizer. If that cannot be, says why, and calls the
    original."""
    try:
        arena = FlatArena(_partitions_of(zero), "zenflow", options)
    except (Unsupported, ZfError) as reason:
        say(f"{reason}. ZenFlow's own optimizer process is used")
        original(zero)
        return
    if getattr(zero, "zf_loaded", False) and not any(MOMENTS[0] in zero.optimizer.state[slot.param] for slot in arena.slots):
        say("the checkpoint has no moments, because ZenFlow's own optimizer saves none: they begin at zero")
    for slot in arena.slots:
        _take(slot)
    zero.zf_op, zero.zf_ctrl = Operator(zero, arena), torch.zeros(1, dtype=torch.uint8)
    if not zero.zf_stage3:
        zero._link_all_hp_params()  # its views were of the memory that the partitions lay in
        fuse_scale(zero, arena)
    for name in ("sync_fp32_param_from_gpu", "state_dict", "load_state_dict", "refresh_fp32_params"):
        if hasattr(zero, name):
            setattr(zero, name, after_wait(arena, getattr(zero, name)))
    zero.process_optimizer_established = True
    finish(zero, arena)


def remembering_the_load(load_state_dict: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a load_state_dict() that notes that a checkpoint was loaded. It runs before the optimizer process starts."""

    @functools.wraps(load_state_dict)
    def load(zero: Any, *args: Any, **keywords: Any) -> Any:
        zero.zf_loaded = True
        return load_state_dict(zero, *args, **keywords)

    return load


def _partitions_of(zero: Any) -> list[Partition]:
    """Returns what ZenFlow's process would step. Raises Unsupported with the reason."""
    if zero.zf_stage3:
        params, targets = zero.fp32_partitioned_groups_flat, zero.fp16_partitioned_groups_flat
    else:
        params = [group["params"][0] for group in zero.optimizer.param_groups]
        targets = zero.bit16_groups_flat
    for index, param in enumerate(params):
        check_partition(index, param, list(getattr(param, "overlap_grad", [])), 2)
    return [Partition(param, target.dtype, adamw=True) for param, target in zip(params, targets)]


def _take(slot: Slot) -> None:
    """Moves a partition into the arena, with both of its gradient buffers, which hold gradients already."""
    param = slot.param
    with torch.no_grad():
        slot.master.copy_(param)
        for mine, given in zip(slot.grads, param.overlap_grad):
            mine.copy_(given)
    for tensor in (param, *param.overlap_grad):
        unpin(tensor)
    param.data = slot.master
    param.overlap_grad = list(slot.grads)
    param.stale_param = slot.result


class Operator:
    """The two functions of ZenFlow's operator that DeepSpeed calls once the process is there."""

    def __init__(self, zero: Any, arena: FlatArena):
        self.arena = arena
        self._optimizer = zero.optimizer
        for slot in arena.slots:
            self._state_of(slot)

    def zenflow_adam_submit(self, control: int, buffer: int, step: int, lr: list[float], beta1: list[float],
                            beta2: list[float], eps: list[float], weight_decay: list[float],
                            bias_correction: list[int]) -> None:
        for index, slot in enumerate(self.arena.slots):
            self._state_of(slot)["step"] = step
            self.arena.note(slot, step, lr=lr[index], betas=(beta1[index], beta2[index]), eps=eps[index],
                            weight_decay=weight_decay[index], bias_correction=bool(bias_correction[index]))
        self.arena.submit(buffer)

    def zenflow_adam_wait(self, control: int, timeout_s: float) -> bool:
        """Waits for all that was submitted. (DeepSpeed's counts completions. With full_warm_up_rounds 0 it is one behind
        from the second update on, and may read a result that is half written.)"""
        try:
            self.arena.wait(timeout_s)
        except ZfTimeout:
            return False
        return True

    def _state_of(self, slot: Slot) -> dict[str, Any]:
        """Returns the partition's entry in the optimizer's state, whose moments are views of the arena. Takes over what a
        checkpoint has brought there."""
        state = self._optimizer.state[slot.param]
        state.setdefault("step", 0)
        self.arena.adopt(slot, [state.setdefault(name, mine) for name, mine in zip(MOMENTS, slot.moments)])
        return state
