"""Looks at the regular parameters of an optimizer in columns.

A look at a parameter takes 1.5 us within a step, at a DTensor 2.8. A native op of torch's stable ABI over lists of
tensors was tried: 4.8 us for a parameter (torch 2.13, AMD EPYC)."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Collection, Sequence
from itertools import chain, compress
from operator import attrgetter
from typing import Any

import torch

from ..tensors.eligibility import guards, is_sharded
from ..tensors.engine import Entry
from .parts import Parts
from .pointers import pointers

_grad = attrgetter("grad")
_shard, _placing = attrgetter("_local_tensor"), attrgetter("_spec.mesh", "_spec.placements")  # of a DTensor
_MODES = 2  # of autograd and autocast, or of requires_grad, between which a job may alternate


class Form:
    """The kinds of tensors: class, element type, device, layout, shape and strides; of DTensors also the kind of
    their shards, their mesh and placements. Addresses and requires_grad are no part of it."""

    def __init__(self, tensors: Sequence[Any], first: bool = False):
        """first: remembers the tensors by torch's guards alone, which hold in the present modes of autograd and
        autocast. A first look then takes 1 us less for each tensor, and no other may follow."""
        self._classes = list(map(type, tensors))
        self._sharded = [at for at, tensor in enumerate(tensors) if is_sharded(tensor)]
        sharded = [tensors[at] for at in self._sharded]
        self._placings = list(map(_placing, sharded))
        self._checks = guards([*tensors, *map(_shard, sharded)])  # the last one first
        self._described = None if first and self._checks else described(tensors)

    def plain(self, tensors: Sequence[Any]) -> Sequence[Any] | None:
        """Returns the tensors, with shards in the places of DTensors. Returns None if a tensor is of another kind than
        the first one in its place."""
        if list(map(type, tensors)) != self._classes:
            return None
        if not self._sharded:
            return tensors if self._holds(tensors, tensors) else None
        sharded = list(map(tensors.__getitem__, self._sharded))
        if list(map(_placing, sharded)) != self._placings:
            return None
        shards = list(map(_shard, sharded))
        if not self._holds(tensors, [*tensors, *shards]):
            return None
        return shards if len(shards) == len(tensors) else _replaced(tensors, self._sharded, shards)

    def _holds(self, tensors: Sequence[Any], seen: Sequence[Any]) -> bool:
        """seen: the tensors, and the shards."""
        if any(check(*seen) for check in self._checks):
            return True
        if self._described is None or described(tensors) != self._described:
            return False
        self._checks = (guards(seen) + self._checks)[:_MODES]
        return True


def _replaced(values: Sequence[Any], places: list[int], others: list[Any]) -> list[Any]:
    found = list(values)
    for place, other in zip(places, others):
        found[place] = other
    return found


def plain(tensor: Any) -> Any:
    """Returns the shard of a DTensor, also before a collective has made it; any other value as it is."""
    return _shard(tensor) if is_sharded(tensor) else tensor


def described(tensors: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Returns of each tensor what a Form looks at. Equal ones are one object: so many kept tuples would let Python's
    garbage collector run often."""
    kept: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    return [kept.setdefault(found, found) for found in (
        _described(tensor) if not is_sharded(tensor) else
        (*_described(tensor), *_placing(tensor), *_described(_shard(tensor))) for tensor in tensors)]


def _described(t: Any) -> tuple[Any, ...]:
    if not isinstance(t, torch.Tensor):
        return type(t),
    return (type(t), t.dtype, t.device, t.layout, t.shape, t.stride() if t.layout is torch.strided else None,
            t.is_neg(), t.is_conj())


