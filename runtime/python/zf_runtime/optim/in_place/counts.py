"""Keeps the step counts of an optimizer's parameters side by side in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

MANY = 8  # blocks: reading more takes longer than moving their counts into one


class Counts:
    """Step counts as fp32 tensors without dimensions: views of a few blocks, so that all are read in one call.

    The engine raises a count itself, at its address, so no exception can part it from what was stepped."""

    def __init__(self) -> None:
        # One attribute, so that an exception leaves all as it was. The views are held, so that no id is used again.
        self._kept: tuple[list[Any], list[Any], dict[int, int]] = [], [], {}

    @property
    def scattered(self) -> bool:
        """Whether the counts lie in so many blocks that one block should take them."""
        return len(self._kept[0]) > MANY

    def add(self, values: Sequence[float]) -> list[Any]:
        """Returns a new count for each value."""
        with torch.no_grad():
            block = torch.tensor(values, dtype=torch.float32, device="cpu")
            new = list(block.unbind())
        blocks, views, slots = self._kept
        places = {id(view): slot for slot, view in enumerate(new, len(views))}
        self._kept = [*blocks, block], views + new, slots | places
        return new

    def slot(self, count: Any) -> int:
        """Returns the place of a count in values(), or -1 if it is not one of these."""
        return self._kept[2].get(id(count), -1)

    def values(self) -> list[float]:
        """Returns what all counts are now, also if the program has written them."""
        found: list[float] = []
        for block in self._kept[0]:
            found += block.tolist()
        return found

    def home(self, slot: int) -> int:
        """Returns the address that values() reads for a slot."""
        for block in self._kept[0]:
            if slot < len(block):
                return int(block.data_ptr()) + 4 * slot
            slot -= len(block)
        raise IndexError(slot)


def can_be_raised(count: Any) -> bool:
    """Returns whether the engine can raise what stands in state["step"] at its own address."""
    return (type(count) is torch.Tensor and count.dtype is torch.float32 and count.device.type == "cpu"
            and count.layout is torch.strided and count.numel() == 1)
