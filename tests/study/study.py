"""Compares ways to start real training jobs: unbound, bound by DeepSpeed's launcher, by a plan, with our optimizer.

All ways of one job run side by side as processes, and take turns (tests/frameworks/turns.py). A block is one such run
with new processes. A block gives one ratio to unbound per way: the geometric mean over its turns. Reported are the
geometric mean over blocks, and the 95 % interval of Student's t of the logarithms.

The results file keeps each block: start again to go on. A study is done when all groups have --blocks blocks, or when
--minutes are used up, whatever comes first. Starting again then only writes the page anew; --fresh begins a new one."""

import argparse
import contextlib
import dataclasses
import datetime
import hashlib
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "frameworks"), str(HERE.parent / "cli")]

import conclusions
import frameworks_case
import look
import markdown
import matrix
import others
import page
import simulated
import turns
from frameworks_case import framework_environment, free_port
from matrix import Group
from results import Results, latest, next_block, seconds_of_block
from zf_cli import SOURCE, clean_environment

LIBRARY = os.environ.get("ZF_RUNTIME_LIBRARY", str(SOURCE / "build/lib/libzf_runtime.so"))
PASSES = 4
LOOK_S = 0.6  # of the turn that is not counted, in which threads and pages are looked up
TUNE_BUDGET = "15s"
# Seconds of a process until it has warmed up, and of a turn: a guess, until there is a block.
START_S, TURN_S = {"torch": 6, "other": 14}, 2
PLAN_S = 45


def say(text: str):
    print(f"study: {text}", file=sys.stderr, flush=True)


def output_of(*words: str, **keywords) -> str:
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
                          **keywords).stdout.strip()


def digest_of_files(*paths: pathlib.Path) -> str:
    """Returns a digest of these files and of all Python files in these folders."""
    digest = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def versions() -> dict[str, str]:
    code = "import importlib.metadata as m; print(m.version('torch'), m.version('deepspeed'))"
    torch, deepspeed = output_of(frameworks_case.PYTHON, "-c", code, env=framework_environment()).split()
    return {"PyTorch": torch, "DeepSpeed": deepspeed, "Python": platform.python_version(),
            "zf-tune": output_of(str(frameworks_case.TUNE), "--version", env=clean_environment()).splitlines()[0],
            "Linux": platform.release()}


