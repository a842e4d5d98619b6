"""The GPUs that a job may see beside those of its plan: check and exec say what differs, and no home depends on it."""

import json

from zf_cli import DONE, STALE, CommandTest, parse_cpus

CPUS = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status"]


class VisibleGpus(CommandTest):
    def setUp(self):
        super().setUp()
        self.need_two_cpus()
        self.plan = self.make_plan("--ranks", "2")
        for minor, rank in enumerate(self.plan["ranks"]):
            rank["gpu"] = {"pci": f"fffe:{minor + 1}0:00.0", "minor": minor, "uuid": f"GPU-{minor}abc"}
        (self.folder / "plan.json").write_text(json.dumps(self.plan))

    def homes(self, *variables: dict[str, str]) -> tuple[list[set[int]], str]:
        """Returns the CPUs of both ranks with these variables, and what rank 0 says. Rank 1 must say nothing."""
        homes, said = [], []
        for rank, own in enumerate(variables):
            result = self.run_tune("exec", "--", *CPUS, LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2", **own)
            self.assert_exit(result, DONE)
            homes.append(parse_cpus(result.stdout.split()[1]))
            said.append("\n".join(line for line in result.stderr.splitlines() if "the plan's GPU" in line))
        self.assertEqual(homes, [parse_cpus(rank["home"]["cpus"]) for rank in self.plan["ranks"]])
        self.assertEqual(said[1], "")
        return homes, said[0]

    def test_exec_names_the_difference_and_keeps_the_homes(self):
        for variable in ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS"):
            _, said = self.homes({variable: "6,7"}, {variable: "6,7"})
            self.assertIn(f"{variable} lists 6,7, and the plan's GPUs are /dev/nvidia0,1; the homes stay near the "
                          f"plan's GPUs, and `zf-tune plan --from {self.folder}/plan.json", said)
        _, said = self.homes(*2 * [{"CUDA_VISIBLE_DEVICES": "GPU-0abc,GPU-7abc"}])
        self.assertIn("lists GPU-0abc,GPU-7abc, and the plan's", said)

    def test_the_plans_own_gpus_are_no_matter(self):
        for listed in ("0,1", "GPU-0abc,GPU-1abc", ""):
            self.assertEqual(self.homes(*2 * [{"CUDA_VISIBLE_DEVICES": listed}])[1], "")

    def test_ranks_with_a_list_of_their_own_get_disjoint_homes(self):
        homes, said = self.homes({"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"})
        self.assertFalse(homes[0] & homes[1])
        self.assertIn("CUDA_VISIBLE_DEVICES lists 1 GPU, fewer than the plan's 2, so it may be one rank's own", said)

    def test_check_names_the_difference(self):
        for variable in ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS"):
            result = self.run_tune("check", **{variable: "6,7"})
            self.assert_exit(result, STALE)
            self.assertIn(f"plan.json: {variable} lists 6,7, and the plan's GPUs are /dev/nvidia0,1; `zf-tune plan "
                          "--from plan.json -o plan.json` fits the plan to them\n", result.stdout)
        self.assertNotIn("VISIBLE", self.run_tune("check", CUDA_VISIBLE_DEVICES="0,1").stdout)
        self.assertIn("so it may be one rank's own", self.run_tune("check", CUDA_VISIBLE_DEVICES="1").stdout)
        for options in (["--no-gpus"], ["--whole-node"]):
            self.assertNotIn("VISIBLE", self.run_tune("check", *options, CUDA_VISIBLE_DEVICES="6,7").stdout)

    def test_lists_of_other_vendors_do_not_disturb(self):
        self.assertEqual(self.homes(*2 * [{"ZE_AFFINITY_MASK": "6,7", "HABANA_VISIBLE_DEVICES": "6,7"}])[1], "")
