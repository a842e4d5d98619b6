"""Puts the partitions of a ZeRO optimizer into an arena, from outside DeepSpeed, and pins it for the GPU."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import ZfError
from ..optim.overlap.steps import Steps
from . import exact_stage_3, fused, keeping
from .arena import MOMENTS, FlatArena, Partition, hand_out
from .beside import all_ranks_can, count_steps
from .closing import close_with, end_abandoned
from .layout import Unsupported, cpu_adam_of, is_superoffload, partitions_of, stage_of
from .messages import count, describe, say
from .operator import CpuAdamOperator
from .replacing import wrap
from .skipped import announce_skipped_steps
from .waiting import make_others_wait

RESUMED = ("ZeRO-3 publishes the newest weights when it loads, and a late step those of the step before: from here on "
           "losses are close to those of a job that was not interrupted, but not the same bits")


def attach(zero: Any, mode: str, options: dict[str, Any], state: str = "fp32", speculates: bool = False) -> None:
    """Moves the partitions of a ZeRO optimizer into an arena. Call it when its initialize_optimizer_states() returns:
    all partitions and gradients exist then, all gradients are zero, and nothing holds views of them. Says in one line
    what it did, or why not and who steps. state: of the partitions, "fp32" or "bf16". speculates: in mode exact steps
    begin in backward."""
    end_abandoned()
    announce_skipped_steps(zero)
    partitions: list[Partition] = []
    steps = Steps(options.get("keep"))
    mode = _possible_mode(zero, mode)
    try:
        optimizer = cpu_adam_of(zero)
        if is_superoffload(zero):
            optimizer.ds_opt_adam.use_own()
        partitions = partitions_of(zero, optimizer, mode, state)
        if steps.keeps:
            keeping.check(zero, partitions)
        for partition in partitions:  # the arena has gradients of its own: both together would be the peak of memory
            unpin(partition.param.grad)
            partition.param.grad = None
        arena = _open(zero, partitions, mode, options, state, speculates and _can_speculate(zero, mode, state),
                      steps)
        if mode == "exact" and not all_ranks_can(zero.dp_process_group, True):
            mode = arena.mode = _waiting("another rank has no optimizer process")
            if arena.speculation is not None:  # its log takes memory
                arena.close()
                del arena  # its memory is free before the next one takes as much
                arena = _open(zero, partitions, mode, options, state, False, Steps(None))
    except (Unsupported, ZfError) as reason:
        if steps.keeps:
            why = keeping.with_way_out(str(reason))
            steps.refuse(why)
            raise ZfError(f"keep={options['keep']!r}, and ZeRO's partitions cannot be kept: {why}") from None
        _go_on_without(zero, partitions, mode, state, str(reason))
        return
    _fill(arena, optimizer)
    optimizer.ds_opt_adam.arena = arena
    unclipped = (fused.fuse_stage_3 if stage_of(zero) == 3 else fused.fuse_stage_1_and_2)(zero, arena)
    if steps.keeps:
        keeping.step_together(zero, arena)
    make_others_wait(zero, optimizer, arena)
    if mode == "late":
        make_late(zero, arena)
    elif mode == "exact":
        _exact(zero).make_exact(zero, arena, unclipped)
    finish(zero, arena)


def _open(zero: Any, partitions: list[Partition], mode: str, options: dict[str, Any], state: str, speculates: bool,
          steps: Steps) -> FlatArena:
    """Opens an arena, without a log of steps that begin in backward if that has no memory. With keep it has a log in
    all ranks or is refused."""
    arena = FlatArena(partitions, mode, options, state, speculates=speculates, steps=steps,
                      kinds=lambda: keeping.kinds_of(zero))
    if steps.refusal:
        say(f"no step begins in backward, since its log has no memory: {steps.refusal}")
    return arena


def _go_on_without(zero: Any, partitions: list[Partition], mode: str, state: str, reason: str) -> None:
    """Leaves ZeRO as it was, and says who steps."""
    for partition in partitions:
        partition.param.grad = zeros_like(partition.param, zero)
    if mode == "exact":
        all_ranks_can(zero.dp_process_group, False)
    note = f", and mode \"{mode}\" has no effect" if mode in ("exact", "late") else ""
    note += "" if state == "fp32" else f", with its state in fp32 and not in {state}"
    if not _announce_muon(zero, note):
        say(f"{reason}. {_who_steps(zero)}{note}")


def _fill(arena: FlatArena, optimizer: Any) -> None:
    """Lets ZeRO's partitions lie in the arena. They have ZeRO's values, or those of a process that had ended."""
    was_kept = arena.runtime.stats().was_kept
    for slot, steps in zip(arena.slots, arena.steps.counts.tolist()):
        with torch.no_grad():
            if arena.steps.kept is None:
                slot.master.copy_(slot.param)
            for mine in (*slot.grads, *(slot.moments if arena.steps.kept is None else ())) if was_kept else ():
                mine.zero_()
        unpin(slot.param)
        slot.param.data = slot.master
        slot.param.grad = hand_out(slot.grads[0])
        optimizer.state[slot.param] = {"step": int(steps)} | dict(zip(MOMENTS, map(hand_out, slot.moments)))


def _can_speculate(zero: Any, mode: str, state: str) -> bool:
    """Returns whether steps may begin in backward. Says why not."""
    if mode != "exact":
        return False
    missing = [name for name in _exact(zero).SPECULATION_NEEDS if not hasattr(zero, name)]
    reason = f"the state is in {state}" if state != "fp32" else ""
    if missing:
        reason = f"{type(zero).__name__} has no {missing[0]}"
    elif not getattr(zero, "partition_gradients", True) and not zero.overlap_comm:
        reason = "stage 1 without overlap_comm takes all gradients when backward has ended"
    if reason:
        say(f"{reason}: no step begins in backward")
    return not reason


def _possible_mode(zero: Any, mode: str) -> str:
    """Returns the mode, or "wait" if it is "exact" and the step cannot run beside the next forward. Says why. All ranks
    answer the same."""
    if mode != "exact":
        return mode
    if getattr(zero, "zenflow", False):
        return _waiting("ZenFlow has its own order of steps")
    try:  # older torch lacks what stages 1 and 2 import
        reason = _exact(zero).refusal(zero)
    except ImportError as error:
        return _waiting(f"this PyTorch is too old ({error})")
    return _waiting(reason) if reason else mode


def _exact(zero: Any) -> Any:
    """Returns the module for mode exact of an optimizer's stage."""
    if stage_of(zero) == 3:
        return exact_stage_3
    from . import exact_stages_1_and_2

    return exact_stages_1_and_2


