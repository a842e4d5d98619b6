"""Compares the steps of a job under zf-tune exec with those of the same job unbound. A benchmark, not a test.

Runs go in pairs, in turns one or the other first, so that a machine that slows down slows both. A run is a process
of its own. Its figure is the median over its steps after the warm-up (over pairs of steps, since every second step of
ZenFlow does more). A pair gives one ratio, exec / unbound; the table has the geometric mean of the ratios, and the
95 % interval of Student's t of their logarithms. The results file keeps each run: start again to go on."""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))

import frameworks_case
from frameworks_case import framework_environment, job, lines_of

# 9.4M parameters.
SIZE = ["--width", "768", "--blocks", "2", "--tokens", "32", "--steps", "76"]
WARM_UP_STEPS = 8
JOBS = {
    "torch": job("torch_adamw", *SIZE),
    "zero-offload": job("deepspeed_job", *SIZE),
    "zenflow": job("deepspeed_job", "--zenflow", *SIZE),
    "zenflow-overlap": job("deepspeed_job", "--zenflow", "--overlap", "--fit_threads", *SIZE),
}
# The quantile 0.975 of Student's t, by degrees of freedom.
T_975 = [math.inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
         2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042]
BAR = 1.05


def measure(words: list[str]) -> dict:
    """Runs a job to its end. Its step in milliseconds, and how many seconds all of it took."""
    started = time.monotonic()
    done = subprocess.run(words, env=framework_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=600, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{done.stdout}\n{done.stderr}\nexit {done.returncode}")
    steps = [line["ms"] for line in lines_of(done.stdout) if "step" in line][WARM_UP_STEPS:]
    both = [statistics.mean(pair) for pair in zip(steps[::2], steps[1::2])]
    return {"ms": statistics.median(both), "wall_s": time.monotonic() - started}


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Returns the geometric mean, and both ends of its 95 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean, freedom = statistics.mean(logs), len(logs) - 1
    if freedom == 0:
        return math.exp(mean), 0.0, math.inf
    half = T_975[min(freedom, len(T_975) - 1)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def print_table(results: list[dict]):
    print(f"{'job':16} {'pairs':>5} {'unbound ms':>11} {'exec ms':>9} {'exec / unbound':>15}   95 % interval")
    for name in JOBS:
        pairs = [result for result in results if result["job"] == name]
        if not pairs:
            continue
        unbound, bound = ([pair[side]["ms"] for pair in pairs] for side in ("unbound", "exec"))
        mean, low, high = interval([b / u for b, u in zip(bound, unbound)])
        verdict = "within" if high <= BAR else "not within"
        print(f"{name:16} {len(pairs):5} {statistics.median(unbound):11.2f} {statistics.median(bound):9.2f} "
              f"{mean:15.3f}   {low:.3f} to {high:.3f}: {verdict} {BAR}")


def machine() -> str:
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
                  if line.startswith("model name")), "unknown processor")
    return f"{model}; {len(os.sched_getaffinity(0))} CPUs; load {' '.join(f'{load:.1f}' for load in os.getloadavg())}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tune", default=str(frameworks_case.TUNE), metavar="PROGRAM", help="the zf-tune to measure")
    parser.add_argument("--plan", help="the plan to start by (default: made now, for one rank)")
    parser.add_argument("--pairs", type=int, default=10, metavar="N", help="of each job (default 10)")
    parser.add_argument("--only", action="append", choices=JOBS, help="this job; may be given again (default: all)")
    parser.add_argument("--results", default="bench-launch.jsonl", metavar="FILE",
                        help="one line per pair, with the program's and the plan's names; goes on from what is there "
                             "(default: bench-launch.jsonl)")
    options = parser.parse_args()
    frameworks_case.need_environment()

    results = pathlib.Path(options.results).resolve()
    plan = str(pathlib.Path(options.plan or results.with_suffix(".plan.json")).resolve())
    if not options.plan:
        subprocess.run([options.tune, "plan", "--quiet", "--ranks", "1", "-o", plan], check=True)
    start = [str(pathlib.Path(options.tune).resolve()), "exec", "--plan", plan, "--"]
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    done = [result for result in done if result["start"] == start]

    print(f"machine: {machine()}")
    print(f"command: {' '.join(start)} COMMAND")
    for name in options.only or JOBS:
        print(f"{name}: {' '.join(JOBS[name])}")
    sys.stdout.flush()
    for pair in range(options.pairs):
        for name in options.only or JOBS:
            if sum(result["job"] == name for result in done) > pair:
                continue
            sides = {"exec": [*start, *JOBS[name]], "unbound": JOBS[name]}
            order = sorted(sides, reverse=pair % 2 == 1)
            result = {"job": name, "start": start, "load": os.getloadavg()[0]} | {side: measure(sides[side])
                                                                                  for side in order}
            done.append(result)
            with results.open("a") as file:
                file.write(json.dumps(result) + "\n")
            print(f"pair {pair + 1} of {name}: {result['unbound']['ms']:.2f} ms unbound, {result['exec']['ms']:.2f} ms "
                  f"under exec, {sum(result[side]['wall_s'] for side in sides):.0f} s", file=sys.stderr, flush=True)
    print_table(done)
    print(f"machine: {machine()}")


if __name__ == "__main__":
    main()
