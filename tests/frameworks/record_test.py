"""zf-tune record with real jobs: PyTorch's AdamW, ours, and DeepSpeed's modes.

Seen with PyTorch 2.13.0 and DeepSpeed 0.19.8. Tests record/__init__.py, record/jobs.py, record/probes.py,
record/recorder.py."""

import json
import unittest

import warm
from frameworks_case import FrameworkTest, framework_environment, job, lines_of
from zf_cli import BINARY, SOURCE

MODEL = ("--width", "256", "--tokens", "32")
BLOCK = 256 * 2 + 8 * 256 ** 2 + 5 * 256  # parameters of one of its two blocks


class Recorded(FrameworkTest):
    def setUp(self):
        super().setUp()
        self.make_plan("--ranks", "1", "--mode", "wait")  # for ours: both sides have all CPUs
        self.variables = {"PYTHONPATH": str(SOURCE / "runtime/python"), "ZF_PLAN": str(self.folder / "plan.json")}

    def record(self, *command: str, options=()) -> dict:
        self.said = self.launch(BINARY, "record", *options, "--", *command, **self.variables)
        return json.loads((self.folder / "workload.json").read_text())

    def assert_is(self, workload: dict, framework: str, mode: str, interval=1):
        self.assertEqual([workload[name] for name in ("framework", "mode", "update_interval", "params", "ranks")],
                         [framework, mode, interval, 2 * BLOCK, 1])
        self.assertGreater(workload["recorded"]["training_ns"], 0)

    def digest(self) -> str:
        return next(line["digest"] for line in self.said if "digest" in line)

    def same_bits_as_without(self, *words: str) -> str:
        """Returns what the recorded job computed, after a comparison with the same job on its own, which is warm."""
        recorded = self.digest()
        alone = warm.run(job("recorded", *words), warm.TORCH, timeout=200, cwd=self.folder,
                         env=framework_environment(**self.variables))
        self.assertEqual(recorded, next(line["digest"] for line in lines_of(alone.stdout) if "digest" in line))
        return recorded

    def test_plain_torch(self):
        words = (*MODEL, "--accumulate", "2")
        workload = self.record(*job("recorded", *words))
        self.assert_is(workload, "torch", "wait", 2)
        self.assertEqual(workload["estimates"], [])
        self.assertIn("backward_one_thread_ns", workload["recorded"])
        self.assertGreater(workload["step_factor"], 0.1)
        self.same_bits_as_without(*words)

    def test_hooks_that_would_see_a_backward_twice_prevent_it(self):
        words = (*MODEL, "--hooked")
        workload = self.record(*job("recorded", *words))
        self.assertNotIn("backward_one_thread_ns", workload["recorded"])
        self.same_bits_as_without(*words)

    def test_ours_waiting(self):
        words = (*MODEL, "--optimizer", "wait")
        workload = self.record(*job("recorded", *words))
        self.assert_is(workload, "torch", "wait")  # it steps in place, by torch's threads
        self.assertEqual(workload["estimates"], [])
        self.same_bits_as_without(*words)

    def test_ours_late_stays_late(self):
        """The recorder waits for some steps, but gives the job no weights before their time."""
        words = (*MODEL, "--optimizer", "late")
        workload = self.record(*job("recorded", *words))
        self.assert_is(workload, "native", "overlap")
        self.assertEqual(workload["estimates"], [])
        self.assertGreater(workload["recorded"]["step_ns"], 0)
        self.same_bits_as_without(*words)

    def test_ours_exact(self):
        words = (*MODEL, "--optimizer", "exact")
        workload = self.record(*job("recorded", *words))
        self.assert_is(workload, "native", "exact")
        self.assertEqual(workload["estimates"], [])
        self.assertGreater(workload["recorded"]["step_ns"], 0)
        self.assertGreater(workload["training"]["last_gradient_ns"], 0)
        self.assertLess(workload["training"]["first_group_share"], 0.5)
        self.same_bits_as_without(*words)
        tuned = self.run_tune("tune", "-q", "-w", "workload.json", "--simulate",
                              str(SOURCE / "configs/machines/desktop-4p-4e.json"), "-o", "plan.json")
        self.assert_exit(tuned, 0)

    def test_zero_offload(self):
        workload = self.record(*job("deepspeed_job", *MODEL, "--steps", "12"))
        self.assert_is(workload, "deepspeed-offload", "wait")
        self.assertEqual(workload["estimates"], ["training.launch_ns", "training.parallel_ns"])
        self.assertGreater(workload["step_factor"], 0.1)

    def test_zenflow_waiting(self):
        workload = self.record(*job("deepspeed_job", *MODEL, "--zenflow", "--steps", "20"))
        self.assert_is(workload, "deepspeed-zenflow", "wait", 2)

    def test_zenflow_overlapping(self):
        workload = self.record(*job("deepspeed_job", *MODEL, "--zenflow", "--overlap", "--steps", "20"))
        self.assert_is(workload, "deepspeed-zenflow", "overlap", 2)
        self.assertIn("step_factor", workload["estimates"])

    def test_the_context_manager_writes_the_same_kind_of_file(self):
        self.said = self.launch(*job("recorded", *MODEL, "--context", "workload.json"), **self.variables)
        workload = json.loads((self.folder / "workload.json").read_text())
        self.assert_is(workload, "torch", "wait")
        self.assertEqual(workload["estimates"], ["step_factor"])
        self.same_bits_as_without(*MODEL)
        tuned = self.run_tune("tune", "-q", "-w", "workload.json", "--simulate",
                              str(SOURCE / "configs/machines/desktop-4p-4e.json"), "-o", "plan.json")
        self.assert_exit(tuned, 0)

    def test_under_mpirun_rank_0_alone_writes_and_for_all_ranks(self):
        for rank, files in ((1, []), (0, ["workload.json"])):
            self.launch(*job("recorded", *MODEL, "--context", "workload.json"), OMPI_COMM_WORLD_LOCAL_RANK=str(rank),
                        OMPI_COMM_WORLD_LOCAL_SIZE="2", **self.variables)
            self.assertEqual([path.name for path in self.folder.glob("workload*")], files)
        workload = json.loads((self.folder / "workload.json").read_text())
        self.assertEqual((workload["ranks"], workload["params"]), (2, 4 * BLOCK))


if __name__ == "__main__":
    unittest.main()
