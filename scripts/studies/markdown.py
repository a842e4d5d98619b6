"""Writes docs/study.md from the results. Every figure and every conclusion in it follows from them."""

import math
import statistics
import textwrap

import conclusions
import matrix
from conclusions import FAILED, FASTER, OPEN, SLOWER, UNKNOWN, Row
from matrix import Group
from results import Results
from simulated import Simulated
from simulated import command as simulated_command

# Changes that a user makes for each way, and their cost. The seconds come from the results.
PRACTICE = {
    matrix.UNBOUND: ("nothing", "nothing", "nothing"),
    matrix.FUSED: ("one option of torch.optim.AdamW", "nothing", "torch's own fast step"),
    matrix.BIND: ("DeepSpeed's launcher with one option", "numactl",
                  "one rank or several; numbers cores from 0, so an allocation with gaps needs `--bind_core_list`"),
    matrix.PLAN: ("`zf-tune exec --` before the command", "a plan: `zf-tune tune` once per node",
                  "any launcher and any framework; the job is not edited"),
    matrix.IN_PLACE: ("one line of the script: zf_runtime.AdamW", "a plan for torch",
                      "parameters on the CPU; works without a plan, too"),
    matrix.WAIT: ("`python -m zf_runtime.deepspeed train.py`", "a plan, `zf-optimizer`",
                  "DeepSpeed's losses keep their bits; a second process per rank"),
    matrix.LATE: ("the same with `--late`, or OverlappedAdamW(overlap=True)", "a plan, `zf-optimizer`",
                  "changes what is computed: weights are one step old in each forward (with ZenFlow's overlap_step "
                  "they are in any case)"),
}


def all_rows(results: Results) -> list[Row]:
    return [row for group in results.groups() for row in conclusions.rows_of(results, group)]


def title_of(group: Group) -> str:
    size = matrix.SIZES[group.size]
    ranks = "1 rank" if group.ranks == 1 else f"{group.ranks} ranks"
    return f"{matrix.JOBS[group.job].title}: {ranks}, {group.size} GPT ({matrix.parameters_of(size) / 1e6:.1f}M " \
           f"parameters)"


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


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def group_table(rows: list[Row]) -> str:
    head = ["way", "step", "÷ unbound", "95 % interval", "shown", "first losses, to unbound's", "start", "blocks"]
    return table(head, [[matrix.ARMS[row.arm], *figures_of(row)] for row in rows])


def count_text(rows: list[Row]) -> str:
    """Returns how many comparisons show what."""
    compared = [row for row in rows if row.verdict in (FASTER, SLOWER, OPEN)]
    counts = {verdict: sum(row.verdict == verdict for row in compared) for verdict in (FASTER, SLOWER, OPEN)}
    return (f"Of {len(compared)} comparisons with the same job unbound, {counts[FASTER]} show less time, "
            f"{counts[SLOWER]} show more, and {counts[OPEN]} show no difference. One in twenty intervals of 95 % "
            f"misses the truth, so about {len(compared) / 20:.1f} of these do.")


def practice_table(rows: list[Row]) -> str:
    """Returns what each way asks of a user, and by how much longer it takes to start than unbound."""
    lines = []
    for arm, (change, needs, remark) in PRACTICE.items():
        pairs = [(row.start_s, other.start_s) for row in rows for other in rows
                 if row.arm == arm and other.arm == matrix.UNBOUND and row.group == other.group and row.blocks]
        more = statistics.median(mine - its for mine, its in pairs) if pairs and arm != matrix.UNBOUND else None
        lines.append([matrix.ARMS[arm], change, needs, "–" if more is None else f"{more:+.1f} s", remark])
    return table(["way", "what a user changes", "needs", "start, compared with unbound (two at a time)",
                  "remarks"], lines)


def placement_table(rows: list[Row]) -> str:
    return table(["job", "way", "threads and the CPUs that they may use", "pages"],
                 [[row.group.name(), matrix.ARMS[row.arm], row.threads, row.pages] for row in rows if row.blocks])


def plans_table(results: Results) -> str:
    plans = [line["plan"] for line in results.lines if "plan" in line and "failed" not in line["plan"]]
    return table(["job", "way", "command", "training CPUs and optimizer CPUs"],
                 [[plan["group"], matrix.ARMS[plan["arm"]], f"`{plan['command']}`", plan["cpus"]] for plan in plans])


