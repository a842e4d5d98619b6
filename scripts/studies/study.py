"""Compares ways to start real training jobs: unbound, bound by DeepSpeed's launcher, by a plan, with our optimizer.

All ways of one job run side by side as processes, and take turns (tests/frameworks/turns.py). A block is one such run
with new processes. A block gives one ratio to unbound per way: the geometric mean over its turns. Reported are the
geometric mean over blocks, and the 95 % interval of Student's t of the logarithms (conclusions.py).

The results file keeps each block: start again to go on. A study is done when all groups have --blocks blocks, or when
--minutes are used up, whatever comes first. Starting again then only writes the page anew; --fresh begins a new one."""

import argparse
import os
import pathlib
import shutil
import signal
import sys
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests"  # jobs, and the turns that they take
sys.path[:0] = [str(TESTS / "frameworks"), str(TESTS / "cli")]

import conclusions
import details
import frameworks_case
import markdown
import matrix
import others
import simulated
import turns
from block import LOOK_S, run_block
from matrix import Group
from plans import is_measured, plan_path, words_of
from results import Results, latest, next_block, seconds_of_block
from settings import settings_of
from zf_cli import SOURCE

# Short turns, and many: on a machine with neighbours its speed changes within seconds.
PASSES, TURN_LENGTH_S = 12, 0.7
# Seconds of a process until it has warmed up, and of a turn: a guess, until there is a block.
START_S, TURN_S = {"torch": 3, "other": 8}, 1
PLAN_S = 45


def say(text: str):
    print(f"study: {text}", file=sys.stderr, flush=True)


def plans_s(results: Results, options: argparse.Namespace, group: Group) -> float:
    """Returns how long it will take to measure the plans that are missing."""
    return PLAN_S * sum(is_measured(options, group, arm) and results.plan(group, arm) is None
                        for arm in matrix.arms_of(group) if matrix.planned(arm))


def block_s(results: Results, options: argparse.Namespace, group: Group) -> float:
    """Returns how long the next block of this group will take, once the plans are there."""
    arms = matrix.arms_of(group)
    larger = {"small": 1, "larger": 2}[group.size] * group.ranks
    start = START_S.get(group.job, START_S["other"]) * larger
    return seconds_of_block(results, group, len(arms) * (start + LOOK_S + options.passes * max(TURN_S, options.turn_s)))


def next_s(results: Results, options: argparse.Namespace, group: Group) -> float:
    return plans_s(results, options, group) + block_s(results, options, group)


def remaining_s(results: Results, options: argparse.Namespace, groups: list[Group]) -> float:
    """Returns how long the rest will take, at most as long as the budget allows."""
    missing = {group: max(0, options.blocks - len(results.blocks(group))) for group in groups}
    rest = sum(plans_s(results, options, group) + count * block_s(results, options, group)
               for group, count in missing.items() if count)
    return min(rest, max(0.0, options.minutes * 60 - results.seconds()))


def memory_lacking(group: Group) -> str | None:
    """Returns why a group does not fit in memory, if it does not."""
    need = matrix.SIZES[group.size].memory_gib * group.ranks * len(matrix.arms_of(group))
    line = next(line for line in pathlib.Path("/proc/meminfo").read_text().splitlines() if "MemAvailable" in line)
    have = int(line.split()[1]) / (1 << 20)
    return f"needs {need:.0f} GiB of free memory, and {have:.0f} are free" if need > have else None


def groups_that_can_run(groups: list[Group]) -> tuple[list[Group], dict[str, str]]:
    """Returns the groups that can run here, and why the others cannot."""
    cpus, can, cannot = len(os.sched_getaffinity(0)), [], {}
    for group in groups:
        why = f"needs {group.ranks} CPUs, and {cpus} may be used" if group.ranks > cpus else memory_lacking(group)
        if why:
            cannot[group.name()] = why
        else:
            can.append(group)
    return can, cannot


def run(results: Results, options: argparse.Namespace, groups: list[Group]):
    """Runs block after block, until all are there or the time is used up."""
    while (found := next_block(results, groups, options.blocks)) is not None:
        group, block = found
        others.wait_until_idle(options.others / 100, options.wait, say)
        if results.seconds() + next_s(results, options, group) > options.minutes * 60:
            say(f"the next block would take longer than the {options.minutes:.0f} minutes of this study")
            return
        line = run_block(results, options, group, block, say)
        results.add(line)
        said = ", ".join(f"{matrix.ARMS[arm]} {sum(facts['turns']) / len(facts['turns']):.1f}"
                         for arm, facts in line["arms"].items() if facts.get("turns"))
        kept = "" if results.counts(line) else ", does not count"
        say(f"block {block + 1} of {group.name()} ({line['seconds']:.0f} s; others used {line['others']:.0%}{kept}): "
            f"{said} ms; at most {remaining_s(results, options, groups) / 60:.0f} minutes left")


def results_to_list(path: pathlib.Path, options: argparse.Namespace) -> Results:
    """Returns the results that the next start would go on with. Without the programs one cannot tell which ones these
    are: returns none then, and says so."""
    try:
        frameworks_case.need_environment()
        return Results(path, settings_of(options))
    except (unittest.SkipTest, OSError) as missing:
        say(f"not all programs are built, so no block counts as done: {missing}")
        return Results(path, {})


