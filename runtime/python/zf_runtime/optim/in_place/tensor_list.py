"""Says which parameters the engine takes at this step, where they are now, and why it does not take the others.

Nothing is assumed to be where it was. What was regular at the last step is looked at in columns (columns.py), all else
one by one. If a column differs from the last step's, all parameters are looked at one by one, once."""

from __future__ import annotations

from itertools import accumulate, chain
from typing import Any

import torch

from ...errors import ZfError
from ..tensors import formats
from ..tensors.eligibility import (
    TYPES,
    laid_as,
    placed,
    plain_tensors,
    refuse_device,
    refuse_sparse,
    unsteppable,
)
from ..tensors.engine import Entry, ParamGroup, State
from . import newcomers
from .columns import Columns, plain, same
from .newcomers import zeros
from .parts import Counts, Parts, can_be_raised
from .pointers import pointers
from .torch_fallback import has_master


class Roster:
    """The parameters of all param_groups and their states, as they were found at a step."""

    def __init__(self, groups: list[ParamGroup], state: State):
        self.state = state
        self.params = list(chain.from_iterable(group["params"] for group in groups))
        self.ids = list(map(id, self.params))
        self.lengths = [len(group["params"]) for group in groups]
        self.group_of = [number for number, length in enumerate(self.lengths) for _ in range(length)]
        self.flags = list(map(_flags, groups))
        self.keys, self.states = list(state), list(state.values())
        self.fast: Columns | None = None
        self.is_first = True  # these parameters are looked at for the first time
        self.suspects: set[int] = set()  # no longer looked at in columns
        first = dict(zip(reversed(self.ids), reversed(range(len(self.ids)))))
        self.repeated = {index for index, key in enumerate(self.ids) if first[key] != index}
        self.slow = list(range(len(self.ids)))  # looked at one by one

    def holds(self, groups: list[ParamGroup], state: State) -> bool:
        """Returns whether the same parameters stand in the same lists, with the same dicts as their states."""
        return (self.state is state and same(state.values(), self.states) and same(state, self.keys)
                and [len(group["params"]) for group in groups] == self.lengths
                and same(list(chain.from_iterable(group["params"] for group in groups)), self.params)
                and list(map(_flags, groups)) == self.flags)

    def same_lists(self, other: Roster) -> bool:
        """Returns whether the same parameters stand in the lists of both."""
        return self.ids == other.ids and self.lengths == other.lengths and self.flags == other.flags

    def again(self, groups: list[ParamGroup]) -> Roster:
        """Returns a new roster. All its parameters are looked at one by one."""
        roster = Roster(groups, self.state)
        roster.suspects, roster.is_first = self.suspects, self.fast is None
        return roster


