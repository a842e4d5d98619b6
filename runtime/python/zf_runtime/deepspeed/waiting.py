"""Lets everything outside the step wait for it before it reads or writes state or gradients."""

from __future__ import annotations

from typing import Any, Callable

import torch

from . import fused
from .arena import FlatArena
from .beside import count_steps
from .layout import READERS, RESTORER, WRITERS, stage_of
from .replacing import Function, replace, wrap

# Functions that read or write gradients from outside: of a ZeRO optimizer of stage 3, and of a parameter of the others.
GRADIENTS = ("get_fp32_grad_for_param", "set_fp32_grad_for_param", "get_local_fp32_grad_for_param",
             "set_local_grad_for_param", "update_fp32_grad_for_param_vectorized", "get_fp32_grad_partitions")
PARAM_GRADIENTS = ("get_full_hp_grad", "set_full_hp_grad")


def make_others_wait(zero: Any, optimizer: Any, arena: FlatArena) -> None:
    """Lets everything that reads or writes the optimizer's state from outside wait for the step that is under way. In
    mode "wait" that is only a signal handler, or a program that was interrupted."""

    arena.state_of = lambda slot: optimizer.state.get(slot.param, {})

    def loaded() -> None:
        """Takes over the moments that a checkpoint has brought."""
        for slot in arena.slots:
            state = optimizer.state.get(slot.param, {})
            if "exp_avg" in state:
                arena.adopt(slot, (state["exp_avg"], state["exp_avg_sq"]))

    wrap(optimizer, ("state_dict",), arena.settle)
    wrap(optimizer, ("load_state_dict",), arena.settle, loaded)
    if arena.state != "fp32":
        give_fp32(zero, optimizer)
    wrap(zero, ("state_dict", "load_state_dict"), arena.settle)  # ZeRO's own step() calls neither
    wrap(zero, READERS[stage_of(zero)], arena.wait)
    wrap(zero, (*WRITERS[stage_of(zero)], RESTORER), arena.before_writing, arena.masters_written)
    settle = fused.settler(zero, arena)
    wrap(zero, GRADIENTS, settle)
    wrap(zero, ("reset_cpu_buffers",), fused.settler_after_overflow(zero, settle))
    if arena.mode == "wait":
        count_steps(zero, arena, zero.step)
    if stage_of(zero) == 2:
        make_params_wait(zero, arena, settle)


def give_fp32(zero: Any, optimizer: Any) -> None:
    """Makes checkpoints read moments in bf16 as fp32 copies, and in stage 3 also the functions behind
    safe_get_full_optimizer_state() and its like. (In stages 1 and 2 these copy to fp32 themselves.) Moments that they
    write are rounded to nearest."""
    @replace(optimizer, "state_dict")
    def state_dict(saved: Function, *args: Any, **keywords: Any) -> dict[str, Any]:
        return {name: _widened(value) if name == "state" else value for name, value in saved(*args, **keywords).items()}

    if hasattr(zero, "_get_base_optimizer_state"):
        replace(zero, "_get_base_optimizer_state")(lambda base: _widened(base()))
    if hasattr(zero, "_get_fp32_opt_state_partition"):
        @replace(zero, "_get_fp32_opt_state_partition")
        def in_fp32(partition: Function, param: torch.Tensor, release_swap_buffers: bool,
                    optim_state_key: str | None = None) -> Any:
            part, group = partition(param, release_swap_buffers, optim_state_key)
            return (part.float() if release_swap_buffers else part), group  # else it is written


def _widened(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _widened(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_widened(each) for each in value]
    return value.float() if isinstance(value, torch.Tensor) and value.dtype is torch.bfloat16 else value


def make_params_wait(zero: Any, arena: FlatArena, settle: Callable[[], None] = lambda: None) -> None:
    """Makes more functions wait for a step under way: those that stages 1 and 2 put on each model parameter, for
    safe_get_full_fp32_param() and its like. DeepSpeed puts them there when it makes the optimizer, and again when it
    loads a checkpoint."""
    @replace(zero, "_link_all_hp_params")
    def link_all_hp_params(link: Function, *args: Any, **keywords: Any) -> None:
        link(*args, **keywords)
        for param in (param for group in zero.bit16_groups for param in group):
            wrap(param, ("get_full_hp_param",), arena.wait)
            wrap(param, ("set_full_hp_param",), arena.before_writing, arena.masters_written)
            wrap(param, PARAM_GRADIENTS, settle)
