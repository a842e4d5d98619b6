"""Makes the states of all new parameters at once, if taken() can take every one of them. To make them one by one takes
twice as long (200 tensors of 1,000, torch 2.13, AMD EPYC)."""

from __future__ import annotations

import functools
import operator
from array import array
from collections.abc import Sequence
from itertools import compress
from operator import attrgetter
from typing import Any

import torch

from ...native import local_calls
from ..tensors import formats
from ..tensors.eligibility import TYPES, is_sharded
from ..tensors.engine import ParamGroup, State
from .parts import WORDS, Counts, Parts
from .pointers import pointers

PLACED_BYTES = 4 << 20  # of a moment that is worth huge pages: two of them lie in it whole
_ALIGNED = 4  # bytes: what lies otherwise is looked at more closely
_grad, _dtype, _shape = attrgetter("grad"), attrgetter("dtype"), attrgetter("shape")
_place = attrgetter("is_cpu", "layout")
_FLAGS = ("amsgrad", "capturable", "differentiable")


def taken(index: list[int], group_of: list[int], params: list[torch.Tensor], groups: list[ParamGroup], state: State,
          counts: Counts) -> Parts | None:
    """Gives these parameters their states, and returns their parts. Does nothing, and returns None, if it cannot take
    one of them. It takes a parameter without a state

    - that is a contiguous tensor of fp32, bf16 or fp16 on the CPU, of no subclass, and has such a gradient,
    - in a param_group that sets no flag and has its state in fp32.

    index: where each stands in the param_groups."""
    grads = list(map(_grad, params))
    if (not params or any(param in state for param in params) or not all(map(_is_usual, groups))
            or not _are_plain(params, (torch.nn.Parameter, torch.Tensor)) or not _are_plain(grads, (torch.Tensor,))
            or list(map(_shape, params)) != list(map(_shape, grads))):
        return None
    g, places = pointers(grads), pointers(params)
    if not all(g) or not all(places) or functools.reduce(operator.or_, [*g, *places]) % _ALIGNED:
        return None
    halves = [param.dtype is not torch.float32 for param in params]
    m, v = ([zeros(param, torch.float32) for param in params] for _ in range(2))
    masters = dict(zip(compress(range(len(params)), halves),
                       [param.detach().to(torch.float32) for param in compress(params, halves)]))
    found = Parts()
    found.index, found.group, found.params, found.written = index, group_of, params, params
    found.held = [*grads, *m, *v, *masters.values()]
    found.counts = counts.add([0.0] * len(params))
    found.slots = list(map(counts.slot, found.counts))
    found.ranges = [()] * len(params)
    found.count = pointers(found.counts)
    words = found.words = array("Q", bytes(8 * WORDS * len(params)))
    words[0::WORDS], words[1::WORDS], words[2::WORDS], words[3::WORDS] = places, g, pointers(m), pointers(v)
    words[5::WORDS] = array("Q", map(torch.Tensor.numel, params))
    words[7::WORDS] = array("Q", [TYPES[grad.dtype] << 32 | (TYPES[param.dtype] << 40 if half else 0)
                                  for param, grad, half in zip(params, grads, halves)])
    for at, master in masters.items():
        words[WORDS * at], words[WORDS * at + 4] = master.data_ptr(), places[at]
    for at, (param, count, *moments) in enumerate(zip(params, found.counts, m, v)):
        state[param] = {"step": count, "exp_avg": moments[0], "exp_avg_sq": moments[1]}
        if at in masters:
            state[param]["master"] = masters[at]
    return found


def _is_usual(group: ParamGroup) -> bool:
    return not any(group[flag] for flag in _FLAGS) and formats.name_of(group) == "fp32"


def _are_plain(tensors: Sequence[Any], classes: tuple[type, ...]) -> bool:
    return (set(map(type, tensors)) <= set(classes) and set(map(_place, tensors)) == {(True, torch.strided)}
            and set(map(_dtype, tensors)) <= TYPES.keys() and all(map(torch.Tensor.is_contiguous, tensors))
            and not any(map(torch.Tensor.is_neg, tensors)))


def zeros(param: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns a moment of zeros, in memory that is placed as the plan says if there is much of it."""
    if param.numel() * 4 < PLACED_BYTES:
        return torch.zeros_like(param, dtype=dtype, memory_format=torch.preserve_format, requires_grad=False)
    made = torch.empty_like(param, dtype=dtype, memory_format=torch.preserve_format, requires_grad=False)
    local = made._local_tensor if is_sharded(made) else made
    size = local.numel() * local.element_size()
    if type(local) is torch.Tensor and local.device.type == "cpu" and size >= PLACED_BYTES:
        local_calls.engine().place(local.data_ptr(), size)
    return made.zero_()
