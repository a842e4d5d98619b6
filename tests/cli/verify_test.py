"""zf-tune verify: a real trainer and its optimizer are where the plan says, and moved threads are named."""

import ctypes
import json
import os
import subprocess
import sys

from permissions import STRANGER, need_another_user
from zf_cli import (
    BINARY,
    DONE,
    PACKAGE,
    RUNTIME_ERROR,
    STALE,
    USAGE,
    CommandTest,
    binding_line,
    clean_environment,
    parse_cpus,
    wait_until,
)

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
        process = subprocess.Popen(
            [*before, sys.executable, "-c", TRAINER, *words], cwd=self.folder, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, env=clean_environment(**PACKAGE | environment))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def verify(self, *options, code=DONE, **keywords) -> dict:
        result = self.run_tune("verify", *options, "--format", "json", **keywords)
        self.assert_exit(result, code)
        return json.loads(result.stdout)

    def test_main_thread_that_a_module_inside_the_job_has_narrowed_is_named(self):
        """libgomp binds the main thread as soon as it is loaded."""
        self.need_two_cpus()
        try:
            ctypes.CDLL("libgomp.so.1")
        except OSError:
            self.skipTest("no libgomp.so.1 here")
        job = self.start(before=(BINARY, "exec", "--plan", "plan.json", "--", "env", "OMP_PROC_BIND=close"),
                         LD_PRELOAD="libgomp.so.1")
        drift, = self.verify("--pid", str(job.pid), code=STALE)["drift"]
        self.assertIn("has its main thread on ", drift["what"])
        self.assertIn(f", not on {self.plan['ranks'][0]['home']['cpus']}: ", drift["what"])
        self.assertIn("OpenMP binds it by OMP_PROC_BIND=close", drift["what"])

    def move(self, tid: int, cpus: set[int]) -> None:
        os.sched_setaffinity(tid, cpus)

    def side(self, name: str) -> set[int]:
        return parse_cpus(self.plan["ranks"][0][name]["cpus"])

    def test_trainer_on_its_home_is_as_planned(self):
        home = parse_cpus(self.plan["ranks"][0]["home"]["cpus"])
        trainer = self.start(before=("taskset", "-c", self.plan["ranks"][0]["home"]["cpus"]), ZF_RANK="0",
                             ZF_PLAN=str(self.folder / "plan.json"))
        seen = self.verify("--pid", trainer.pid)
        self.assertEqual(seen["drift"], [])
        (process,) = seen["processes"]
        self.assertEqual((process["pid"], process["side"], process["rank"], process["threads"]),
                         (trainer.pid, "trainer", 0, 3))
        self.assertEqual(parse_cpus(process["cpus"]), home)

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
        need_another_user(BINARY, "--version")
        trainer = self.start()
        result = self.run_tune("verify", "--pid", trainer.pid, preexec_fn=lambda: os.setuid(STRANGER))
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
        stranger = self.start(before=("taskset", "-c", self.plan["ranks"][0]["optimizer"]["cpus"]))
        self.assert_refused(self.run_tune("verify", "--pid", stranger.pid), USAGE, str(stranger.pid), "--rank")
        seen = self.verify("--pid", stranger.pid, "--rank", "0", "plan.json", code=STALE)
        drift, = seen["drift"]
        self.assertIn("has its main thread on ", drift["what"])

    def test_launcher_is_not_held_against_the_plan_but_what_it_starts_is(self):
        self.need_two_cpus()
        launcher = self.start("with an optimizer",
                              before=("sh", "-c", '"$@"; true', "sh", BINARY, "exec", "--plan", "plan.json", "--"))
        seen = self.verify("--pid", launcher.pid, "plan.json")["processes"]
        self.assertCountEqual([process["side"] for process in seen], ["trainer", "optimizer"])
        self.assertNotIn(launcher.pid, [process["pid"] for process in seen])

    def test_text_says_all_as_planned(self):
        trainer = self.start("with an optimizer")
        result = self.run_tune("verify", "--job", "plan.json")
        self.assert_exit(result, DONE)
        self.assertRegex(result.stdout, rf"rank 0: trainer python3\S* \(process {trainer.pid}\): \d+ threads on ")
        self.assertTrue(result.stdout.endswith("all as planned\n"))

    def test_bad_input_is_refused(self):
        self.assert_refused(self.run_tune("verify"), USAGE,
                            "zf-tune verify: no job was named; give --pid PID or --job\n")
        self.assert_refused(self.run_tune("verify", "--pid", "1", "--job"), USAGE, "leave out one")
        self.assert_refused(self.run_tune("verify", "--pid", "trainer"), USAGE, "trainer")
        self.assert_refused(self.run_tune("verify", "--pid", "2147483647"), USAGE, "2147483647")
        self.assert_refused(self.run_tune("verify", "--job", "plan.json"), RUNTIME_ERROR, "plan.json")
        trainer = self.start()
        self.assert_refused(self.run_tune("verify", "--pid", trainer.pid, "none.json"), USAGE, "none.json")

    def test_plan_that_was_changed_under_a_job_is_drift(self):
        plan = str(self.folder / "plan.json")
        trainer = self.start(before=(), ZF_RANK="0", ZF_PLAN=plan)
        bound = self.start(before=(), ZF_RANK="0", ZF_PLAN=plan, ZF_BINDING=self.binding())
        (self.folder / "plan.json").write_text("{}")
        (drift,) = self.verify("--pid", trainer.pid, code=STALE)["drift"]
        self.assertIn("cannot be held against its plan", drift["what"])
        self.assert_refused(self.run_tune("verify", "--pid", trainer.pid, "plan.json"), USAGE, "plan.json")
        self.assertEqual(self.verify("--pid", bound.pid)["drift"], [], "it has its binding with it")

    # How a process uses its home. The home is all CPUs; the training side is the first.

    def binding(self, framework="unknown") -> str:
        self.need_two_cpus()
        home = os.sched_getaffinity(0)
        return binding_line(home, {min(home)}, framework, self.plan["ranks"][0]["optimizer"]["mems"])

    def divided(self, *child: str, main: str = "", framework="unknown", code=STALE) -> list[dict]:
        """The drift of a trainer with its main thread on the training side, and of its child."""
        binding = self.binding(framework)
        trainer = self.start_divided(main or str(min(os.sched_getaffinity(0))), *child, ZF_RANK="0", ZF_BINDING=binding)
        return self.verify("--pid", trainer.pid, code=code)["drift"]

    def pool(self) -> str:
        home = os.sched_getaffinity(0)
        return ",".join(map(str, sorted(home - {min(home)})))

    def test_home_is_as_planned_by_its_binding(self):
        self.assertEqual(self.divided(main=",".join(map(str, os.sched_getaffinity(0))), code=DONE), [])

    def test_narrowed_trainer_with_an_optimizer_is_as_planned(self):
        self.addCleanup(os.sched_setaffinity, 0, os.sched_getaffinity(0))
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # the optimizer here has one thread
        self.assertEqual(self.divided("zf-optimizer", self.pool(), code=DONE), [])

    def test_side_that_stays_empty_is_said(self):
        (drift,) = self.divided()
        self.assertRegex(drift["what"], r"^no optimizer process runs, so no process uses CPUs? [0-9,-]+ of its home$")
        self.assertEqual((drift["pid"], drift["rank"]), (None, 0))

    def test_framework_that_divides_a_home_again_is_named(self):
        (drift,) = self.divided("elsewhere", self.pool())
        self.assertEqual(drift["name"], "elsewhere")
        self.assertIn("a framework has divided the home", drift["what"])

    def test_zenflow_may_divide_its_home(self):
        self.assertEqual(self.divided("elsewhere", self.pool(), framework="deepspeed-zenflow", code=DONE), [])

    def test_broken_binding_is_drift(self):
        trainer = self.start_divided(str(min(os.sched_getaffinity(0))), ZF_RANK="0", ZF_BINDING="nonsense")
        (drift,) = self.verify("--pid", trainer.pid, code=STALE)["drift"]
        self.assertIn("ZF_BINDING: does not begin with zf-binding/1", drift["what"])
