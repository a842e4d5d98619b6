"""Does a step of DeepSpeedCPUAdam at once, if its tensors are of the kinds that the last step found. DeepSpeed's own
loop calls the operator for each tensor."""

from __future__ import annotations

import functools
import operator
from array import array
from collections import deque
from collections.abc import Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, Callable

import torch

from ..errors import ZfError
from ..native import abi
from ..optim.in_place.columns import Form, same
from ..optim.in_place.pointers import pointers
from ..optim.tensors.engine import Entry
from . import local_step

_F32, _WORDS = 4, 8  # bytes; of zf_tensor
_NAMES = ["step", "exp_avg", "exp_avg_sq"]
# What DeepSpeedCPUAdam.step() of 0.19.6 and 0.19.8 names. One that names anything else may do something else.
_KNOWN = frozenset(("torch", "enable_grad", "device", "enumerate", "param_groups", "grad", "state", "len",
                    "fp32_optimizer_states", "float", "dtype", "zeros_like", "data", "ds_opt_adam", "adam_update",
                    "opt_id"))


def is_known(step: Callable[..., Any]) -> bool:
    """Returns whether this step(), which torch.no_grad() wraps, does what is done here. Another function around it may
    do more."""
    if getattr(step, "__code__", None) is not torch.no_grad()(is_known).__code__:
        return False
    code = getattr(getattr(step, "__wrapped__", None), "__code__", None)
    return code is not None and frozenset(code.co_names) == _KNOWN


def found(optimizer: Any) -> Steady | None:
    """Returns the kinds of tensors of an optimizer that has stepped, or None if the local engine does not take them
    all."""
    params, states = _params_of(optimizer), list(optimizer.state.values())
    if not params or not same(optimizer.state, params) or not _are_plain(states):
        return None
    tensors = _tensors_of(params, states)
    if not all(map(_is_taken, zip(*(tensors[at::4] for at in range(4))))):
        return None
    return Steady(Form(tensors), list(map(torch.Tensor.numel, params)))


def _params_of(optimizer: Any) -> list[Any]:
    return [param for group in optimizer.param_groups for param in group["params"]]


def _tensors_of(params: list[Any], states: list[Entry]) -> list[Any]:
    """Returns parameter, gradient and both moments of each."""
    return list(chain.from_iterable((param, param.grad, state["exp_avg"], state["exp_avg_sq"])
                                    for param, state in zip(params, states)))


def _are_plain(states: Sequence[Entry]) -> bool:
    """Returns whether these are dicts with the entries that DeepSpeed makes."""
    return set(map(type, states)) == {dict} and list(chain.from_iterable(states)) == _NAMES * len(states)


def _is_taken(tensors: local_step.Tensors) -> bool:
    try:
        return (tensors[1] is not None and tensors[0].numel() > 0 and not local_step.refusal(*tensors)
                and tensors[1].is_contiguous())
    except ZfError:
        return False


class Steady:
    """The kinds of all tensors of an optimizer, which the local engine takes. It holds none of them: the program may
    free them."""

    def __init__(self, form: Form, sizes: list[int]):
        self._form = form
        self._words = array("Q", bytes(8 * _WORDS * len(sizes)))
        self._words[5::_WORDS] = array("Q", sizes)

    def collected(self, optimizer: Any, numbers: list[int]) -> local_step.Collected | None:
        """Returns what a step takes, without its calls, and adds the number of each group's step to `numbers`. Returns
        None if anything is of another kind than before."""
        params, states = _params_of(optimizer), list(optimizer.state.values())
        if not same(optimizer.state, params) or not _are_plain(states):
            return None
        tensors, counts = _tensors_of(params, states), list(map(itemgetter("step"), states))
        if set(map(type, counts)) != {int}:
            return None
        places = pointers(tensors) if self._form.plain(tensors) is not None else array("Q", [0])
        if not all(places) or functools.reduce(operator.or_, places) % _F32:
            return None
        kinds = array("Q")
        for group in filter(None, map(itemgetter("params"), optimizer.param_groups)):
            of_group = counts[len(kinds):len(kinds) + len(group)]
            if of_group.count(of_group[0]) != len(group) or of_group[0] < 0:
                return None
            kinds.extend(repeat(len(numbers) | abi.F32 << 32, len(group)))
            numbers.append(of_group[0] + 1)
        found = local_step.Collected()
        found.held, found.words = tensors, self._words[:]
        for at in range(4):
            found.words[at::_WORDS] = places[at::4]
        found.words[7::_WORDS] = kinds
        return found


def count(optimizer: Any) -> None:
    """Raises the count of each state. No exception can come in between."""
    states = list(optimizer.state.values())
    more = [state["step"] + 1 for state in states]
    deque(map(dict.__setitem__, states, repeat("step"), more), maxlen=0)
