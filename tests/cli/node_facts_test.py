"""What holds for one node and not for its class: CPUs that its kernel isolates, cores that are fast today."""

import json

from zf_cli import DONE, CommandTest, parse_cpus


def homes_of(plan: dict) -> set[int]:
    return set.union(*(parse_cpus(rank["home"]["cpus"]) for rank in plan["ranks"]))


class NodeFacts(CommandTest):
    def publish(self, plan: dict) -> dict:
        """What jobs on self.node get of a class's plan."""
        (self.folder / "plans").mkdir(exist_ok=True)
        (self.folder / "plans" / (plan["machine"]["fingerprint"] + ".json")).write_text(json.dumps(plan))
        self.assert_exit(self.run_tune("publish", "--plans", "plans", "--to", "run/1.json", *self.node), DONE)
        return self.read_plan("run/1.json")

    def assert_moved_homes_only(self, moved: dict, plan: dict):
        self.assert_sound(moved)
        for part in ("made", "machine", "workload", "evidence"):
            self.assertEqual(moved[part], plan[part])


class Isolated(NodeFacts):
    """Eight cores. The kernel isolates 5 (isolcpus) and 6-7 (nohz_full)."""

    def setUp(self):
        super().setUp()
        self.plain = self.make_node(8, name="plain")
        self.node = self.make_node(8, {"isolated": "5", "nohz_full": "6-7"})

    def test_probe_names_isolated_cpus_with_the_reason(self):
        text = self.run_tune("probe", *self.node).stdout
        self.assertIn("CPU 5: isolated (isolcpus, or a cpuset partition): the scheduler does not move threads", text)
        self.assertIn("CPUs 6-7: nohz_full", text)
        allowed = json.loads(self.run_tune("probe", "--format", "json", *self.node).stdout)["allowed"]
        self.assertEqual(allowed["cpus"], "0-4")
        self.assertEqual([(one["reason"], one["cpus"]) for one in allowed["exclusions"]],
                         [("isolated", "5"), ("nohz_full", "6-7")])
        kept = self.run_tune("probe", "--isolated", *self.node).stdout
        self.assertIn("CPUs 0-7 (8 of 8 PUs", kept)
        self.assertIn("they are allowed because --isolated says so", kept)

    def test_homes_leave_isolated_cpus_out_unless_told(self):
        plan = self.make_plan("--ranks", "2", *self.node)
        self.assert_sound(plan)
        self.assertEqual(homes_of(plan), {0, 1, 2, 3, 4})
        self.assertNotIn("isolated", plan["intent"])
        kept = self.make_plan("--ranks", "2", "--isolated", *self.node)
        self.assert_sound(kept)
        self.assertEqual(homes_of(kept), set(range(8)))
        self.assertTrue(kept["intent"]["isolated"])
        self.assertIn("because --isolated says so", kept["allocation"]["notes"][0])

    def test_a_job_that_is_given_no_others_keeps_them(self):
        plan = self.make_plan("--allowed", "5-7", *self.node)
        self.assertEqual(homes_of(plan), {5, 6, 7})
        self.assertIn("because no other CPU is allowed", plan["allocation"]["notes"][0])
        self.assertNotIn("isolated", plan["intent"])

    def test_a_plan_that_moves_keeps_its_isolated_cpus(self):
        self.make_plan("--isolated", "--allowed", "0-3", *self.node)
        self.assertEqual(homes_of(self.make_plan("--from", "plan.json", *self.node)), set(range(8)))
        self.make_plan("--allowed", "0-3", *self.node)
        self.assertEqual(homes_of(self.make_plan("--from", "plan.json", *self.node)), {0, 1, 2, 3, 4})
        moved = self.make_plan("--from", "plan.json", "--isolated", *self.node)
        self.assertEqual((homes_of(moved), moved["intent"]["isolated"]), (set(range(8)), True))

    def test_isolated_cpus_are_no_part_of_the_class(self):
        self.assertEqual(self.make_plan(*self.node)["machine"], self.make_plan(*self.plain)["machine"])

    def test_check_names_isolated_cpus_and_plan_from_mends_it(self):
        self.make_plan("--ranks", "2", *self.plain)
        fits = self.run_tune("check", *self.node)
        self.assert_exit(fits, DONE)
        self.assertIn("CPU 5 is isolated", fits.stdout)
        self.assertIn("`zf-tune plan --from` leaves them out", fits.stdout)
        self.make_plan("--from", "plan.json", *self.node)
        self.assertNotIn("isolated", self.run_tune("check", *self.node).stdout)
        self.make_plan("--isolated", *self.node)
        self.assertNotIn("isolated", self.run_tune("check", *self.node).stdout)

    def test_publish_leaves_isolated_cpus_out_once_per_node(self):
        plan = self.make_plan("--ranks", "2", "--allowed", "2-7", *self.plain)
        published = self.publish(plan)
        self.assert_moved_homes_only(published, plan)
        self.assertEqual(homes_of(published), {2, 3, 4}, "inside the plan's own allocation")
        intended = self.make_plan("--isolated", *self.node)
        self.assertEqual(self.publish(intended), intended)
        too_few = self.make_plan("--ranks", "2", "--allowed", "4-6", *self.plain)
        self.assertEqual(self.publish(too_few), too_few, "one core is left for two ranks")

    def test_doctor_names_isolated_cpus_of_the_plan(self):
        def found(*arguments: str) -> list[tuple[str, str]]:
            said = self.run_tune("doctor", "--format", "json", *arguments)
            self.assert_exit(said, DONE)
            return [(one["severity"], one["what"]) for one in json.loads(said.stdout)["findings"]
                    if one["check"] == "isolated-cpus"]

        self.make_plan("--allowed", "0-5", *self.plain)
        ((severity, what),) = found("--plan", "plan.json", *self.node)
        self.assertEqual(severity, "warning")
        self.assertTrue(what.startswith("CPU 5 is isolated"), what)
        self.assertEqual(found(*self.node)[0][0], "note")
        self.make_plan("--isolated", *self.node)
        self.assertEqual(found("--plan", "plan.json", *self.node)[0][0], "note")
        self.make_plan(*self.node)
        self.assertEqual(found("--plan", "plan.json", *self.node), [])


