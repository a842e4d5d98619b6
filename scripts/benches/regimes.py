"""Counts pairs on a machine where the bandwidth changes.

A virtual machine may change between two bandwidths within minutes. So the roofline of two threads ÷ one is measured
before and after each block of five pairs (zf-tune bench), and each side of REGIME is judged by itself; a block that
begins on one side and ends on the other is dropped. Pairs are measured until the 95 % intervals of a regime's geometric
means are narrow enough, or there are MOST_PAIRS."""

import dataclasses
import json
import math
import statistics
import subprocess
from collections.abc import Callable, Sequence
from typing import Optional

from frameworks_case import TUNE
from turns import interval

REGIME, PAIRS_OF_A_BLOCK, MOST_PAIRS, HALF_WIDTH = 1.4, 5, 200, 0.015

# What was measured of each side, in milliseconds; "SIDE's PART" is of a part of it, which no interval depends on.
Pair = dict[str, float]


def bandwidth_of_two_threads() -> float:
    """Returns the roofline's bandwidth of two threads, divided by that of one."""
    done = subprocess.run([TUNE, "bench", "--threads", "1,2", "--params", "27M", "--format", "json"],
                          capture_output=True, check=True, text=True)
    one, two = (statistics.median(sample["roofline_ns"] for sample in pool["samples"])
                for pool in json.loads(done.stdout)["pools"])
    return one / two


@dataclasses.dataclass(frozen=True)
class Regime:
    """The pairs of one regime. Compares the sides with one of them, the reference."""

    wide: bool  # whether two threads have more than REGIME times the bandwidth of one
    pairs: Sequence[Pair]
    dropped: int  # pairs that count in neither regime

    def interval(self, side: str, reference: str) -> tuple[float, float, float]:
        """Returns the geometric mean of side ÷ reference, and both ends of its 95 % interval."""
        return interval([pair[side] / pair[reference] for pair in self.pairs])

    def is_narrow(self, reference: str, fewest: int) -> bool:
        """Returns whether there are pairs enough, and the intervals of all sides are narrow."""
        return len(self.pairs) >= fewest and all(
            self._is_narrow(side, reference) for side in self.pairs[0] if side != reference and "'s " not in side)

    def _is_narrow(self, side: str, reference: str) -> bool:
        _, low, high = self.interval(side, reference)
        return low > 0 and math.log(high / low) / 2 <= HALF_WIDTH

    def lines(self, name: str, reference: str, bar: Optional[float]) -> list[str]:
        """Returns what this regime says: a line for each side, and for each part of one."""
        where = f"{name}, roofline of 2 threads ÷ 1 {'above' if self.wide else 'at most'} {REGIME}"
        if len(self.pairs) < 2:
            return [f"{where}: no result"]
        found = []
        for side in self.pairs[0]:
            owner, _, part = side.partition("'s ")
            if owner == reference:
                continue
            other = f"{reference}'s {part}" if part else reference
            both = ", ".join(f"{each} {statistics.median(pair[each] for pair in self.pairs):.3f} ms"
                             for each in (side, other) if each in self.pairs[0])
            ratio = self._ratio(side, other, None if part else bar) if other in self.pairs[0] else ""
            found.append(f"{where}: {ratio}{both}")
        return found

    def _ratio(self, side: str, reference: str, bar: Optional[float]) -> str:
        mean, low, high = self.interval(side, reference)
        width = "" if self._is_narrow(side, reference) else " (wider than asked for)"
        verdict = "" if bar is None else f", bar {bar} {'held' if high <= bar else 'not held'}"
        return (f"{mean:.3f} ({low:.3f} to {high:.3f}){width}, {len(self.pairs)} pairs, {self.dropped} "
                f"dropped{verdict}; ")


def measured(block: Callable[[], list[Pair]], reference: str, fewest: int, most: int = MOST_PAIRS) -> list[Regime]:
    """Asks block() for pairs until one regime has at least `fewest` and narrow intervals, or there are `most`."""
    found: dict[bool, list[Pair]] = {True: [], False: []}
    dropped = 0
    before = bandwidth_of_two_threads()
    while sum(map(len, found.values())) + dropped < most:
        pairs, after = block(), bandwidth_of_two_threads()
        if (before > REGIME) == (after > REGIME):
            found[after > REGIME] += pairs
        else:
            dropped += len(pairs)
        before = after
        if any(Regime(wide, each, dropped).is_narrow(reference, fewest) for wide, each in found.items()):
            break
    return [Regime(wide, each, dropped) for wide, each in found.items()]
