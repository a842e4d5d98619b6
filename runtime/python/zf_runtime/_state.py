"""Converts between the state of torch.optim.AdamW and the runtime's memory.

The runtime counts steps by group, and torch by parameter. Here the parameters of one group share one step tensor.
In a state_dict each gets its own, because torch's own optimizers increase them in place.
"""

from __future__ import annotations

import warnings
from collections.abc import MutableMapping, Sequence
from typing import Any, NamedTuple

import torch

from . import _formats
from ._flat_group import FlatGroup, check_supported
from .errors import ZfError
from .runtime import Runtime

State = MutableMapping[torch.Tensor, Any]


class SavedGroup(NamedTuple):
    step: int
    arrays: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]  # master, exp_avg, exp_avg_sq by parameter


def show(group: FlatGroup, state: State) -> None:
    """Fills torch's `state` with views of the group's moments."""
    for param, entry in zip(group.params, group.entries):
        state[param] = dict(entry)  # the program may change its own
    group.shown = group.entries  # last: an interrupted show() is called again, also by a signal handler in it


def count(group: FlatGroup, step: int, state: State) -> None:
    """Makes `step` the group's count. Before the first step there is no state, as in torch."""
    if group.shown or step > 0:
        group.count.fill_(step)
        if not group.shown:
            show(group, state)
    group.step = step  # last: an interrupted count() is called again


def with_own_steps(state_dict: dict[str, Any]) -> dict[str, Any]:
    """Gives every parameter in the state_dict its own step tensor."""
    state_dict["state"] = {key: {**entry, "step": entry["step"].clone()} if "step" in entry else entry
                           for key, entry in state_dict["state"].items()}
    return state_dict


def low_bits_of(group: FlatGroup) -> list[torch.Tensor]:
    """Returns what the split masters of a group have besides its parameters."""
    return [_formats.low_bits(param.detach().cpu(), group.master(number)) for number, param in enumerate(group.params)]


def add_low_bits(state_dict: dict[str, Any], groups: Sequence[FlatGroup],
                 param_groups: Sequence[dict[str, Any]]) -> None:
    """Adds the low bits of split masters to the entries of a state_dict."""
    for group, settings in zip(groups, param_groups):
        if group.is_split and group.shown:
            for entry, low in zip(_entries(state_dict, group, settings), low_bits_of(group)):
                entry["low"] = low


def _entries(state_dict: dict[str, Any], group: FlatGroup, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the saved state of each of the group's parameters; {} if there is none."""
    numbers = state_dict["param_groups"][group.index]["params"]
    by_param = dict(zip(settings["params"], numbers))
    return [state_dict["state"].get(by_param[param], {}) for param in group.params]


def check(state_dict: dict[str, Any], groups: Sequence[FlatGroup], param_groups: Sequence[dict[str, Any]]) -> None:
    """Refuses a state_dict that cannot be loaded, before anything is changed. torch itself reports other mismatches."""
    saved = state_dict["param_groups"]
    for index, settings in enumerate(saved):
        check_supported(settings, index)
    if [len(group["params"]) for group in saved] != [len(group["params"]) for group in param_groups]:
        return  # torch's load_state_dict reports it
    for group, settings in zip(groups, param_groups):
        entries = _entries(state_dict, group, settings)
        steps = {int(entry["step"]) if entry else 0 for entry in entries}
        if len(steps) > 1:
            raise ZfError(f"param_group {group.index} of the state_dict holds parameters at steps {sorted(steps)}; the "
                          "runtime counts steps by group: split it")
        for number, (entry, param) in enumerate(zip(entries, group.params)):
            for name in ("exp_avg", "exp_avg_sq"):
                if entry and entry[name].shape != param.shape:
                    raise ZfError(f"param_group {group.index}, parameter {number}: {name} of the state_dict has shape "
                                  f"{tuple(entry[name].shape)}, the parameter {tuple(param.shape)}")


@torch.no_grad()
def take(state_dict: dict[str, Any], groups: Sequence[FlatGroup], param_groups: Sequence[dict[str, Any]],
         state: State, runtime: Runtime) -> None:
    """Copies a checked state_dict into the runtime's memory, and shows it in `state`. Moments are read from
    the state_dict itself: torch's load_state_dict rounds them to the parameter's type. Masters count where the
    parameter is the rounded master, whether the model was loaded before or is loaded after."""
    state.clear()
    for group, settings in zip(groups, param_groups):
        entries = _entries(state_dict, group, settings)
        loaded = any(entries)
        _warn_of_other_numbers(group, entries)
        group.renew_entries()
        group.low = {}
        for number, (entry, param) in enumerate(zip(entries, group.params)):
            for view, name in ((group.exp_avgs[number], "exp_avg"), (group.exp_avg_sqs[number], "exp_avg_sq")):
                if loaded:
                    view.copy_(entry[name])
                else:
                    view.zero_()
            if "master" in entry and param.dtype != torch.float32:
                group.set_master(number, entry["master"])
            if "low" in entry:
                group.low[number] = entry["low"].to("cpu")
        group.forget_published()
        step = int(entries[0]["step"]) if loaded else 0
        runtime.set_step(group.index, step)
        count(group, step, state)


def _warn_of_other_numbers(group: FlatGroup, entries: list[dict[str, Any]]) -> None:
    for number, (entry, own) in enumerate(zip(entries, group.own)):
        if "first_element" in own and entry.get("first_element", own["first_element"]) != own["first_element"]:
            warnings.warn(f"param_group {group.index}, parameter {number}: the state_dict numbers its elements from "
                          f"{entry['first_element']}, and this optimizer from {own['first_element']}, so its moments "
                          "are rounded by other random bits from here on", stacklevel=6)
            return


def saved(groups: Sequence[FlatGroup]) -> list[SavedGroup]:
    """Returns copies of all state, for opening another runtime."""
    return [SavedGroup(group.step, [(group.master(number).clone(), exp_avg.clone(), exp_avg_sq.clone()) for
                                    number, (exp_avg, exp_avg_sq) in
                                    enumerate(zip(group.exp_avgs, group.exp_avg_sqs))])
            for group in groups]


@torch.no_grad()
def restore(saved_groups: Sequence[SavedGroup], groups: Sequence[FlatGroup], state: State, runtime: Runtime) -> None:
    """Restores what saved() returned to the first groups. Groups after them are new."""
    for old, group in zip(saved_groups, groups):
        for number, (master, exp_avg, exp_avg_sq) in enumerate(old.arrays):
            group.set_master(number, master)
            group.exp_avgs[number].copy_(exp_avg)
            group.exp_avg_sqs[number].copy_(exp_avg_sq)
        group.forget_published()
        runtime.set_step(group.index, old.step)
        count(group, old.step, state)


def own_moments(groups: Sequence[FlatGroup], state: State) -> None:
    """Replaces the views in `state` by copies that outlive the runtime."""
    for group in groups:
        lows: list[torch.Tensor] = []
        if group.is_split and group.shown:
            try:
                lows = low_bits_of(group)
            except ZfError as error:  # a step that was left half done
                warnings.warn(f"the low halves of split masters are lost, the masters are the parameters: {error}",
                              stacklevel=3)
        for number, param in enumerate(group.params):
            if param in state:
                state[param] = {name: value.clone() if isinstance(value, torch.Tensor) else value
                                for name, value in state[param].items()}
                if lows:
                    state[param]["low"] = lows[number]
