"""Changes ZeRO's step() for mode exact, in all stages: it notes when it begins and ends, and ends before the optimizer
process has done the step."""

from __future__ import annotations

from typing import Any, Callable

import torch

from .arena import FlatArena
from .replacing import Function, replace


def count_steps(zero: Any, arena: FlatArena, parts: Function, *, waits: bool = True) -> None:
    """Makes ZeRO's step() call parts(), and notes when a step begins and ends, so that an interrupted step is known.
    waits: an interrupted step() also waits until its gradients are read, since the next backward writes to them."""
    @replace(zero, "step")
    def counted_step(_: Function, *args: Any, **keywords: Any) -> Any:
        try:
            return arena.in_step(parts, *args, **keywords)
        except BaseException:
            if waits:
                arena.wait()
            raise


def make_beside(zero: Any, arena: FlatArena, hides: Callable[[], bool], hand_over: Callable[[], None]) -> None:
    """Makes ZeRO's step() only note the steps of partitions. At its end it calls hand_over(), which hands them over.
    hides(): says before each step whether it may run beside the code after step(). If it may not, ZeRO waits for the
    optimizer process at each partition, as in mode "wait", and then calls hand_over() too. With keep, it hands over all
    partitions together, and waits for them at the end."""
    step = zero.step

    def parts(*args: Any, **keywords: Any) -> Any:
        hides_step = hides()
        arena.is_beside = hides_step or arena.steps.keeps
        if not hides_step:
            arena.take_back()
        try:
            result = step(*args, **keywords)
        finally:
            arena.is_beside = False
        hand_over()
        if not hides_step:
            arena.wait()
        if arena.speculation is not None:
            arena.may_begin(arena.speculation.stepped(hides_step))
        return result

    count_steps(zero, arena, parts)


def reassign_later(zero: Any, arena: FlatArena) -> None:
    """Keeps ZeRO-3 from publishing a partition while its step is only noted."""
    partitions = list(zero.fp32_partitioned_groups_flat)

    @replace(zero, "_reassign_or_swap_out_partitioned_parameters")
    def reassign(function: Function, sub_group: int) -> None:
        if not arena.is_beside or arena.slot_of(partitions[sub_group]) is None:
            function(sub_group)


def hooks_of(optimizer: torch.optim.Optimizer) -> list[Any]:
    """Returns the lists of hooks that run before and after the step of an optimizer: its own, and those of all
    optimizers. Such a hook may read any parameter. PyTorch 1 has none of these lists."""
    from torch.optim import optimizer as of_all

    names = ((optimizer, "_optimizer_step"), (of_all, "_global_optimizer"))
    found = (getattr(owner, f"{name}_{when}_hooks", None) for owner, name in names for when in ("pre", "post"))
    return [hooks for hooks in found if hooks is not None]


def all_ranks_can(group: Any, can: bool) -> bool:
    """Returns whether all ranks of a process group can do something. All of them call it."""
    if torch.distributed.get_world_size(group) == 1:
        return can
    from deepspeed.accelerator import get_accelerator

    answer = get_accelerator().ByteTensor([can])
    torch.distributed.all_reduce(answer, torch.distributed.ReduceOp.MIN, group=group)
    return bool(answer.item())
