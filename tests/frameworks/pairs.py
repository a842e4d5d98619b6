"""Compares the steps of a job under zf-tune exec with those of the same job unbound. A benchmark, not a test.

A pair is one process of each, side by side, in turns of a few seconds: turns.py says how, and why both keep the memory
that they free. A pair gives one ratio, exec / unbound: the geometric mean over its turns. The table has the geometric
mean of the pairs' ratios, and the 95 % interval of Student's t of their logarithms. The results file keeps each pair:
start again to go on. --default-malloc leaves glibc's malloc as it is.

--recorded makes a plan for each job, as docs/workload.md advises: it records the job unbound and tunes for the record.
It then prints what tune forecast beside what the pairs gave."""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))

import frameworks_case
from frameworks_case import framework_environment, job
from paired_jobs import add_result, in_order_of, read_results, run_pair
from turns import MALLOC, START_TIMEOUT_S, JobFailed, interval, machine, ratio_of
from zf_cli import SOURCE

# 9.4M parameters.
SIZE = ["--width", "768", "--blocks", "2", "--tokens", "32", "--steps", "1000000"]
JOBS = {
    "torch": job("torch_adamw", *SIZE),
    "zero-offload": job("deepspeed_job", *SIZE),
    "zenflow": job("deepspeed_job", "--zenflow", *SIZE),
    "zenflow-overlap": job("deepspeed_job", "--zenflow", "--overlap", "--fit_threads", *SIZE),
}
OURS = {
    "ours-waiting": job("torch_adamw", *SIZE, "--ours"),
    "ours-late": job("torch_adamw", *SIZE, "--ours", "--late"),
}
BAR = 1.05


def runtime_variables(plan: pathlib.Path) -> dict[str, str]:
    """Returns what a job with our optimizer needs. With a plan that gives both sides all CPUs it stays unbound."""
    library = pathlib.Path(os.environ.get("ZF_RUNTIME_LIBRARY", SOURCE / "build/lib/libzf_runtime.so"))
    return {"PYTHONPATH": str(SOURCE / "runtime/python"), "ZF_RUNTIME_LIBRARY": str(library), "ZF_PLAN": str(plan)}


