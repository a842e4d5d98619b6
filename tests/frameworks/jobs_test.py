"""Real training jobs under zf-tune exec: none of them loses a CPU of its home that no other job uses.

What was seen: PyTorch 2.13.0 and DeepSpeed 0.19.8 on CPU, one rank with two CPUs."""

import unittest

from frameworks_case import FrameworkTest, home_of, job
from zf_cli import BINARY, parse_cpus


class Jobs(FrameworkTest):
    def setUp(self):
        super().setUp()
        self.plan = self.make_plan("--ranks", "1")
        self.home = home_of(self.plan)

    def under_exec(self, *command: str, plan="plan.json") -> dict:
        return self.only(BINARY, "exec", "--plan", plan, "--", *command)

    def test_plain_torch_keeps_its_whole_home(self):
        """Seen: each thread on both CPUs, OMP_NUM_THREADS=2. It was one CPU of two, and the other one idle."""
        self.assert_has_all_of(self.home, self.under_exec(*job("torch_adamw")))

    def test_plain_torch_named_in_the_plan(self):
        """Seen: the same as without a name."""
        self.make_plan("--ranks", "1", "--framework", "torch", name="torch.json")
        self.assert_has_all_of(self.home, self.under_exec(*job("torch_adamw"), plan="torch.json"))

    def test_zero_offload_keeps_its_whole_home(self):
        """Seen: DeepSpeedCPUAdam steps on the OpenMP threads of the process, and each of them may use both CPUs."""
        self.make_plan("--ranks", "1", "--framework", "deepspeed-offload", name="offload.json")
        ended = self.under_exec(*job("deepspeed_job"), plan="offload.json")
        self.assertEqual(ended["inner"], "DeepSpeedCPUAdam")
        self.assertEqual(ended["children"], [])
        self.assert_has_all_of(self.home, ended)

    def test_zenflow_without_overlap_keeps_its_whole_home(self):
        """Seen: it steps in the training process, as ZeRO-Offload does."""
        ended = self.under_exec(*job("deepspeed_job", "--zenflow"))
        self.assertEqual(ended["children"], [])
        self.assert_has_all_of(self.home, ended)

    def test_zenflow_with_overlap_divides_the_home_by_itself(self):
        """Seen: the main thread on CPU 0, the optimizer's on CPU 1. It was CPU 0 for both, and CPU 1 idle."""
        self.make_plan("--ranks", "1", "--framework", "deepspeed-zenflow", name="zenflow.json")
        ended = self.under_exec(*job("deepspeed_job", "--zenflow", "--overlap"), plan="zenflow.json")
        training = parse_cpus(ended["threads"][ended["main"]])
        optimizer, = [parse_cpus(child["threads"][str(child["pid"])]) for child in ended["children"]
                      if "spawn_main" in child["command"]]
        self.assertTrue(training and optimizer, ended)
        self.assertFalse(training & optimizer, ended)
        self.assertEqual(training | optimizer, self.home, ended)
        for process in [ended, *ended["children"]]:  # the other threads keep the mask that they started with
            for cpus in process["threads"].values():
                self.assertLessEqual(parse_cpus(cpus), self.home, ended)


if __name__ == "__main__":
    unittest.main()
