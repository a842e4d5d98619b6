"""Writes docs/study.md from the results. Every figure and every conclusion in it follows from them: do not edit it."""

import statistics
import textwrap

import conclusions
import matrix
from conclusions import FAILED, FASTER, OPEN, SLOWER, UNKNOWN, Row
from matrix import Group
from results import Results
from simulated import Simulated
from simulated import command as simulated_command

# Changes that a user makes for each way, and what it needs. The seconds come from the results.
PRACTICE = {
    matrix.UNBOUND: ("nothing", "nothing"),
    matrix.FUSED: ("one option of torch.optim.AdamW", "nothing"),
    matrix.BIND: ("DeepSpeed's launcher with one option", "numactl"),
    matrix.PLAN: ("`zf-tune exec --` before the command", "a plan: `zf-tune tune` once per node"),
    matrix.IN_PLACE: ("one line of the script: zf_runtime.AdamW", "a plan for torch"),
    matrix.WAIT: ("`python -m zf_runtime.deepspeed train.py`", "a plan, `zf-optimizer`"),
    matrix.LATE: ("the same with `--late`, or AdamW(overlap=\"late\")", "a plan, `zf-optimizer`"),
}


def all_rows(results: Results) -> list[Row]:
    return [row for group in results.groups() for row in conclusions.rows_of(results, group)]


def kind_of(group: Group) -> str:
    return f"{counted(group.ranks, 'rank')}, {group.size} GPT"


def titles_of(groups: list[Group]) -> dict[Group, str]:
    """Returns the name of each group, with ranks and size where they are not all the same."""
    alike = len(set(map(kind_of, groups))) == 1
    return {group: matrix.JOBS[group.job].title + ("" if alike else f", {kind_of(group)}") for group in groups}


def cell_of(row: Row | None) -> str:
    """Returns the cell of a way of a job: its step, and how that compares with the same job unbound."""
    if row is None:
        return "–"
    if row.verdict == FAILED:
        return f"failed: {row.reason}"
    step = f"{row.ms:.1f} ms"
    if row.arm == matrix.UNBOUND:
        return step
    if row.verdict == UNKNOWN:
        return f"{step}, {row.ratio:.3f}, one block: nothing is said"
    return f"{step}, {marked(f'{row.ratio:.3f} ({row.low:.3f} to {row.high:.3f})', row.verdict)}"


def marked(text: str, verdict: str) -> str:
    """Returns a figure with what its interval shows: bold for less time."""
    return {FASTER: f"**{text}**", SLOWER: f"slower: {text}"}.get(verdict, text)


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def jobs_table(results: Results) -> str:
    """Returns a line for each group, with a column for each way that any of them has."""
    titles = titles_of(results.groups())
    rows = {group: {row.arm: row for row in conclusions.rows_of(results, group)} for group in titles}
    arms = [arm for arm in matrix.ARMS if any(arm in its for its in rows.values())]
    return table(["job", *(matrix.ARMS[arm] for arm in arms)],
                 [[f"{titles[group]}, {counted(len(results.blocks(group)), 'block')}",
                   *(cell_of(its.get(arm)) for arm in arms)] for group, its in rows.items()])


def losses_text(rows: list[Row], titles: dict[Group, str]) -> str:
    """Returns which ways do not have the losses of the unbound job, bit for bit."""
    others: dict[str, list[str]] = {}
    for row in rows:
        if row.blocks and row.arm != matrix.UNBOUND and row.losses != "equal bits":
            others.setdefault(f"`{matrix.ARMS[row.arm]}` {row.losses}", []).append(titles[row.group])
    if not others:
        return "The first losses of all ways have the bits of unbound's."
    return "The first losses have the bits of unbound's, with exceptions: " + "; ".join(
        f"{what} ({', '.join(who)})" for what, who in others.items()) + "."


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
    for arm, (change, needs) in PRACTICE.items():
        pairs = [(row.start_s, other.start_s) for row in rows for other in rows
                 if row.arm == arm and other.arm == matrix.UNBOUND and row.group == other.group and row.blocks]
        more = statistics.median(mine - its for mine, its in pairs) if pairs and arm != matrix.UNBOUND else None
        lines.append([matrix.ARMS[arm], change, needs, "–" if more is None else f"{more:+.1f} s"])
    return table(["way", "what a user changes", "needs", "start, compared with unbound (two at a time)"], lines)


def not_run(results: Results, cannot: dict[str, str]) -> str:
    lines = [f"- {name}: {why}." for name, why in (matrix.NOT_RUN | cannot).items()]
    jobs = dict.fromkeys(group.job for group in results.groups())
    lines += [f"- `{matrix.ARMS[arm]}`: {why}." for job in jobs for arm, why in matrix.JOBS[job].impossible.items()]
    return "\n".join(dict.fromkeys(lines))


def simulated_table(rows: list[Simulated]) -> str:
    """Returns a line for each machine, with a column for each job."""
    jobs = list(dict.fromkeys(row.job for row in rows))
    machines: dict[str, dict[str, Simulated]] = {}
    for row in rows:
        machines.setdefault(f"{row.machine}: {counted(row.cores, 'core')}, {counted(row.packages, 'package')}, "
                            f"{counted(row.ranks, 'rank')}", {})[row.job] = row
    return table(["simulated machine", *(f"{job} (simulated)" for job in jobs)],
                 [[machine, *(simulated_cell(its.get(job)) for job in jobs)] for machine, its in machines.items()])


