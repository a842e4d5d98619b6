"""Inside a container: a cpuset, a CPU quota and a memory limit, no capabilities, memory policies refused, processes and
mounts of its own, a small /dev/shm. Everything works, and what it does without is on record.

Made of the kernel's parts (cgroup v1, namespaces, seccomp), as a container runtime does, without one.
"""

import contextlib
import json
import os
import pathlib
import unittest

from permissions import need_namespaces
from zf_cli import BINARY, DONE, CommandTest, parse_cpus, print_cpus, remove_group

BUILD = pathlib.Path(BINARY).parents[1]
CGROUPS = pathlib.Path("/sys/fs/cgroup")
QUOTA_CPUS = 1.5
MEMORY_BYTES = 2 << 30


@contextlib.contextmanager
def confined_to(cpus: str):
    """Yields a function that puts the calling process into the container's groups; removes them afterwards."""
    name = f"zf-container-{os.getpid()}"
    limits = {
        "cpuset": {"cpuset.cpus": cpus, "cpuset.mems": "0"},
        "cpu": {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": str(int(100000 * QUOTA_CPUS))},
        "memory": {"memory.limit_in_bytes": str(MEMORY_BYTES)},
    }
    with contextlib.ExitStack() as stack:
        groups = []
        for controller, values in limits.items():
            group = CGROUPS / controller / name
            try:
                group.mkdir()
            except OSError as error:
                reason = f"no control group can be made here ({error}): needs root and cgroup v1"
                raise unittest.SkipTest(reason) from None
            stack.callback(remove_group, group)
            groups.append(group)
            for file, value in values.items():
                (group / file).write_text(value)
        yield lambda: [(group / "cgroup.procs").write_text("0") for group in groups]


NAMESPACES = ("--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc")
CONTAINER = (
    *("unshare", *NAMESPACES, "--"),
    *("sh", "-c", 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"', "container"),
    *("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", str(BUILD / "bin/test-refuse")),
)


class Container(CommandTest):
    def setUp(self):
        super().setUp()
        need_namespaces(*NAMESPACES)
        self.cpus = sorted(os.sched_getaffinity(0))[-2:]
        self.enter = self.enterContext(confined_to(",".join(map(str, self.cpus))))

    def run_inside(self, *arguments: str, **keywords):
        return self.run_tune(*arguments, before=CONTAINER, preexec_fn=self.enter, timeout=100, **keywords)

    def test_it_is_one(self):
        """Or else the other tests prove nothing."""
        result = self.run_inside("exec", "--force", "--quiet", "--", "sh", "-c",
                                 "grep -E 'CapEff|Seccomp:' /proc/self/status; echo $$; df -m /dev/shm | tail -n 1; "
                                 "numactl -m 0 true")
        self.assertRegex(result.stdout, r"CapEff:\t0000000000000000\nSeccomp:\t2\n\d\ntmpfs +64 ")
        self.assertNotEqual(result.returncode, DONE, "numactl could set a memory policy")
        self.assertIn("Operation not permitted", result.stderr)

    def test_probe_gives_the_limits_and_where_they_come_from(self):
        result = self.run_inside("probe", "--format", "json")
        self.assert_exit(result, DONE)
        allowed = json.loads(result.stdout)["allowed"]
        self.assertEqual(parse_cpus(allowed["cpus"]), set(self.cpus))
        self.assertEqual((allowed["cpu_quota"], allowed["memory_bytes"]), (QUOTA_CPUS, MEMORY_BYTES))

    def test_doctor_says_in_its_first_line_that_the_cpus_are_shared_by_quota(self):
        result = self.run_inside("doctor")
        self.assert_exit(result, DONE)
        self.assertRegex(" ".join(result.stdout.split()), rf"^CPUs? {print_cpus(set(self.cpus))}: shared by quota "
                         rf"\(/sys/fs/cgroup/cpu/[^ ]+ pays for {QUOTA_CPUS} of {len(self.cpus)}\)")

    def test_tune_exec_and_runtime_work_and_say_what_they_do_without(self):
        result = self.run_inside("tune", "--budget", "3s", "--params", "1M")
        self.assert_exit(result, DONE)
        plan = self.read_plan()
        self.assert_sound(plan, set(self.cpus))
        self.assertEqual(plan["allocation"]["cpu_quota"], QUOTA_CPUS)

        result = self.run_inside("exec", "--plan", "plan.json", "--", str(BUILD / "bin/test-rank"))
        self.assert_exit(result, DONE)
        self.assertRegex(result.stderr, r"zf-tune exec: .*memory.*Operation not permitted")
        report = json.loads(result.stdout)
        self.assertEqual(report["training"], plan["ranks"][0]["training"]["cpus"])
        self.assertEqual(set().union(*map(parse_cpus, report["threads"])),
                         parse_cpus(plan["ranks"][0]["optimizer"]["cpus"]))
        self.assertIn("Operation not permitted", report["note"])