def not_run(results: Results, cannot: dict[str, str]) -> str:
    lines = [f"- {name}: {why}." for name, why in (matrix.NOT_RUN | cannot).items()]
    jobs = dict.fromkeys(group.job for group in results.groups())
    lines += [f"- {matrix.JOBS[job].title}, {matrix.ARMS[arm]}: {why}." for job in jobs
              for arm, why in matrix.JOBS[job].impossible.items()]
    return "\n".join(lines)


def simulated_verdict(row: Simulated) -> str:
    return verdict_words(conclusions.verdict_of(row.low, row.high))


def verdict_words(verdict: str) -> str:
    return {FASTER: "less time", SLOWER: "**more time**", OPEN: "no difference shown",
            UNKNOWN: "unknown"}[verdict]


def simulated_table(rows: list[Simulated]) -> str:
    return table(["simulated machine", "job", "chosen split (simulated)", "plan ÷ unbound (simulated)",
                  "95 % interval (simulated)", "shown",
                  "half and half ÷ unbound (simulated), too few visits for an interval",
                  "80/20 ÷ unbound (simulated), likewise"],
                 [[f"{row.machine}: {row.cores} cores, {counted(row.packages, 'package')}, "
                   f"{counted(row.ranks, 'rank')}", row.job, row.chosen, f"{row.ratio:.3f}",
                   f"{row.low:.3f} to {row.high:.3f}", simulated_verdict(row), optional(row.half), optional(row.most)]
                  for row in rows])


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def why_simulated(settings: dict) -> str:
    machine = settings["machine"]
    return (f"The jobs above use no GPU, and ran on {counted(len(machine['cpus']), 'CPU')} of "
            f"{counted(machine['nodes'], 'NUMA node')}. What larger machines with GPUs would show is **simulated** "
            "here: formulas take the place of measurements. They show orders of magnitude and predict no machine.")


def optional(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.3f}"


def facts_of(results: Results, command: str) -> dict[str, str]:
    """Returns what the page says of itself: machine, command, versions, date, duration."""
    settings = results.settings
    machine = settings["machine"]
    dates = [line["date"] for line in results.lines if "date" in line]
    blocks = [len(results.blocks(group)) for group in results.groups()]
    shares = [block["others"] for group in results.groups() for block in results.blocks(group)]
    left_out = sum("group" in line for line in results.lines) - len(shares)
    return {
        "machine": f"{machine['processor']}; {len(machine['cpus'])} CPUs, {machine['nodes']} NUMA "
                   f"{'node' if machine['nodes'] == 1 else 'nodes'}, {machine['memory_gib']} GiB",
        "command": command,
        "versions": ", ".join(f"{name} {version.removeprefix(name).strip()}"
                              for name, version in settings["versions"].items()),
        "date": f"{dates[0][:16]} to {dates[-1][:16]}, UTC" if dates else "not run",
        "took": f"{results.seconds() / 60:.1f} minutes, {min(blocks, default=0)} to {max(blocks, default=0)} blocks "
                f"per job",
        "others": f"other programs used {min(shares, default=0):.0%} to {max(shares, default=0):.0%} of the CPUs in "
                  f"the turns; {counted(left_out, 'block')} in which they used more than {settings['others']:.0%} "
                  f"{'does' if left_out == 1 else 'do'} not count",
    }