def _waiting(reason: str) -> str:
    say(f"{reason}: mode \"exact\" has no effect, and training waits for each step")
    return "wait"


def _who_steps(zero: Any) -> str:
    """Returns who steps a ZeRO optimizer that has no arena."""
    operator = getattr(getattr(zero, "optimizer", None), "ds_opt_adam", None)
    if not isinstance(operator, CpuAdamOperator) or is_superoffload(zero):
        return "DeepSpeed's own optimizer is used"
    return "There is no optimizer process: DeepSpeedCPUAdam steps in the training process"


def _announce_muon(zero: Any, note: str) -> bool:
    """Returns whether the optimizer is DeepSpeed's Muon with a DeepSpeedCPUAdam of ours for its other parameters. That
    says at its first step who steps which."""
    operator = getattr(getattr(getattr(zero, "optimizer", None), "aux_optimizer", None), "ds_opt_adam", None)
    if not isinstance(operator, CpuAdamOperator):
        return False
    params = [param for group in getattr(zero, "fp16_groups", None) or zero.bit16_groups for param in group]
    muon, adam = (count(sum(getattr(param, "ds_numel", param.numel()) for param in params
                            if bool(getattr(param, "use_muon", False)) is wanted)) for wanted in (True, False))
    operator.introduction = (f"Muon steps {muon} of this model (use_muon is true) by DeepSpeed's own code, and "
                             f"DeepSpeedCPUAdam steps the other {adam} in place{note}")
    return True


def finish(zero: Any, arena: FlatArena) -> None:
    """Pins the arena if there is a GPU, ends the optimizer process with the engine, and says what runs."""
    note = pin(arena) if torch.cuda.is_initialized() else ""
    close_with(zero, arena)
    say(describe(arena) + (f"; {note}" if note else ""))


def make_late(zero: Any, arena: FlatArena) -> None:
    """Lets ZeRO's step() publish the result of the step before, and hand over its own gradients at its end."""
    from deepspeed.accelerator import get_accelerator

    step = zero.step

    def parts(*args: Any, **keywords: Any) -> Any:
        arena.before_late_step()
        result = step(*args, **keywords)
        get_accelerator().synchronize()  # ZeRO's copies read what the optimizer writes next
        # In stages 1 and 2 ZeRO has views of the gradients, which are in the other buffer then.
        arena.submit_and_turn(getattr(zero, "_get_offload_gradient_dict", lambda: None))
        return result

    count_steps(zero, arena, parts, waits=False)
    if stage_of(zero) == 3:
        wrap(zero, ("load_state_dict",), lambda: None, lambda: say(RESUMED))


def zeros_like(param: torch.Tensor, zero: Any) -> torch.Tensor:
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


def pin(arena: FlatArena) -> str:
    """Pins the arena for CUDA, after torch has given back what it had pinned. Returns why memory stays pageable; "" if
    it is pinned."""
    empty_cache = getattr(torch._C, "_host_emptyCache", None)
    if empty_cache is not None:
        empty_cache()
    return arena.register()