def make_plan(options, name: str, words: list[str], plan: pathlib.Path, variables: dict[str, str]):
    """Writes the plan by which a job starts: the whole home of one rank, or what tune says of its record."""
    if not options.recorded:
        subprocess.run([options.tune, "plan", "--quiet", "--ranks", "1", "-o", plan], check=True)
        return
    workload = plan.with_suffix(".workload.json")
    environment = framework_environment(**variables)
    subprocess.run([options.tune, "record", "--stop", "-o", workload, "--", *words], check=True, env=environment,
                   stdout=subprocess.DEVNULL, timeout=START_TIMEOUT_S)
    tuned = subprocess.run([options.tune, "tune", "--fresh", "-w", workload, "-o", plan], check=True, env=environment,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    forecast = tuned.stdout.splitlines()[-1]
    plan.with_suffix(".forecast").write_text(forecast)
    print(f"{name}: {forecast}", file=sys.stderr, flush=True)


def print_forecast(pairs: list[dict], name: str, said: str):
    """Prints what tune said beside what the pairs gave."""
    found = re.search(r"plan / unbound (\d+\.\d+) ", said)
    if not found:
        print(f"{name}: no forecast: {said}")
        return
    mean, low, high = ratios_of(pairs)
    ratio = float(found[1])
    unbound = sorted(pair["unbound"]["ms"] for pair in pairs)
    print(f"{name}: {said}\n    measured {mean:.3f} ({low:.3f} to {high:.3f}, {len(pairs)} pairs): the forecast is "
          f"{'inside' if low <= ratio <= high else 'outside'}, {100 * abs(ratio - mean):.1f} points away; unbound "
          f"{statistics.median(unbound):.1f} ms ({unbound[0]:.1f} to {unbound[-1]:.1f})")


def print_table(results: list[dict], names: list[str]):
    print(f"{'job':16} {'pairs':>5} {'unbound ms':>11} {'exec ms':>9} {'exec / unbound':>15}   95 % interval")
    for name in names:
        pairs = [result for result in results if result["job"] == name]
        if not pairs:
            continue
        unbound, bound = ([pair[side]["ms"] for pair in pairs] for side in ("unbound", "exec"))
        mean, low, high = ratios_of(pairs)
        verdict = "within" if high <= BAR else "not within"
        print(f"{name:16} {len(pairs):5} {statistics.median(unbound):11.2f} {statistics.median(bound):9.2f} "
              f"{mean:15.3f}   {low:.3f} to {high:.3f}: {verdict} {BAR}")


def ratios_of(pairs: list[dict]) -> tuple[float, float, float]:
    return interval([ratio_of(pair["exec"]["turns"], pair["unbound"]["turns"]) for pair in pairs])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune", default=str(frameworks_case.TUNE), metavar="PROGRAM", help="the zf-tune to measure")
    parser.add_argument("--plan", help="the plan to start by (default: made now, for one rank)")
    parser.add_argument("--recorded", action="store_true",
                        help="record each job, tune for the record, and compare the forecast with the pairs")
    parser.add_argument("--pairs", type=int, default=10, metavar="N", help="of each job (default 10)")
    parser.add_argument("--turns", type=int, default=8, metavar="N", help="of each side in a pair (default 8)")
    parser.add_argument("--only", action="append", choices=JOBS | OURS,
                        help="this job; may be given again (default: all but ours; with --recorded, torch, ours and "
                             "zero-offload)")
    parser.add_argument("--results", default="bench-launch.jsonl", metavar="FILE",
                        help="one line per pair, with the program's and the plan's names; goes on from what is there "
                             "(default: bench-launch.jsonl)")
    parser.add_argument("--default-malloc", action="store_true", help="leave glibc's malloc as it is")
    options = parser.parse_args()
    if options.plan and options.recorded:
        parser.error("--recorded makes the plans: leave out --plan")
    frameworks_case.need_environment()

    names = options.only or (["torch", *OURS, "zero-offload"] if options.recorded else list(JOBS))
    words = JOBS | OURS
    results = pathlib.Path(options.results).resolve()
    variables = {} if options.default_malloc else MALLOC
    shared = results.with_suffix(".shared-plan.json")
    if any(name in OURS for name in names):
        subprocess.run([options.tune, "plan", "--quiet", "--ranks", "1", "--mode", "wait", "-o", shared], check=True)
    own = {name: variables | (runtime_variables(shared) if name in OURS else {}) for name in names}
    done = read_results(results)

    plans, starts = {}, {}
    for name in names:
        plans[name] = pathlib.Path(options.plan or results.with_suffix(
            f".{name}.plan.json" if options.recorded else ".plan.json")).resolve()
        if not options.plan and not (options.recorded and plans[name].exists()):
            make_plan(options, name, words[name], plans[name], own[name])
        starts[name] = [str(pathlib.Path(options.tune).resolve()), "exec", "--plan", str(plans[name]), "--"]
    done = [result for result in done if result["job"] in names
            and (result["start"], result["variables"]) == (starts[result["job"]], own[result["job"]])]

    print(f"machine: {machine()}")
    print(f"both sides with: {' '.join(f'{name}={value}' for name, value in variables.items()) or 'nothing else'}")
    for name in names:
        print(f"{name}: {' '.join([*starts[name], *words[name]])}")
    sys.stdout.flush()
    for pair in range(options.pairs):
        for name in names:
            if sum(result["job"] == name for result in done) > pair:
                continue
            sides = {"exec": [*starts[name], *words[name]], "unbound": words[name]}
            started = time.monotonic()
            result = {"job": name, "start": starts[name], "variables": own[name], "load": os.getloadavg()[0]}
            found = run_pair(in_order_of(pair, sides), own[name], options.turns)
            result |= {side: {"ms": statistics.median(turns), "turns": turns} for side, turns in found.items()}
            done.append(result)
            add_result(results, result)
            print(f"pair {pair + 1} of {name}: {result['unbound']['ms']:.2f} ms unbound, {result['exec']['ms']:.2f} ms "
                  f"under exec, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print_table(done, names)
    for name in names if options.recorded else []:
        print_forecast([result for result in done if result["job"] == name], name,
                       plans[name].with_suffix(".forecast").read_text())
    print(f"machine: {machine()}")


if __name__ == "__main__":
    try:
        main()
    except JobFailed as failed:
        sys.exit(str(failed))
