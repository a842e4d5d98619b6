"""Sandboxes and older kernels refuse system calls: every command does without them, or says why it cannot."""

import errno
import os
import platform
import unittest

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
COMMANDS = {
    "probe": ["probe"],
    "plan": ["plan", "-q", "-o", "new.json"],
    "check": ["check", "plan.json"],
    "explain": ["explain", "plan.json"],
    "doctor": ["doctor"],
    "exec": ["exec", "--plan", "plan.json", "--", "true"],
    "tune": ["tune", "-q", "--budget", "200ms", "--params", "1M", "-o", "tuned.json"],
}


class RefusedCalls(CommandTest):
    def setUp(self):
        super().setUp()
        if platform.machine() != "x86_64":
            self.skipTest("the numbers of the calls are those of x86-64")
        self.make_plan()

    def run_refused(self, command: str, sets=tuple(SETS), at_once=1):
        """Each set of calls, with each of the two errors that refusals have. Runs `at_once` processes beside each
        other, which helps where they mostly sleep."""
        cases = [(calls, error) for calls in sets for error in (errno.EPERM, errno.ENOSYS)]
        for first in range(0, len(cases), at_once):
            started = [(calls, error, self.start_tune(*COMMANDS[command], preexec_fn=refusing(error, *calls)))
                       for calls, error in cases[first:first + at_once]]
            for calls, error, process in started:
                with self.subTest(calls=calls, error=errno.errorcode[error]):
                    result = self.finish(process)
                    if result.returncode == NO_FILTERS:
                        self.skipTest("seccomp filters are not to be had here")
                    self.assertIn(result.returncode, DOCUMENTED, result.stderr)
                    self.assertNotIn("terminate called", result.stderr)
                    if result.returncode != DONE:
                        self.assertTrue(result.stderr.strip(), "it failed without a word")

    def test_probe(self):
        self.run_refused("probe")

    def test_plan(self):
        self.run_refused("plan")

    def test_check(self):
        self.run_refused("check")

    def test_explain(self):
        self.run_refused("explain")

    def test_doctor(self):
        self.run_refused("doctor", at_once=8)  # each watches the node for half a second

    def test_exec(self):
        self.run_refused("exec")

    def test_tune(self):
        """Half a second each. All sets only with scripts/test --all."""
        self.run_refused("tune", SETS if os.environ.get("ZF_TEST_ALL") else SETS[-4:])


if __name__ == "__main__":
    unittest.main()
