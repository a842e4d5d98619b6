"""zf-tune plan: homes and splits on machines that are data."""

import math
import re
import shlex

from zf_cli import DONE, INFEASIBLE, SOURCE, USAGE, CommandTest, parse_cpus

SLURM_NODE = "pack:2 [numa(memory=256GiB)] l3u:2 core:12 pu:1"
# Two packages of 32 cores, the second hardware threads numbered after all the first ones: core 0 has 0 and 64.
INTERLEAVED_SMT = "pack:2 [numa(memory=256GiB)] core:32 pu:2(indexes=2*64:64*1)"


def cpus_of(rank: dict) -> set[int]:
    return parse_cpus(rank["training"]["cpus"]) | parse_cpus(rank["optimizer"]["cpus"])


class Plan(CommandTest):
    def test_sparse_slurm_allocation_loses_no_core(self):
        allowed = "0,4-11,21-26,30-46"
        plan = self.make_plan("--topology", SLURM_NODE, "--allowed", allowed, "--ranks", "2")
        self.assert_sound(plan, parse_cpus(allowed))
        homes = [cpus_of(rank) for rank in plan["ranks"]]
        self.assertEqual([len(home) for home in homes], [16, 16])
        self.assertEqual(homes[0] | homes[1], parse_cpus(allowed))

    def test_the_plan_in_the_page_on_homes_is_what_its_command_prints(self):
        page = (SOURCE / "docs/homes.md").read_text()
        example = r"^\$ zf-tune (plan --topology (?:.*\\\n)*.*)\n((?:  .*\n)+)"
        command, table = re.search(example, page, re.MULTILINE).groups()
        result = self.run_tune(*shlex.split(command.replace("\\\n", "")))
        self.assert_exit(result, DONE)
        self.assertIn(table, result.stdout)

    def test_each_plan_in_the_page_on_deepspeed_is_made(self):
        """Steps of mode exact run beside training, so each rank's optimizer has CPUs of its own."""
        page = (SOURCE / "docs/deepspeed.md").read_text()
        found = re.findall(r"^\|.*\|.*\|[^|]*`--framework (\S+) ?([^`|]*)`[^|]*\|.*\|$", page, re.MULTILINE)
        self.assertEqual(len(found), 11)
        for framework, options in found:
            with self.subTest(framework=framework, options=options):
                plan = self.make_plan("--topology", SLURM_NODE, "--ranks", "2", "--framework", framework,
                                      *options.replace(" U", " 4").split())
                self.assert_sound(plan)
                self.assertEqual(plan["workload"]["framework"], framework)
                if "exact" in options:
                    self.assertEqual((plan["workload"]["mode"], plan["intent"]["shared"]), ("exact", False))

    def test_smt_siblings_stay_on_one_side(self):
        allowed = "64,97-127"
        plan = self.make_plan("--topology", INTERLEAVED_SMT, "--allowed", allowed)
        self.assert_sound(plan, parse_cpus(allowed))
        self.assertEqual(cpus_of(plan["ranks"][0]), parse_cpus(allowed))

    def test_whole_smt_cores_are_never_divided(self):
        plan = self.make_plan("--topology", INTERLEAVED_SMT, "--ranks", "2")
        self.assert_sound(plan)
        cores = [
            {cpu % 64 for cpu in parse_cpus(rank[side]["cpus"])}
            for rank in plan["ranks"]
            for side in ("training", "optimizer")
        ]
        for number, core in enumerate(cores):
            for other in cores[number + 1 :]:
                self.assertFalse(core & other, "siblings of one core on two sides")

    def test_three_ranks_share_two_nodes(self):
        plan = self.make_plan("--topology", SLURM_NODE, "--ranks", "3")
        self.assert_sound(plan)
        self.assertEqual(sorted(len(cpus_of(rank)) for rank in plan["ranks"]), [16, 16, 16])

    def test_more_ranks_than_nodes(self):
        plan = self.make_plan("--topology", SLURM_NODE, "--ranks", "8")
        self.assert_sound(plan)
        for rank in plan["ranks"]:
            self.assertEqual(len({cpu // 24 for cpu in cpus_of(rank)}), 1, "a home across two nodes")

    def test_one_core_is_a_shared_plan_with_a_warning(self):
        result = self.run_tune("plan", "--topology", SLURM_NODE, "--allowed", "7")
        self.assert_exit(result, DONE)
        plan = self.read_plan()
        self.assert_sound(plan, {7})
        self.assertTrue(plan["ranks"][0]["shared"])
        self.assertTrue(plan["allocation"]["notes"])

    def test_more_ranks_than_cores_says_what_would_fit(self):
        result = self.run_tune("plan", "--topology", SLURM_NODE, "--allowed", "0-3", "--ranks", "5")
        self.assert_refused(result, INFEASIBLE, "5", "4")
        self.assert_wrote_nothing()

    def test_cpus_that_the_machine_lacks_are_named(self):
        result = self.run_tune("plan", "--topology", SLURM_NODE, "--allowed", "0-3,99")
        self.assert_refused(result, USAGE, "99", "--allowed")
        self.assert_wrote_nothing()

    def test_launchers_variable_counts_the_ranks(self):
        self.need_two_cpus()
        for variable in ["SLURM_NTASKS_PER_NODE", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"]:
            with self.subTest(variable=variable):
                plan = self.make_plan(**{variable: "2"})
                self.assertEqual(len(plan["ranks"]), 2)

    def test_ranks_option_beats_the_launcher(self):
        plan = self.make_plan("--ranks", "1", LOCAL_WORLD_SIZE="2")
        self.assertEqual(len(plan["ranks"]), 1)

    def test_this_nodes_launcher_says_nothing_of_another_machine(self):
        plan = self.make_plan("--topology", SLURM_NODE, LOCAL_WORLD_SIZE="2")
        self.assertEqual(len(plan["ranks"]), 1)

    def test_deepspeeds_rounding_gives_the_training_cpus_back(self):
        plan = self.make_plan("--topology", SLURM_NODE, "--ranks", "3")
        for rank in plan["ranks"]:
            number = len(cpus_of(rank))
            self.assertEqual(
                math.ceil(rank["pt_reserved_cores_perc"] * number), len(parse_cpus(rank["training"]["cpus"]))
            )

    def test_the_plan_keeps_the_state_format_that_it_is_told(self):
        self.assertEqual(self.make_plan()["intent"]["state_format"], "fp32")
        self.assertEqual(self.make_plan("--state", "bf16+split")["intent"]["state_format"], "bf16+split")
        result = self.run_tune("plan", "--from", "plan.json", "--state", "bf16", "-o", "moved.json")
        self.assert_exit(result, USAGE)
        self.assertIn("--state cannot be used with --from", result.stderr)
        self.assert_exit(self.run_tune("plan", "-q", "--from", "plan.json", "-o", "moved.json"), DONE)
        self.assertEqual(self.read_plan("moved.json")["intent"]["state_format"], "bf16+split")

    def test_old_file_survives_a_refusal(self):
        (self.folder / "plan.json").write_text("mine")
        self.run_tune("plan", "--topology", SLURM_NODE, "--allowed", "0", "--ranks", "2")
        self.assertEqual((self.folder / "plan.json").read_text(), "mine")
        self.assertEqual(len(list(self.folder.iterdir())), 1)
