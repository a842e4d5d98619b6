"""zf-tune tune, briefly: a small model and a small budget, on whatever machine runs the tests."""

import errno
import json
import os
import platform
import re
import resource
import signal
import statistics
import time

from refused_calls import NO_FILTERS, refusing
from zf_cli import DONE, INFEASIBLE, SOURCE, USAGE, CommandTest

BRIEF = ("--budget", "2s", "--params", "1M")


class Tune(CommandTest):
    def files(self):
        return sorted(path.name for path in self.folder.iterdir())

    def test_a_workload_on_other_ranks_has_the_same_work_for_the_whole_node(self):
        file = SOURCE / "configs/workloads/qwen2.5-0.5b-2gpu.json"
        whole = json.loads(file.read_text())["training"]["host_bytes"] * 2
        for ranks in (1, 2):
            result = self.run_tune("tune", "-q", "-w", file, "--ranks", ranks, "--simulate",
                                   SOURCE / "configs/machines/xeon-2x16-2gpu.json", "-o", "plan.json")
            self.assert_exit(result, DONE)
            self.assertEqual(self.read_plan()["workload"]["training"]["host_bytes"], whole // ranks)

    def test_a_workload_on_other_ranks_is_measured_with_the_same_work_for_the_whole_node(self):
        file = SOURCE / "configs/workloads/qwen2.5-0.5b-2gpu.json"
        whole = json.loads(file.read_text())["training"]["host_bytes"] * 2
        self.assert_exit(self.run_tune("tune", "-q", "-w", file, "--ranks", 1, "--budget", "1s"), DONE)
        self.assertEqual(self.read_plan()["workload"]["training"]["host_bytes"], whole)

    def test_params_beside_a_workload_are_refused(self):
        workload = SOURCE / "configs/workloads/qwen2.5-0.5b-2gpu.json"
        self.assert_refused(self.run_tune("tune", "-w", workload, "--params", "3B"), USAGE, "--params", "--workload")

    def test_a_model_of_hundreds_of_billions_of_parameters_gets_a_plan(self):
        self.assert_exit(self.run_tune("tune", "-q", "--ranks", 1, "--params", "200B", "--budget", "1s"), DONE)
        self.assertGreater(self.read_plan()["workload"]["training"]["launches"], 1_000_000)

    def test_a_model_too_large_for_any_plan_is_refused_before_measuring(self):
        result = self.run_tune("tune", "--ranks", 1, "--params", "8T")
        self.assert_refused(result, USAGE, "8T parameters on 1 rank", "training.gpu_ns", "--params")
        self.assertEqual(self.files(), [])

    def test_says_first_for_which_mode_it_plans_and_how_to_change_it(self):
        machine = SOURCE / "configs/machines/grace-hopper.json"
        said = self.run_tune("tune", "--simulate", machine).stderr
        self.assertEqual(said.splitlines()[0], "mode overlap, update interval 4")
        said = self.run_tune("tune", "--simulate", machine, "--mode", "exact", "--update-interval", "2").stderr
        self.assertEqual(said.splitlines()[0], "mode exact, update interval 2")
        # Only whole rounds are continued, and on a busy machine one takes longer than the brief budget.
        self.assert_exit(self.run_tune("tune", *BRIEF, "--budget", "15s", "--accuracy", "20"), DONE)
        interrupted = self.folder / "plan.json.samples.jsonl"
        lines = [line for line in interrupted.read_text().splitlines() if '"done"' not in line]
        interrupted.write_text("\n".join(lines) + "\n")
        said = self.run_tune("tune", *BRIEF, "--budget", "100ms").stderr.splitlines()
        default = "mode wait, update interval 1 (the default; see --mode, --update-interval, --workload)"
        self.assertEqual(said[0], default)
        self.assertIn("continuing the interrupted sweep", said[1])

    def test_leaves_a_valid_plan_with_evidence(self):
        self.assert_exit(self.run_tune("tune", *BRIEF, "-o", "x.json"), DONE)
        plan = self.read_plan("x.json")
        self.assert_sound(plan, os.sched_getaffinity(0))
        self.assertTrue(plan["choice"]["reason"])
        self.assertTrue(plan["evidence"]["samples"])
        self.assertGreater(plan["choice"]["period_ns_median"], 0)
        self.assertEqual(self.files(), ["x.json", "x.json.samples.jsonl"])

    def test_measures_the_state_format_that_it_is_told(self):
        self.assert_exit(self.run_tune("tune", "-q", *BRIEF, "--state", "bf16"), DONE)
        plan = self.read_plan()
        self.assertEqual(plan["intent"]["state_format"], "bf16")
        # A step in bf16 moves 20 bytes per parameter and keeps 8 of its own beside the loop's 16.
        evidence = plan["evidence"]
        self.assertEqual(evidence["working_set_bytes_per_rank"], 24 * evidence["elements_per_rank"])
        loops = {one["id"]: statistics.median(sample["roofline_ns"] for sample in evidence["samples"]
                                              if sample["candidate"] == one["id"]) for one in evidence["candidates"]}
        fastest = [20e9 * evidence["elements_per_rank"] / ns for ns in loops.values()]
        self.assertTrue(any(abs(evidence["roofline"]["bytes_per_s_median"] / each - 1) < 1e-6 for each in fastest),
                        f"{evidence['roofline']} is that of none of {fastest}")
        header = json.loads((self.folder / "plan.json.samples.jsonl").read_text().splitlines()[0])
        self.assertEqual(header["state_format"], "bf16")
        self.assert_exit(self.run_tune("check"), DONE)
        machine = SOURCE / "configs/machines/xeon-2x16-2gpu.json"
        refused = self.run_tune("tune", "--simulate", machine, "--state", "bf16")
        self.assert_exit(refused, USAGE)
        self.assertIn("--state bf16 cannot be used with --simulate", refused.stderr)

    def test_is_what_zf_tune_does_by_itself(self):
        result = self.run_tune(*BRIEF)
        self.assert_exit(result, DONE)
        self.assert_sound(self.read_plan("plan.json"))

    def test_keeps_to_the_budget(self):
        """The time on CPUs counts, because a busy machine makes a run wait. Beside the budget, a run takes its start
        and a last sample."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assert_exit(self.run_tune("tune", "--fresh", "--budget", "200ms"), DONE)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        self.assertLess(took, len(os.sched_getaffinity(0)))
        self.assertIn("because the budget is only 200.0 ms", "\n".join(self.read_plan()["warnings"]))

    def test_a_budget_shorter_than_one_visit_is_said(self):
        result = self.run_tune("tune", "--budget", "1ms", "--params", "1M")
        self.assert_exit(result, DONE)
        plan = self.read_plan()
        self.assertEqual({sample["candidate"] for sample in plan["evidence"]["samples"]}, {0})
        self.assertIn("longer than the whole budget of 1.0 ms: nothing else was measured", "\n".join(plan["warnings"]))
        self.assertIn("longer than the whole budget", result.stdout)

    def test_a_folder_without_locks_is_used_and_said_once(self):
        """As Lustre without the mount option flock, and NFS without its lock service."""
        if platform.machine() != "x86_64":
            self.skipTest("the numbers of the calls are those of x86-64")
        result = self.run_tune("tune", *BRIEF, preexec_fn=refusing(errno.ENOLCK, "flock"))
        if result.returncode == NO_FILTERS:
            self.skipTest("seccomp filters are not to be had here")
        self.assert_exit(result, DONE)
        self.assert_sound(self.read_plan())
        self.assertEqual(result.stderr.count("plan.json.samples.jsonl: cannot be locked here"), 1, result.stderr)

    def test_one_cpu_gives_a_shared_plan(self):
        cpu = max(os.sched_getaffinity(0))
        result = self.run_tune("tune", *BRIEF, before=["taskset", "-c", str(cpu)])
        self.assert_exit(result, DONE)
        plan = self.read_plan()
        self.assert_sound(plan, {cpu})
        self.assertTrue(plan["ranks"][0]["shared"])

    def test_more_ranks_than_cores_is_infeasible(self):
        result = self.run_tune("tune", *BRIEF, "--ranks", "4096")
        self.assert_refused(result, INFEASIBLE, "4096")
        self.assert_wrote_nothing()

    def test_term_ends_it_with_the_best_plan_so_far(self):
        # Nothing else ends this sweep. On a busy machine one visit may take most of a budget of a minute, and the sweep
        # then ends by itself after its first visit.
        process = self.start_tune("tune", "--params", "4M", "--budget", "1h", "--accuracy", "0.001", "-o", "x.json")
        self.addCleanup(process.kill)
        samples = self.folder / "x.json.samples.jsonl"
        while process.poll() is None and not (samples.exists() and samples.read_text().count("\n") > 1):
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        self.assert_exit(self.finish(process), 128 + signal.SIGTERM)
        plan = self.read_plan("x.json")
        self.assert_sound(plan)
        self.assertIn("cut short by SIGTERM", plan["choice"]["reason"])
        self.assertEqual(self.files(), ["x.json", "x.json.samples.jsonl"])

    def test_the_reason_quotes_the_table_above_it(self):
        machine = SOURCE / "configs/machines/xeon-2x16-2gpu.json"
        result = self.run_tune("tune", "--simulate", machine, "--mode", "overlap", "--wide")
        self.assert_exit(result, DONE)
        said = re.findall(r"gainst this plan, (?:the next best, )?(.*?),? is (?:faster|slower|a tie|unclear): "
                          r"([+-][0-9.]+ % \([+-][0-9.]+ to [+-][0-9.]+ %); minus is faster\)", result.stdout)
        self.assertEqual(len(said), 2, result.stdout)
        self.assertEqual(said[-1][0], "unbound")
        for name, figures in said:
            label = name.split(", which")[0].strip('"')
            rows = [line for line in result.stdout.splitlines() if line.strip().startswith(f"{label}  ")]
            self.assertEqual(len(rows), 1, name)
            self.assertIn(f"  {figures})  ", rows[0])

    def test_on_an_overloaded_machine_the_plan_is_the_shared_home_or_at_least_it_says_that_nothing_can_be_told(self):
        machine = json.loads((SOURCE / "configs/machines/xeon-2x16-2gpu.json").read_text())
        machine["workload"] = str(SOURCE / "configs/workloads/qwen2.5-0.5b-2gpu.json")
        machine["noise"].update(relative=0.3, visit=0.3, outlier_rate=0.5, outlier_factor=5)
        (self.folder / "m.json").write_text(json.dumps(machine))
        seeds = range(1, 21)
        shared = 0
        for seed in seeds:
            (self.folder / "plan.json").unlink(missing_ok=True)
            result = self.run_tune("tune", "--fresh", "--simulate", "m.json", "--mode", "overlap", "--seed", str(seed))
            self.assert_exit(result, DONE)
            shared += all(rank["shared"] for rank in self.read_plan()["ranks"])
            self.assertIn("this machine was very noisy", result.stdout)
        self.assertGreaterEqual(shared, 0.75 * len(seeds))
