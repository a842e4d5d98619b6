"""GPUs from one end to the other: probe, plan, check, and what they cannot know."""

import json
import os
import pathlib

from zf_cli import DONE, SOURCE, STALE, CommandTest, parse_cpus


class Gpus(CommandTest):
    def machine(self, name: str) -> str:
        folder = os.environ.get("ZF_MACHINES_DIR", "")
        if not os.path.isdir(folder):
            self.skipTest("needs XML of other owners: ZF_MACHINES_DIR may name a folder of it (tests/machines)")
        path = pathlib.Path(folder, name)
        if not path.exists():
            self.skipTest(f"the folder of ZF_MACHINES_DIR has no {name}")
        return str(path.resolve())

    def test_each_rank_lives_beside_its_gpu(self):
        node = self.machine("g4dnmetal.xml")  # four GPUs on either package
        probe = json.loads(self.run_tune("probe", "--topology", node, "--ranks", "8", "--format", "json").stdout)
        near = {gpu["pci"]: parse_cpus(gpu["local_cpus"]) for gpu in probe["gpus"]}
        plan = self.make_plan("--topology", node, "--ranks", "8")
        self.assert_sound(plan)
        self.assertEqual([rank["gpu"]["pci"] for rank in plan["ranks"]], probe["ranks"]["gpus"])
        for rank in plan["ranks"]:
            for side in ("training", "optimizer"):
                self.assertLessEqual(parse_cpus(rank[side]["cpus"]), near[rank["gpu"]["pci"]])
        self.assertIn("0000:e7:00.0, node 1", self.run_tune("explain", "plan.json").stdout)
        self.assert_exit(self.run_tune("check", "--topology", node, "plan.json"), DONE)

    def test_plan_from_writes_the_gpus_of_this_node_where_the_plans_are_not(self):
        node = ("--topology", str(SOURCE / "tests/machines/mi250x.xml"))
        plan = self.make_plan("--ranks", "8", *node)
        elsewhere = json.loads(json.dumps(plan))
        for rank in elsewhere["ranks"]:
            rank["gpu"]["pci"] = rank["gpu"]["pci"].replace("0000:", "0001:")
        (self.folder / "plan.json").write_text(json.dumps(elsewhere))
        moved = self.make_plan("--from", "plan.json", *node, name="moved.json")
        self.assertEqual(moved["ranks"], plan["ranks"])
        self.assertIn("the plan's GPUs of ranks 0,1,2,3,4,5,6,7 are not on this node: the ranks have the GPUs that "
                      "frameworks count here", moved["allocation"]["notes"])
        again = self.make_plan("--from", "moved.json", *node, name="again.json")
        self.assertEqual(again["ranks"], plan["ranks"])
        self.assertNotIn("notes", again["allocation"])

    def test_plan_from_gives_more_ranks_their_gpus(self):
        node = ("--topology", str(SOURCE / "tests/machines/mi250x.xml"))
        eight = self.make_plan("--ranks", "8", *node, name="eight.json")
        self.make_plan("--ranks", "1", *node)
        moved = self.make_plan("--from", "plan.json", "--ranks", "8", *node, name="moved.json")
        self.assertEqual([(rank["gpu"], rank["home"]) for rank in moved["ranks"]],
                         [(rank["gpu"], rank["home"]) for rank in eight["ranks"]])

    def test_rank_far_from_its_gpu_is_a_note_and_a_moved_plan_has_its_own(self):
        node = self.machine("g4dnmetal.xml")
        plan = self.make_plan("--topology", node, "--ranks", "8", "--allowed", "0-15")
        self.assert_sound(plan)
        self.assertTrue(any("rank 4 is far from its GPU" in note for note in plan["allocation"]["notes"]))
        moved = self.make_plan("--from", "plan.json", "--topology", node, name="moved.json")
        self.assert_sound(moved)
        self.assertNotIn("notes", moved["allocation"])

    def test_gpus_that_are_not_here_make_a_plan_stale(self):
        node = self.machine("g4dnmetal.xml")
        self.make_plan("--topology", node, "--ranks", "2")
        other = pathlib.Path(node).read_text()
        self.assertIn('"0000:18:00.0"', other)
        (self.folder / "other.xml").write_text(other.replace('"0000:18:00.0"', '"0000:19:00.0"'))
        result = self.run_tune("check", "--topology", "other.xml", "plan.json")
        self.assert_exit(result, STALE)
        self.assertIn("GPU 0000:18:00.0 of rank 0 is not here", result.stdout)

    def test_what_is_not_known_is_said_and_the_plan_is_made(self):
        mig = "MIG-5c89852c-d268-c3f3-1b07-005d5ae1dc3f"
        plan = self.make_plan("--ranks", "1", CUDA_VISIBLE_DEVICES=mig)
        self.assert_sound(plan)
        self.assertNotIn("gpu", plan["ranks"][0])
        self.assertTrue(any(mig in note for note in plan["allocation"]["notes"]))
        probe = json.loads(self.run_tune("probe", "--format", "json", CUDA_VISIBLE_DEVICES=mig).stdout)
        self.assertIn(mig, probe["ranks"]["gpu_notes"][0])
