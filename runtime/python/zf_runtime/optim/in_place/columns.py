"""Looks at the regular parameters of an optimizer in columns, at about one microsecond for a parameter."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain, compress
from operator import attrgetter
from typing import Any, Callable

import torch

from .parts import Parts

_grad, _pointer = attrgetter("grad"), torch.Tensor.data_ptr
_MODES = 2  # of autograd and autocast, or of requires_grad, between which a job may alternate


class Form:
    """What tensors are, one by one: class, element type, device, layout, shape, strides. Not where they lie, and not
    whether autograd follows them."""

    def __init__(self, tensors: Sequence[Any]):
        self._described = described(tensors)
        self._checks = _guards(tensors)  # the last one first

    def holds(self, tensors: Sequence[Any]) -> bool:
        """Returns whether these are what the first ones were."""
        if len(tensors) != len(self._described):
            return False
        if any(check(*tensors) for check in self._checks):
            return True
        if described(tensors) != self._described:
            return False
        self._checks = (_guards(tensors) + self._checks)[:_MODES]
        return True


def described(tensors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Returns of each tensor what a Form looks at."""
    return [(type(t), t.dtype, t.device, t.layout, t.shape, t.stride() if t.layout is torch.strided else None,
             t.is_neg(), t.is_conj()) if isinstance(t, torch.Tensor) else (type(t),) for t in tensors]


def _guards(tensors: Sequence[Any]) -> list[Callable[..., bool]]:
    """Returns the check that torch.compile makes before it uses what it has compiled, or nothing if this torch has
    none. It takes 70 ns a tensor, and asking from Python 600. It looks at more than a Form does."""
    try:
        guards = torch._C._dynamo.guards.TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        return [guards.check] if guards.check(*tensors) else []
    except Exception:  # it is no public part of torch, and may take other arguments one day
        return []


class Columns:
    """What was found of the regular parameters: tensors without a subclass, of fp32, bf16 and fp16, with gradients
    and moments of the same strides."""

    def __init__(self, parts: Parts, states: list[dict[str, Any]], before: Columns | None):
        """before: the former columns; their parts are among these."""
        self.parts, self.states = parts, states
        self._values = list(chain.from_iterable(map(dict.values, states)))  # held, so that no id is used again
        self._value_ids = list(map(id, self._values))
        self._keys = list(chain.from_iterable(states))
        self._halves = [at for at, param in enumerate(parts.params) if param.dtype is not torch.float32]
        moments = [state[name] for name in ("exp_avg", "exp_avg_sq") for state in states]
        masters = [states[at]["low" if "low" in states[at] else "master"] for at in self._halves]
        self._kept, self._masters = Form(moments + masters), len(masters)
        self._placed = moments + masters + parts.counts
        self._places = _pointers(self._placed)
        self._params = Form(parts.params)
        grads = list(map(_grad, parts.params))
        known = {} if before is None else before._grads
        self._grads: dict[int, tuple[Any, ...]] = {  # what gradients of these are, by the parameter's index
            index: known[index] if grad is None else form
            for index, grad, form in zip(parts.index, grads, described(grads))}
        mask = [grad is not None for grad in grads]
        self._live = _Live(parts, mask, list(compress(grads, mask)))

    def now(self) -> Parts | None:
        """Returns the parts of this step: those that have a gradient. Returns None if anything has changed its kind or
        its place but parameters and gradients, which may lie elsewhere at each step."""
        params = self.parts.params
        kept = self._placed[:len(self._placed) - len(self.states)]  # all but the counts
        if (list(map(id, chain.from_iterable(map(dict.values, self.states)))) != self._value_ids
                or list(chain.from_iterable(self.states)) != self._keys or not self._kept.holds(kept)
                or not self._params.holds(params) or _pointers(self._placed) != self._places):
            return None
        grads = list(map(_grad, params))
        live = self._of(grads)
        if live is None:
            return None
        pointers = _pointers(params)
        p, copy = pointers, array("Q", bytes(8 * len(pointers)))
        if self._halves:
            p = array("Q", pointers)
            masters = self._places[len(kept) - self._masters:len(kept)]
            for at, master in zip(self._halves, masters):
                p[at], copy[at] = master, pointers[at]
        return live.parts_at(p, copy, grads)

    def _of(self, grads: list[Any]) -> _Live | None:
        """Returns what is known of those that have a gradient; None if one of the gradients is of another kind."""
        if type(None) in set(map(type, grads)):
            mask = [grad is not None for grad in grads]
            found = list(compress(grads, mask))
        else:
            mask, found = [True] * len(grads), grads
        if mask == self._live.mask and self._live.form.holds(found):
            return self._live
        if described(found) != list(compress(self._grads.values(), mask)):
            return None
        self._live = _Live(self.parts, mask, found)
        return self._live


class _Live:
    """Those of the regular parameters that have a gradient."""

    def __init__(self, parts: Parts, mask: list[bool], grads: list[Any]):
        self.mask, self.form = mask, Form(grads)
        self.has_all = all(mask)
        self._parts = parts if self.has_all else parts.chosen(compress(range(len(mask)), mask))

    def parts_at(self, p: array[int], copy: array[int], grads: list[Any]) -> Parts:
        """Returns them where they are now. The addresses and gradients are those of all."""
        if not self.has_all:
            p, copy = array("Q", compress(p, self.mask)), array("Q", compress(copy, self.mask))
            grads = list(compress(grads, self.mask))
        parts = self._parts.elsewhere(p, _pointers(grads), copy)
        parts.written, parts.held = list(parts.params), grads
        return parts


def _pointers(tensors: Sequence[Any]) -> array[int]:
    return array("Q", map(_pointer, tensors))
