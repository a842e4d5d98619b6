"""A copy of masters and moments, as they are between two steps, that the process makes while training goes on."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable
from typing import Any, Callable

import torch

from ...native import abi
from ...native.runtime import Runtime
from ..tensors import formats
from ..tensors.eligibility import layout, local_of
from . import shards
from .arena import Place


class _Lease:
    """Frees the memory of a copy for the next copy, once: in end(), or when nothing uses this object any more."""

    def __init__(self, runtime: Runtime):
        self._runtime: Runtime | None = runtime

    def end(self) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            runtime.save_end()

    __del__ = end


class Held:
    """The copy, as long as this or a tensor of it lives, or until release()."""

    def __init__(self, runtime: Runtime, places: Iterable[Place]):
        """Begins the copy: of the state after all submitted work. Raises ZfBusy if another copy is held, and ZfError if
        memory has no room for it."""
        runtime.save_begin()
        self._runtime, self._lease = runtime, _Lease(runtime)
        self._arrays: dict[tuple[Any, ...], tuple[Place, int, torch.Tensor]] = {}
        for place in places:
            for source, kind in ((place.local, abi.PARAMS), (place.exp_avg, abi.MOMENT_1),
                                 (place.exp_avg_sq, abi.MOMENT_2), (place.fp32_master, abi.PARAMS)):
                if source is not None and source.numel():
                    self._arrays[_key(source)] = place, kind, source

    def wait(self) -> None:
        """Waits until the copy is made."""
        self._runtime.save_wait()

    def release(self) -> None:
        """Ends the copy, even if an exception still keeps this object or one of its tensors. They must not be read from
        then on."""
        self._lease.end()

    def find(self, tensor: Any) -> Callable[[], torch.Tensor] | None:
        """Returns a function that makes a tensor of the copy, after wait(): that of this parameter, moment or master.
        Returns None if the tensor is none of these."""
        found = self._arrays.get(_key(local_of(tensor)))
        return None if found is None else functools.partial(_as, tensor, functools.partial(self._saved, *found))

    def _saved(self, place: Place, kind: int, source: torch.Tensor) -> torch.Tensor:
        """Returns what is saved of an array, in the type and shape of the parameter or moment that shows it."""
        saved, memory = self._runtime.saved(place.index, kind)
        weakref.finalize(memory, _forget, self._lease).atexit = False
        if place.is_split and kind == abi.PARAMS:
            saved = formats.high_half(saved)
        return saved.to(source.dtype).view(source.shape)


def _forget(_: _Lease) -> None:
    pass  # the finalizer has held it


def _key(local: torch.Tensor) -> tuple[Any, ...]:
    with torch._C.DisableTorchFunction():  # this reads no values
        return local.device, *layout(local)


@torch.no_grad()
def _as(tensor: Any, make: Callable[[], torch.Tensor]) -> torch.Tensor:
    return shards.placed_as(tensor, make())
