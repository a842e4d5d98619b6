"""From the results to what may be said: the paired difference of each way from what it is held against.

A difference of one seed is that of the two held-out losses in percent of the reference's. Reported are the mean over
seeds and its 95 % interval (Student's t)."""

import dataclasses
import math
import statistics

from turns import T_975
from ways import CONTROL, ORDER, REFERENCE, WAYS

HARMLESS = 0.5  # percent: a format is called harmless if its whole interval is within this of no difference
SPREAD = 0.3  # percent: so wide may the half of the interval be that only another order of summation makes

Results = dict[tuple[str, int], dict]  # (way, seed) -> what train.py printed


@dataclasses.dataclass(frozen=True)
class Difference:
    """The difference of one way from the reference, in percent. Positive: the way's loss is higher."""

    seeds: int
    mean: float
    half: float  # of the 95 % interval; infinite with one seed

    @property
    def harmless(self) -> bool:
        return self.mean - self.half >= -HARMLESS and self.mean + self.half <= HARMLESS

    @property
    def harms(self) -> bool:
        return self.mean - self.half > 0 and not self.harmless


def difference(results: Results, way: str) -> Difference:
    """Returns the difference of the way over the seeds that both it and the reference have. Raises ValueError if there
    are none."""
    percents = [100 * (result["result"] / results[REFERENCE, seed]["result"] - 1)
                for (name, seed), result in results.items() if name == way and (REFERENCE, seed) in results]
    if not percents:
        raise ValueError(f"no seed has both {way} and {REFERENCE}")
    count = len(percents)
    half = T_975[min(count, len(T_975)) - 1] * statistics.stdev(percents) / math.sqrt(count) if count > 1 else math.inf
    return Difference(count, statistics.mean(percents), half)


def needs_seeds(results: Results) -> bool:
    """Returns whether the seeds are too few to tell anything: another order of summation alone spreads too far."""
    return difference(results, ORDER).half > SPREAD


def verdict(way: str, found: Difference, control: Difference) -> str:
    """Returns what the difference shows. Nothing is said of a format unless the control fails."""
    if way == CONTROL:
        return "fails, as it must" if found.harms else "does not fail: the job must change"
    if not control.harms:
        return "no conclusion: the control does not fail"
    return "harmless" if found.harmless else "not shown to be harmless"


def table(results: Results) -> str:
    """Returns the table of all ways, in Markdown."""
    control = difference(results, CONTROL)
    lines = ["| way | held-out loss | difference from fp32, 95 % | verdict |", "| --- | --- | --- | --- |"]
    for way in WAYS:
        found = difference(results, way)
        loss = statistics.mean(result["result"] for (name, _), result in results.items() if name == way)
        if way == REFERENCE:
            lines.append(f"| {way} | {loss:.4f} | | {found.seeds} seeds |")
        else:
            low, high = found.mean - found.half, found.mean + found.half
            lines.append(f"| {way} | {loss:.4f} | {found.mean:+.2f} % ({low:+.2f} to {high:+.2f}) | "
                         f"{verdict(way, found, control)} |")
    return "\n".join(lines)
