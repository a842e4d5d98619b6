"""Sandboxes and older kernels refuse system calls: every command does without them, or says why it cannot."""

import errno
import os
import platform
import sys
import unittest

from record_test import TORCH, TRAIN
from refused_calls import CALLS, NO_FILTERS, refusing
from zf_cli import DONE, INFEASIBLE, RUNTIME_ERROR, STALE, USAGE, CommandTest

DOCUMENTED = (DONE, USAGE, STALE, INFEASIBLE, RUNTIME_ERROR)
# A process cannot start or speak without these, and musl, glibc and the loader decide what happens then.
NEEDED = ("write", "mmap", "futex")
SETS = [(name,) for name in CALLS if name not in NEEDED] + [
    ("set_mempolicy", "mbind", "get_mempolicy", "move_pages"),  # a container of today
    ("sched_setaffinity", "sched_getaffinity"),
    ("pidfd_open", "pidfd_send_signal", "clone3", "memfd_create"),  # Linux of 2016
    ("fork", "vfork", "clone", "clone3"),
]
ERRORS = (errno.EPERM, errno.ENOSYS)
ALL_CASES = [(calls, error) for calls in SETS for error in ERRORS]
# Tried by commands that take long, or that do little else than others: with --all each of SETS, with one of the two
# errors that refusals have; with --long (ZF_ALL_CASES) all cases.
FEW_CASES = ALL_CASES if "ZF_ALL_CASES" in os.environ else \
    [(calls, ERRORS[i % 2]) for i, calls in enumerate(SETS)] if "ZF_TEST_ALL" in os.environ else ALL_CASES[-8:]


class RefusedCalls(CommandTest):
    def setUp(self):
        super().setUp()
        if platform.machine() != "x86_64":
            self.skipTest("the numbers of the calls are those of x86-64")
        self.plan = self.make_plan("--framework", "torch")  # then trial has one split to try, and unbound

    def run_refused(self, *command: str, cases=tuple(ALL_CASES), at_once=1):
        """Runs a command that succeeds, and then with each set of calls refused with an error. Runs `at_once` processes
        beside each other, which helps where they mostly sleep."""
        self.assert_exit(self.run_tune(*command), DONE)
        for first in range(0, len(cases), at_once):
            # What a process may not remove goes with the test's folder.
            started = [(calls, error, self.start_tune(*command, preexec_fn=refusing(error, *calls),
                                                      TMPDIR=str(self.folder)))
                       for calls, error in cases[first:first + at_once]]
            for calls, error, process in started:
                with self.subTest(calls=calls, error=errno.errorcode[error]):
                    result = self.finish(process)
                    if result.returncode == NO_FILTERS:
                        self.skipTest("seccomp filters are not to be had here")
                    self.assertIn(result.returncode, DOCUMENTED, result.stderr)
                    self.assertNotIn("terminate called", result.stderr)
                    if result.returncode != DONE:
                        self.assertRegex(result.stderr, r"(?m)^zf-tune.*: .+\n\Z", "it failed without a word")

    def test_probe(self):
        self.run_refused("probe")

    def test_plan(self):
        self.run_refused("plan", "-q", "-o", "new.json")

    def test_plan_from_another(self):
        self.run_refused("plan", "-q", "--from", "plan.json", "-o", "new.json", cases=FEW_CASES)

    def test_check(self):
        self.run_refused("check", "plan.json")

    def test_explain(self):
        self.run_refused("explain", "plan.json")

    def test_export(self):
        self.run_refused("export", "-q", "--for", "env", "plan.json")

    def test_doctor(self):
        self.run_refused("doctor", at_once=8)  # each watches the node for half a second

    def test_verify(self):
        trainer = self.start_trainer(self.plan)
        self.run_refused("verify", "--pid", str(trainer.pid), "--rank", "0", "plan.json")

    def test_publish(self):
        (self.folder / "plans").mkdir()
        (self.folder / "plan.json").rename(self.folder / f"plans/{self.plan['machine']['fingerprint']}.json")
        self.run_refused("publish", "--plans", "plans", "--to", "run/plan.json", "--remember", "lib/class")

    def test_exec(self):
        self.run_refused("exec", "--plan", "plan.json", "--", "true")

    def test_trial(self):
        self.run_refused("trial", "-q", "--trials", "1", "--metric", "took ([0-9]+)", "-o", "tried.json",
                         "--fresh", "--", "printf", "took 1\\ntook 1\\n", cases=FEW_CASES)

    def test_bench(self):
        self.run_refused("bench", "--threads", "1", "--params", "100k", "--rounds", "1", cases=FEW_CASES)

    def test_record(self):
        self.write_files(TORCH | {"train.py": TRAIN})
        self.run_refused("record", "-q", "-u", "4", "--", sys.executable, "train.py", "9", cases=FEW_CASES, at_once=8)

    def test_tune(self):
        self.run_refused("tune", "-q", "--budget", "200ms", "--params", "1M", "-o", "tuned.json", cases=FEW_CASES)


if __name__ == "__main__":
    unittest.main()
