"""Holds torch's `state` and state_dict()s against the memory in the arena.

The program may edit `state` as with torch's own optimizers: what it has put there is copied into the arena, where the
step finds it. No state ever goes to a GPU."""

from __future__ import annotations

import collections
import pathlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Callable

import torch

from ...errors import ZfError
from ..tensors import formats, hashing
from ..tensors.eligibility import local_of
from ..tensors.engine import Engine, Entry, ParamGroup, State, StateDict
from .arena import Place, first_numbers
from .refusals import refuse_settings

if TYPE_CHECKING:
    from .opened import Opened, Wanted


class Stated(Engine):
    """The part of an engine that serves `state`: it is edited, copied, saved and loaded."""

    opened: Opened | None
    _require: Callable[[], Opened]
    _open: Callable[[Wanted], None]
    _finish: Callable[[], None]
    _take_back: Callable[[], None]
    _take_written: Callable[[Iterable[Place]], None]

    def settle(self) -> None:
        if self.opened is None:
            return
        self._require()
        self._finish()
        places = list(self._same())
        self._take_edits(places, places)
        self._take_written(places)

    def _take_edits(self, places: Iterable[Place], every: Iterable[Place]) -> None:
        """Takes what the program has done to `state`. If it has edited one of these places, every place is looked at:
        one may have the memory of another now. No step may be running. Raises ZfError, before anything is taken, for
        moments or masters of another shape than their parameter."""
        state = self._optimizer.state
        if any(_is_edited(place, state) for place in places):
            self._take_back()
            self._require().arena.overwrite()
            take_entries([(place, state.get(place.param)) for place in every if _is_edited(place, state)], state)

    def _same(self) -> Iterator[Place]:
        """Yields the places of the parameters that are of the kind that they were."""
        return (place for place in self._require().arena.places if hashing.kind(place.local) == place.kind)

    def saved(self, state_dict: StateDict) -> StateDict:
        of = self.opened.arena.of if self.opened is not None else {}
        saved = {**state_dict, "state": {key: {**entry} for key, entry in state_dict["state"].items()}}
        for param, entry in saved_entries(saved, self._optimizer.param_groups).items():
            if param in of and of[param].is_split:
                entry["low"] = of[param].low_bits()
        return saved

    def copied(self, state: dict[str, Any]) -> dict[str, Any]:
        of = self.opened.arena.of if self.opened is not None else {}
        entries = {param: {**entry, **({"low": of[param].low_bits()} if param in of and of[param].is_split else {})}
                   for param, entry in state["state"].items()}
        return {**state, "state": collections.defaultdict(dict, entries)}

    def begin_load(self) -> None:
        self._require()
        self._finish()

    def take(self, optimizer: torch.optim.Optimizer, state_dict: StateDict) -> StateDict:
        loaded = take_apart(optimizer, state_dict)
        super().take(optimizer, state_dict)
        return loaded

    def loaded(self) -> None:
        given, self._given = self._given, None
        if given is None:
            return
        optimizer = self._optimizer
        entries = saved_entries(given, optimizer.param_groups)
        every = first_numbers(optimizer.param_groups)
        of = self._require().arena.of
        if any(param not in of for param in entries):
            self._open([each for each in every if each[0] in of or each[0] in entries])
        arena = self._require().arena
        arena.overwrite()
        places = arena.places
        warn_of_other_numbers(places, entries)
        optimizer.state.clear()
        for place in places:
            place.forget_low_bits()
        take_entries([(place, entries.get(place.param)) for place in places], optimizer.state)


def show(place: Place, state: State) -> None:
    """Shows the memory of a parameter in `state`."""
    place.show()
    state[place.param] = dict(place.entry)  # the program may change its own


def _is_edited(place: Place, state: State) -> bool:
    entry = state.get(place.param)
    if not entry:
        return place.is_shown
    return not place.is_shown or any(entry.get(name) is not value or not place.is_own(name)
                                     for name, value in place.entry.items())


@torch.no_grad()
def take_entries(entries: Sequence[tuple[Place, Entry | None]], state: State) -> None:
    """Copies entries of `state` or of a state_dict into the arena, and shows them in `state`. A moment or count that an
    entry lacks becomes zero; a master that it lacks is the parameter. A parameter without an entry begins anew. Entries
    may lie in the arena, even at the place of another one: such an entry is copied before it is overwritten."""
    check_shapes({place.param: entry for place, entry in entries if entry})
    mapped = _ranges_of(max((place.exp_avg.data_ptr() for place, _ in entries), default=0))
    for place, entry in [(place, _apart(place, entry, mapped) if entry else None) for place, entry in entries]:
        if entry is None:
            place.reset()
        else:
            _take_entry(place, entry)
            show(place, state)


