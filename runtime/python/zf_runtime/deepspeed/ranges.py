"""Finds which parameters a tensor shows: in stages 1 and 2 all of a group are ranges of one tensor."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

from ..optim.tensors.eligibility import reach


class Weight(NamedTuple):
    """A parameter of the model."""

    param: torch.Tensor
    piece: int  #: the number of the last piece that has a part of it
    begin: int  #: its address
    end: int


class Ranges:
    """Where the parameters of a step lie, and other memory that the step writes or reads."""

    def __init__(self, weights: Sequence[Weight], others: Iterable[torch.Tensor] = ()):
        self._weights = sorted(weights, key=lambda weight: weight.begin)
        self._begins = [weight.begin for weight in self._weights]
        arrays = ((other.data_ptr(), other.data_ptr() + other.nbytes) for other in others if other.numel())
        self._others = sorted(arrays)
        self._other_begins = [begin for begin, _ in self._others]

    def of(self, tensor: torch.Tensor) -> list[Weight]:
        """Returns the parameters that a tensor shows a part of; all, if it shows other memory of the step."""
        begin = tensor.data_ptr()
        end = begin + (reach(tensor) if tensor.numel() else 0)
        number = bisect.bisect_left(self._other_begins, end) - 1
        if number >= 0 and self._others[number][1] > begin:
            return self._weights
        first = max(0, bisect.bisect_right(self._begins, begin) - 1)
        return [weight for weight in self._weights[first:bisect.bisect_left(self._begins, end)] if weight.end > begin]
