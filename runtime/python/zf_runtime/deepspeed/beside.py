"""Lets ZeRO's step() note when it begins and ends, and end before the optimizer process has done the step: mode exact,
of all stages."""

from __future__ import annotations

from typing import Any, Callable

import torch

from .arena import FlatArena
from .replacing import Function, replace


def count_steps(zero: Any, arena: FlatArena, parts: Function, *, waits: bool = True) -> None:
    """Lets ZeRO's step() do parts(), and notes when it begins and ends, so that an interrupted one is known. waits: an
    interrupted one ends when its gradients are no longer read, since the next backward writes to them."""
    @replace(zero, "step")
    def counted_step(_: Function, *args: Any, **keywords: Any) -> Any:
        try:
            return arena.in_step(parts, *args, **keywords)
        except BaseException:
            if waits:
                arena.wait()
            raise


def make_beside(zero: Any, arena: FlatArena, hides: Callable[[], bool], hand_over: Callable[[], None]) -> None:
    """Lets ZeRO's step() only note what is stepped, and calls hand_over() at its end, which hands it over. hides(): is
    asked before each step whether it may run beside what follows. If not, the optimizer process has done each partition
    when ZeRO goes on, as in mode "wait"; hand_over() is called all the same. With keep, all are handed over together
    then, and waited for."""
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
    """Lets ZeRO-3 publish no partition while its step is only noted."""
    partitions = list(zero.fp32_partitioned_groups_flat)

    @replace(zero, "_reassign_or_swap_out_partitioned_parameters")
    def reassign(function: Function, sub_group: int) -> None:
        if not arena.is_beside or arena.slot_of(partitions[sub_group]) is None:
            function(sub_group)


def hooks_of(optimizer: Any) -> list[Any]:
    """Returns where the hooks before and behind an optimizer's step are, its own and those of all: they may read what
    they like. PyTorch 1 has none of them."""
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