def print_list(results: Results, options: argparse.Namespace, groups: list[Group], cannot: dict[str, str]):
    for group in groups:
        print(f"{group.name()}: {len(results.blocks(group))} of at most {options.blocks} blocks done, about "
              f"{next_s(results, options, group):.0f} s for the next")
        for arm in matrix.arms_of(group):
            print(f"  {matrix.ARMS[arm]}: {' '.join(words_of(group, arm, str(plan_path(results, group, arm))))}")
    for name, why in cannot.items():
        print(f"{name}: not here: {why}")
    print(f"about {remaining_s(results, options, groups) / 60:.0f} minutes left")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/study", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true",
                        help="1 and 2 ranks, both sizes (default: 1 rank, the small GPT)")
    parser.add_argument("--list", action="store_true", help="print what would run, and how long; start nothing")
    parser.add_argument("--only", action="append", metavar="JOB",
                        help=f"this job ({', '.join(matrix.JOBS)}), or of all that --long runs this group (such as "
                             "zero-2-2-larger: 2 ranks, the larger GPT); may be given again (default: all)")
    parser.add_argument("--minutes", type=float, help="at most so long, over all starts (default: 20; with --long 480)")
    parser.add_argument("--blocks", type=int, default=10, help="of each group, at most (default: 10)")
    parser.add_argument("--passes", type=int, default=PASSES, help=f"turns of each way in a block (default: {PASSES})")
    parser.add_argument("--turn-s", type=float, default=TURN_LENGTH_S, metavar="SECONDS",
                        help=f"shortest length of a turn, which has four steps at least (default: {TURN_LENGTH_S})")
    parser.add_argument("--plans", choices=("none", "overlap", "all"),
                        help="which plans are measured, with a record of the job (default: overlap, those of jobs that "
                             "do not wait; with --long all)")
    parser.add_argument("--others", type=float, default=20, metavar="PERCENT",
                        help="a block counts only if other programs used at most so much of the CPUs (default: 20)")
    parser.add_argument("--wait", type=float, default=0, metavar="MINUTES",
                        help="before each block, wait so long at most until they use no more than that (default: 0)")
    parser.add_argument("--folder", type=pathlib.Path, default=SOURCE / "build/study",
                        help="results and plans (default: build/study)")
    parser.add_argument("--text", type=pathlib.Path, help="the page for docs/ (default: FOLDER/study.md)")
    parser.add_argument("--details", type=pathlib.Path, help="each way in full, where its threads and pages were, and "
                        "the plans (default: FOLDER/details.md)")
    parser.add_argument("--fresh", action="store_true", help="begin a new study; the old results go to "
                        "results.before.jsonl")
    parser.add_argument("--compare", type=pathlib.Path, metavar="RESULTS", help="print which conclusions differ from "
                        "those of this results file, and end")
    options = parser.parse_args(arguments)
    if options.minutes is None:
        options.minutes = 480 if options.long else 20
    options.plans = options.plans or ("all" if options.long else "overlap")
    options.text = options.text or options.folder / "study.md"
    options.details = options.details or options.folder / "details.md"
    known = [*matrix.JOBS, *(group.name() for group in matrix.groups_of(True))]
    if unknown := set(options.only or ()) - set(known):
        parser.error(f"--only: there is no {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    for path in (options.text, options.details):
        if not path.parent.is_dir() and path.parent != options.folder:
            parser.error(f"{path}: there is no folder {path.parent}")
        if path.exists() and not (path.is_file() and os.access(path, os.W_OK)):
            parser.error(f"{path} is no file that you may write to: name another one")
    if options.passes < 2 or options.passes % 2:
        parser.error(f"--passes is {options.passes}: a palindrome needs an even number")
    return options


def command_of(options: argparse.Namespace) -> str:
    """Returns the command line of this study, with what changes its figures."""
    defaults = parse(["--long"] if options.long else [])
    names = ("only", "minutes", "blocks", "passes", "turn_s", "plans", "others", "wait")
    words = ["scripts/study"] + (["--long"] if options.long else [])
    for name in names:
        value = getattr(options, name)
        if value != getattr(defaults, name):
            values = [f"{each:g}" if isinstance(each, float) else each
                      for each in (value if isinstance(value, list) else [value])]
            words += [f"--{name.replace('_', '-')} {each}" for each in values]
    return " ".join(words)


def compare(before: pathlib.Path, after: pathlib.Path) -> int:
    try:
        studies = [latest(path) for path in (before, after)]
    except OSError as error:
        say(str(error))
        return 1
    for path, study in zip((before, after), studies):
        if study is None:
            say(f"{path} has no results")
            return 1
    differences = conclusions.changed(*studies)
    print("\n".join(differences) if differences else "no conclusion differs")
    return 0


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    path = options.folder.resolve() / "results.jsonl"
    if options.compare:
        return compare(options.compare, path)
    groups = matrix.chosen(options.long, options.only or [])
    groups, cannot = groups_that_can_run(groups)
    if options.list:
        print_list(results_to_list(path, options), options, groups, cannot)
        return 0
    frameworks_case.need_environment()
    if shutil.which("numactl") is None:
        say("DeepSpeed's --bind_cores_to_rank needs numactl (Debian: numactl)")
        return 1
    if options.fresh and path.exists():
        path.replace(path.with_name("results.before.jsonl"))
    results = Results(path, settings_of(options))
    if not groups:
        say("nothing can run here: " + "; ".join(f"{name} {why}" for name, why in cannot.items()))
        return 1
    say(f"{turns.machine()}; at most {remaining_s(results, options, groups) / 60:.0f} minutes left")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        run(results, options, groups)
    except KeyboardInterrupt:
        say("interrupted: start again to go on")
        return 130
    cannot |= {group.name(): "no block counts: the time was used up, or other programs used too much of the CPUs"
               for group in groups if not results.blocks(group)}
    rows = simulated.simulate(str(frameworks_case.TUNE), SOURCE)
    options.text.write_text(markdown.text_of(results, cannot, rows, command_of(options)))
    options.details.write_text(details.details_of(results, command_of(options)))
    say(f"wrote {options.text} and {options.details}; {results.seconds() / 60:.1f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