class NohzFull(NodeFacts):
    """Eight cores. The kernel lets only the boot CPU tick: nohz_full=1-7."""

    def setUp(self):
        super().setUp()
        self.node = self.make_node(8, {"nohz_full": "1-7"})

    def test_most_cpus_of_a_node_are_not_left_out(self):
        plan = self.make_plan("--ranks", "2", *self.node)
        self.assert_sound(plan)
        self.assertEqual(homes_of(plan), set(range(8)))
        self.assertIn("because most of the allowed CPUs are", plan["allocation"]["notes"][0])
        self.assertNotIn("isolated", plan["intent"])
        self.assertEqual(self.publish(plan), plan)
        self.assertNotIn("nohz_full", self.run_tune("check", *self.node).stdout)
        said = self.run_tune("probe", *self.node).stdout
        self.assertIn("they are allowed because most of the allowed CPUs are", said)

    def test_doctor_notes_them(self):
        said = self.run_tune("doctor", "--format", "json", *self.node)
        ((severity, what),) = [(one["severity"], one["what"]) for one in json.loads(said.stdout)["findings"]
                               if one["check"] == "isolated-cpus"]
        self.assertEqual(severity, "note")
        self.assertIn("zf-tune uses them because most of the allowed CPUs are", what)


class RanksOfAmd(CommandTest):
    """A Ryzen 9 7950X3D: 16 equal cores over two L3 groups, which the firmware ranks for the scheduler."""

    RANKS = (236, 231, 226, 221, 216, 211, 206, 201, 166, 171, 176, 181, 236, 191, 231, 196)

    def make_x3d(self, limits: dict[int, int]) -> tuple[str, str]:
        """Returns the options that name it, with these limits in kHz of some cores."""
        files = {}
        for cpu, rank in enumerate(self.RANKS):
            folder, cache = f"cpu{cpu}", f"cpu{cpu}/cache/index3"
            files |= {f"{folder}/acpi_cppc/highest_perf": str(rank), f"{folder}/cpufreq/cpuinfo_max_freq": "5759000",
                      f"{folder}/cpufreq/scaling_max_freq": str(limits.get(cpu, 5759000)), f"{cache}/level": "3",
                      f"{cache}/type": "Unified", f"{cache}/size": "32768K",
                      f"{cache}/shared_cpu_map": "00ff" if cpu < 8 else "ff00"}
        options = self.make_node(16, files)
        self.write_files({"node/proc/cpuinfo": "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD Ryzen\n"})
        return options

    def test_each_side_has_an_l3_group_of_its_own(self):
        rank = self.make_plan("--ranks", "1", *self.make_x3d({}))["ranks"][0]
        self.assertEqual({rank["training"]["cpus"], rank["optimizer"]["cpus"]}, {"0-7", "8-15"})
        self.assertNotIn("slow today", self.run_tune("probe", *self.make_x3d({})).stdout)

    def test_a_core_that_somebody_limits_runs_the_optimizer(self):
        node = self.make_x3d({0: 2800000})
        self.assertIn("slow today: scaling_max_freq 2.80 GHz, of fast cores 5.76 GHz",
                      self.run_tune("probe", *node).stdout)
        self.assertIn(0, parse_cpus(self.make_plan("--ranks", "1", *node)["ranks"][0]["optimizer"]["cpus"]))