METHOD = """All ways of a job run side by side and take turns of {turn_s} s: SIGSTOP and SIGCONT to every process of the
job. The order is a palindrome, with {passes} turns for each way in a block. A turn's figure is the median over its
steps, without the step that was under way when it began; with two ranks, the slower one's. Each block has new
processes, and another way is started first. A block gives one ratio per way: the geometric mean over the turns. The
tables have the geometric mean over blocks and the 95 % interval of Student's t of the logarithms, whose standard
deviation is pooled over all ways of all jobs: one job has too few blocks to tell it. **A difference is claimed only if
the interval excludes 1.** What helps, what does not, and what to set follow from that rule alone.
Nobody edits this page.

All processes keep the memory that they free ({variables}). By default glibc
gives it back to the kernel in each step. Page faults then made equal processes take 44 to 73 ms a step on a virtual
machine with two cores of an AMD EPYC (Zen 4); with these variables 35 to 37 ms. A job on a GPU keeps its
gradients there, and has no such faults.

The model is a GPT in fp32, on random text: {sizes}. Forward and backward run
on the CPUs too, because these jobs use no GPU. They need all CPUs, which beside a GPU they do not, and the optimizer's
step is a smaller part of an iteration. So these figures are no forecast for a machine with GPUs.

Plans of jobs that wait are made without measuring (`zf-tune plan`) unless the table says `zf-tune tune`: `tune` then
planned for a record of the unbound job. ZenFlow's `update_interval` is 2. With `overlap_step` on, it takes as many
threads as its main thread has CPUs, because otherwise they spin on each other's CPUs."""


def method_text(settings: dict) -> str:
    sizes = "; ".join(f"{name}, {matrix.parameters_of(size) / 1e6:.1f}M parameters (width {size.width}, {size.layers} "
                      f"layers, {size.tokens} tokens)" for name, size in matrix.SIZES.items())
    return METHOD.format(turn_s=settings["turn_s"], passes=settings["passes"], sizes=sizes,
                         variables=", ".join(f"`{name}={value}`" for name, value in settings["variables"].items()))


def bullets(rows: list[Row], verdicts: tuple[str, ...]) -> str:
    """Returns the sentences of these verdicts, a bullet per group."""
    sentences: dict[Group, list[str]] = {}
    for row in rows:
        if row.verdict in verdicts:
            sentences.setdefault(row.group, []).append(conclusions.sentence(row))
    return "\n".join(f"- **{title_of(group)}**: {' '.join(its)}" for group, its in sentences.items()) or "Nothing."


def text_of(results: Results, cannot: dict[str, str], simulated: list[Simulated], command: str) -> str:
    """Returns docs/study.md."""
    rows = all_rows(results)
    groups = results.groups()
    advice = [f"- **{title_of(group)}**: {conclusions.advice_of(conclusions.rows_of(results, group))}"
              for group in groups]
    tables = [f"### {title_of(group)}\n\n{group_table(conclusions.rows_of(results, group))}" for group in groups]
    facts = "\n".join(f"- {name}: {text}" for name, text in facts_of(results, command).items())
    commands = "\n".join(f"$ zf-tune {' '.join(simulated_command(row.machine, row.job))}" for row in simulated[:1])
    sections = [
        "# The study: what binding and our optimizer change for real jobs",
        f"`{command}` wrote this page from what it measured. Start it to repeat the study on your machine. `--long` "
        "adds two ranks and a larger model, and `--list` says what would run and how long. It also writes a page with "
        "charts (`--page FILE`).",
        facts,
        "## What to set", *(["\n".join(advice)] if advice else ["Nothing was run."]),
        count_text(rows),
        "## The table", *tables,
        "## What helps", bullets(rows, (FASTER,)),
        "## What does not", bullets(rows, (SLOWER, OPEN, UNKNOWN, FAILED)),
        "## How practical each way is", practice_table(rows),
        "## Where threads and pages were",
        "Looked up in /proc in a turn that is not counted. Counts are threads, over all ranks.",
        placement_table(rows),
        "## The plans", plans_table(results),
        "## Not run", not_run(results, cannot),
        "## Simulated machines",
        f"{why_simulated(results.settings)} `zf-tune tune --simulate` makes them "
        "([tuning](tuning.md#simulated-machines) has the formulas), with the workload that the machine's file names.",
        f"```console\n{commands}\n```" if commands else "", simulated_table(simulated),
        "## How it was measured", method_text(results.settings),
    ]
    return "\n\n".join(filled(section) for section in sections if section) + "\n"


def filled(section: str) -> str:
    """Breaks the lines of prose and of bullets at 120 columns. Leaves tables, titles and commands as they are."""
    if section.startswith(("|", "#", "```")):
        return section
    paragraphs = section.split("\n\n")
    if section.startswith("- "):
        return "\n".join(fill(line, "  ") for line in section.splitlines())
    return "\n\n".join(fill(paragraph, "") for paragraph in paragraphs)


def fill(text: str, indent: str) -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
