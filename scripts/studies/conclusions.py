"""From the results to what may be said of them. All of it follows from the intervals by rule.

A difference is claimed only if the 95 % interval of the ratio excludes 1."""

import dataclasses
import math
import statistics

import matrix
from matrix import Group
from results import Results
from turns import T_975, ratio_of

FASTER, SLOWER, OPEN, UNKNOWN, FAILED = "faster", "slower", "not shown", "one block", "failed"


@dataclasses.dataclass(frozen=True)
class Row:
    """One way of one group."""

    group: Group
    arm: str
    blocks: int  # with a ratio
    ms: float
    ratio: float  # to unbound
    low: float
    high: float
    start_s: float
    threads: str
    pages: str
    losses: str
    verdict: str
    reason: str = ""  # if it failed


def verdict_of(low: float, high: float) -> str:
    """Returns what an interval of a ratio of times shows."""
    if high < 1:
        return FASTER
    if low > 1:
        return SLOWER
    return UNKNOWN if math.isinf(high) else OPEN


@dataclasses.dataclass(frozen=True)
class Noise:
    """How much the logarithm of a block's ratio varies from block to block."""

    deviation: float  # pooled over all ways of all groups
    freedom: int  # in blocks, because the ratios of one block have the same unbound job below


def noise_of(results: Results) -> Noise:
    """Returns the noise of a study. A group has few blocks, so all groups tell it together: they ran on one machine,
    in turns of the same length."""
    squares, count, freedom = 0.0, 0, 0
    for group in results.groups():
        blocks = results.blocks(group)
        rows = [ratios_of(blocks, arm, matrix.UNBOUND) for arm in matrix.arms_of(group) if arm != matrix.UNBOUND]
        logs = [[math.log(ratio) for ratio in ratios] for ratios in rows if ratios]
        squares += sum((value - statistics.mean(row)) ** 2 for row in logs for value in row)
        count += sum(len(row) - 1 for row in logs)
        freedom += max((len(row) for row in logs), default=1) - 1
    return Noise(math.sqrt(squares / count) if count else 0.0, freedom)


