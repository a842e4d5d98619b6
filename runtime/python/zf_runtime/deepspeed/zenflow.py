"""Lets ZenFlow with overlap_step use zf-optimizer in the place of its own optimizer process.

ZenFlow keeps one set of moments per gradient buffer, so each set sees every second step, and numbers the steps U, 2U,
…. The arena has two sets, too. Unlike ZenFlow's own, they are part of a checkpoint.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch

from ..errors import ZfError, ZfTimeout
from .arena import MOMENTS, FlatArena, Partition, Slot, hand_out, is_over
from .attach import finish, unpin
from .closing import end_abandoned
from .layout import READERS, RESTORER, WRITERS, Unsupported, check_names, check_partition, stage_of
from .local_step import OptimizerState
from .messages import say
from .replacing import wrap
from .skipped import announce_skipped_steps
from .waiting import make_params_wait

#: What overwrites the weights at a selection boundary, in stages 1 and 2. In stage 3 see before_selection().
SELECTION = {2: ("sync_fp32_param_from_gpu",), 3: ()}


def start_optimizer_process(zero: Any, original: Callable[[Any], None], options: dict[str, Any]) -> None:
    """Does what ZenFlow's function of this name does, with zf-optimizer. If that cannot be, says why, and calls the
    original."""
    end_abandoned()
    try:
        arena = FlatArena(_partitions_of(zero), "zenflow", options)
    except (Unsupported, ZfError) as reason:
        say(f"{reason}. ZenFlow's own optimizer process is used")
        original(zero)
        return
    for slot in arena.slots:
        _take(slot)
    zero.zf_op, zero.zf_ctrl = ZenFlowOperator(zero, arena), torch.zeros(1, dtype=torch.uint8)
    stage = stage_of(zero)
    wrap(zero, ("state_dict", "load_state_dict"), arena.settle)
    wrap(zero, (*SELECTION[stage], *READERS[stage], *WRITERS[stage], RESTORER), arena.wait)
    if not zero.zf_stage3:
        make_params_wait(zero, arena)
        zero._link_all_hp_params()  # its views were of the memory that the partitions lay in
    announce_skipped_steps(zero)  # until now there was no step
    zero.process_optimizer_established = True
    finish(zero, arena)


def before_selection(sync: Callable[[Any], None]) -> Callable[[Any], None]:
    """Returns the function of stage 3's module that overwrites the weights at a selection boundary, so that it waits
    for the step that is under way."""

    @functools.wraps(sync)
    def sync_fp32_param_from_gpu(zero: Any) -> None:
        operator = getattr(zero, "zf_op", None)
        if isinstance(operator, ZenFlowOperator):
            operator.arena.wait()
        sync(zero)

    return sync_fp32_param_from_gpu


def announcing(load_state_dict: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a load_state_dict() of ZenFlow's that says if the checkpoint has no moments. The moments that it has are
    taken over when the optimizer process starts, or at its next step. Optimizers without overlap_step, which are of the
    same class in stage 3, load as before."""

    @functools.wraps(load_state_dict)
    def load(zero: Any, *args: Any, **keywords: Any) -> Any:
        if not getattr(zero, "zenflow", False) or not getattr(zero, "zenflow_overlap_step", True):
            return load_state_dict(zero, *args, **keywords)
        result = load_state_dict(zero, *args, **keywords)
        if not keywords.get("load_optimizer_states", True):
            return result
        zero.zf_steps_at_load = zero.micro_step + 1
        if not any(MOMENTS[0] in state for state in zero.optimizer.state.values()):
            say("the checkpoint has no moments, because ZenFlow's own optimizer saves none: they begin at zero")
        return result

    return load


def _partitions_of(zero: Any) -> list[Partition]:
    """Returns what ZenFlow's process would step. Raises Unsupported with the reason."""
    check_names(zero, SELECTION[stage_of(zero)])
    if zero.zf_stage3:
        params, targets = zero.fp32_partitioned_groups_flat, zero.fp16_partitioned_groups_flat
    else:
        params = [group["params"][0] for group in zero.optimizer.param_groups]
        targets = zero.bit16_groups_flat
    for index, param in enumerate(params):
        check_partition(index, param, list(getattr(param, "overlap_grad", [])), 2)
    return [Partition(param, target.dtype) for param, target in zip(params, targets)]


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
    param.overlap_grad = list(map(hand_out, slot.grads))
    param.stale_param = hand_out(slot.result)


class ZenFlowOperator:
    """The two functions of ZenFlow's operator that DeepSpeed calls once the process is there."""

    def __init__(self, zero: Any, arena: FlatArena):
        self.arena = arena
        self._zero = zero
        self._optimizer = zero.optimizer
        arena.state_of = lambda slot: self._optimizer.state[slot.param]
        self._calls = OptimizerState((0.0, 0.0, 0.0, 0.0, 0.0, True, False))  # AdamW
        self._earlier_steps = 0  # what the loaded moments have seen. ZenFlow's own count is in no checkpoint.
        self._take_states()

    def zenflow_adam_submit(self, control: int, buffer: int, step: int, lr: list[float], beta1: list[float],
                            beta2: list[float], eps: list[float], weight_decay: list[float],
                            bias_correction: list[int]) -> None:
        self._take_states()
        step += self._earlier_steps

        def submit() -> None:
            for index, slot in enumerate(self.arena.slots):
                self.arena.adopt_gradients(slot, buffer, slot.param.overlap_grad[buffer])
                self._optimizer.state[slot.param]["step"] = step
                call = self._calls.next(step, (beta1[index], beta2[index]), lr[index], eps[index], weight_decay[index],
                                        bool(bias_correction[index]))
                self.arena.note(slot, call.scalars)
                self._calls.last = call
            self.arena.submit(buffer)

        self.arena.in_step(submit)

    def zenflow_adam_wait(self, control: int, timeout_s: float) -> bool:
        """Waits for all that was submitted. (DeepSpeed's counts completions. With full_warm_up_rounds 0 it is one
        behind from the second update on, and may read a result that is half written.)"""
        try:
            self.arena.wait(timeout_s)
        except ZfTimeout:
            return False
        return True

    def _take_states(self) -> None:
        """Takes over the moments that a checkpoint has brought, or that the program gave other memory. Where there are
        none, they begin at zero."""
        states = [self._optimizer.state[slot.param] for slot in self.arena.slots]
        found = [[state.get(name) for name in MOMENTS] for state in states]
        at_load = getattr(self._zero, "zf_steps_at_load", None)
        if at_load is None and all(is_over(*pair) for slot, moments in zip(self.arena.slots, found)
                                   for pair in zip(slot.moments, moments)):
            return
        self.arena.settle()
        for slot, state, moments in zip(self.arena.slots, states, found):
            step = int(state.setdefault("step", 0))
            if at_load is not None or step != self.arena.runtime.step(slot.index):
                self._earlier_steps = step - (at_load or 0) if step else 0
            self.arena.adopt(slot, moments)
        vars(self._zero).pop("zf_steps_at_load", None)