class TensorList:
    """Follows the parameters of one optimizer from step to step."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._roster: Roster | None = None

    def gather(self, groups: list[ParamGroup], state: State) -> tuple[Parts, list[tuple[int, str]], Roster]:
        """Returns what the engine steps, and the indices of the parameters that torch steps, each with the reason.

        Gives states to parameters that have none. Raises ZfError for parameters on a GPU and for sparse gradients.
        Nothing is stepped here."""
        if self.counts.scattered:
            self.home(groups, state)
        roster = self._roster
        if roster is None or not roster.holds(groups, state):
            before, roster = roster, Roster(groups, state)
            if before is not None and before.same_lists(roster):
                roster.suspects = before.suspects
        parts = roster.fast.now() if roster.fast is not None else None
        own: list[tuple[int, str]] = []
        if parts is None:
            roster = roster.again(groups)
            parts = Parts()
        self._roster = None  # until all is known
        self._roster = self._look_one_by_one(groups, roster, parts, own) if roster.slow else roster
        return parts, own, roster

    def home(self, groups: list[ParamGroup], state: State) -> None:
        """Takes the counts of loaded states among its own, so that they are read at once."""
        self.counts, self._roster = Counts(), None
        entries = [state[param] for group in groups for param in group["params"] if "step" in state.get(param, ())]
        for entry, count in zip(entries, self.counts.add([float(entry["step"]) for entry in entries])):
            entry["step"] = count

    @torch.no_grad()
    def _look_one_by_one(self, groups: list[ParamGroup], roster: Roster, parts: Parts,
                         own: list[tuple[int, str]]) -> Roster:
        """Adds to `parts` and to `own` what is not looked at in columns. Returns the roster for the next step."""
        live = [index for index in roster.slow if roster.params[index].grad is not None]
        held = len(roster.state)
        news = None if roster.repeated else newcomers.taken(
            live, [roster.group_of[index] for index in live], [roster.params[index] for index in live], groups,
            roster.state, self.counts)
        known = list(range(len(live)))
        if news is None:
            news, known = self._take_each(live, groups, roster, parts, own)
        known = [at for at in known if news.index[at] not in roster.suspects]
        if parts.index or news.index:
            parts.extend(news)
            parts.sort()
        if not known and len(roster.state) == held:
            roster.suspects.update(live)
            return roster
        return _settled(groups, roster, news, known, live)

    def _take_each(self, live: list[int], groups: list[ParamGroup], roster: Roster, parts: Parts,
                   own: list[tuple[int, str]]) -> tuple[Parts, list[int]]:
        """Looks at each of the live parameters. Adds to `own` those that torch steps. Returns the parts of the others,
        and which of them are regular. parts: of those that were looked at in columns."""
        numbers = _first_numbers(roster.params) if any(map(formats.has_bf16_moments, groups)) else None
        for index in live:
            refuse_device(roster.params[index])
            refuse_sparse(roster.params[index])
        self._count(live, groups, roster)
        news, known, taken = Parts(), [], set(parts.count)
        owned = set() if roster.fast is None else set(map(id, roster.fast.states))
        for index in live:
            number, param = roster.group_of[index], roster.params[index]
            state = self._state_of(param, groups[number], roster.state)
            if numbers is not None and "first_element" not in state:
                state["first_element"] = numbers[index]
            if index in roster.repeated:
                own.append((index, "listed twice"))
                continue
            if id(state) in owned:
                raise ZfError(f"a parameter of shape {list(param.shape)} shares its state with another: give each a "
                              "dict of its own as optimizer.state[parameter]")
            owned.add(id(state))
            if state["step"].data_ptr() in taken:
                state["step"], = self.counts.add([float(state["step"])])
            reason, is_regular = self._take(index, number, param, state, groups[number], news)
            if reason:
                own.append((index, reason))
                continue
            taken.add(news.count[-1])
            if is_regular:
                known.append(len(news.index) - 1)
        return news, known

    def _count(self, live: list[int], groups: list[ParamGroup], roster: Roster) -> None:
        """Gives those a step count that have none, or one that the engine cannot raise."""
        new: dict[int, Any] = {}
        for index in live:
            group, state = groups[roster.group_of[index]], roster.state[roster.params[index]]
            if not can_be_raised(state.get("step")) and not (group["capturable"] or group["differentiable"]):
                new.setdefault(id(state), state)
        if new:
            values = [float(state["step"]) if state.get("step") is not None else 0.0 for state in new.values()]
            for state, count in zip(new.values(), self.counts.add(values)):
                state["step"] = count

    def _state_of(self, param: torch.Tensor, group: ParamGroup, states: State) -> Entry:
        """Returns a parameter's state, with zeros for moments that are missing, and fp32 for 16-bit parameters."""
        state = states[param]
        half = has_master(param, group)
        kept = torch.bfloat16 if formats.has_bf16_moments(group) else torch.float32
        narrow = formats.number_of(param, group) != 0
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")
        for name in names:
            moment = state.get(name)
            if moment is None:
                state[name] = zeros(param, kept if half or narrow else param.dtype)
            elif (half or narrow or _is_narrow(param, moment)) and moment.dtype != kept:
                state[name] = moment.to(kept)  # to nearest
        if formats.is_split(param, group):
            master = state.pop("master", None)
            if formats.usable_low(param, state) is None:
                state["low"] = (zeros(param, torch.int16) if master is None
                                else formats.low_bits(param, master))
            return self._counted(param, state)
        low = formats.usable_low(param, state)
        state.pop("low", None)
        if half and low is not None:
            state["master"] = formats.master_of(param, low)
        if half and (state.get("master") is None or state["master"].dtype != torch.float32):
            given = state.get("master")
            state["master"] = (param.detach() if given is None else given).to(torch.float32)
        return self._counted(param, state)

    @staticmethod
    def _counted(param: torch.Tensor, state: Entry) -> Entry:
        if state.get("step") is None:  # of a capturable or differentiable step
            state["step"] = torch.zeros((), dtype=torch.float32, device=param.device)
        return state

    def _take(self, index: int, number: int, param: torch.Tensor, state: Entry, group: ParamGroup,
              parts: Parts) -> tuple[str, bool]:
        """Adds a parameter to the parts. Returns why not, or "", and whether it is a regular one."""
        for flag in ("amsgrad", "capturable", "differentiable"):
            if group[flag]:
                return f"with {flag}=True", False
        moments = [state["exp_avg"], state["exp_avg_sq"]]
        if has_master(param, group):
            moments.append(state["low" if formats.is_split(param, group) else "master"])
        reason, tensors = _plain_and_laid(param, moments)
        if reason:
            return reason, False
        places = pointers(tensors)
        p, g = tensors[:2]
        count = state["step"]
        half = p.dtype is not torch.float32
        parts.index.append(index)
        parts.group.append(number)
        parts.params.append(param)
        parts.held += tensors
        parts.written.append(param)
        if p is not param:
            parts.written.append(p)
        place = count.data_ptr()
        parts.slots.append(self._slot(count, place))
        parts.counts.append(count)
        first, ranges = formats.numbers(param, state["first_element"]) if "first_element" in state else (0, ())
        parts.ranges.append(ranges)
        types = TYPES[g.dtype] << 32 | (TYPES[p.dtype] << 40 if half else 0) | formats.number_of(param, group) << 48
        parts.words.extend((places[4 if half else 0], *places[1:4], places[0] if half else 0, p.numel(), first, types))
        parts.count.append(place)
        return "", _is_regular(param, tensors, moments)

    def _slot(self, count: Any, place: int) -> int:
        slot = self.counts.slot(count)
        return slot if slot >= 0 and self.counts.home(slot) == place else -1


