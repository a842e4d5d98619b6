"""zf-tune verify: a real trainer and its optimizer are where the plan says, and moved threads are named."""

import json
import os
import pathlib
import subprocess
import sys

from exec_test import wait_until
from zf_cli import BINARY, DONE, RUNTIME_ERROR, SOURCE, STALE, USAGE, CommandTest, clean_environment, parse_cpus

# A trainer of three threads; with a word after it, with an optimizer.
TRAINER = """
import sys, threading
hold = threading.Event()
for _ in range(2):
    threading.Thread(target=hold.wait, daemon=True).start()
if len(sys.argv) > 1:
    from zf_runtime import Group, Runtime
    runtime = Runtime(groups=[Group(1 << 20)])
print("ready", flush=True)
sys.stdin.read()
"""


class Verify(CommandTest):
    def setUp(self):
        super().setUp()
        self.plan = self.make_plan("--ranks", "1")

    def start(self, *words: str, before=(BINARY, "exec", "--plan", "plan.json", "--"), **environment: str):
        library = pathlib.Path(BINARY).parents[1] / "lib/libzf_runtime.so"
        process = subprocess.Popen(
            [*before, sys.executable, "-c", TRAINER, *words], cwd=self.folder, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env=clean_environment(PYTHONPATH=str(SOURCE / "runtime/python"),
                                                          ZF_RUNTIME_LIBRARY=str(library), **environment))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def verify(self, *options, code=DONE, **keywords) -> dict:
        result = self.run_tune("verify", *options, "--format", "json", **keywords)
        self.assert_exit(result, code)
        return json.loads(result.stdout)

    def move(self, tid: int, cpus: set[int]) -> None:
        os.sched_setaffinity(tid, cpus)

    def side(self, name: str) -> set[int]:
        return parse_cpus(self.plan["ranks"][0][name]["cpus"])

    def test_exec_started_trainer_is_as_planned(self):
        trainer = self.start()
        seen = self.verify("--pid", trainer.pid)
        self.assertEqual(seen["drift"], [])
        (process,) = seen["processes"]
        self.assertEqual((process["pid"], process["side"], process["rank"], process["threads"]),
                         (trainer.pid, "trainer", 0, 3))
        self.assertEqual(parse_cpus(process["cpus"]), self.side("training"))

    def test_one_thread_moved_away_is_named(self):
        self.need_two_cpus()
        trainer = self.start()
        tid = max(int(name) for name in os.listdir(f"/proc/{trainer.pid}/task"))
        self.move(tid, self.side("optimizer"))
        seen = self.verify("--pid", trainer.pid, code=STALE)
        self.assertEqual([(drift["pid"], drift["tid"]) for drift in seen["drift"]], [(trainer.pid, tid)])
        text = self.run_tune("verify", "--pid", trainer.pid)
        self.assert_exit(text, STALE)
        self.assertIn(f"thread {tid}", text.stdout)
        self.assertNotIn("as planned", text.stdout)

    def test_another_users_process_is_called_that(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to be somebody else")
        trainer = self.start()
        try:
            result = self.run_tune("verify", "--pid", trainer.pid, preexec_fn=lambda: os.setuid(65534))
        except (PermissionError, subprocess.SubprocessError):
            self.skipTest("nobody else can run zf-tune here")
        self.assert_refused(result, RUNTIME_ERROR, f"/proc/{trainer.pid}/environ", "as root")

    def test_optimizer_is_verified_with_its_trainer(self):
        trainer = self.start("with an optimizer")
        seen = self.verify("--pid", trainer.pid)
        self.assertEqual(seen["drift"], [])
        optimizer = {process["side"]: process for process in seen["processes"]}["optimizer"]
        self.assertEqual(parse_cpus(optimizer["cpus"]), self.side("optimizer"))
        if optimizer["memory_bytes"] is not None:
            self.assertGreater(sum(optimizer["memory_bytes"].values()), 1 << 20)

    def test_pool_thread_moved_away_leaves_a_cpu_without_one(self):
        self.need_two_cpus()
        trainer = self.start("with an optimizer")
        seen = self.verify("--pid", trainer.pid)
        (optimizer,) = [process["pid"] for process in seen["processes"] if process["side"] == "optimizer"]
        wait_until(lambda: len(os.listdir(f"/proc/{optimizer}/task")) >= len(self.side("optimizer")))
        for tid in map(int, os.listdir(f"/proc/{optimizer}/task")):
            self.move(tid, self.side("training"))
        said = json.dumps(self.verify("--pid", trainer.pid, code=STALE)["drift"])
        self.assertIn("may run on", said)
        self.assertIn("no thread of its own", said)

    def pids(self, *options, **environment) -> list[int]:
        # Without options: others' jobs as well, which may be anything.
        result = self.run_tune("verify", "--job", *options, "--format", "json", **environment)
        self.assertIn(result.returncode, (DONE, STALE))
        return [process["pid"] for process in json.loads(result.stdout)["processes"]]

    def test_job_finds_every_process_under_a_plan_or_of_a_slurm_job(self):
        self.make_plan("--ranks", "1", name="other.json")
        first, second = self.start(), self.start(SLURM_JOB_ID=f"zf-{os.getpid()}")
        other = self.start(before=(BINARY, "exec", "--plan", "other.json", "--"))
        self.assertLessEqual({first.pid, second.pid, other.pid}, set(self.pids()))
        self.assertCountEqual(self.pids("plan.json"), [first.pid, second.pid])
        self.assertEqual(self.pids(SLURM_JOB_ID=f"zf-{os.getpid()}"), [second.pid])

    def test_job_whose_plan_exec_has_fitted_is_held_against_the_fitted_one(self):
        self.need_two_cpus()
        one = max(os.sched_getaffinity(0))
        trainer = self.start(before=("taskset", "-c", str(one), BINARY, "exec", "--plan", "plan.json", "--"))
        seen = self.verify("--pid", trainer.pid)
        self.assertEqual([process["cpus"] for process in seen["processes"]], [str(one)])
        self.assertIn(trainer.pid, self.pids())

    def test_process_that_exec_did_not_start_is_verified_as_a_given_rank(self):
        self.need_two_cpus()
        stranger = self.start(before=())
        self.assert_refused(self.run_tune("verify", "--pid", stranger.pid), USAGE, str(stranger.pid), "--rank")
        seen = self.verify("--pid", stranger.pid, "--rank", "0", "plan.json", code=STALE)
        self.assertEqual(len(seen["drift"]), 3)

    def test_launcher_is_not_held_against_the_plan_but_what_it_starts_is(self):
        self.need_two_cpus()
        launcher = self.start(before=("sh", "-c", '"$@"; true', "sh", BINARY, "exec", "--plan", "plan.json", "--"))
        self.assertEqual(len(self.verify("--pid", launcher.pid, "plan.json")["processes"]), 1)

    def test_text_says_all_as_planned(self):
        trainer = self.start()
        result = self.run_tune("verify", "--job", "plan.json")
        self.assert_exit(result, DONE)
        self.assertRegex(result.stdout, rf"rank 0: trainer python3\S* \(process {trainer.pid}\): 3 threads on ")
        self.assertTrue(result.stdout.endswith("all as planned\n"))

    def test_bad_input_is_refused(self):
        self.assert_refused(self.run_tune("verify"), USAGE, "--pid", "--job")
        self.assert_refused(self.run_tune("verify", "--pid", "1", "--job"), USAGE, "either")
        self.assert_refused(self.run_tune("verify", "--pid", "nobody"), USAGE, "nobody")
        self.assert_refused(self.run_tune("verify", "--pid", "2147483647"), USAGE, "2147483647")
        self.assert_refused(self.run_tune("verify", "--job", "plan.json"), RUNTIME_ERROR, "plan.json")
        trainer = self.start()
        self.assert_refused(self.run_tune("verify", "--pid", trainer.pid, "none.json"), USAGE, "none.json")

    def test_plan_that_was_changed_under_a_job_is_drift(self):
        trainer = self.start()
        (self.folder / "plan.json").write_text("{}")
        (drift,) = self.verify("--pid", trainer.pid, code=STALE)["drift"]
        self.assertIn("cannot be held against its plan", drift["what"])
        self.assert_refused(self.run_tune("verify", "--pid", trainer.pid, "plan.json"), USAGE, "plan.json")
