#!/usr/bin/env python3
"""Measures what two jobs on CPUs that neighbours share cost each other: control groups with a quota of one CPU each and
no cpuset, as two pods of a Kubernetes node. Needs root, cgroup v1 and two CPUs.

usage: tests/bench/shared_cpus.py [--build FOLDER] [--rounds N] [--elements N[,N]]

Each job steps under the plan that `zf-tune plan` makes inside its group. In each round job A steps alone, B alone, both
at once, and both at once while the same two jobs are pinned by hand to different CPUs; every other round has the
opposite order. Figures are medians over rounds of the time of a step, and ratios of these medians. The groups have
large CPU shares, so that other load of the machine, which is printed, counts little.
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
CORES_OWN_CACHE, FULL = 98_304, 33_554_432  # elements: 1.5 MiB and 512 MiB of parameters, gradients and moments
SECONDS = {CORES_OWN_CACHE: 0.4, FULL: 1.0}  # of one reading
SHARES = 262_144  # the largest number of cpu.shares

STEPPER = """
import sys, time
from zf_runtime import Group, Runtime, adam_scalars
with Runtime(groups=[Group(int(sys.argv[1]))]) as runtime:
    def step():
        runtime.submit(adam_scalars(1))
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

    def __init__(self, build: pathlib.Path, group: pathlib.Path, elements: int):
        self.group = group
        self.folder = tempfile.TemporaryDirectory(prefix="zf-shared-cpus-")
        inside = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group / "cgroup.procs")]
        tune, plan = str(build / "bin/zf-tune"), f"{self.folder.name}/plan.json"
        subprocess.run([*inside, tune, "plan", "-q", "-o", plan], check=True, capture_output=True)
        self.cpus = json.loads(pathlib.Path(plan).read_text())["ranks"][0]["optimizer"]["cpus"]
        environment = os.environ | {"PYTHONPATH": str(ROOT / "runtime/python"),
                                    "ZF_RUNTIME_LIBRARY": str(build / "lib/libzf_runtime.so"),
                                    "ZF_OPTIMIZER": str(build / "bin/zf-optimizer")}
        command = [*inside, tune, "exec", "--plan", plan, "--", sys.executable, "-c", STEPPER, str(elements)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL, env=environment)
        ready = self.process.stdout.readline().split()
        if not ready or ready[0] != "ready":
            raise SystemExit(f"the job did not start: {command}")
        self.threads = int(ready[1])

    @contextlib.contextmanager
    def pinned_to(self, cpu: int):
        """Pins every thread of the group to one CPU, and gives each its mask back afterwards."""
        masks = {int(tid): os.sched_getaffinity(int(tid)) for tid in (self.group / "tasks").read_text().split()}
        for tid in masks:
            os.sched_setaffinity(tid, {cpu})
        yield
        for tid, mask in masks.items():
            os.sched_setaffinity(tid, mask)

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


def pinned(jobs: list[Job], seconds: float) -> list[float]:
    """Returns the same while each job is pinned to a CPU of its own."""
    with contextlib.ExitStack() as stack:
        for job, cpu in zip(jobs, sorted(os.sched_getaffinity(0)), strict=False):
            stack.enter_context(job.pinned_to(cpu))
        return together(jobs, seconds)


def measure(build: pathlib.Path, elements: int, rounds: int) -> None:
    seconds = SECONDS.get(elements, 1)
    with contextlib.ExitStack() as stack:
        groups = [stack.enter_context(group_of(name)) for name in ("a", "b")]
        jobs = [Job(build, group, elements) for group in groups]
        for job in jobs:
            stack.callback(job.close)
        print(f"\n{elements} elements, {rounds} rounds of {seconds} s; pools of {jobs[0].threads} on {jobs[0].cpus}")
        ways = {"alone": lambda: [together([job], seconds)[0] for job in jobs],
                "both": lambda: together(jobs, seconds),
                "pinned": lambda: pinned(jobs, seconds)}
        readings = {way: [] for way in ways}
        for number in range(rounds):
            for way in ways if number % 2 == 0 else reversed(ways):
                readings[way].append(ways[way]())
        for name, of_job in enumerate("AB"):
            alone, both, apart = (statistics.median(reading[name] for reading in readings[way]) * 1e3 for way in ways)
            print(f"  job {of_job}: alone {alone:.3f} ms a step, both at once {both:.3f} ms ({both / alone:.3f} of "
                  f"alone), pinned by hand to different CPUs {apart:.3f} ms ({both / apart:.3f} of that)")


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
