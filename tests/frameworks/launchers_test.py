"""Launchers that start zf-tune exec once per rank: every rank ends on the CPUs that the plan has for it.

What was seen: deepspeed 0.19.8, torchrun of PyTorch 2.13.0, accelerate 1.15.0, Open MPI 4.1.4. srun: tests/slurm."""

import shlex
import unittest

from frameworks_case import TUNE, free_port, home_of, job
from launchers_case import LaunchersTest
from zf_cli import BINARY, SOURCE

PACKAGE = str(SOURCE / "runtime/python")


class Launchers(LaunchersTest):
    def assert_ranks_at_home(self, plan: dict, ended: list[dict]):
        self.assertEqual(len(ended), len(plan["ranks"]), self.output)
        for rank, its in enumerate(ended):
            with self.subTest(rank=rank):
                self.assert_has_all_of(home_of(plan, rank), its)

    def under_exec(self, *command: str, options=()) -> list[str]:
        return [str(TUNE), "exec", "--plan", str(self.folder / "plan.json"), *options, "--", *command]

    def test_deepspeed_starts_zero_offload_on_its_whole_home(self):
        """Seen: the launcher starts `zf-tune --local_rank=0 exec --plan …`, and the job gets `--local_rank=0`."""
        plan = self.make_plan("--ranks", "1")
        ended = self.deepspeed(1, *self.under_exec(*job("deepspeed_job")))
        self.assert_ranks_at_home(plan, ended)
        self.assertEqual(ended[0]["arguments"], ["--local_rank=0"])

    def test_deepspeed_starts_each_of_two_ranks_on_its_home(self):
        """Seen: rank 0 on CPU 0, rank 1 on CPU 1; the jobs get `--local_rank=0` and `--local_rank=1` as last words."""
        plan = self.make_plan("--ranks", "2")
        ended = self.deepspeed(2, *self.under_exec(*job("masks", "--own", "word")))
        self.assert_ranks_at_home(plan, ended)
        self.assertEqual([its["arguments"] for its in ended],
                         [["--own", "word", f"--local_rank={rank}"] for rank in (0, 1)])

    def test_deepspeed_starts_each_of_two_native_optimizers_on_its_home(self):
        """Seen: each rank's training on its CPU, and one zf-optimizer beside each."""
        plan = self.make_plan("--ranks", "2", "--mode", "wait")
        python, *script = job("deepspeed_job", "--steps", "4")
        ended = self.deepspeed(2, *self.under_exec(python, "-m", "zf_runtime.deepspeed", *script), PYTHONPATH=PACKAGE)
        self.assert_ranks_at_home(plan, ended)
        for rank, its in enumerate(ended):
            optimizer, = its["children"]
            self.assertIn("zf-optimizer", optimizer["command"])
            for mask in self.masks(optimizer["threads"]).values():
                self.assertLessEqual(mask, home_of(plan, rank))

    def test_exported_command_starts_each_of_two_ranks_on_its_home(self):
        """Seen: numactl -C 0 and -C 1, and OMP_NUM_THREADS=1."""
        self.need_program("numactl")
        plan = self.make_plan("--ranks", "2", "--for", "deepspeed")
        words = shlex.split(self.run_tune("export", "plan.json", "--for", "deepspeed", "-q").stdout)
        _, *script = job("masks", "--own", "word")
        ended = self.ended(*words, "--master_port", free_port(), *script)
        self.assert_ranks_at_home(plan, ended)
        self.assertEqual(ended[1]["arguments"], ["--local_rank=1", "--own", "word"])

    def test_deepspeeds_local_rank_is_kept_from_a_command_that_does_not_want_it(self):
        """Seen: the words of that launcher, without the launcher; the job has no --local_rank."""
        plan = self.make_plan("--ranks", "2")
        _, *words = self.under_exec(*job("masks", "word"), options=["--no-local-rank"])
        ended = self.only(BINARY, "--local_rank=1", *words, LOCAL_RANK="1", RANK="0", WORLD_SIZE="2")
        self.assert_has_all_of(home_of(plan, 1), ended)
        self.assertEqual(ended["arguments"], ["word"])

    def test_torchrun_starts_plain_torch_on_its_whole_home(self):
        """Seen: both CPUs, OMP_NUM_THREADS=2."""
        self.assert_ranks_at_home(self.make_plan("--ranks", "1"),
                                  self.torchrun(1, *self.under_exec(*job("torch_adamw"))))

    def test_torchrun_starts_each_of_two_ranks_on_its_home(self):
        """Seen: DistributedDataParallel over gloo; each rank on one CPU of its own."""
        self.assert_ranks_at_home(self.make_plan("--ranks", "2"),
                                  self.torchrun(2, *self.under_exec(*job("torch_adamw"))))

    def test_accelerate_starts_plain_torch_on_its_whole_home(self):
        """Seen: both CPUs, OMP_NUM_THREADS=2."""
        self.assert_ranks_at_home(self.make_plan("--ranks", "1"),
                                  self.accelerate(1, *self.under_exec(*job("torch_adamw"))))

    def test_accelerate_starts_each_of_two_ranks_on_its_home(self):
        """Seen: each rank on one CPU of its own."""
        self.assert_ranks_at_home(self.make_plan("--ranks", "2"), self.accelerate(2, *self.under_exec(*job("masks"))))

    def test_mpirun_starts_plain_torch_on_its_whole_home(self):
        """Seen: both CPUs, OMP_NUM_THREADS=2."""
        self.assert_ranks_at_home(self.make_plan("--ranks", "1"), self.mpirun(1, *self.under_exec(*job("torch_adamw"))))

    def test_mpirun_starts_each_of_two_ranks_on_its_home(self):
        """Seen: each rank on one CPU of its own."""
        self.assert_ranks_at_home(self.make_plan("--ranks", "2"), self.mpirun(2, *self.under_exec(*job("masks"))))


if __name__ == "__main__":
    unittest.main()
