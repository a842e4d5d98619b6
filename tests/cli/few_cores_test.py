"""Few cores for the ranks: an error or a warning that begins with the ratio and names who can give more."""

import json
import os

from zf_cli import DONE, INFEASIBLE, SOURCE, STALE, CommandTest

TASK = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "1",
        "SLURM_NODEID": "0", "TORCHELASTIC_RUN_ID": "x"}
WAYS = "srun --cpu-bind=none, or more --cpus-per-task for sbatch and srun"


class FewCores(CommandTest):
    def on_one_cpu(self) -> tuple[str, ...]:
        self.need_two_cpus()
        return ("taskset", "-c", str(min(os.sched_getaffinity(0))))

    def doctor_finding(self, *options: str, **keywords) -> dict:
        result = self.run_tune("doctor", "--format", "json", *options, **keywords)
        self.assert_exit(result, DONE)
        findings = [one for one in json.loads(result.stdout)["findings"] if one["check"] == "few-cores"]
        self.assertEqual(len(findings), 1, result.stdout)
        return findings[0]

    def test_torchrun_in_a_task_that_is_bound_to_one_cpu(self):
        """Eight ranks that torchrun has started in one task of Slurm: exec and doctor say the same."""
        rank = {**TASK, "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "8"}
        one = self.on_one_cpu()
        self.make_plan()
        refused = self.run_tune("exec", "--", "true", before=one, **rank)
        self.assert_refused(refused, INFEASIBLE, "zf-tune: 8 ranks have 1 core, and each needs one of its own", WAYS,
                            "run 1 rank at most")
        found = self.doctor_finding(before=one, **rank)
        self.assertEqual(found["severity"], "severe")
        self.assertEqual(refused.stderr, f"zf-tune: {found['what']}; {found['remedy']}\n")

    def test_torchrun_alone_on_one_cpu(self):
        """The CPU may be this rank's alone, so exec cannot be sure; its error begins with the ratio all the same."""
        one = self.on_one_cpu()
        self.make_plan("--ranks", "2")
        refused = self.run_tune("exec", "--", "true", before=one, LOCAL_RANK="0", LOCAL_WORLD_SIZE="2",
                                TORCHELASTIC_RUN_ID="x")
        self.assert_refused(refused, STALE, "zf-tune: 2 ranks have 1 CPU: ", "torchrun without --numa-binding",
                            "--cpus rank")

    def test_plan_warns_of_two_cores_a_rank_and_less(self):
        xml = str(SOURCE / "tests/machines/qemu-8n.xml")  # 16 cores
        for ranks, each in (("8", "2"), ("10", "1.6")):
            result = self.run_tune("plan", "--topology", xml, "--ranks", ranks)
            self.assert_exit(result, DONE)
            self.assertIn(f"warning: {ranks} ranks have 16 cores, {each} for each: ", result.stderr)
        for quiet in (["--ranks", "7"], ["--ranks", "8", "-q"]):
            result = self.run_tune("plan", "--topology", xml, *quiet)
            self.assertNotIn("warning: ", result.stderr)
        self.assert_refused(self.run_tune("plan", "--topology", xml, "--ranks", "17"), INFEASIBLE,
                            "zf-tune: 17 ranks have 16 cores")

    def test_only_rank_0_warns(self):
        self.need_two_cpus()
        cpus = sorted(os.sched_getaffinity(0))
        two = ("taskset", "-c", f"{cpus[0]},{cpus[-1]}")
        if self.run_tune("plan", "-q", "--ranks", "2", before=two).returncode == INFEASIBLE:
            self.skipTest("these two CPUs are one core")
        for command in (["plan", "--ranks", "2", "-o", "other.json"], ["exec", "--", "true"], ["doctor"]):
            for rank, says in (("0", 1), ("1", 0)):
                result = self.run_tune(*command, before=two, LOCAL_RANK=rank, LOCAL_WORLD_SIZE="2")
                self.assert_exit(result, DONE)
                said = result.stdout + result.stderr
                self.assertEqual(said.count("2 ranks have 2 cores, 1 for each"), says, (command, rank, said))
