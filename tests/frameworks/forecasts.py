"""Holds the forecasts of recorded jobs against the jobs. A benchmark, not a test.

Each job is recorded and tuned for, as docs/workload.md advises. zf-tune trial then gives the plan of each split that a
job of its kind can have, and zf-tune explain says of each plan how unbound compares with it. With the error of a
forecast that is what tune says of its own plan: plan / unbound. Afterwards all these splits of the job, and unbound,
run side by side in turns (turns.py says how), with BLOCKS starts. A forecast covers if what was measured is in its
interval.

The results file keeps each job: start again to go on.

usage: forecasts.py [--results FILE] [JOB...]     jobs: those of JOBS; all by default"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))

import frameworks_case
from frameworks_case import framework_environment, job
from turns import MALLOC, START_TIMEOUT_S, JobFailed, Runner, interval, machine, order_of_turns, ratio_of
from zf_cli import SOURCE

TUNE = str(frameworks_case.TUNE)
BLOCKS, PASSES, TURN_S, BUDGET = 2, 8, 0.5, "20s"
UNBOUND = "unbound"
FORECAST_ERROR = 0.05  # kForecastError of tuner/report/recorded_words.hpp
SIZES = {  # of the blocks in jobs/model.py: width, blocks, tokens
    "A": (768, 2, 32), "B": (256, 4, 128), "C": (1024, 1, 16), "D": (384, 3, 64), "E": (512, 2, 64),
    "F": (768, 1, 64), "G": (256, 8, 32), "H": (512, 4, 32), "I": (384, 6, 128)}


def sized(script: str, size: str, *options: str) -> list[str]:
    width, blocks, tokens = SIZES[size]
    return job(script, "--width", str(width), "--blocks", str(blocks), "--tokens", str(tokens), "--steps", "1000000",
               *options)


def jobs() -> dict[str, list[str]]:
    """Returns the command line of each job."""
    found = {}
    for size in SIZES:
        found[f"ours-late-{size}"] = sized("torch_adamw", size, "--ours", "--late")
    for sizes, name, script, options in (
            ("ABDFI", "torch", "torch_adamw", []), ("AGI", "torch-fused", "torch_adamw", ["--fused"]),
            ("ADFI", "in-place", "torch_adamw", ["--in_place"]), ("ADI", "ours-waiting", "torch_adamw", ["--ours"]),
            ("ADEI", "zero-2", "deepspeed_job", ["--stage", "2"]), ("AI", "zero-3", "deepspeed_job", ["--stage", "3"]),
            ("A", "zenflow", "deepspeed_job", ["--zenflow"])):
        for size in sizes:
            found[f"{name}-{size}"] = sized(script, size, *options)
    return found


JOBS = jobs()


def variables_of(plan: pathlib.Path) -> dict[str, str]:
    """Returns what a job needs that finds this plan, and our library."""
    return MALLOC | {"PYTHONPATH": str(SOURCE / "runtime/python"), "ZF_PLAN": str(plan),
                     "ZF_RUNTIME_LIBRARY": str(SOURCE / "build/lib/libzf_runtime.so")}


def said_by(*words: str, plan: pathlib.Path) -> str:
    done = subprocess.run(words, check=True, env=framework_environment(**variables_of(plan)), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=2 * START_TIMEOUT_S)
    return done.stdout


def tuned(words: list[str], folder: pathlib.Path) -> tuple[pathlib.Path, str]:
    """Records a job and tunes for the record. Returns the plan, and the line that compares it with the record."""
    shared, workload, plan = (folder / name for name in ("shared.json", "workload.json", "plan.json"))
    said_by(TUNE, "plan", "--quiet", "--ranks", "1", "--mode", "wait", "-o", str(shared), plan=shared)
    said_by(TUNE, "record", "--stop", "-o", str(workload), "--", *words, plan=shared)
    said = said_by(TUNE, "tune", "--fresh", "--wide", "--budget", BUDGET, "-w", str(workload), "-o", str(plan),
                   plan=shared)
    return plan, next((line for line in said.splitlines() if line.startswith("recorded period")), "")


def label_of(plan: pathlib.Path) -> str:
    """Returns the name of the plan's split in its sweep; "" if the sweep has not measured it."""
    text = json.loads(plan.read_text())
    return next((candidate["label"] for candidate in text["evidence"]["candidates"]
                 if candidate["id"] == text["choice"].get("candidate")), "")