def settings_of(options: argparse.Namespace) -> dict:
    """Returns all that two blocks must have in common to be compared."""
    memory_kib = int(pathlib.Path("/proc/meminfo").read_text().split()[1])
    binaries = [frameworks_case.TUNE, frameworks_case.TUNE.parent / "zf-optimizer", pathlib.Path(LIBRARY)]
    return {"schema": "zf-study/1",
            "machine": {"processor": turns.processor(), "cpus": sorted(os.sched_getaffinity(0)),
                        "memory_gib": round(memory_kib / (1 << 20), 1),
                        "nodes": len(list(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*")))},
            "versions": versions(),
            "programs": digest_of_files(*binaries, SOURCE / "runtime/python", HERE.parent / "frameworks/jobs",
                                        HERE.parent / "frameworks/turns.py", HERE / "matrix.py"),
            "sizes": {name: dataclasses.asdict(size) for name, size in matrix.SIZES.items()},
            "variables": turns.MALLOC, "passes": options.passes, "turn_s": options.turn_s, "plans": options.plans,
            "others": options.others / 100}


def variables() -> dict[str, str]:
    return turns.MALLOC | {"PYTHONPATH": str(SOURCE / "runtime/python"), "ZF_RUNTIME_LIBRARY": LIBRARY}


def words_of(group: Group, arm: str, plan: str) -> list[str]:
    return matrix.command(group, arm, python=frameworks_case.PYTHON, tune=str(frameworks_case.TUNE),
                          jobs=frameworks_case.HERE / "jobs", plan=plan, port=free_port())


def plan_path(results: Results, group: Group, arm: str) -> pathlib.Path:
    return results.path.parent / f"plans-{results.digest}" / f"{group.name()}-{arm}.json"


def is_measured(options: argparse.Namespace, group: Group, arm: str) -> bool:
    """Returns whether this plan comes from a measurement. A plan without one gives both sides all CPUs where training
    waits, and half of them each where it does not, which is a guess."""
    overlaps = "overlap" in matrix.plan_options(group, arm)
    return options.plans == "all" or (options.plans == "overlap" and overlaps)


def make_plan(results: Results, group: Group, arm: str, measured: bool) -> dict:
    """Writes the plan of this way, and returns what is to be said of it. To measure, it records the unbound job and
    tunes for the record."""
    path = plan_path(results, group, arm)
    path.parent.mkdir(parents=True, exist_ok=True)
    tune, environment = str(frameworks_case.TUNE), framework_environment(**variables())
    shown = [*matrix.plan_options(group, arm)]
    if measured:
        workload = path.parent / f"{group.name()}.workload.json"
        if not workload.exists():
            output_of(tune, "record", "--quiet", "--stop", "-o", str(workload), "--",
                      *words_of(group, matrix.UNBOUND, ""), env=environment, timeout=turns.START_TIMEOUT_S)
        shown = ["tune", "-w", "workload.json", "--budget", TUNE_BUDGET, *shown]
        words = [str(workload) if word == "workload.json" else word for word in shown]
        output_of(tune, *words, "--quiet", "--fresh", "-o", str(path), env=environment, timeout=turns.START_TIMEOUT_S)
    else:
        shown = ["plan", *shown]
        output_of(tune, *shown, "--quiet", "-o", str(path), env=environment, timeout=turns.START_TIMEOUT_S)
    plan = json.loads(path.read_text())
    ranks = [f"{rank['training']['cpus']} and {rank['optimizer']['cpus']}" for rank in plan["ranks"]]
    return {"group": group.name(), "arm": arm, "command": f"zf-tune {' '.join(shown)}", "cpus": "; ".join(ranks)}


def need_plans(results: Results, options: argparse.Namespace, group: Group) -> dict[str, str]:
    """Makes the plans of this group that are not there. Returns why, for the ways that have none."""
    failed = {}
    for arm in filter(matrix.planned, matrix.arms_of(group)):
        if plan_path(results, group, arm).exists() and results.plan(group, arm):
            continue
        started = time.monotonic()
        try:
            said = make_plan(results, group, arm, is_measured(options, group, arm))
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            failed[arm] = f"no plan: {last_line(str(error.stderr or error))}"
            continue
        results.add({"plan": said, "seconds": time.monotonic() - started})
        say(f"plan for {group.name()}, {matrix.ARMS[arm]}: {said['cpus']}, {time.monotonic() - started:.0f} s")
    return failed


def last_line(text: str) -> str:
    """Returns the last line that says something, at most 200 characters of it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"


def why_it_failed(text: str) -> str:
    """Returns the line of a failed job that names the error, else its last one."""
    lines = [line.strip() for line in text.splitlines() if "Error" in line or "zf-tune:" in line]
    return last_line("\n".join(lines) or text)


def run_block(results: Results, options: argparse.Namespace, group: Group, block: int) -> dict:
    """Runs all ways of a group once, and returns the line for the results."""
    started, date = time.monotonic(), datetime.datetime.now(datetime.timezone.utc)
    failed = need_plans(results, options, group)
    facts: dict[str, dict] = {arm: {"failed": why} for arm, why in failed.items()}
    planned_s = time.monotonic() - started
    names = [arm for arm in matrix.arms_of(group) if arm not in failed]
    names = names[block % len(names):] + names[:block % len(names)]  # nobody is always first
    with contextlib.ExitStack() as stack:
        runners: dict[str, turns.Runner] = {}

        def attempt(arm: str, action):
            """Does this for one way. If it fails, the others go on without it."""
            try:
                return action()
            except turns.JobFailed as error:
                facts[arm] = {"failed": why_it_failed(str(error))}
                (results.path.parent / f"failed-{group.name()}-{arm}.log").write_text(str(error))
                if arm in runners:
                    runners.pop(arm).end()
                say(f"{group.name()}, {matrix.ARMS[arm]} failed: {facts[arm]['failed']}")
                return None

        def start(arm: str):
            words = words_of(group, arm, str(plan_path(results, group, arm)))
            runners[arm] = turns.Runner(words, variables(), group.ranks)
            stack.callback(runners[arm].end)
            facts[arm] = {"start_s": runners[arm].start_s, "turns": []}

        def first_turn(arm: str):
            runners[arm].turn(lambda pids: facts[arm].update(look.look_up(pids)), seconds=LOOK_S)

        for arm in names:
            attempt(arm, lambda: start(arm))
        for arm in list(runners):
            attempt(arm, lambda: first_turn(arm))
        watch = others.Watch(lambda: [pid for runner in runners.values() for pid in runner.processes()])
        for arm in turns.order_of_turns(list(runners), options.passes):
            if arm in runners:
                ms = attempt(arm, lambda: runners[arm].turn(seconds=options.turn_s))
                facts[arm].get("turns", []).append(ms)
        share = watch.share()
        for arm, runner in runners.items():
            losses = runner.losses()
            facts[arm]["losses"] = {str(rank): its[:turns.WARM_UP_STEPS] for rank, its in losses.items()}
    return {"group": dataclasses.asdict(group), "block": block, "arms": facts, "others": share,
            "date": date.isoformat(timespec="seconds"), "seconds": time.monotonic() - started - planned_s}


def guess_s(results: Results, options: argparse.Namespace, group: Group) -> float:
    """Returns how long the next block of this group will take, with the plans that are missing."""
    arms = matrix.arms_of(group)
    plans = sum(is_measured(options, group, arm) and results.plan(group, arm) is None
                for arm in arms if matrix.planned(arm))
    larger = {"small": 1, "larger": 2}[group.size] * group.ranks
    start = START_S.get(group.job, START_S["other"]) * larger
    block = len(arms) * (start + LOOK_S + options.passes * max(TURN_S, options.turn_s))
    return seconds_of_block(results, group, block) + plans * PLAN_S


def remaining_s(results: Results, options: argparse.Namespace, groups: list[Group]) -> float:
    """Returns how long the rest will take, at most as long as the budget allows."""
    rest = sum((options.blocks - len(results.blocks(group))) * guess_s(results, options, group) for group in groups
               if len(results.blocks(group)) < options.blocks)
    return min(rest, max(0.0, options.minutes * 60 - results.seconds()))


def memory_lacking(group: Group) -> str | None:
    """Returns why a group does not fit in memory, if it does not."""
    need = matrix.SIZES[group.size].memory_gib * len(matrix.arms_of(group))
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
        if results.seconds() + guess_s(results, options, group) > options.minutes * 60:
            say(f"the next block would take longer than the {options.minutes:.0f} minutes of this study")
            return
        line = run_block(results, options, group, block)
        results.add(line)
        said = ", ".join(f"{matrix.ARMS[arm]} {sum(facts['turns']) / len(facts['turns']):.1f}"
                         for arm, facts in line["arms"].items() if facts.get("turns"))
        kept = "" if line in results.blocks(group) else ", does not count"
        say(f"block {block + 1} of {group.name()} ({line['seconds']:.0f} s; others used {line['others']:.0%}{kept}): "
            f"{said} ms; at most {remaining_s(results, options, groups) / 60:.0f} minutes left")


def print_list(results: Results, options: argparse.Namespace, groups: list[Group], cannot: dict[str, str]):
    for group in groups:
        print(f"{group.name()}: {len(results.blocks(group))} of at most {options.blocks} blocks done, about "
              f"{guess_s(results, options, group):.0f} s for the next")
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
    parser.add_argument("--only", action="append", choices=matrix.JOBS, metavar="JOB",
                        help=f"this job; may be given again (default: all of {', '.join(matrix.JOBS)})")
    parser.add_argument("--minutes", type=float, help="at most so long, over all starts (default: 20; with --long 480)")
    parser.add_argument("--blocks", type=int, default=10, help="of each group, at most (default: 10)")
    parser.add_argument("--passes", type=int, default=PASSES, help=f"turns of each way in a block (default: {PASSES})")
    parser.add_argument("--turn-s", type=float, default=turns.TURN_S, metavar="SECONDS",
                        help=f"length of a turn (default: {turns.TURN_S})")
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
    parser.add_argument("--page", type=pathlib.Path, help="the page with charts (default: FOLDER/study.html)")
    parser.add_argument("--fresh", action="store_true", help="begin a new study; the old results go to "
                        "results.before.jsonl")
    parser.add_argument("--compare", type=pathlib.Path, metavar="RESULTS", help="print which conclusions differ from "
                        "those of this results file, and end")
    options = parser.parse_args(arguments)
    options.minutes = options.minutes or (480 if options.long else 20)
    options.plans = options.plans or ("all" if options.long else "overlap")
    options.text = options.text or options.folder / "study.md"
    options.page = options.page or options.folder / "study.html"
    if options.passes < 2 or options.passes % 2:
        parser.error(f"--passes is {options.passes}: a palindrome needs an even number")
    return options


def compare(before: pathlib.Path, after: pathlib.Path) -> int:
    studies = [latest(path) for path in (before, after)]
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
    frameworks_case.need_environment()
    if shutil.which("numactl") is None:
        say("DeepSpeed's --bind_cores_to_rank needs numactl (Debian: numactl)")
        return 1
    if options.fresh and path.exists() and not options.list:
        path.replace(path.with_name("results.before.jsonl"))
    results = Results(path, settings_of(options))
    groups = [group for group in matrix.groups_of(options.long) if not options.only or group.job in options.only]
    groups, cannot = groups_that_can_run(groups)
    if options.list:
        print_list(results, options, groups, cannot)
        return 0
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
    command = "scripts/study" + (" --long" if options.long else "")
    options.text.write_text(markdown.text_of(results, cannot, rows, command))
    options.page.write_text(page.page_of(results, cannot, rows, command))
    say(f"wrote {options.text} and {options.page}; {results.seconds() / 60:.1f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
