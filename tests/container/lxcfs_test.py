"""Under the real lxcfs, which shows a container other CPUs than the kernel gives it: the kernel counts.

lxcfs is started here, in a folder of its own; its service is not touched. Each command runs in a control group and
with lxcfs's files bound over those of /sys and /proc.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

from container_test import CGROUPS
from permissions import need_namespaces, need_program
from zf_cli import DONE, CommandTest, remove_group

# The words before a command: they bind lxcfs's files over the machine's.
BIND = ('mount --bind "$LXCFS/sys/devices/system/cpu" /sys/devices/system/cpu && '
        'mount --bind "$LXCFS/proc/cpuinfo" /proc/cpuinfo && exec "$@"')
ONLINE = "/sys/devices/system/cpu/online"


class UnderLxcfs(CommandTest):
    OPTIONS: tuple[str, ...] = ()

    def setUp(self):
        super().setUp()
        self.need_two_cpus()
        if os.geteuid() != 0:
            self.skipTest("no root here, and lxcfs needs it")
        need_namespaces("--mount")
        program = need_program("lxcfs", "lxcfs")
        self.cpus = sorted(os.sched_getaffinity(0))[-2:]
        self.start(program)

    def start(self, program: str):
        """Starts lxcfs, and waits until its files can be read."""
        try:
            os.close(os.open("/dev/fuse", os.O_RDWR))
        except OSError as error:
            self.skipTest(f"/dev/fuse cannot be opened here: {error.strerror}")
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="zf-lxcfs-")))
        self.mount = folder / "mount"
        self.mount.mkdir()
        lxcfs = subprocess.Popen([program, "-f", "-p", str(folder / "pid"), *self.OPTIONS, str(self.mount)],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(subprocess.run, ["umount", "-l", str(self.mount)], capture_output=True, check=False)
        self.addCleanup(lxcfs.wait)
        self.addCleanup(lxcfs.terminate)
        deadline = time.monotonic() + 20
        while not (self.mount / "proc/cpuinfo").exists():
            if lxcfs.poll() is not None or time.monotonic() > deadline:
                self.skipTest("lxcfs does not start here")
            time.sleep(0.02)

    def confine(self, limits: dict[str, dict[str, str]]):
        """Makes control groups with these limits; commands run in them."""
        self.groups = []
        for controller, values in limits.items():
            group = CGROUPS / controller / f"zf-lxcfs-{os.getpid()}"
            try:
                group.mkdir()
            except OSError as error:
                raise unittest.SkipTest(f"no control group can be made here ({error}): needs cgroup v1") from None
            self.addCleanup(remove_group, group)
            self.groups.append(group)
            for file, value in values.items():
                (group / file).write_text(value)

    def enter(self):
        for group in self.groups:
            (group / "cgroup.procs").write_text("0")

    def run_inside(self, *arguments: str, mask=(), **environment: str):
        words = ("taskset", "-c", ",".join(map(str, mask))) if mask else ()
        return self.run_tune(*arguments, before=("unshare", "--mount", "sh", "-c", BIND, "lxcfs", *words),
                             preexec_fn=self.enter, LXCFS=str(self.mount), **environment)

    def shown(self, file: str) -> str:
        """Returns a file as a process inside sees it."""
        return subprocess.run(["unshare", "--mount", "sh", "-c", BIND, "lxcfs", "cat", file], check=True, text=True,
                              capture_output=True, preexec_fn=self.enter,
                              env=os.environ | {"LXCFS": str(self.mount)}).stdout

    def allowed(self, **keywords) -> dict:
        result = self.run_inside("probe", "--format", "json", **keywords)
        self.assert_exit(result, DONE)
        probe = json.loads(result.stdout)
        self.assertEqual([one for one in probe["allowed"]["exclusions"] if one["reason"] == "offline"], [])
        return probe


class WithCpuView(UnderLxcfs):
    """Two CPUs and the time of one: lxcfs shows one CPU, number 0."""

    OPTIONS = ("--enable-cfs",)

    def setUp(self):
        super().setUp()
        self.confine({"cpuset": {"cpuset.cpus": ",".join(map(str, self.cpus)), "cpuset.mems": "0"},
                      "cpu": {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "100000"}})
        if self.shown(ONLINE).strip() != "0":
            self.skipTest("this lxcfs does not show CPUs by the quota")

    def test_probe_has_the_masks_cpus_and_names_the_contradiction(self):
        probe = self.allowed()
        self.assertEqual(probe["allowed"]["cpus"], f"{self.cpus[0]}-{self.cpus[1]}")
        self.assertIn("the files contradict the kernel's mask (lxcfs?)", "\n".join(probe["missing"]))

    def test_a_mask_on_a_cpu_that_lxcfs_hides_counts(self):
        self.assertEqual(self.allowed(mask=self.cpus[1:])["allowed"]["cpus"], str(self.cpus[1]))

    def test_exec_starts_the_job_there(self):
        self.make_plan()  # of the host
        result = self.run_inside("exec", "--", "grep", "Cpus_allowed_list", "/proc/self/status", mask=self.cpus[1:])
        self.assert_exit(result, DONE)
        self.assertEqual(result.stdout.split()[1], str(self.cpus[1]))


class WithoutCpuView(UnderLxcfs):
    """One CPU that is not CPU 0: lxcfs shows the cpuset, and numbers /proc/cpuinfo from 0."""

    def setUp(self):
        super().setUp()
        self.confine({"cpuset": {"cpuset.cpus": str(self.cpus[1]), "cpuset.mems": "0"}})
        self.assertEqual(self.shown(ONLINE).strip(), str(self.cpus[1]))
        self.assertIn("processor\t: 0\n", self.shown("/proc/cpuinfo"))

    def test_it_is_a_machine_of_the_same_class(self):
        host = json.loads(self.run_tune("probe", "--format", "json").stdout)
        self.assertEqual(self.allowed()["machine"]["fingerprint"], host["machine"]["fingerprint"])

    def test_exec_obeys_a_plan_of_the_host(self):
        self.make_plan()
        result = self.run_inside("exec", "--", "grep", "Cpus_allowed_list", "/proc/self/status")
        self.assert_exit(result, DONE)
        self.assertEqual(result.stdout.split()[1], str(self.cpus[1]))