def splits_of(plan: pathlib.Path, folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """Returns the plan of each split that the sweep has measured and a job of this kind can have, by its label."""
    kept = folder / "splits"
    kept.mkdir()
    keep = f'[ -z "$ZF_PLAN" ] || cp "$ZF_PLAN" "$(mktemp -p {kept} XXXXXX.json)"; seq 1 5'
    said_by(TUNE, "trial", "--fresh", "--plan", str(plan), "-o", str(folder / "won.json"), "--trials", "1", "--metric",
            "^([0-9]+)$", "--", "sh", "-c", keep, plan=plan)
    return {label: path for path in kept.iterdir() if (label := label_of(path))}


def forecast_of(plan: pathlib.Path, line: str) -> tuple[float, float, float] | None:
    """Returns plan / unbound and its interval for the job itself; nothing if zf-tune does not know it. `line` is what
    tune said of its own plan."""
    said = said_by(TUNE, "explain", "--wide", str(plan), plan=plan)
    match = re.search(r"^ +unbound .*? ([+-][0-9.]+) % \(([+-][0-9.]+) to ([+-][0-9.]+) %\)", said, re.MULTILINE)
    if match:
        estimate, low, high = (1 / (1 + float(each) / 100) for each in match.groups())
        return with_error((estimate, high, low))
    match = re.search(r"expect plan / unbound ([0-9.]+) \(([0-9.]+) to ([0-9.]+)\)", line)
    return (float(match[1]), float(match[2]), float(match[3])) if match else None


def with_error(forecast: tuple[float, float, float]) -> tuple[float, float, float]:
    """Returns the forecast for the job itself: see with_forecast_error() of tuner/report/recorded_words.hpp."""
    estimate, low, high = forecast
    return (estimate, estimate * math.exp(-math.hypot(math.log(estimate / low), FORECAST_ERROR)),
            estimate * math.exp(math.hypot(math.log(high / estimate), FORECAST_ERROR)))


def run_splits(words: list[str], splits: dict[str, pathlib.Path], shared: pathlib.Path) -> dict[str, list[list[float]]]:
    """Runs a job under each split, and unbound. Returns the milliseconds of each one's turns, for each block."""
    names = [*(name for name in splits if name != UNBOUND), UNBOUND]
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    for block in range(BLOCKS):
        with contextlib.ExitStack() as stack:
            runners = {}
            for name in names if block % 2 == 0 else reversed(names):
                plan = splits.get(name, shared)
                start = [] if name == UNBOUND else [TUNE, "exec", "--plan", str(plan), "--"]
                runners[name] = Runner([*start, *words], variables_of(plan))
                stack.callback(runners[name].end)
            turns: dict[str, list[float]] = {name: [] for name in names}
            for name in order_of_turns(names, PASSES):
                turns[name].append(runners[name].turn(seconds=TURN_S))
        for name in names:
            found[name].append(turns[name])
    return found


def measure(name: str, folder: pathlib.Path) -> dict:
    """Returns all that is known of a job: see print_table()."""
    plan, line = tuned(JOBS[name], folder)
    splits = splits_of(plan, folder)
    own = label_of(plan)
    forecasts = {label: forecast_of(path, line if label == own else "") for label, path in splits.items()
                 if label != UNBOUND}
    turns = run_splits(JOBS[name], splits, folder / "shared.json")
    return {"job": name, "line": line, "forecasts": forecasts, "turns": turns, "load": os.getloadavg()[0]}


def pairs_of(result: dict) -> list[dict]:
    """Returns one pair for each split of a job that has a forecast: the forecast and what was measured."""
    unbound = result["turns"][UNBOUND]
    pairs = []
    for label, forecast in result["forecasts"].items():
        ratios = [ratio_of(one, other) for one, other in zip(result["turns"][label], unbound, strict=True)]
        turn_ratios = [a / b for one, other in zip(result["turns"][label], unbound, strict=True)
                       for a, b in zip(one, other, strict=True)]
        if forecast is not None:
            pairs.append({"job": result["job"], "split": label, "forecast": forecast,
                          "measured": statistics.geometric_mean(ratios), "interval": interval(turn_ratios)})
    return pairs


def print_table(results: list[dict]) -> None:
    pairs = [pair for result in results for pair in pairs_of(result)]
    print("| job | split | forecast of plan / unbound | measured (95 % interval over turns) | covered |\n"
          "| --- | --- | --- | --- | --- |")
    covered = 0
    for pair in pairs:
        estimate, low, high = pair["forecast"]
        inside = low <= pair["measured"] <= high
        covered += inside
        print(f"| {pair['job']} | {pair['split']} | {estimate:.3f} ({low:.3f} to {high:.3f}) | {pair['measured']:.3f} "
              f"({pair['interval'][1]:.3f} to {pair['interval'][2]:.3f}) | {'yes' if inside else 'no'} |")
    errors = sorted(math.log(pair["measured"] / pair["forecast"][0]) for pair in pairs)
    if pairs:
        half = statistics.median((pair["forecast"][2] - pair["forecast"][1]) / 2 for pair in pairs)
        print(f"\n{covered} of {len(pairs)} covered; median half-width {100 * half:.1f} %; the estimates are "
              f"{100 * errors[0]:+.1f} to {100 * errors[-1]:+.1f} % away\n")
    for result in results:
        unbound = statistics.median(turn for block in result["turns"][UNBOUND] for turn in block)
        print(f"{result['job']}: {result['line']} Measured unbound {unbound:.1f} ms.")


def read_results(path: pathlib.Path) -> list[dict]:
    """Returns what a file has of each job so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of {', '.join(JOBS)}")
    parser.add_argument("--results", default="forecasts.jsonl", metavar="FILE", help="one line per job")
    options = parser.parse_args()
    unknown = sorted(set(options.jobs) - set(JOBS))
    if unknown:
        parser.error(f"there is no job {', '.join(unknown)}: there are {', '.join(JOBS)}")
    frameworks_case.need_environment()
    results = pathlib.Path(options.results).resolve()
    print(f"machine: {machine()}", flush=True)
    done = {result["job"] for result in read_results(results)}
    for name in options.jobs or JOBS:
        if name in done:
            continue
        folder = results.parent / f"{results.stem}-{name}"
        folder.mkdir()
        found = measure(name, folder)
        with results.open("a") as file:
            file.write(json.dumps(found) + "\n")
        print(f"{name}: {len(found['forecasts'])} splits; {found['line']}", file=sys.stderr, flush=True)
    print_table([result for result in read_results(results) if result["job"] in (options.jobs or JOBS)])


if __name__ == "__main__":
    try:
        main()
    except JobFailed as failed:
        sys.exit(str(failed))