def interval(ratios: list[float], noise: Noise) -> tuple[float, float, float]:
    """Returns the geometric mean, and both ends of the 95 % interval of Student's t of the logarithms. A way that
    varies more than the others has its own deviation. One ratio has no interval: it goes from 0 to infinity."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.mean(logs)
    if len(ratios) == 1:
        return math.exp(mean), 0.0, math.inf
    deviation = max(noise.deviation, statistics.stdev(logs))
    half = T_975[min(noise.freedom, len(T_975) - 1)] * deviation / math.sqrt(len(ratios))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def rows_of(results: Results, group: Group) -> list[Row]:
    """Returns a row for each way that the group has and that was run."""
    blocks, noise = results.blocks(group), noise_of(results)
    return [_row(blocks, group, arm, noise) for arm in matrix.arms_of(group)
            if any(arm in block["arms"] for block in blocks)]


def ratios_of(blocks: list[dict], arm: str, reference: str) -> list[float]:
    """Returns arm / reference, one number per block in which both ran."""
    pairs = [(block["arms"].get(arm, {}), block["arms"].get(reference, {})) for block in blocks]
    return [ratio_of(a["turns"], b["turns"]) for a, b in pairs if "turns" in a and "turns" in b]


def _row(blocks: list[dict], group: Group, arm: str, noise: Noise) -> Row:
    facts = [block["arms"][arm] for block in blocks if "turns" in block["arms"].get(arm, {})]
    failed = [block["arms"][arm]["failed"] for block in blocks if "failed" in block["arms"].get(arm, {})]
    ratios = ratios_of(blocks, arm, matrix.UNBOUND)
    if not ratios:
        reason = failed[-1] if failed else "unbound failed, so there is nothing to compare with"
        return Row(group, arm, 0, math.nan, math.nan, math.nan, math.nan, math.nan, "", "", "", FAILED, reason)
    ratio, low, high = interval(ratios, noise) if arm != matrix.UNBOUND else (1.0, 1.0, 1.0)
    return Row(group, arm, len(ratios), statistics.median(statistics.median(each["turns"]) for each in facts), ratio,
               low, high, statistics.median(each["start_s"] for each in facts), _united(facts, "threads"),
               _united(facts, "pages"), losses_text(blocks, arm), "" if arm == matrix.UNBOUND else
               verdict_of(low, high), f"failed in {len(failed)} blocks: {failed[-1]}" if failed else "")


def _united(facts: list[dict], name: str) -> str:
    """Returns what most blocks show."""
    shown = [each[name] for each in facts if each.get(name)]
    return max(dict.fromkeys(shown), key=shown.count) if shown else "not seen"


def compare_losses(mine: dict[str, list[str]], its: dict[str, list[str]]) -> float | None:
    """Returns the largest relative difference of two runs' losses, 0 if all bits are equal; None if they have none in
    common. Losses are hexadecimal, a list for each rank."""
    pairs = [(a, b) for rank in mine if rank in its for a, b in zip(mine[rank], its[rank])]
    if not pairs:
        return None
    differences = [abs(float.fromhex(a) - float.fromhex(b)) / abs(float.fromhex(b)) for a, b in pairs if a != b]
    return max(differences, default=0.0)


def losses_text(blocks: list[dict], arm: str) -> str:
    """Returns how the first losses of this way compare with those of unbound, over all blocks."""
    pairs = [(block["arms"].get(arm, {}).get("losses"), block["arms"].get(matrix.UNBOUND, {}).get("losses"))
             for block in blocks]
    found = [compare_losses(mine, its) for mine, its in pairs if mine and its]
    found = [each for each in found if each is not None]
    if not found:
        return "not seen"
    worst = max(found)
    return "equal bits" if worst == 0 else f"differ by up to {worst:.0e}"


def in_percent(ratio: float) -> str:
    """Returns a ratio of times as a change of time: "12.3 % less time"."""
    return f"{abs(ratio - 1) * 100:.1f} % {'less' if ratio < 1 else 'more'} time"


def sentence(row: Row) -> str:
    """Returns what one row shows, and no more."""
    blocks = f"{row.blocks} {'block' if row.blocks == 1 else 'blocks'}"
    name = matrix.ARMS[row.arm]
    if row.verdict == FAILED:
        return f"`{name}` failed: {row.reason}."
    if row.verdict == UNKNOWN:
        return f"`{name}` has one block, and so no interval: nothing is said."
    spread = f"95 % interval {row.low:.3f} to {row.high:.3f}, {blocks}"
    if row.verdict == OPEN:
        return f"`{name}`: no difference from unbound is shown ({spread})."
    return f"`{name}` takes {in_percent(row.ratio)} than unbound ({spread})."


def best_of(rows: list[Row]) -> Row | None:
    """Returns the fastest of the rows that are surely faster than unbound."""
    return min((row for row in rows if row.verdict == FASTER), key=lambda row: row.ratio, default=None)


def advice_of(rows: list[Row]) -> str:
    """Returns what a user of this job should set, as far as these rows show it."""
    group = rows[0].group
    if all(row.verdict in (UNKNOWN, FAILED, "") for row in rows):
        return "nothing can be said yet."
    same = best_of([row for row in rows if matrix.is_same_computation(group, row.arm)])
    late = best_of([row for row in rows if not matrix.is_same_computation(group, row.arm)])
    slower = [f"`{matrix.ARMS[row.arm]}`" for row in rows if row.verdict == SLOWER]
    text = f"`{matrix.ARMS[same.arm]}` ({in_percent(same.ratio)})." if same else \
        "nothing: no way that computes the same is shown to be faster than unbound."
    if late and (same is None or late.ratio < same.ratio):
        text += f" If a step on weights that are one step old is acceptable, `{matrix.ARMS[late.arm]}`" \
                f" ({in_percent(late.ratio)})."
    if slower:
        text += f" Avoid {', '.join(slower)}: shown to be slower."
    return text


def changed(before: Results, after: Results) -> list[str]:
    """Returns a sentence for each verdict that differs between two studies, and for each row that only one has."""
    olds = {(row.group, row.arm): row for group in before.groups() for row in rows_of(before, group)}
    news = {(row.group, row.arm): row for group in after.groups() for row in rows_of(after, group)}
    found = []
    for key in dict.fromkeys([*olds, *news]):
        group, arm = key
        name = f"{group.name()}, {matrix.ARMS[arm]}"
        old, new = olds.get(key), news.get(key)
        if old is None or new is None:
            found.append(f"{name}: only in the {'second' if old is None else 'first'} study")
        elif old.verdict != new.verdict:
            found.append(f"{name}: {old.verdict} ({old.low:.3f} to {old.high:.3f}), then {new.verdict} "
                         f"({new.low:.3f} to {new.high:.3f})")
    return found
