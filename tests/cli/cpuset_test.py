"""Inside a real cgroup cpuset of one CPU (v1; a v2 hierarchy is tried where it delegates cpusets)."""

import contextlib
import os
import pathlib
import unittest

from zf_cli import DONE, INFEASIBLE, STALE, CommandTest


@contextlib.contextmanager
def cpuset_of(cpu: int):
    """Yields a function that puts the calling process into a new cpuset; removes the cpuset afterwards."""
    group = make_group(cpu)
    try:
        yield lambda: (group / "cgroup.procs").write_text("0")
    finally:
        group.rmdir()


def make_group(cpu: int) -> pathlib.Path:
    name = f"zf-test-{os.getpid()}"
    for root in map(pathlib.Path, ("/sys/fs/cgroup/cpuset", "/sys/fs/cgroup")):
        group = root / name
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / "cpuset.cpus").write_text(str(cpu))
            (group / "cpuset.mems").write_text((root / effective_mems(root)).read_text().strip())
            return group
        except OSError:
            group.rmdir()
    raise unittest.SkipTest("no cpuset can be made here: it needs root and a mounted cpuset controller")


def effective_mems(root: pathlib.Path) -> str:
    return "cpuset.mems.effective" if (root / "cpuset.mems.effective").exists() else "cpuset.mems"


class Cpuset(CommandTest):
    def setUp(self):
        super().setUp()
        self.cpu = max(os.sched_getaffinity(0))
        self.enter = self.enterContext(cpuset_of(self.cpu))

    def test_tune_ends_with_a_shared_plan(self):
        result = self.run_tune("tune", "--budget", "2s", "--params", "1M", preexec_fn=self.enter)
        self.assert_exit(result, DONE)
        plan = self.read_plan()
        self.assert_sound(plan, {self.cpu})
        self.assertTrue(plan["ranks"][0]["shared"])
        self.assertEqual(plan["allocation"]["cpus"], str(self.cpu))

    def test_probe_gives_the_cpuset_as_the_reason(self):
        self.need_two_cpus()
        result = self.run_tune("probe", preexec_fn=self.enter)
        self.assert_exit(result, DONE)
        self.assertIn("cpuset", result.stdout)

    def test_exec_binds_inside_it(self):
        self.make_plan(preexec_fn=self.enter)
        result = self.run_tune("exec", "--plan", "plan.json", "--", "grep", "Cpus_allowed_list", "/proc/self/status",
                               preexec_fn=self.enter)
        self.assert_exit(result, DONE)
        self.assertEqual(result.stdout.split()[1], str(self.cpu))

    def test_two_ranks_on_the_home_of_one_act_alike(self):
        """Checks that both ranks refuse: neither can know whether the CPU is the job's or its own."""
        self.need_two_cpus()
        self.make_plan("--ranks", "2")

        def run_both(*options: str, **environment: str):
            for rank in "01":
                yield self.run_tune("exec", "--plan", "plan.json", "--rank", rank, *options, "--", "cat",
                                    "/proc/self/cpuset", preexec_fn=self.enter, **environment)

        for result in run_both():
            self.assert_refused(result, STALE, "--cpus job", "--cpus rank")
        for result in run_both("--cpus", "job"):
            self.assert_refused(result, INFEASIBLE, "2 ranks", "1 core")
        for result in run_both(SLURM_JOB_ID="1"):
            self.assert_refused(result, INFEASIBLE, "2 ranks", "1 core")
        for result in run_both("--cpus", "rank"):
            self.assert_exit(result, DONE)
