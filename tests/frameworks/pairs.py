"""Compares the steps of a job under zf-tune exec with those of the same job unbound. A benchmark, not a test.

A pair is one process of each, side by side, in turns of a few seconds: turns.py says how, and why both keep the memory
that they free. A pair gives one ratio, exec / unbound: the geometric mean over its turns. The table has the geometric
mean of the pairs' ratios, and the 95 % interval of Student's t of their logarithms. The results file keeps each pair:
start again to go on. --default-malloc leaves glibc's malloc as it is."""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))

import frameworks_case
from frameworks_case import job
from turns import MALLOC, JobFailed, Runner, interval, machine, order_of_turns, ratio_of

# 9.4M parameters.
SIZE = ["--width", "768", "--blocks", "2", "--tokens", "32", "--steps", "1000000"]
JOBS = {
    "torch": job("torch_adamw", *SIZE),
    "zero-offload": job("deepspeed_job", *SIZE),
    "zenflow": job("deepspeed_job", "--zenflow", *SIZE),
    "zenflow-overlap": job("deepspeed_job", "--zenflow", "--overlap", "--fit_threads", *SIZE),
}
BAR = 1.05


def measure_pair(sides: dict[str, list[str]], variables: dict[str, str], turns: int) -> dict:
    """Starts both sides, in the given order, and runs them in turns. Returns for each {"ms": the median over its turns,
    "turns": each turn's}."""
    with contextlib.ExitStack() as stack:
        runners = {}
        for side, words in sides.items():
            runners[side] = Runner(words, variables)
            stack.callback(runners[side].end)
        found = {side: [] for side in sides}
        for side in order_of_turns(sorted(runners), turns):
            found[side].append(runners[side].turn())
    return {side: {"ms": statistics.median(each), "turns": each} for side, each in found.items()}


def print_table(results: list[dict]):
    print(f"{'job':16} {'pairs':>5} {'unbound ms':>11} {'exec ms':>9} {'exec / unbound':>15}   95 % interval")
    for name in JOBS:
        pairs = [result for result in results if result["job"] == name]
        if not pairs:
            continue
        unbound, bound = ([pair[side]["ms"] for pair in pairs] for side in ("unbound", "exec"))
        mean, low, high = interval([ratio_of(pair["exec"]["turns"], pair["unbound"]["turns"]) for pair in pairs])
        verdict = "within" if high <= BAR else "not within"
        print(f"{name:16} {len(pairs):5} {statistics.median(unbound):11.2f} {statistics.median(bound):9.2f} "
              f"{mean:15.3f}   {low:.3f} to {high:.3f}: {verdict} {BAR}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune", default=str(frameworks_case.TUNE), metavar="PROGRAM", help="the zf-tune to measure")
    parser.add_argument("--plan", help="the plan to start by (default: made now, for one rank)")
    parser.add_argument("--pairs", type=int, default=10, metavar="N", help="of each job (default 10)")
    parser.add_argument("--turns", type=int, default=8, metavar="N", help="of each side in a pair (default 8)")
    parser.add_argument("--only", action="append", choices=JOBS, help="this job; may be given again (default: all)")
    parser.add_argument("--results", default="bench-launch.jsonl", metavar="FILE",
                        help="one line per pair, with the program's and the plan's names; goes on from what is there "
                             "(default: bench-launch.jsonl)")
    parser.add_argument("--default-malloc", action="store_true", help="leave glibc's malloc as it is")
    options = parser.parse_args()
    frameworks_case.need_environment()

    results = pathlib.Path(options.results).resolve()
    plan = str(pathlib.Path(options.plan or results.with_suffix(".plan.json")).resolve())
    if not options.plan:
        subprocess.run([options.tune, "plan", "--quiet", "--ranks", "1", "-o", plan], check=True)
    start = [str(pathlib.Path(options.tune).resolve()), "exec", "--plan", plan, "--"]
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    variables = {} if options.default_malloc else MALLOC
    done = [result for result in done if (result["start"], result["variables"]) == (start, variables)]

    print(f"machine: {machine()}")
    print(f"command: {' '.join(start)} COMMAND")
    print(f"both sides with: {' '.join(f'{name}={value}' for name, value in variables.items()) or 'nothing else'}")
    for name in options.only or JOBS:
        print(f"{name}: {' '.join(JOBS[name])}")
    sys.stdout.flush()
    for pair in range(options.pairs):
        for name in options.only or JOBS:
            if sum(result["job"] == name for result in done) > pair:
                continue
            sides = {"exec": [*start, *JOBS[name]], "unbound": JOBS[name]}
            started = time.monotonic()
            order = dict(sorted(sides.items(), reverse=pair % 2 == 0))
            result = {"job": name, "start": start, "variables": variables, "load": os.getloadavg()[0]}
            result |= measure_pair(order, variables, options.turns)
            done.append(result)
            with results.open("a") as file:
                file.write(json.dumps(result) + "\n")
            print(f"pair {pair + 1} of {name}: {result['unbound']['ms']:.2f} ms unbound, {result['exec']['ms']:.2f} ms "
                  f"under exec, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print_table(done)
    print(f"machine: {machine()}")


if __name__ == "__main__":
    try:
        main()
    except JobFailed as failed:
        sys.exit(str(failed))
