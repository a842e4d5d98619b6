#!/usr/bin/env python3
"""Measures what two jobs whose CPUs neighbours share cost each other: control groups with a quota of one CPU each and
no cpuset, as two pods of a Kubernetes node. Needs root, cgroup v1 and two CPUs.

usage: tests/bench/shared_cpus.py [--build FOLDER] [--rounds N] [--elements N[,N]]

Each job steps under the plan that `zf-tune plan` makes inside its group. In each round job A steps alone, B alone, then
both at once, and last the same two jobs pinned by hand to different CPUs. Figures are medians over rounds of the time
of a step, and ratios of these medians. The groups have large CPU shares, so that other load of the machine, which is
printed, counts little.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CGROUP = pathlib.Path("/sys/fs/cgroup/cpu")
CORES_OWN_CACHE, FULL = 65_536, 33_554_432  # elements: 1 MiB and 512 MiB that a step reads or writes
SECONDS = {CORES_OWN_CACHE: 0.4, FULL: 1.5}  # of one reading
SHARES = 262_144  # the largest number of cpu.shares

STEPPER = """
import sys, time
from zf_runtime import Group, Runtime
with Runtime(groups=[Group(int(sys.argv[1]))]) as runtime:
    def step():
        runtime.submit()
        runtime.wait()
    for _ in range(3):
        step()
    print("ready", runtime.stats().threads, flush=True)
    for line in sys.stdin:
        end, steps = time.monotonic() + float(line), 0
        start = now = time.monotonic()
        while now < end:
            step()
            steps += 1
            now = time.monotonic()
        print((now - start) / steps, flush=True)
"""


class Job:
    """A process that steps when it is told to, in a control group of its own."""

    def __init__(self, build: pathlib.Path, group: pathlib.Path, elements: int, pinned_to: int | None = None):
        inside = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group / "cgroup.procs")]
        stepper = [sys.executable, "-c", STEPPER, str(elements)]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "runtime/python"),
                                    "ZF_RUNTIME_LIBRARY": str(build / "lib/libzf_runtime.so"),
                                    "ZF_OPTIMIZER": str(build / "bin/zf-optimizer")}
        self.folder = tempfile.TemporaryDirectory(prefix="zf-shared-cpus-")
        if pinned_to is None:
            tune, plan = str(build / "bin/zf-tune"), f"{self.folder.name}/plan.json"
            subprocess.run([*inside, tune, "plan", "-q", "-o", plan], check=True, capture_output=True)
            self.rank = json.loads(pathlib.Path(plan).read_text())["ranks"][0]
            command = [tune, "exec", "--plan", plan, "--", *stepper]
        else:
            environment |= {"ZF_RANK": "0", "ZF_PLAN": "/nowhere", "ZF_BINDING":
                            f"zf-binding/1 rank=0 framework=unknown started_on=home home={pinned_to} home_threads=1 "
                            f"training={pinned_to} threads=1 optimizer={pinned_to} mems= policy=none shared=yes"}
            command = ["taskset", "-c", str(pinned_to), *stepper]
        self.process = subprocess.Popen([*inside, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL, env=environment)
        ready = self.process.stdout.readline().split()
        if not ready or ready[0] != "ready":
            raise SystemExit(f"the job did not start: {command}")
        self.threads = int(ready[1])

    def start(self, seconds: float):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()

    def step_s(self) -> float:
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.folder.cleanup()


@contextlib.contextmanager
def group_of(name: str):
    group = CGROUP / f"zf-{name}-{os.getpid()}"
    group.mkdir()
    (group / "cpu.cfs_quota_us").write_text("100000")
    (group / "cpu.shares").write_text(str(SHARES))
    try:
        yield group
    finally:
        for _ in range(50):  # the last process leaves a moment after it was waited for
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def together(jobs: list[Job], seconds: float) -> list[float]:
    """Returns the time of a step of each job, all stepping at once."""
    for job in jobs:
        job.start(seconds)
    return [job.step_s() for job in jobs]


def measure(build: pathlib.Path, elements: int, rounds: int) -> None:
    cpus = sorted(os.sched_getaffinity(0))[:2]
    seconds = SECONDS.get(elements, 1)
    with contextlib.ExitStack() as stack:
        groups = [stack.enter_context(group_of(name)) for name in ("a", "b")]
        jobs = [Job(build, group, elements) for group in groups]
        pinned = [Job(build, group, elements, cpu) for group, cpu in zip(groups, cpus, strict=True)]
        for job in (*jobs, *pinned):
            stack.callback(job.close)
        print(f"\n{elements} elements, {rounds} rounds of {seconds} s; pools of {jobs[0].threads} on CPUs "
              f"{jobs[0].rank['optimizer']['cpus']}")
        alone, both, apart = ([[], []] for _ in range(3))
        for _ in range(rounds):
            for name in (0, 1):
                alone[name] += together([jobs[name]], seconds)
            for readings, pair in ((both, jobs), (apart, pinned)):
                for name, reading in enumerate(together(pair, seconds)):
                    readings[name].append(reading)
        for name in (0, 1):
            a, b, p = (statistics.median(readings[name]) * 1e3 for readings in (alone, both, apart))
            print(f"  job {'AB'[name]}: alone {a:.3f} ms a step, both at once {b:.3f} ms ({b / a:.3f} of alone), "
                  f"pinned by hand to different CPUs {p:.3f} ms ({b / p:.3f} of that)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="its bin and lib are measured")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--elements", default=f"{CORES_OWN_CACHE},{FULL}", help="working sets to measure")
    arguments = parser.parse_args()
    print(f"load before: {' '.join(f'{load:.2f}' for load in os.getloadavg())} on {os.cpu_count()} CPUs")
    for elements in arguments.elements.split(","):
        measure(arguments.build.resolve(), int(elements), arguments.rounds)


if __name__ == "__main__":
    main()
