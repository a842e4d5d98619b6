"""The details, which are too long for docs/: each way of a job in full, where its threads and pages were, and the
plans."""

import math

import conclusions
import matrix
from conclusions import FAILED, FASTER, OPEN, SLOWER, UNKNOWN, Row
from markdown import all_rows, table, titles_of
from results import Results


def verdict_text(row: Row) -> str:
    return {FASTER: "less time", SLOWER: "**more time**", OPEN: "no difference shown", UNKNOWN: "one block: nothing",
            FAILED: "**failed**", "": ""}[row.verdict]


def figures_of(row: Row) -> list[str]:
    """Returns the cells of a row after its name: time, ratio, interval, verdict, losses, start, blocks."""
    if row.verdict == FAILED:
        return ["–", "–", "–", f"failed: {row.reason}", "–", "–", "0"]
    known = row.arm != matrix.UNBOUND
    spread = "one block" if math.isinf(row.high) else f"{row.low:.3f} to {row.high:.3f}"
    return [f"{row.ms:.1f} ms", f"{row.ratio:.3f}" if known else "1", spread if known else "–", verdict_text(row),
            row.losses if known else "–", f"{row.start_s:.1f} s", str(row.blocks)]


def group_table(rows: list[Row]) -> str:
    head = ["way", "step", "÷ unbound", "95 % interval", "shown", "first losses, to unbound's", "start", "blocks"]
    return table(head, [[matrix.ARMS[row.arm], *figures_of(row)] for row in rows])


def placement_table(rows: list[Row]) -> str:
    return table(["job", "way", "threads and the CPUs that they may use", "pages"],
                 [[row.group.name(), matrix.ARMS[row.arm], row.threads, row.pages] for row in rows if row.blocks])


def plans_table(results: Results) -> str:
    """Returns each command that made plans, with the CPUs that it gave, and for whom."""
    made: dict[tuple[str, str], list[str]] = {}
    for line in results.lines:
        plan = line.get("plan", {})
        if plan and "failed" not in plan:
            made.setdefault((plan["command"], plan["cpus"]), []).append(f"{plan['group']} {matrix.ARMS[plan['arm']]}")
    return table(["command", "training CPUs and optimizer CPUs", "job and way"],
                 [[f"`{command}`", cpus, ", ".join(users)] for (command, cpus), users in made.items()])


def details_of(results: Results, command: str) -> str:
    """Returns the details as Markdown."""
    ways = (part for group, title in titles_of(results.groups()).items()
            for part in (f"## {title}", group_table(conclusions.rows_of(results, group))))
    return "\n\n".join([f"# The details of `{command}`", *ways,
                        "## Where threads and pages were", placement_table(all_rows(results)),
                        "## The plans", plans_table(results)]) + "\n"