class FastToday(NodeFacts):
    """Eight cores of one make. The firmware gives 1, 4 and 6 a higher base clock (SST-BF)."""

    FAST = frozenset({1, 4, 6})

    def setUp(self):
        super().setUp()
        self.plain = self.make_node(8, name="plain")
        self.node = self.make_node(8, {f"cpu{cpu}/cpufreq/base_frequency": "2600000" if cpu in self.FAST else "1900000"
                                       for cpu in range(8)})

    def training(self, plan: dict, rank=0) -> set[int]:
        return parse_cpus(plan["ranks"][rank]["training"]["cpus"])

    def test_probe_names_fast_cores_with_the_reason(self):
        text = self.run_tune("probe", *self.node).stdout
        self.assertIn("slow today: base_frequency 1.90 GHz, of fast cores 2.60 GHz", text)
        kinds = json.loads(self.run_tune("probe", "--format", "json", *self.node).stdout)["cpu_kinds"]
        self.assertEqual([kind["cpus"] for kind in kinds], ["0,2-3,5,7", "1,4,6"])
        self.assertEqual(kinds[1]["today"], "fast today")

    def test_training_takes_fast_cores_first(self):
        plain = self.make_plan(*self.plain)
        self.assertFalse(self.training(plain) >= self.FAST)
        plan = self.make_plan(*self.node)
        self.assert_sound(plan)
        self.assertLessEqual(self.FAST, self.training(plan))
        self.assertEqual(plan["machine"], plain["machine"], "no part of the class")

    def test_ranks_get_equal_numbers_of_fast_cores(self):
        plan = self.make_plan("--ranks", "3", *self.node)
        for rank in range(3):
            self.assertEqual(len(parse_cpus(plan["ranks"][rank]["home"]["cpus"]) & self.FAST), 1)
            self.assertTrue(self.training(plan, rank) & self.FAST)

    def test_cores_that_are_alike_change_nothing(self):
        figures = {f"cpu{cpu}/acpi_cppc/highest_perf": str(200 + cpu) for cpu in range(8)}
        alike = self.make_node(8, figures, name="alike")
        plans = [self.make_plan("--ranks", "3", *node) for node in (self.plain, alike)]
        for part in ("machine", "allocation", "intent", "ranks"):
            self.assertEqual(plans[0][part], plans[1][part])

    def test_two_nodes_of_one_class_each_get_their_own_fast_cores_and_nothing_else_differs(self):
        """Priority cores of turbo (PCT, SST-TF): others on each chip."""
        fast = {"one": {1, 4}, "other": {3, 6}}
        nodes = {name: self.make_node(8, {f"cpu{cpu}/cpufreq/{file}": "4600000" if cpu in fast[name] else "3600000"
                                          for cpu in range(8) for file in ("cpuinfo_max_freq", "scaling_max_freq")},
                                      name=name) for name in fast}
        plan = self.make_plan("--ranks", "2", *self.plain)
        for name, self.node in nodes.items():
            fresh = self.make_plan("--ranks", "2", *self.node, name="fresh.json")
            self.assertEqual(fresh["machine"], plan["machine"], "one class")
            moved = self.make_plan("--from", "plan.json", *self.node, name="moved.json")
            self.assert_moved_homes_only(moved, plan)
            for one in (fresh, moved, self.publish(plan)):
                self.assertEqual(one["ranks"], fresh["ranks"])
                for rank in range(2):
                    self.assertEqual(len(self.training(one, rank) & fast[name]), 1, name)
        said = {self.run_tune("check", *node).stdout for node in nodes.values()}
        self.assertEqual(len(said), 1, "a rank's own fitting knows nothing of it")

    def test_plan_from_and_publish_apply_fast_cores_once_per_node(self):
        plan = self.make_plan(*self.plain)
        for moved in (self.make_plan("--from", "plan.json", *self.node, name="moved.json"), self.publish(plan)):
            self.assert_moved_homes_only(moved, plan)
            self.assertLessEqual(self.FAST, self.training(moved))
        self.assertEqual(len(self.training(moved)), len(self.training(plan)))
