"""zf-tune doctor: what hurts is found on the machine as it is, and told with its remedy."""

import errno
import json
import os
import subprocess
import sys

from permissions import STRANGER, need_another_user
from refused_calls import refusing
from zf_cli import DONE, STALE, USAGE, CommandTest, binding_line

LATE = """
import os, threading, time
wait = threading.Event()
threading.Thread(target=wait.wait, daemon=True).start()
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
print("bound", flush=True)
time.sleep(60)
"""

NAMED = r"""
import ctypes
PR_SET_NAME = 15
ctypes.CDLL(None).prctl(PR_SET_NAME, b"\x1b[31mred", 0, 0, 0)
while True:
    pass
"""


class Doctor(CommandTest):
    def findings(self, *options: str, **keywords) -> list[dict]:
        result = self.run_tune("doctor", "--format", "json", *options, **keywords)
        self.assert_exit(result, DONE)
        return json.loads(result.stdout)["findings"]

    def found(self, check: str, *options: str, **keywords) -> str:
        """What this check said, all of it in one text."""
        findings = self.findings(*options, **keywords)
        return "\n".join(finding["what"] for finding in findings if finding["check"] == check)

    def start(self, *words: str, **options) -> subprocess.Popen:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, **options)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_every_finding_has_a_remedy(self):
        for finding in self.findings(KMP_AFFINITY="compact"):
            self.assertIn(finding["severity"], ("note", "warning", "severe"))
            self.assertTrue(finding["what"] and finding["remedy"])

    def test_environment_that_binds_is_found(self):
        self.assertIn("KMP_AFFINITY=compact", self.found("openmp", KMP_AFFINITY="compact"))
        self.assertEqual(self.found("openmp"), "")

    def doctor_that_names(self, burner: subprocess.Popen) -> subprocess.CompletedProcess:
        """Returns the output that names the process, which takes a CPU of the plan."""
        for _ in range(5):  # a busy machine may not give it a tenth of a CPU each time
            result = self.run_tune("doctor", "--plan", "plan.json")
            self.assert_exit(result, DONE)
            if f"(process {burner.pid})" in result.stdout:
                return result
        self.fail(result.stdout)

    def test_burner_on_the_plans_cpu_is_found(self):
        self.make_plan()
        burner = self.start(sys.executable, "-c", "while True: pass")
        self.assertIn("busy-cpus", self.doctor_that_names(burner).stdout)

    def test_another_users_thread_name_reaches_the_terminal_as_plain_text(self):
        need_another_user(sys.executable, "-c", "")
        self.make_plan()
        burner = self.start(sys.executable, "-c", NAMED, user=STRANGER, group=STRANGER, extra_groups=[])
        result = self.doctor_that_names(burner)
        self.assertIn("[31mred", result.stdout)
        self.assertNotIn("\x1b", result.stdout + result.stderr)

    def test_process_that_was_bound_late_is_found(self):
        self.need_two_cpus()
        late = self.start(sys.executable, "-c", LATE)
        self.assertEqual(late.stdout.readline(), "bound\n")
        self.assertIn(f"(process {late.pid}) was bound late", self.found("late-binding"))

    def test_framework_that_divides_a_home_again_is_found(self):
        self.need_two_cpus()
        home = os.sched_getaffinity(0)
        first = min(home)
        binding = binding_line(home, {first})
        trainer = self.start_divided(str(first), "elsewhere", ",".join(map(str, home - {first})), ZF_RANK="0",
                                     ZF_BINDING=binding)
        said = self.found("divided-homes")
        self.assertRegex(said, r"elsewhere \(process \d+, rank 0\) may run on \S+ only: a framework has divided")
        self.assertNotIn(f"process {trainer.pid},", said, "it has the training side")

    def test_mask_narrower_than_the_plan_is_found(self):
        self.need_two_cpus()
        self.make_plan()
        one = str(min(os.sched_getaffinity(0)))
        self.assertIn("already bound", self.found("launcher", "--plan", "plan.json", before=["taskset", "-c", one]))
        self.assertEqual(self.found("launcher", "--plan", "plan.json"), "")

    def test_refused_memory_policy_is_found(self):
        if os.uname().machine != "x86_64":
            self.skipTest("the filter knows the system calls of x86-64 only")
        said = self.found("system-calls", preexec_fn=refusing(errno.EPERM, "mbind", "set_mempolicy"))
        for call in ("mbind", "set_mempolicy"):
            self.assertIn(call, said)

    def test_another_machine_as_files(self):
        for path, text in {"sys/devices/system/cpu/present": "0-3", "sys/devices/system/cpu/online": "0-3",
                           "sys/devices/system/node/has_memory": "0-1", "sys/devices/system/node/online": "0-1",
                           "proc/sys/kernel/numa_balancing": "1"}.items():
            file = self.folder / "node" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n")
        findings = self.findings("--sysroot", "node", KMP_AFFINITY="this machine's, not that one's")
        self.assertEqual([finding["check"] for finding in findings], ["numa"])

    def test_strict_is_an_exit_code(self):
        result = self.run_tune("doctor", "--strict", KMP_AFFINITY="compact")
        self.assert_exit(result, STALE)
        self.assertIn("severe: openmp: KMP_AFFINITY=compact", result.stdout)
        self.assertIn("unset KMP_AFFINITY", result.stdout)
        self.assert_exit(self.run_tune("doctor", KMP_AFFINITY="compact"), DONE)

    def test_bad_input_is_refused(self):
        self.assert_refused(self.run_tune("doctor", "--plan", "none.json"), USAGE, "none.json")
        self.assert_refused(self.run_tune("doctor", "--sysroot", "none"), USAGE, "none")
        self.assert_refused(self.run_tune("doctor", "--format", "xml"), USAGE, "xml")
        self.assert_refused(self.run_tune("doctor", "plan.json"), USAGE, "plan.json")
