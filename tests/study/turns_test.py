"""Turns: their order, their statistics, and that a job stops with all its processes."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

import study_case  # noqa: F401  where the modules lie

import turns
from zf_cli import wait_until

# A job that trains nothing, with a child in a session of its own.
LAUNCHER = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], start_new_session=True)
for step in range(100000):
    print('JOB {"rank": 0, "step": %d, "ms": 5.0, "loss": "0x1.0p+0"}' % step, flush=True)
    time.sleep(0.005)
"""


def state_of(pid: int) -> str:
    """Returns the letter of the state of a process; Z also if the process has been reaped."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


class Turns(unittest.TestCase):
    def test_order_is_a_palindrome(self):
        self.assertEqual(turns.order_of_turns(["a", "b", "c"], 2), ["a", "b", "c", "c", "b", "a"])
        four = turns.order_of_turns(["a", "b", "c"], 4)
        self.assertEqual(four, four[::-1])

    def test_a_steady_drift_favours_nobody(self):
        """Each way is as long as the time of its turn: over a palindrome the sums are equal."""
        sums = {name: 0 for name in "abc"}
        for now, name in enumerate(turns.order_of_turns(list("abc"), 4)):
            sums[name] += now
        self.assertEqual(len(set(sums.values())), 1, sums)

    def test_interval_of_known_numbers(self):
        """Student's t for three ratios: 4.303."""
        mean, low, high = turns.interval([0.9, 1.0, 1.1])
        self.assertAlmostEqual(mean, 0.99666, 4)
        self.assertAlmostEqual(low, 0.7767, 3)
        self.assertAlmostEqual(high, 1.2789, 3)
        self.assertEqual(turns.interval([0.5])[1:], (0.0, float("inf")))

    def test_interval_covers_what_it_claims(self):
        generator = random.Random(3)
        covered = 0
        for _ in range(2000):
            _, low, high = turns.interval([2 * 1.1 ** generator.gauss(0, 1) for _ in range(4)])
            covered += low <= 2 <= high
        self.assertGreater(covered, 1860)
        self.assertLess(covered, 1940)

    def test_slowest_rank_counts_and_a_step_needs_all_ranks(self):
        said = "\n".join(f"JOB {json.dumps(line)}" for line in (
            {"rank": 0, "step": 0, "ms": 1.0, "loss": "0x1p+0"}, {"rank": 1, "step": 0, "ms": 3.0, "loss": "0x1p+1"},
            {"rank": 1, "step": 1, "ms": 2.0, "loss": "0x1p+1"}, {"rank": 0, "step": 1, "ms": 4.0, "loss": "0x1p+0"},
            {"rank": 0, "step": 2, "ms": 9.0, "loss": "0x1p+0"})) + "\nJOB {\"rank\": 1, \"st"
        self.assertEqual(turns.steps_of(said, 2), [3.0, 4.0])
        self.assertEqual(turns.losses_of(said), {0: ["0x1p+0"] * 3, 1: ["0x1p+1"] * 2})

    def test_a_step_that_one_rank_began_before_the_pause_does_not_count(self):
        """Rank 0 was a step ahead when the job was stopped: its step 2 spans the pause."""
        before = [{"rank": 0, "step": 0, "ms": 1.0}, {"rank": 1, "step": 0, "ms": 1.0},
                  {"rank": 0, "step": 1, "ms": 1.0}]
        after = [{"rank": 1, "step": 1, "ms": 5000.0}, {"rank": 0, "step": 2, "ms": 5000.0},
                 {"rank": 1, "step": 2, "ms": 1.0}, {"rank": 0, "step": 3, "ms": 2.0},
                 {"rank": 1, "step": 3, "ms": 2.0}]
        said = ["".join(f"JOB {json.dumps(line)}\n" for line in lines) for lines in (before, before + after)]
        self.assertEqual(turns.steps_of(said[1], 2, turns.begun_step(said[0])), [2.0])

    def test_ratio_is_geometric_and_needs_as_many_turns(self):
        self.assertAlmostEqual(turns.ratio_of([2.0, 8.0], [1.0, 16.0]), 1.0)
        with self.assertRaises(ValueError):
            turns.ratio_of([1.0], [1.0, 2.0])

    def test_all_processes_of_a_job_stop_and_end(self):
        """The child has left the launcher's group and session, as children of launchers do."""
        runner = turns.Runner([sys.executable, "-c", LAUNCHER], {})
        self.addCleanup(runner.end)
        tree = turns.tree_of(runner._process.pid)
        self.assertEqual(len(tree), 2)
        self.assertNotEqual(os.getsid(tree[0]), os.getsid(tree[1]))
        wait_until(lambda: [state_of(pid) for pid in tree] == ["T", "T"])

        seen = []
        self.assertEqual(runner.turn(lambda pids: seen.extend(state_of(pid) for pid in pids), seconds=0.3), 5.0)
        self.assertEqual(len(seen), 2)
        self.assertNotIn("T", seen)
        said = len(runner.losses()[0])
        time.sleep(0.1)
        self.assertEqual(len(runner.losses()[0]), said, "it runs although it is not its turn")
        os.kill(tree[0], signal.SIGKILL)  # the child has no parent now
        runner.end()
        self.assertFalse([pid for pid in tree if state_of(pid) != "Z"])

    def test_a_killed_study_leaves_no_stopped_job(self):
        code = ("import study_case, sys, time, turns\n"
                f"runner = turns.Runner([sys.executable, '-c', {LAUNCHER!r}], {{}})\n"
                "print(*turns.tree_of(runner._process.pid), flush=True)\ntime.sleep(100)")
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as study:
            tree = [int(pid) for pid in study.stdout.readline().split()]
            self.assertEqual(len(tree), 2)
            study.kill()
        wait_until(lambda: all(state_of(pid) == "Z" for pid in tree))

    def test_a_job_that_ends_is_named(self):
        with self.assertRaisesRegex(turns.JobFailed, "no such thing\n(.*\n)*This job did not train"):
            turns.Runner([sys.executable, "-c", "import sys; sys.exit('no such thing')"], {})


if __name__ == "__main__":
    unittest.main()