def _apart(place: Place, entry: Entry, mapped: Sequence[range]) -> Entry:
    """Returns an entry with its count as a number. Tensors that lie at another place of the arena are copied."""
    def copied(name: str, value: Any) -> Any:
        value = local_of(value)
        if not isinstance(value, torch.Tensor) or value.device.type != "cpu" or place.holds(name, value):
            return value
        return value.clone() if any(value.data_ptr() in each for each in mapped) else value

    return {**{name: copied(name, value) for name, value in entry.items()}, "step": float(entry.get("step", 0.0))}


def _take_entry(place: Place, entry: Entry) -> None:
    for name in ("exp_avg", "exp_avg_sq"):
        own, given = getattr(place, name), entry.get(name)
        if given is None:
            own.zero_()
        elif not place.holds(name, given):
            own.copy_(given)
    master, low = entry.get("master"), formats.usable_low(place.param, entry)
    if place.param.dtype != torch.float32:
        if place.is_split and isinstance(master, torch.Tensor):
            place.loaded, place.digest = master.to("cpu", torch.float32), None
        elif not place.is_split:
            place.set_master(master if isinstance(master, torch.Tensor) else place.local.detach())
            place.digest = None
    if low is not None:
        place.loaded, place.digest = low.to("cpu"), None
    place.count.fill_(entry["step"])


def check_shapes(entries: dict[torch.Tensor, Any]) -> None:
    """Raises ZfError for moments or masters of another shape than their parameter."""
    for param, entry in entries.items():
        shape = local_of(param).shape
        for name in ("exp_avg", "exp_avg_sq", "master", "low"):
            given = local_of(entry.get(name))
            if isinstance(given, torch.Tensor) and given.shape != shape:
                raise ZfError(f"{name} of a parameter has shape {tuple(given.shape)}, and the parameter "
                              f"{tuple(shape)}: give it a state of its own shape, or remove its state to begin "
                              "anew")


def saved_entries(state_dict: StateDict, param_groups: Sequence[ParamGroup]) -> dict[torch.Tensor, Any]:
    """Returns the entries of a state_dict by the parameter that they are of."""
    found = {}
    for group, saved in zip(param_groups, state_dict["param_groups"]):
        for param, key in zip(group["params"], saved["params"]):
            if state_dict["state"].get(key):
                found[param] = state_dict["state"][key]
    return found


def warn_of_other_numbers(places: Iterable[Place], entries: dict[torch.Tensor, Any]) -> None:
    """Says once that the moments of a loaded state are rounded by other random bits from here on."""
    for place in places:
        given = entries.get(place.param, {}).get("first_element", place.first_element)
        if place.first_element is not None and given != place.first_element:
            warnings.warn(f"a parameter of shape {tuple(place.param.shape)}: the state_dict numbers its elements from "
                          f"{given}, and this optimizer from {place.first_element}, so its moments are rounded by "
                          "other random bits from here on", stacklevel=5)
            return


def take_apart(optimizer: torch.optim.Optimizer, state_dict: StateDict) -> StateDict:
    """Keeps the states of a state_dict for us, after a check that they can be loaded. torch would move them to the
    device of their parameters."""
    for group in state_dict["param_groups"]:
        refuse_settings(group)
    lengths = [[len(group["params"]) for group in groups] for groups in
               (state_dict["param_groups"], optimizer.param_groups)]
    if lengths[0] == lengths[1]:  # else torch reports it
        check_shapes(saved_entries(state_dict, optimizer.param_groups))
    return {**state_dict, "state": {}}


def _ranges_of(address: int) -> list[range]:
    """Returns the ranges of addresses that hold the file mapped at an address. Where they cannot be read, the range is
    that of all addresses."""
    try:
        lines = [line.split(maxsplit=5) for line in pathlib.Path("/proc/self/maps").read_text().splitlines()]
    except OSError:
        return [range(1 << 64)]
    maps = [(range(*(int(end, 16) for end in fields[0].split("-"))), fields[3:5]) for fields in lines]
    files = [file for each, file in maps if address in each]
    return [each for each, file in maps if file in files]
