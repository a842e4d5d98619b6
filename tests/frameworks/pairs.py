"""Compares the steps of a job under zf-tune exec with those of the same job unbound. A benchmark, not a test.

A pair is one process of each, side by side. They run in turns of a few seconds: SIGSTOP stops one, SIGCONT continues
the other, in the order A B B A. So both see the same machine, whatever its other users do. The figure of a turn is the
median over its steps (over pairs of steps, since every second step of ZenFlow does more), without the step that was
under way when the turn began. A pair gives one ratio, exec / unbound: the geometric mean over its turns. The table has
the geometric mean of the pairs' ratios, and the 95 % interval of Student's t of their logarithms. The results file
keeps each pair: start again to go on.

Both sides keep the memory that they free (MALLOC). By default glibc gives the gradients of a job without a GPU back to
the kernel in each step, and each process in another way: on one machine of two cores, six equal processes then took 44
to 73 ms a step, with much of that in page faults, and 35 to 37 ms if they keep their memory. --default-malloc measures
without it."""

import argparse
import contextlib
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))

import frameworks_case
from frameworks_case import framework_environment, free_port, job, lines_of

# 9.4M parameters.
SIZE = ["--width", "768", "--blocks", "2", "--tokens", "32", "--steps", "1000000"]
WARM_UP_STEPS = 8
TURN_S = 1.5
MIN_STEPS = 4
TURN_TIMEOUT_S = 60
START_TIMEOUT_S = 300
JOBS = {
    "torch": job("torch_adamw", *SIZE),
    "zero-offload": job("deepspeed_job", *SIZE),
    "zenflow": job("deepspeed_job", "--zenflow", *SIZE),
    "zenflow-overlap": job("deepspeed_job", "--zenflow", "--overlap", "--fit_threads", *SIZE),
}
# What makes glibc keep freed memory: see above. In bytes.
MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(4 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}
# The quantile 0.975 of Student's t, by degrees of freedom.
T_975 = [math.inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
         2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042]
BAR = 1.05


class Runner:
    """A job that runs only during its turns."""

    def __init__(self, words: list[str], variables: dict[str, str]):
        self._words = words
        self._said = tempfile.TemporaryFile()
        environment = framework_environment(MASTER_PORT=free_port(), **variables)
        self._process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=self._said,
                                         stderr=subprocess.STDOUT, start_new_session=True)
        self._seen = 0  # steps
        try:
            deadline = time.monotonic() + START_TIMEOUT_S
            while len(self._steps()) < WARM_UP_STEPS:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self._fail("did not train")
                time.sleep(0.05)
            self._signal(signal.SIGSTOP)
        except BaseException:
            self.end()
            raise

    def turn(self) -> float:
        """Runs for TURN_S, or longer until MIN_STEPS are done. Returns the median of its steps in milliseconds."""
        self._seen = len(self._steps())
        self._signal(signal.SIGCONT)
        deadline = time.monotonic() + TURN_TIMEOUT_S
        time.sleep(TURN_S)
        while len(steps := self._steps()[self._seen + 1:]) < MIN_STEPS:
            if self._process.poll() is not None:
                self._fail("ended")
            if time.monotonic() > deadline:
                self._fail(f"did {len(steps)} whole steps in {TURN_TIMEOUT_S} s")
            time.sleep(0.05)
        self._signal(signal.SIGSTOP)
        return statistics.median(statistics.mean(pair) for pair in zip(steps[::2], steps[1::2]))

    def end(self):
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._said.close()

    def _steps(self) -> list[float]:
        self._said.seek(0)
        text = self._said.read().decode(errors="replace")
        return [line["ms"] for line in lines_of(text[:text.rfind("\n") + 1]) if "step" in line]

    def _signal(self, number: int):
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass

    def _fail(self, what: str):
        self._said.seek(0)
        sys.exit(f"{' '.join(self._words)}\n{self._said.read().decode(errors='replace')}\nThis job {what}.")


def measure_pair(sides: dict[str, list[str]], variables: dict[str, str], turns: int) -> dict:
    """Starts both sides, in the given order, and runs them in turns. Returns for each {"ms": the median over its turns,
    "turns": each turn's}."""
    with contextlib.ExitStack() as stack:
        runners = {}
        for side, words in sides.items():
            runners[side] = Runner(words, variables)
            stack.callback(runners[side].end)
        found = {side: [] for side in sides}
        for turn in range(turns):
            for side in sorted(runners, reverse=turn % 2 == 1):
                found[side].append(runners[side].turn())
    return {side: {"ms": statistics.median(each), "turns": each} for side, each in found.items()}


def ratio_of(pair: dict) -> float:
    """Returns exec / unbound: the geometric mean over the turns."""
    return math.exp(statistics.mean(math.log(bound / unbound)
                                    for bound, unbound in zip(pair["exec"]["turns"], pair["unbound"]["turns"])))


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
        mean, low, high = interval([ratio_of(pair) for pair in pairs])
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
    main()
