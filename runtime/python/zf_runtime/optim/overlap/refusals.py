"""Refuses what a process cannot step: each parameter has a place of its own there, in fp32 or as a 16-bit float."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch

from ...errors import ZfError
from ..tensors.eligibility import local_of, reach
from ..tensors.engine import ParamGroup
from . import shards
from .arena import Place


def refuse(param: torch.Tensor, mode: str) -> None:
    """Raises ZfError for a parameter that cannot have a place."""
    if not param.is_floating_point() or param.is_complex():
        raise ZfError(f"a parameter of shape {list(param.shape)} is of {param.dtype}; with overlap, or on a GPU, it "
                      "must be a real float")
    shards.refuse(param, mode)


def refuse_settings(group: ParamGroup) -> None:
    """Raises ZfError for settings that the optimizer process does not obey."""
    for name in ("amsgrad", "capturable", "differentiable"):
        if group.get(name):
            raise ZfError(f"a param_group has {name}=True, which goes together with overlap=\"off\" and parameters on "
                          "the CPU alone: leave it out, or use torch.optim.AdamW")


def refuse_shared(params: Sequence[torch.Tensor]) -> None:
    """Raises ZfError if an element of one parameter is an element of another one, too."""
    here = [local_of(param) for param in params]
    begins = [(param.data_ptr(), param) for param in here if param.numel()]
    reaching: list[tuple[int, torch.Tensor]] = []  # with their ends: those that end behind the present begin
    for begin, param in sorted(begins, key=operator.itemgetter(0)):
        reaching = [(end, other) for end, other in reaching if end > begin]
        for _, other in reaching:
            if begin and param.device == other.device and _share(other, param):
                raise ZfError(f"two parameters, of shapes {list(other.shape)} and {list(param.shape)}, share memory; "
                              "with overlap, or on a GPU, each must have its own. Give both modules one Parameter "
                              "(b.weight = a.weight), or use torch.optim.AdamW")
        reaching.append((begin + reach(param), param))


def refuse_moved(places: Sequence[Place]) -> None:
    """Raises ZfError if a parameter has moved to memory of another one. It costs 0.15 us for one that has not moved."""
    with torch._C.DisableTorchFunction():  # no read that waits
        has_moved = any(place.local.data_ptr() != place.address for place in places)
    if has_moved:
        refuse_shared([place.param for place in places])
        for place in places:
            place.address = place.local.data_ptr()


def _share(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Returns whether two parameters share an element. Columns of one matrix share none. Precondition: `first` does
    not begin behind `second`."""
    offset = second.data_ptr() - first.data_ptr()
    size = first.element_size()
    if first.element_size() != second.element_size() or offset % size:
        return True
    taken = torch.zeros(max(reach(first), offset + reach(second)) // size, dtype=torch.bool, device="cpu")
    taken.as_strided(first.shape, first.stride()).fill_(True)
    return bool(taken.as_strided(second.shape, second.stride(), offset // size).any())
