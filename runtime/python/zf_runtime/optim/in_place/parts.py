"""Lists what the engine steps, and keeps the step counts side by side in memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ..tensors.formats import Ranges

MANY = 8  # blocks of counts: reading more takes longer than moving them into one
WORDS = 8  # of zf_tensor
_LISTS = ("index", "group", "params", "slots", "counts", "ranges")


class Parts:
    """What the engine steps, one entry of each list for a parameter. Lists of addresses are arrays of words."""

    def __init__(self) -> None:
        self.index: list[int] = []  # in the order of param_groups
        self.group: list[int] = []
        self.params: list[torch.Tensor] = []
        self.written: list[torch.Tensor] = []  # a step raises their versions
        self.held: list[torch.Tensor] = []  # tensors that must live until the step is done
        self.slots: list[int] = []  # in Counts; -1: a count that the program has put there
        self.counts: list[torch.Tensor] = []
        self.ranges: list[Ranges] = []  # behind the first element, where elements are numbered otherwise
        #: zf_tensor structs: p (fp32; of split masters the low bits), g, both moments, copy (the 16-bit parameter; 0
        #: without), elements, the number of the first one, and types and format beside the index that kinds() sets.
        self.words: array[int] = array("Q")
        self.count: array[int] = array("Q")  # addresses
        self._fixed: dict[str, Any] = {}  # what follows from all but p, g and copy

    def chosen(self, which: Iterable[int]) -> Parts:
        """Returns these parts, without `written` and `held`."""
        which, parts = list(which), Parts()
        if which == list(range(len(self.index))):
            parts.__dict__.update(self.__dict__ | {"written": [], "held": []})  # a list is never changed
            return parts
        for name in _LISTS:
            old = getattr(self, name)
            setattr(parts, name, [old[at] for at in which])
        for at in which:
            parts.words += self.words[WORDS * at:WORDS * (at + 1)]
        parts.count = array("Q", [self.count[at] for at in which])
        return parts

    def elsewhere(self, p: array[int], g: array[int], copy: array[int] | None) -> Parts:
        """Returns a copy with other addresses. It shares all lists, and the values that were kept."""
        parts = object.__new__(Parts)
        parts.__dict__.update(self.__dict__)
        words = parts.words = self.words[:]
        words[0::WORDS], words[1::WORDS] = p, g
        if copy is not None:
            words[4::WORDS] = copy
        return parts

    def extend(self, more: Parts) -> None:
        """Adds parts. The lists may be those of other parts too, so they are not changed."""
        for name in ("written", "held", "words", "count", *_LISTS):
            setattr(self, name, getattr(self, name) + getattr(more, name))
        self._fixed = {}

    def sort(self) -> None:
        """Brings the parts into the order of param_groups: memory that two share is stepped in it."""
        order = sorted(range(len(self.index)), key=self.index.__getitem__)
        if order != list(range(len(order))):
            self.__dict__.update(self.chosen(order).__dict__ | {"written": self.written, "held": self.held})

    def counts_in(self, values: Sequence[float]) -> list[float]:
        """Returns each part's count of steps. values: of Counts."""
        first = self._known("first", self._first_slot)
        if first >= 0:
            return list(values[first:first + len(self.slots)])
        return [values[slot] if slot >= 0 else count.item() for slot, count in zip(self.slots, self.counts)]

    def total(self) -> int:
        """Returns the elements of all parts."""
        return int(self._known("total", lambda: sum(self.words[5::WORDS])))

    def range_words(self) -> array[int]:
        """Returns the zf_range structs."""
        found: array[int] = self._known("ranges", lambda: array("Q", [
            word for at, ranges in enumerate(self.ranges) for pair in ranges for word in (at, *pair)]))
        return found

    def kinds(self, counts: list[float]) -> tuple[list[tuple[int, float]], array[int]]:
        """Returns the pairs of param_group and count that occur, and the zf_tensor structs, which name them by their
        index."""
        if counts.count(counts[0]) == len(counts):  # as in most jobs
            groups, self.words[WORDS - 1::WORDS] = self._known("groups", self._by_group)
            return [(group, counts[0]) for group in groups], self.words
        pairs = list(zip(self.group, counts))
        place = {pair: at for at, pair in enumerate(dict.fromkeys(pairs))}
        self.words[WORDS - 1::WORDS] = self._last_words(map(place.__getitem__, pairs))
        return list(place), self.words

    def _by_group(self) -> tuple[list[int], array[int]]:
        groups = list(dict.fromkeys(self.group))
        return groups, self._last_words(map(groups.index, self.group))

    def _last_words(self, indexes: Iterable[int]) -> array[int]:
        types = self._known("types", lambda: [word >> 32 << 32 for word in self.words[WORDS - 1::WORDS]])
        return array("Q", map(int.__add__, types, indexes))

    def _first_slot(self) -> int:
        """Returns the slot of the first part if the others follow it one by one, else -1."""
        first = self.slots[0]
        return first if first >= 0 and self.slots == list(range(first, first + len(self.slots))) else -1

    def _known(self, name: str, make: Any) -> Any:
        """Returns what make() has once found."""
        if name not in self._fixed:
            self._fixed[name] = make()
        return self._fixed[name]


class Counts:
    """Step counts as fp32 tensors without dimensions: views of a few blocks, so that all are read in one call.

    The engine raises a count itself, at its address, so no exception can part it from what was stepped."""

    def __init__(self) -> None:
        # One attribute, so that an exception leaves all as it was. The views are held, so that no id is used again.
        self._kept: tuple[list[torch.Tensor], list[torch.Tensor], dict[int, int]] = [], [], {}

    @property
    def scattered(self) -> bool:
        """Whether the counts lie in so many blocks that one block should take them."""
        return len(self._kept[0]) > MANY

    def add(self, values: Sequence[float]) -> list[torch.Tensor]:
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
