"""Refuses parameters that share memory: each has a place of its own, and the last one sent would win."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch

from ...errors import ZfError


def refuse_shared(params: Sequence[torch.Tensor]) -> None:
    """Raises ZfError if an element of one parameter is an element of another one, too."""
    begins = [(param.data_ptr(), param) for param in params if param.numel()]
    reaching: list[tuple[int, torch.Tensor]] = []  # with their ends: those that end behind the present begin
    for begin, param in sorted(begins, key=operator.itemgetter(0)):
        reaching = [(end, other) for end, other in reaching if end > begin]
        for _, other in reaching:
            if begin and param.device == other.device and _share(other, param):
                raise ZfError(f"two parameters, of shapes {list(other.shape)} and {list(param.shape)}, share memory; "
                              "with overlap, or on a GPU, each must have its own. Give both modules one Parameter "
                              "(b.weight = a.weight), or use torch.optim.AdamW")
        reaching.append((begin + _bytes(param), param))


def _bytes(param: torch.Tensor) -> int:
    """Returns how far a parameter reaches in memory, gaps included."""
    reach: int = sum((length - 1) * stride for length, stride in zip(param.shape, param.stride()))
    return (1 + reach) * int(param.element_size())


def _share(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Returns whether two parameters, of which the first one begins first, share an element. Columns of one matrix do
    not."""
    offset = second.data_ptr() - first.data_ptr()
    size = first.element_size()
    if first.element_size() != second.element_size() or offset % size:
        return True
    taken = torch.zeros(max(_bytes(first), offset + _bytes(second)) // size, dtype=torch.bool, device="cpu")
    taken.as_strided(first.shape, first.stride()).fill_(True)
    return bool(taken.as_strided(second.shape, second.stride(), offset // size).any())
