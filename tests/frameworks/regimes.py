"""The rule by which pairs are counted on a machine whose bandwidth changes: what in_place_pairs.py and exec_pairs.py
share.

A virtual machine may change between two bandwidths within minutes. So the roofline of two threads ÷ one is measured
before and after each block of five pairs (zf-tune bench), and each side of REGIME is judged by itself; a block that
begins on one side and ends on the other is dropped. Pairs are measured until the 95 % interval of a regime's geometric
mean is narrow enough, or there are MOST_PAIRS."""

import dataclasses
import json
import math
import pathlib
import statistics
import subprocess
from collections.abc import Callable, Sequence

from turns import interval

TUNE = pathlib.Path(__file__).resolve().parents[2] / "build/bin/zf-tune"
REGIME, PAIRS_OF_A_BLOCK, MOST_PAIRS, HALF_WIDTH = 1.4, 5, 200, 0.015

Pair = dict[str, float]  # what was measured of each side, in seconds or milliseconds


def bandwidth_of_two_threads() -> float:
    """Returns the roofline's bandwidth of two threads, divided by that of one."""
    done = subprocess.run([TUNE, "bench", "--threads", "1,2", "--params", "27M", "--format", "json"],
                          capture_output=True, check=True, text=True)
    one, two = (statistics.median(sample["roofline_ns"] for sample in pool["samples"])
                for pool in json.loads(done.stdout)["pools"])
    return one / two


@dataclasses.dataclass(frozen=True)
class Regime:
    """The pairs of one regime. Compares ours with other."""

    wide: bool  # whether two threads have more than REGIME times the bandwidth of one
    pairs: Sequence[Pair]
    dropped: int  # pairs that count in neither regime

    def interval(self, ours: str, other: str) -> tuple[float, float, float]:
        """Returns the geometric mean of ours ÷ other, and both ends of its 95 % interval."""
        return interval([pair[ours] / pair[other] for pair in self.pairs])

    def is_narrow(self, ours: str, other: str, fewest: int = 2 * PAIRS_OF_A_BLOCK) -> bool:
        if len(self.pairs) < fewest:
            return False
        _, low, high = self.interval(ours, other)
        return math.log(high / low) / 2 <= HALF_WIDTH

    def line(self, name: str, ours: str, other: str, bar: float | None, unit_ms: float) -> str:
        """Returns what this regime says, in one line. A value of a pair times unit_ms is in milliseconds."""
        where = f"{name}, roofline of 2 threads ÷ 1 {'above' if self.wide else 'at most'} {REGIME}"
        if len(self.pairs) < 2:
            return f"{where}: no result"
        mean, low, high = self.interval(ours, other)
        medians = ", ".join(f"{side} {statistics.median(pair[side] for pair in self.pairs) * unit_ms:.3f} ms"
                            for side in (ours, other))
        verdict = "" if bar is None else f"; bar {bar}: {'held' if high <= bar else 'not held'}"
        width = "" if self.is_narrow(ours, other) else " (wider than asked for)"
        return (f"{where}: {mean:.3f} ({low:.3f} to {high:.3f}){width}, {len(self.pairs)} pairs, {self.dropped} "
                f"dropped, {medians}{verdict}")


def measured(block: Callable[[], list[Pair]], ours: str, other: str, fewest: int = 2 * PAIRS_OF_A_BLOCK,
             most: int = MOST_PAIRS) -> list[Regime]:
    """Asks block() for pairs until one regime has at least `fewest` and its interval of ours ÷ other is narrow enough,
    or there are `most`."""
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
        if any(Regime(wide, each, dropped).is_narrow(ours, other, fewest) for wide, each in found.items()):
            break
    return [Regime(wide, each, dropped) for wide, each in found.items()]