class Columns:
    """What was found of the regular parameters: tensors without a subclass, of fp32, bf16 and fp16, with gradients
    and moments of the same strides; and DTensors with shards that are such tensors."""

    def __init__(self, parts: Parts, states: list[Entry], before: Columns | None, first: bool):
        """before: the former columns; their parts are among these. first: as for a Form."""
        self.parts, self.states = parts, states
        self._values = list(chain.from_iterable(map(dict.values, states)))
        self._keys = list(chain.from_iterable(states))
        self._halves = [at for at, param in enumerate(parts.params) if param.dtype is not torch.float32]
        moments = [state[name] for name in ("exp_avg", "exp_avg_sq") for state in states]
        masters = [states[at]["low" if "low" in states[at] else "master"] for at in self._halves]
        self._kept, self._form = moments + masters, Form(moments + masters, first)
        self._places: array[int] = self._where() or array("Q")
        self._params = Form(parts.params, first)
        grads = list(map(_grad, parts.params))
        self._grads: dict[int, tuple[Any, ...] | None] = {}  # what gradients of these are, by the parameter's index
        if not first:
            known = {} if before is None else before._grads
            self._grads = {index: known.get(index) if grad is None else form
                           for index, grad, form in zip(parts.index, grads, described(grads))}
        mask = [grad is not None for grad in grads]
        self._live = _Live(parts, mask, list(compress(grads, mask)), first)

    def now(self) -> Parts | None:
        """Returns the parts of this step: those that have a gradient. Returns None if a tensor has changed its kind, or
        a moment, master or count its address. Parameters and gradients may lie elsewhere at each step."""
        if (not same(list(chain.from_iterable(map(dict.values, self.states))), self._values)
                or list(chain.from_iterable(self.states)) != self._keys or self._where() != self._places):
            return None
        params = self._params.plain(self.parts.params)
        if params is None:
            return None
        grads = self._gradients()
        if grads is None:
            return None
        places = pointers(params)
        p, copy = places, None
        if self._halves:
            p, copy = places[:], array("Q", bytes(8 * len(places)))
            for at, master in zip(self._halves, self._places[2 * len(params):]):
                p[at], copy[at] = master, places[at]
        return self._live.parts_at(p, copy, params, grads)

    def _where(self) -> array[int] | None:
        """Returns where the moments, masters and counts are. Returns None if a moment or master has changed its
        kind."""
        kept = self._form.plain(self._kept)
        return None if kept is None else pointers([*kept, *self.parts.counts])

    def _gradients(self) -> Sequence[Any] | None:
        """Returns the gradients, and sets `_live` to the parameters that have one. Returns None if a gradient is of
        another kind than before."""
        grads = list(map(_grad, self.parts.params))
        mask = [True] * len(grads)
        if type(None) in set(map(type, grads)):
            mask = [grad is not None for grad in grads]
            grads = list(compress(grads, mask))
        plain = self._live.form.plain(grads) if mask == self._live.mask else None
        if plain is None and described(grads) == list(compress(self._grads.values(), mask)):
            self._live = _Live(self.parts, mask, grads, first=False)
            plain = self._live.form.plain(grads)
        return plain


class _Live:
    """Those of the regular parameters that have a gradient."""

    def __init__(self, parts: Parts, mask: list[bool], grads: list[torch.Tensor], first: bool):
        self.mask, self.form = mask, Form(grads, first)
        self.has_all = all(mask)
        self._parts = parts if self.has_all else parts.chosen(compress(range(len(mask)), mask))

    def parts_at(self, p: array[int], copy: array[int] | None, params: Sequence[torch.Tensor],
                 grads: Sequence[torch.Tensor]) -> Parts:
        """Returns the parts of these parameters. p, copy: addresses of all regular parameters. params: all of them,
        with shards in the places of DTensors."""
        if not self.has_all:
            p, copy = array("Q", compress(p, self.mask)), copy and array("Q", compress(copy, self.mask))
            params = list(compress(params, self.mask))
        parts = self._parts.elsewhere(p, pointers(grads), copy)
        shards = compress(params, map(operator.is_not, params, parts.params))
        parts.written, parts.held = [*parts.params, *shards], list(grads)
        return parts


def same(objects: Collection[Any], others: Collection[Any]) -> bool:
    """Returns whether these are the same objects, in the same order."""
    return len(objects) == len(others) and all(map(operator.is_, objects, others))
