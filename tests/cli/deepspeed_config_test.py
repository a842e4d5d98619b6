"""zf-tune export --for deepspeed --config FILE: the user's configuration with the plan merged in, and what is said of
DeepSpeed's own ways."""

import json

from deepspeed_rules import CONFIGS
from zf_cli import DONE, INFEASIBLE, USAGE, CommandTest

NODE = "pack:2 [numa(memory=256GiB)] core:8 pu:1"
SMT = "pack:2 [numa(memory=256GiB)] core:8 pu:2"
HBM = "pack:2 [numa(memory=256GiB)] [numa(memory=64GiB)] core:8 pu:1"


class DeepSpeedConfig(CommandTest):
    def export(self, *options):
        return self.run_tune("export", "plan.json", "--for", "deepspeed", *options)

    def export_into(self, config, *options):
        """Exports with --config: a text, or anything else as JSON."""
        (self.folder / "ds.json").write_text(config if isinstance(config, str) else json.dumps(config))
        return self.export("--config", "ds.json", *options)

    def notes(self, *plan_options: str, config: str | None = None) -> str:
        self.make_plan("--for", "deepspeed", "--ranks", "2", *plan_options)
        result = self.export_into(CONFIGS[config]) if config else self.export()
        self.assert_exit(result, DONE)
        self.assertEqual(result.stdout.startswith("deepspeed "), config is None)
        return result.stderr

    def test_everything_else_stays_as_it_is(self):
        self.make_plan("--topology", NODE, "--ranks", "2")
        config = {
            "zz": "ü \" \\ \t", "zero_optimization": {
                "stage": 2, "zenflow": {"pt_reserved_cores_perc": 0.1, "overlap_step": True, "topk_ratio": 1e-5},
                "offload_optimizer": None},
            "bf16": {"enabled": "auto"}, "aa": [1, 2.5, 5e8, None, True, {"b": {}, "a": []}], "train_batch_size": 2**60}
        result = self.export_into(config)
        self.assert_exit(result, DONE)
        merged = json.loads(result.stdout)
        config["zero_optimization"]["zenflow"]["pt_reserved_cores_perc"] = (4 - 0.5) / 8
        self.assertEqual(json.dumps(merged), json.dumps(config), "the order of the fields counts too")
        self.assertIn("is now 0.4375 (ds.json has 0.1): 4 of 8 CPUs of a rank train", result.stderr)

    def test_no_other_byte_changes(self):
        self.make_plan("--topology", NODE, "--ranks", "2")
        for before, value, after in (
                ('{"seed":123456789012345678901234567890, "x": 1.0e+05,\n "zero_optimization": { "zenflow" :'
                 '\n\t{"a\\"}":[{}, "]"],'
                 '"pt_reserved_cores_perc" : ', "0.10", ', "overlap_step" : true } }, "\\u00fc": -0 }'),
                ('{"zero_optimization":{"zenflow":{"\\u0070t_reserved_cores_perc":', '{"odd": [1]}',
                 ',"overlap_step":true}}}\n\n'),
                ('{"zero_optimization": {"zenflow": {\n  "overlap_step":  true', "", "\n}}}"),
                ('{"zero_optimization": {"zenflow": {', "", "  }}}")):
            with self.subTest(before):
                result = self.export_into(before + value + after)
                self.assert_exit(result, DONE)
                self.assertTrue(result.stdout.startswith(before) and result.stdout.endswith(after), result.stdout)
                section = json.loads(result.stdout)["zero_optimization"]["zenflow"]
                self.assertEqual(section["pt_reserved_cores_perc"], (4 - 0.5) / 8)

    def test_new_field_goes_last_and_its_default_is_named(self):
        self.make_plan("--topology", NODE, "--ranks", "2")
        for name, section, key, said in (
                ("zenflow", "zenflow", "pt_reserved_cores_perc", "default 0.5, which trains on 4"),
                ("superoffload", "offload_optimizer", "cpuadam_cores_perc", "default 0.8, which trains on 1")):
            with self.subTest(name):
                result = self.export_into(CONFIGS[name])
                self.assert_exit(result, DONE)
                fields = json.loads(result.stdout)["zero_optimization"][section]
                self.assertEqual(list(fields.items())[-1], (key, (4 - 0.5) / 8))
                self.assertIn(said, result.stderr)

    def test_where_nothing_is_to_be_merged_the_file_stays_as_it_is(self):
        self.make_plan("--topology", NODE, "--ranks", "2")
        for config in ("{}", "{ }\n\n", '{"zero_optimization": {"stage": 1, "zenflow":\tnull}}',
                       json.dumps(CONFIGS["offload"]), '{"zero_optimization": true}',
                       '{"zero_optimization": {"offload_optimizer": {"super_offload": false}}}'):
            with self.subTest(config):
                result = self.export_into(config)
                self.assert_exit(result, DONE)
                self.assertEqual(result.stdout, config)
                self.assertIn("neither ZenFlow nor SuperOffload", result.stderr)

    def test_what_is_no_configuration_is_refused_by_position(self):
        self.make_plan("--topology", NODE, "--ranks", "2")
        for config, named in {
                '{"a": 1,\n // why\n "b": 2}': ("line 2", "comments"),
                '{"a": 1,}': ("line 1, column 9", "trailing commas"),
                "": ("ds.json", "line 1"),
                '{"a": 1, "a": 2}': ('"a" appears twice',),
                "[]": ("ds.json: is a list, not an object",),
                '{"zero_optimization": {"zenflow": true}}': ("zero_optimization.zenflow: is true, not an object",),
                '{"zero_optimization": {"offload_optimizer": {"super_offload": 1}}}': ("super_offload: is 1",),
                '{"zero_optimization": {"zenflow": {"overlap_step": "auto"}}}': ("zenflow.overlap_step: is \"auto\"",),
        }.items():
            with self.subTest(config):
                self.assert_refused(self.export_into(config), USAGE, "ds.json", *named)
        both = {"zero_optimization": {"zenflow": {}, "offload_optimizer": {"super_offload": True}}}
        self.assert_refused(self.export_into(both), INFEASIBLE, "ds.json", "both ZenFlow and SuperOffload")
        self.assert_refused(self.export("--config", "none.json"), USAGE, "none.json")

    def test_no_file_of_the_user_is_overwritten(self):
        self.make_plan("--topology", NODE, "--ranks", "2")
        for name in ("ds.json", "./ds.json", "plan.json"):
            self.assert_refused(self.export_into(CONFIGS["zenflow"], "-o", name), USAGE, f"-o {name}", "another file")
        self.assertEqual(json.loads((self.folder / "ds.json").read_text()), CONFIGS["zenflow"])
        result = self.export_into(CONFIGS["zenflow"], "-q", "-o", "merged.json")
        self.assert_exit(result, DONE)
        self.assertEqual(result.stdout + result.stderr, "")
        self.assertIn("pt_reserved_cores_perc", (self.folder / "merged.json").read_text())

    def test_other_launchers_have_no_configuration(self):
        self.make_plan("--topology", NODE, "--ranks", "2")
        refused = self.run_tune("export", "plan.json", "--for", "numactl", "--config", "plan.json")
        self.assert_refused(refused, USAGE, "--config", "numactl")

    def test_threads_of_the_launcher(self):
        self.assertIn("OMP_NUM_THREADS=8, one thread per CPU of a rank; the plan has 4 for training",
                      self.notes("--topology", NODE))
        self.assertIn("OMP_NUM_THREADS=16, one thread per CPU of a rank; the plan has 8, one per core",
                      self.notes("--topology", SMT, "--mode", "wait", config="offload"))
        self.assertNotIn("OMP_NUM_THREADS", self.notes("--topology", NODE, "--mode", "wait", config="offload"))

    def test_memory_policy_of_the_launcher(self):
        self.assertIn("memory of 2 of 2 ranks to one NUMA node each (numactl -m, nodes 0-1)",
                      self.notes("--topology", NODE))
        hbm = self.notes("--topology", HBM)
        self.assertIn("2 NUMA nodes without CPUs for HBM", hbm)
        self.assertIn("2 of 2 ranks (numactl -p); the plan prefers nodes 0,2", hbm)
        self.assertIn("memory of 1 of 2 ranks", self.notes("--topology", NODE, "--allowed", "0-7,8-9"))
        spanning = self.notes("--topology", "pack:4 [numa] core:2 pu:1")
        self.assertNotIn("numactl", spanning)

    def test_only_the_main_thread_is_moved(self):
        moved = "ZenFlow moves only the main thread to the 4 CPUs for training; threads that exist by then keep all 8"
        self.assertIn(moved, self.notes("--topology", NODE, config="zenflow"))
        self.assertIn(moved, self.notes("--topology", NODE, "--framework", "deepspeed-zenflow"))
        superoffload = self.notes("--topology", NODE, config="superoffload")
        self.assertIn("SuperOffload moves only the main thread", superoffload)
        self.assertIn("inherits OMP_NUM_THREADS=8 and has 4 CPUs", superoffload)
        for quiet in (self.notes("--topology", NODE), self.notes("--topology", NODE, config="offload"),
                      self.notes("--topology", NODE, "--mode", "wait", config="zenflow")):
            self.assertNotIn("main thread", quiet)
        self.assertNotIn("the plan is for mode", self.notes("--topology", NODE, config="zenflow"))

    def test_zenflow_that_does_not_overlap_divides_nothing(self):
        self.make_plan("--topology", NODE, "--ranks", "2")
        result = self.export_into({"zero_optimization": {"zenflow": {}}})
        self.assertIn("ZenFlow without overlap_step steps in the training process, on all 8 CPUs", result.stderr)
        self.assertIn("the plan is for mode overlap, and ZenFlow without overlap_step runs in mode wait", result.stderr)
        self.assertNotIn("main thread", result.stderr)
        waits = self.notes("--topology", NODE, "--mode", "wait", "--framework", "deepspeed-zenflow")
        self.assertIn("ZenFlow without overlap_step steps in the training process", waits)

    def test_pool_of_a_shared_home_has_fewer_threads(self):
        shared = self.notes("--topology", SMT, "--mode", "wait", config="zenflow")
        self.assertIn("both sides share the 16 CPUs", shared)
        self.assertIn("the plan is for mode wait, and ZenFlow with overlap_step runs in mode overlap", shared)
        self.assertIn("one thread on each of the 16 CPUs of a rank; the plan has 8", shared)

    def test_gpus_that_are_not_the_first(self):
        self.make_plan("--topology", NODE, "--ranks", "2")
        plan = self.read_plan()
        for rank, minor in zip(plan["ranks"], (3, 2)):
            rank["gpu"] = {"pci": f"0000:{minor}b:00.0", "minor": minor}
        (self.folder / "plan.json").write_text(json.dumps(plan))
        self.assertIn("--include localhost:3,2", self.export().stderr)
        self.assertNotIn("--include", self.notes("--topology", NODE))
