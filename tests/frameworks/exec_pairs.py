"""Compares DeepSpeed's own optimizer under zf-tune exec with the same job plain: the iteration, and the step alone. A
benchmark, not a test.

One process of each runs in turns (turns.py says how, and why both keep the memory that they free), each as long as
MIN_STEPS take. A pair is one turn of each; every second pair has the other order. regimes.py says when a pair counts,
and how many there are. After STARTS_AFTER blocks both processes start anew, in the other order, and there are
FEWEST_STARTS at least, so that no start of a process decides.

usage: exec_pairs.py [JOB...]     jobs: those of JOBS; all by default"""

import argparse
import contextlib
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))

import frameworks_case
from frameworks_case import job
from regimes import MOST_PAIRS, PAIRS_OF_A_BLOCK, Pair, measured
from turns import MALLOC, JobFailed, Runner, machine

# 9.4M parameters.
SIZE = ["--width", "768", "--blocks", "2", "--tokens", "32", "--steps", "1000000"]
JOBS = {"zero-2": job("deepspeed_job", "--stage", "2", *SIZE), "zero-3": job("deepspeed_job", "--stage", "3", *SIZE),
        "zenflow": job("deepspeed_job", "--zenflow", *SIZE)}
BAR = 1.03
STARTS_AFTER, FEWEST_STARTS, TURN_S = 2, 4, 0.5
FEWEST_PAIRS = FEWEST_STARTS * STARTS_AFTER * PAIRS_OF_A_BLOCK


class Job:
    """Both sides of a job: plain, and under exec with a plan for one rank that has the whole node."""

    def __init__(self, words: list[str], plan: pathlib.Path):
        start = [str(frameworks_case.TUNE), "exec", "--plan", str(plan), "--"]
        self._commands = {"plain": words, "exec": [*start, *words]}
        self._runners: dict[str, Runner] = {}
        self._blocks = 0

    def block(self) -> list[Pair]:
        """Returns the pairs of one block, in milliseconds."""
        if self._blocks % STARTS_AFTER == 0:
            self.end()
            order = list(self._commands.items())
            for side, words in order if self._blocks % (2 * STARTS_AFTER) == 0 else reversed(order):
                self._runners[side] = Runner(words, MALLOC)
        self._blocks += 1
        return [self._pair(number) for number in range(PAIRS_OF_A_BLOCK)]

    def _pair(self, number: int) -> Pair:
        pair = {}
        for side in ("plain", "exec") if number % 2 == 0 else ("exec", "plain"):
            pair[side] = self._runners[side].turn(seconds=TURN_S)
            pair[f"{side}'s step"] = self._runners[side].optimizer_of_turn()
        return pair

    def end(self) -> None:
        while self._runners:
            self._runners.popitem()[1].end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of {', '.join(JOBS)}")
    parser.add_argument("--pairs", type=int, default=MOST_PAIRS, metavar="N", help=f"at most (default {MOST_PAIRS})")
    options = parser.parse_args()
    unknown = sorted(set(options.jobs) - set(JOBS))
    if unknown:
        parser.error(f"there is no job {', '.join(unknown)}: there are {', '.join(JOBS)}")
    frameworks_case.need_environment()
    print(f"machine: {machine()}", flush=True)
    with tempfile.TemporaryDirectory(prefix="zf-exec-pairs-") as folder:
        plan = pathlib.Path(folder, "plan.json")
        subprocess.run([frameworks_case.TUNE, "plan", "--quiet", "--ranks", "1", "-o", plan], check=True)
        for name in options.jobs or JOBS:
            both = Job(JOBS[name], plan)
            with contextlib.ExitStack() as stack:
                stack.callback(both.end)
                for regime in measured(both.block, "exec", "plain", FEWEST_PAIRS, options.pairs):
                    print(regime.line(f"{name}, iteration", "exec", "plain", BAR, 1), flush=True)
                    print(regime.line(f"{name}, step", "exec's step", "plain's step", None, 1), flush=True)


if __name__ == "__main__":
    try:
        main()
    except JobFailed as failed:
        sys.exit(str(failed))
