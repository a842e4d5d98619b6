"""Inside a real cgroup cpuset (v1; a v2 hierarchy is tried where it delegates cpusets)."""

import contextlib
import os
import pathlib
import sys
import time
import unittest

from zf_cli import DONE, INFEASIBLE, STALE, CommandTest, print_cpus, remove_group, wait_until


class Group:
    """A cpuset in the file system of cgroups."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder

    def enter(self) -> None:
        """Puts the calling process into the cpuset."""
        (self.folder / "cgroup.procs").write_text("0")

    def set_cpus(self, cpus: set[int]) -> None:
        (self.folder / "cpuset.cpus").write_text(",".join(map(str, sorted(cpus))))


@contextlib.contextmanager
def cpuset_of(cpus: set[int]):
    """Yields a new cpuset; removes it afterwards."""
    group = make_group(cpus)
    try:
        yield group
    finally:
        remove_group(group.folder)


def make_group(cpus: set[int]) -> Group:
    name = f"zf-test-{os.getpid()}"
    for root in map(pathlib.Path, ("/sys/fs/cgroup/cpuset", "/sys/fs/cgroup")):
        folder = root / name
        try:
            folder.mkdir()
        except OSError:
            continue
        group = Group(folder)
        try:
            group.set_cpus(cpus)
            (folder / "cpuset.mems").write_text((root / effective_mems(root)).read_text().strip())
            return group
        except OSError:
            folder.rmdir()
    raise unittest.SkipTest("no cpuset can be made here: it needs root and a mounted cpuset controller")


def effective_mems(root: pathlib.Path) -> str:
    return "cpuset.mems.effective" if (root / "cpuset.mems.effective").exists() else "cpuset.mems"


class CpusetOfOneCpu(CommandTest):
    def setUp(self):
        super().setUp()
        self.cpu = max(os.sched_getaffinity(0))
        self.enter = self.enterContext(cpuset_of({self.cpu})).enter

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


class CpusetThatShrinks(CommandTest):
    def test_a_watch_says_once_that_the_cpus_of_a_bound_job_changed_and_what_to_do(self):
        self.need_two_cpus()
        *kept, leaves = sorted(os.sched_getaffinity(0))
        group = self.enterContext(cpuset_of({*kept, leaves}))
        self.make_plan("--ranks", "1", "--mode", "wait", preexec_fn=group.enter)
        # Both threads of this job are moved with the cpuset: no line of their own.
        script = ("import threading as t; t.Thread(target=t.Event().wait, daemon=True).start(); print(flush=True); "
                  "t.Event().wait()")
        job = self.start_tune("exec", "-q", "--plan", "plan.json", "--", sys.executable, "-c", script,
                              preexec_fn=group.enter)
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        job.stdout.readline()
        time.sleep(1.2)
        watch = self.start_watch("--pid", str(job.pid), "--watch", "3s")
        group.set_cpus(set(kept))
        result = self.finish(watch)
        self.assert_exit(result, STALE)
        said = " ".join(result.stdout.split())
        before, after = print_cpus({*kept, leaves}), print_cpus(set(kept))
        self.assertIn(f"the CPUs of 1 process changed from {before} to {after}", said)
        self.assertEqual(said.count("start the job again with zf-tune exec"), 1, said)
        self.assertIn("none was moved, and the CPUs changed 1 time", said)

    def test_a_cpu_that_leaves_ends_the_sweep_with_what_was_measured_and_the_next_goes_on(self):
        self.need_two_cpus()
        *kept, leaves = sorted(os.sched_getaffinity(0))
        group = self.enterContext(cpuset_of({*kept, leaves}))
        samples = self.folder / "plan.json.samples.jsonl"
        # No budget ends this sweep while the CPU is there.
        tune = ["tune", "--params", "4M", "--budget", "10m", "--accuracy", "0.001"]

        sweep = self.start_tune(*tune, preexec_fn=group.enter)
        self.addCleanup(sweep.kill)
        wait_until(lambda: samples.exists() and samples.read_text().count('{"round":') >= 2, deadline_s=60)
        group.set_cpus(set(kept))
        self.assert_exit(self.finish(sweep), DONE)
        self.assert_sound(self.read_plan())
        self.assertIn("the sweep was cut short", "\n".join(self.read_plan()["warnings"]))
        measured = samples.read_text()
        self.assertGreater(measured.count('"split":'), 0)

        group.set_cpus({*kept, leaves})
        tune[tune.index("10m")] = "1s"
        result = self.run_tune(*tune, preexec_fn=group.enter)
        self.assert_exit(result, DONE)
        self.assertIn("continuing the interrupted sweep", result.stderr)
        self.assertTrue(samples.read_text().startswith(measured), "samples were lost")
