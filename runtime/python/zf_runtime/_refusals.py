"""Refuses what a program has changed behind the optimizer's back, where the arena cannot follow. Nothing that the
program does is ignored in silence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ._flat_group import FlatGroup
from ._published import kind
from ._state import State
from .errors import ZfError


def _refusal(group: int | None, what: str, remedy: str) -> ZfError:
    place = "param_groups" if group is None else f"param_group {group}"
    return ZfError(f"{place}: {what}: {remedy}. zf_runtime.AdamW, which steps a program's own tensors on the CPU, "
                   "takes it as it is")


def check_lists(groups: Sequence[FlatGroup], param_groups: Sequence[dict[str, Any]]) -> None:
    """Raises ZfError if param_groups holds other parameters than were given to the optimizer, or if one of them has
    another shape, type or device now, or was unfrozen. Takes dicts that were replaced by equal ones."""
    if len(param_groups) != len(groups):
        raise _refusal(None, f"there are {len(param_groups)}, and {len(groups)} were given to the optimizer",
                       "call add_param_group() for a new one" if len(param_groups) > len(groups) else
                       "make a new OverlappedAdamW with those that are left")
    for group, settings in zip(groups, param_groups):
        given = settings["params"]
        if len(given) != len(group.given) or any(now is not then for now, then in zip(given, group.given)):
            raise _refusal(group.index, f"it holds {_changed(given, group.given)} the parameters that were given to "
                           "the optimizer", "call add_param_group() for new ones, or make a new OverlappedAdamW")
        group.settings = settings
        for number, (param, then) in enumerate(zip(group.params, group.kinds)):
            now = kind(param)
            if now != then:
                raise _refusal(group.index, f"parameter {number} was {_kind(*then)}, and is {_kind(*now)}",
                               "make a new OverlappedAdamW")
        for number in group.frozen:
            if given[number].grad is not None:
                raise _refusal(group.index, f"parameter {number} has a gradient, and was frozen when it was given to "
                               "the optimizer", "unfreeze it before, or make a new OverlappedAdamW")


def _kind(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> str:
    return f"{dtype} of shape {tuple(shape)} on {device}"


def _changed(now: Sequence[Any], then: Sequence[Any]) -> str:
    if len(now) != len(then):
        return f"{len(now)} parameters, not"
    return f"others at {[number for number, (a, b) in enumerate(zip(now, then)) if a is not b]} than"


def check_state(groups: Sequence[FlatGroup], state: State) -> None:
    """Raises ZfError if entries of `state` were removed, replaced, moved or added, or if a step was written. Moments
    may be written in place after synchronize(): they are the optimizer's own memory. (What is written beside a step is
    partly overwritten, which nobody can see.) Call it while no step is running."""
    for group in groups:
        for number, param in enumerate(group.params):
            entry, shown = state.get(param), group.shown[number] if group.shown else {}
            what = _edited(entry, shown, group.own[number]) if entry or shown else ""
            if what:
                raise _refusal(group.index, f"the program has {what} parameter {number}",
                               "change it by load_state_dict(), or write to the moments in place, after synchronize()")
        if group.shown and float(group.count) != group.step:
            raise _refusal(group.index, f"its step is {group.step}, and the program has written "
                           f"{float(group.count):g} to state[parameter]['step']",
                           "change it by load_state_dict()")


def _edited(entry: dict[str, Any] | None, shown: dict[str, Any], own: dict[str, Any]) -> str:
    """Returns what was done to an entry; "" if nothing."""
    if entry is None:
        return "removed the state of"
    if not shown:
        return "added a state of"
    changed = [name for name, value in shown.items() if entry.get(name) is not value]
    if changed:
        return f"replaced or removed '{changed[0]}' in the state of"
    moved = [name for name, value in shown.items() if _place(value) != _place(own[name])]
    return f"given other memory, by .data, to '{moved[0]}' in the state of" if moved else ""


def _place(tensor: Any) -> tuple[Any, ...]:
    if not isinstance(tensor, torch.Tensor):
        return (tensor,)
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()
