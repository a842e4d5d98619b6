"""Compares ways to do a training step, in pairs. A benchmark, not a test: scripts/bench pairs.

A pair is one turn of each side, right after each other, and gives one ratio. Every second pair has the other order.
regimes.py says which pairs count, and how many there are; comparisons.py has the jobs. Sides in one process are timed
step by step, right after each other's gradients were made again (sides.py). Sides that are a process each run in turns
of TURN_S (turns.py says how, and why all keep the memory that they free); after STARTS_AFTER blocks they start anew, in
the other order, and there are FEWEST_STARTS at least, so that no start of a process decides.

usage: pairs.py [--pairs N] [--smaller N] [JOB...]     jobs: those of comparisons.py; all by default"""

import argparse
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile

import bench_paths  # noqa: F401

import frameworks_case
from comparisons import COMPARISONS, OURS, PLAN, Apart, Together
from frameworks_case import PYTHON, TUNE, framework_environment, free_port
from regimes import MOST_PAIRS, PAIRS_OF_A_BLOCK, Pair, measured
from turns import JobFailed, Runner, machine

HERE = pathlib.Path(__file__).resolve().parent
STARTS_AFTER, FEWEST_STARTS, TURN_S = 2, 4, 0.5


class InOneProcess:
    """Both ranks of a job, or its only process, that has all sides."""

    fewest = 2 * PAIRS_OF_A_BLOCK

    def __init__(self, name: str, job: Together, plan: str, smaller: int):
        common = OURS | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": str(job.ranks),
                         "ZF_TUNE": "off", **job.variables, **({"ZF_PLAN": plan} if job.plan else {})}
        self._processes = [
            subprocess.Popen([PYTHON, HERE / "sides.py", name, str(smaller)], stdin=subprocess.PIPE, text=True,
                             stdout=subprocess.PIPE,
                             env=framework_environment(RANK=str(rank), LOCAL_RANK=str(rank), **common))
            for rank in range(job.ranks)]

    def reference(self) -> str:
        """Returns which side the others are compared with, when all can begin."""
        first, *_ = [self._said(process, "REFERENCE ") for process in self._processes]
        return first

    def block(self) -> list[Pair]:
        """Returns the pairs of one block, in milliseconds. Of two ranks the slower one counts, step by step."""
        for process in self._processes:
            print(PAIRS_OF_A_BLOCK, file=process.stdin, flush=True)
        found = [self._said(process, "PAIRS ") for process in self._processes]
        return [{name: max(pair[name] for pair in ranks) for name in ranks[0]} for ranks in zip(*found)]

    @staticmethod
    def _said(process: subprocess.Popen, word: str):
        line = next((line for line in process.stdout if line.startswith(word)), None)
        if line is None:
            raise JobFailed(f"{process.args[2]} ended; what it said is above")
        return json.loads(line.removeprefix(word))

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


class InTurns:
    """A process of each side."""

    fewest = FEWEST_STARTS * STARTS_AFTER * PAIRS_OF_A_BLOCK

    def __init__(self, job: Apart, plan: str, smaller: int):
        self._job, self._blocks, self._runners = job, 0, {}
        self._commands = {side: [plan if word == PLAN else word for word in words] for side, words in job.sides.items()}
        for words in self._commands.values():
            blocks = words.index("--blocks") + 1
            words[blocks] = str(max(1, int(words[blocks]) // smaller))

    def reference(self) -> str:
        return next(iter(self._commands))

    def block(self) -> list[Pair]:
        """Returns the pairs of one block, in milliseconds."""
        if self._blocks % STARTS_AFTER == 0:
            self.end()
            order = list(self._commands.items())
            for side, words in order if self._blocks % (2 * STARTS_AFTER) == 0 else reversed(order):
                self._runners[side] = Runner(words, self._job.variables)
        self._blocks += 1
        return [self._pair(number) for number in range(PAIRS_OF_A_BLOCK)]

    def _pair(self, number: int) -> Pair:
        pair = {}
        for side in list(self._commands) if number % 2 == 0 else reversed(self._commands):
            pair[side] = self._runners[side].turn(seconds=TURN_S)
            if self._job.has_step:
                pair[f"{side}'s step"] = self._runners[side].optimizer_of_turn()
        return pair

    def end(self) -> None:
        while self._runners:
            self._runners.popitem()[1].end()


def measure(name: str, options: argparse.Namespace, folder: str) -> None:
    """Measures a job until the first side's interval is narrow enough, and prints a line per regime and side."""
    job, plan = COMPARISONS[name], f"{folder}/plan.json"
    if job.plan:
        subprocess.run([TUNE, "plan", "--quiet", *job.plan, "-o", plan], check=True)
    bars = (job.bar, job.bar) if isinstance(job, Apart) else job.bars
    made = InTurns(job, plan, options.smaller) if isinstance(job, Apart) else \
        InOneProcess(name, job, plan, options.smaller)
    with contextlib.ExitStack() as stack:
        stack.callback(made.end)
        reference = made.reference()
        for regime in measured(made.block, reference, made.fewest, options.pairs):
            for line in regime.lines(name, reference, bars[0 if regime.wide else 1]):
                print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of {', '.join(COMPARISONS)}")
    parser.add_argument("--pairs", type=int, default=MOST_PAIRS, metavar="N", help=f"at most (default {MOST_PAIRS})")
    parser.add_argument("--smaller", type=int, default=1, metavar="N", help="to try a job: an Nth of its size")
    options = parser.parse_args()
    unknown = sorted(set(options.jobs) - set(COMPARISONS))
    if unknown:
        parser.error(f"there is no job {', '.join(unknown)}: there are {', '.join(COMPARISONS)}")
    frameworks_case.need_environment()
    print(f"machine: {machine()}", flush=True)
    for name in options.jobs or COMPARISONS:
        with tempfile.TemporaryDirectory(prefix="zf-pairs-") as folder:
            measure(name, options, folder)


if __name__ == "__main__":
    try:
        main()
    except JobFailed as failed:
        sys.exit(str(failed))
