"""Runs jobs side by side in turns, and compares their steps: what scripts/bench pairs and scripts/study share.

SIGSTOP stops all processes of a job, and SIGCONT continues them. So all jobs see the same machine, whatever its other
users do. The order of the turns is a palindrome, A B C C B A: a machine that gets slower or faster favours none. The
figure of a turn is the median over its steps (over pairs of steps, since every second step of ZenFlow does more),
without the step that was under way when the turn began. Of several ranks the slowest counts, step by step.

The jobs keep the memory that they free (MALLOC). By default glibc gives the gradients of a job without a GPU back to
the kernel in each step, and each process in another way: on a virtual machine with two cores of an AMD EPYC (Zen 4),
equal processes then took 44 to 73 ms a step (five), with much of that in page faults, and 35 to 37 ms if they keep
their memory (six)."""

import contextlib
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

import keeper
from frameworks_case import framework_environment, free_port, lines_of

WARM_UP_STEPS = 8
TURN_S = 1.5
MIN_STEPS = 4
TURN_TIMEOUT_S = 60
START_TIMEOUT_S = 300
# Variables that make glibc keep freed memory: the docstring above says why. In bytes.
MALLOC = {"MALLOC_TRIM_THRESHOLD_": str(4 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 30)}
# The quantile 0.975 of Student's t, by degrees of freedom.
T_975 = [math.inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
         2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042]


class JobFailed(Exception):
    """A job did not start, ended, or takes too long. The text has its command and all that it said."""


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Returns the geometric mean, and both ends of the 95 % interval of Student's t of the logarithms. One ratio has no
    interval: it goes from 0 to infinity."""
    logs = [math.log(ratio) for ratio in ratios]
    mean, freedom = statistics.mean(logs), len(logs) - 1
    if freedom == 0:
        return math.exp(mean), 0.0, math.inf
    half = T_975[min(freedom, len(T_975) - 1)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def ratio_of(turns: list[float], reference: list[float]) -> float:
    """Returns turns / reference: the geometric mean over the turns."""
    return math.exp(statistics.mean(math.log(a / b) for a, b in zip(turns, reference, strict=True)))


def order_of_turns(names: list[str], passes: int) -> list[str]:
    """Returns the order of turns: all in the given order, all in the reverse order, and so on."""
    return [name for turn in range(passes) for name in (names if turn % 2 == 0 else reversed(names))]


def steps_of(said: str, ranks: int, after: int = -1, fact: str = "ms") -> list[float]:
    """Returns the milliseconds of the steps that all ranks have ended; the slowest rank's. Begins behind step number
    `after`. `fact` names what of a step: jobs/report.py has the names."""
    steps: dict[int, list[float]] = {}
    for line in lines_of(said[:said.rfind("\n") + 1]):
        if line.get("step", -1) > after:
            steps.setdefault(line["step"], []).append(line[fact])
    return [max(ms) for _, ms in sorted(steps.items()) if len(ms) == ranks]


def median_of_steps(steps: list[float]) -> float:
    """Returns the median over pairs of steps: every second step of ZenFlow does more."""
    return statistics.median(statistics.mean(pair) for pair in zip(steps[::2], steps[1::2]))


def begun_step(said: str) -> int:
    """Returns the last step that any rank has begun. Ranks of a job that is stopped need not be in the same one."""
    return 1 + max((line["step"] for line in lines_of(said[:said.rfind("\n") + 1]) if "step" in line), default=-1)


def losses_of(said: str) -> dict[int, list[str]]:
    """Returns the losses that each rank printed, in order."""
    losses: dict[int, list[str]] = {}
    for line in lines_of(said[:said.rfind("\n") + 1]):
        if "loss" in line:
            losses.setdefault(line["rank"], []).append(line["loss"])
    return losses


def tree_of(pid: int) -> list[int]:
    """Returns a process and all its descendants, parents first. Groups and sessions do not matter."""
    children: dict[int, list[int]] = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def send(pid: int, number: int):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def stop_tree(pid: int):
    """Stops a process and all its descendants. A stopped parent starts no further child, so parents come first."""
    stopped: set[int] = set()
    while new := [each for each in tree_of(pid) if each not in stopped]:
        for each in new:
            send(each, signal.SIGSTOP)
        stopped.update(new)


def continue_tree(pid: int):
    for each in tree_of(pid):
        send(each, signal.SIGCONT)


class Runner:
    """A job that runs only during its turns. It has done WARM_UP_STEPS when the constructor returns."""

    def __init__(self, words: list[str], variables: dict[str, str], ranks: int = 1):
        self._words, self._ranks = words, ranks
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  open as long as the job
        mark = uuid.uuid4().hex
        environment = framework_environment(**({"MASTER_PORT": free_port(), keeper.VARIABLE: mark} | variables))
        started = time.monotonic()
        self._process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL, stdout=self._said,
                                         stderr=subprocess.STDOUT, start_new_session=True)
        self._keeper = subprocess.Popen([sys.executable, keeper.__file__, mark], stdin=subprocess.PIPE,
                                        start_new_session=True)
        try:
            deadline = started + START_TIMEOUT_S
            while len(self._steps()) < WARM_UP_STEPS:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise self._failed("did not train")
                time.sleep(0.05)
            self.start_s = time.monotonic() - started
            stop_tree(self._process.pid)
        except BaseException:
            self.end()
            raise

    def turn(self, look=None, seconds: float | None = None) -> float:
        """Runs for so long (TURN_S), or longer until MIN_STEPS are done. Returns the median of its steps in
        milliseconds. Calls look(processes of the job) in the middle."""
        seconds = TURN_S if seconds is None else seconds
        begun = begun_step(self._text())
        continue_tree(self._process.pid)
        deadline = time.monotonic() + TURN_TIMEOUT_S
        time.sleep(seconds / 2)
        if look is not None:
            look(self.processes())
        time.sleep(seconds / 2)
        while len(steps := steps_of(self._text(), self._ranks, begun)) < MIN_STEPS:
            if self._process.poll() is not None:
                raise self._failed("ended")
            if time.monotonic() > deadline:
                raise self._failed(f"did {len(steps)} whole steps in {TURN_TIMEOUT_S} s")
            time.sleep(0.05)
        stop_tree(self._process.pid)
        self._begun = begun
        return median_of_steps(steps)

    def optimizer_of_turn(self) -> float:
        """Returns the median of the optimizer's share of the last turn's steps, in milliseconds."""
        return median_of_steps(steps_of(self._text(), self._ranks, self._begun, "optimizer_ms"))

    def processes(self) -> list[int]:
        return tree_of(self._process.pid)

    def losses(self) -> dict[int, list[str]]:
        return losses_of(self._text())

    def end(self):
        """Kills all processes of the job."""
        self._keeper.stdin.close()
        self._keeper.wait()
        self._process.wait()
        self._said.close()

    def _text(self) -> str:
        said = self._said.fileno()  # the job writes at this descriptor's offset, which must not move
        return os.pread(said, os.fstat(said).st_size, 0).decode(errors="replace")

    def _steps(self) -> list[float]:
        return steps_of(self._text(), self._ranks)

    def _failed(self, what: str) -> JobFailed:
        return JobFailed(f"{' '.join(self._words)}\n{self._text()}\nThis job {what}.")


def processor() -> str:
    return next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
                 if line.startswith("model name")), "unknown processor")


def machine() -> str:
    load = " ".join(f"{load:.1f}" for load in os.getloadavg())
    return f"{processor()}; {len(os.sched_getaffinity(0))} CPUs; load {load}"