def _is_regular(param: torch.Tensor, tensors: list[Any], moments: list[Any]) -> bool:
    """Returns whether these can be looked at in columns: the tensors themselves, or their shards, with equal strides.
    tensors: what _plain_and_laid() has returned."""
    p, g, m, v = tensors[:4]
    return (p is plain(param) and type(g) is torch.Tensor and g is plain(param.grad)
            and all(t is plain(moment) for t, moment in zip(tensors[2:], moments))
            and bool(p.is_contiguous() or all(t.stride() == p.stride() for t in (g, m, v))))


def _plain_and_laid(param: torch.Tensor, moments: list[Any]) -> tuple[str, list[Any]]:
    """Returns the parameter, its gradient and its moments as the engine takes them, with "", or why it does not."""
    reason, tensors = plain_tensors(param, placed(param.grad, param), moments)
    if reason:
        return reason, tensors
    if tensors[0] is param:  # else a shard: its DTensor knows the strides
        _lay_as(param, tensors[2:])
    tensors[1] = laid_as(tensors[0], tensors[1])
    return unsteppable(tensors[0], tensors[1], tensors[2:]), tensors


def _lay_as(param: torch.Tensor, moments: list[torch.Tensor]) -> None:
    """Lays moments out as their parameter, such as after model.to(memory_format=...). They stay the same tensors."""
    for moment in moments:
        if (laid := laid_as(param, moment)) is not moment:
            moment.data = laid


def _is_narrow(param: torch.Tensor, moment: torch.Tensor) -> bool:
    """Returns whether a moment of an fp32 parameter comes from a state in bf16."""
    return bool(param.dtype is torch.float32 and moment.dtype is torch.bfloat16)


def _first_numbers(params: list[torch.Tensor]) -> list[int]:
    """Returns the number of each parameter's first element: they count in the order of the param_groups."""
    return [0, *accumulate(param.numel() for param in params)]


def _flags(group: ParamGroup) -> tuple[Any, ...]:
    return group["amsgrad"], group["capturable"], group["differentiable"]


def _settled(groups: list[ParamGroup], roster: Roster, news: Parts, known: list[int], live: list[int]) -> Roster:
    """Returns the roster with the states that are new. `known` of `news` are looked at in columns from now on."""
    settled, parts = Roster(groups, roster.state), news.chosen(known)
    if roster.fast is not None:
        parts.extend(roster.fast.parts)
        parts.sort()
    regular = set(parts.index)
    settled.suspects, settled.is_first = roster.suspects | set(live) - regular, roster.is_first
    settled.slow = [index for index in settled.slow if index not in regular]
    if parts.index:
        settled.fast = Columns(parts, [roster.state[param] for param in parts.params], roster.fast, roster.is_first)
    return settled