def simulated_cell(row: Simulated | None) -> str:
    if row is None:
        return "–"
    figures = f"{row.ratio:.3f} ({row.low:.3f} to {row.high:.3f})"
    return f"{row.chosen}: {marked(figures, conclusions.verdict_of(row.low, row.high))}"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def why_simulated(settings: dict) -> str:
    machine = settings["machine"]
    return (f"The jobs above use no GPU, and ran on {counted(len(machine['cpus']), 'CPU')} of "
            f"{counted(machine['nodes'], 'NUMA node')}. What larger machines with GPUs would show is **simulated** "
            "here: formulas take the place of measurements. They show orders of magnitude.")


def facts_of(results: Results, command: str) -> dict[str, str]:
    """Returns what the page says of itself: machine, command, versions, date, duration."""
    settings = results.settings
    machine = settings["machine"]
    dates = [line["date"] for line in results.lines if "date" in line]
    blocks = [len(results.blocks(group)) for group in results.groups()]
    shares = [block["others"] for group in results.groups() for block in results.blocks(group)]
    left_out = sum("group" in line for line in results.lines) - len(shares)
    kinds = dict.fromkeys(f"{kind_of(group)} ({matrix.parameters_of(matrix.SIZES[group.size]) / 1e6:.1f}M parameters)"
                          for group in results.groups())
    return {
        "machine": f"{machine['processor']}; {len(machine['cpus'])} CPUs, {machine['nodes']} NUMA "
                   f"{'node' if machine['nodes'] == 1 else 'nodes'}, {machine['memory_gib']} GiB",
        "command": command,
        "jobs": "; ".join(kinds) or "none",
        "versions": ", ".join(f"{name} {version.removeprefix(name).strip()}"
                              for name, version in settings["versions"].items()),
        "date": f"{dates[0][:16]} to {dates[-1][:16]}, UTC" if dates else "not run",
        "took": f"{results.seconds() / 60:.1f} minutes, {min(blocks, default=0)} to {max(blocks, default=0)} blocks "
                f"per job",
        "others": f"other programs used {min(shares, default=0):.0%} to {max(shares, default=0):.0%} of the CPUs in "
                  f"the turns; {counted(left_out, 'block')} in which they used more than {settings['others']:.0%} "
                  f"{'does' if left_out == 1 else 'do'} not count",
    }


METHOD = """All ways of a job run side by side and take turns of {turn_s} s, by SIGSTOP and SIGCONT to every process.
The order is a palindrome, with {passes} turns for each way in a block. A turn's figure is the median over its steps,
without the one that was under way when it began; with two ranks, the slower one's. Each block has new processes and
gives one ratio per way: the geometric mean over the turns. The table has the geometric mean over blocks and the 95 %
interval of Student's t of the logarithms; their standard deviation is pooled over all ways of all jobs.

All processes keep the memory that they free ({variables}), because page faults would change the times. With
`overlap_step` on, ZenFlow takes as many threads as its main thread has CPUs, because otherwise they spin on each
other's CPUs.

The model is a GPT in fp32, on random text: {sizes}. Forward and backward run on the CPUs too, so the step is a smaller
part of an iteration than beside a GPU."""


def method_text(settings: dict) -> str:
    sizes = "; ".join(f"{name}, width {size.width}, {size.layers} layers, {size.tokens} tokens"
                      for name, size in matrix.SIZES.items())
    return METHOD.format(turn_s=settings["turn_s"], passes=settings["passes"], sizes=sizes,
                         variables=", ".join(f"`{name}={value}`" for name, value in settings["variables"].items()))


def text_of(results: Results, cannot: dict[str, str], simulated: list[Simulated], command: str) -> str:
    """Returns docs/study.md."""
    rows = all_rows(results)
    groups = results.groups()
    titles = titles_of(groups)
    advised: dict[str, list[str]] = {}  # the groups by what they are advised
    for group in groups:
        advised.setdefault(conclusions.advice_of(conclusions.rows_of(results, group)), []).append(titles[group])
    advice = [f"- **{'; '.join(names)}**: {text}" for text, names in advised.items()]
    facts = "\n".join(f"- {name}: {text}" for name, text in facts_of(results, command).items())
    commands = "\n".join(f"$ zf-tune {' '.join(simulated_command(row.machine, row.job))}" for row in simulated[:1])
    sections = [
        "# The study: what binding and our optimizer change for real jobs",
        f"`{command}` wrote this page from what it measured. Start it to repeat the study on your machine. `--long` "
        "adds two ranks and a larger model, `--details FILE` has each way in full, and the plans.",
        facts,
        "**Ours** is the native optimizer. It steps in place, or in a process of its own: then training waits for the "
        "step (waiting), or gets its weights one step later (late), which changes what is computed.",
        "## What to set", *(["\n".join(advice)] if advice else ["Nothing was run."]),
        count_text(rows), practice_table(rows),
        "## The table",
        "A cell has the time of a step, and its ratio to unbound with the 95 % interval. **Bold**: less time is shown. "
        "\"Slower\": more time is shown. Other cells show no difference.",
        jobs_table(results), losses_text(rows, titles),
        "Not run, and a dash in the table:", not_run(results, cannot),
        "## Simulated machines",
        f"{why_simulated(results.settings)} `zf-tune tune --simulate` makes them "
        "([formulas](../configs/machines/README.md#the-formulas)), with the workload that the machine's file names. A "
        "cell has the chosen split, and the plan's period ÷ unbound's with the 95 % interval.",
        f"```console\n{commands}\n```" if commands else "", simulated_table(simulated) if simulated else "",
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
