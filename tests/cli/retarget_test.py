"""zf-tune plan --from: a plan goes from one allocation to the next."""

from zf_cli import DONE, INFEASIBLE, STALE, USAGE, CommandTest, parse_cpus

NODE = ("--topology", "pack:2 [numa(memory=256GiB)] l3u:2 core:12 pu:1")


class Retarget(CommandTest):
    def setUp(self):
        super().setUp()
        self.plan = self.make_plan(*NODE, "--ranks", "2", "--params", "3B")

    def retarget(self, *arguments: str):
        return self.run_tune("plan", "--from", "plan.json", "-o", "moved.json", "-q", *arguments)

    def test_same_allocation_same_plan(self):
        self.assert_exit(self.retarget(*NODE), DONE)
        self.assertEqual(self.read_plan("moved.json"), self.plan)

    def test_holes_lose_no_core_and_what_is_known_comes_along(self):
        mask = "0,4-11,21-26,30-46"
        self.assert_exit(self.retarget(*NODE, "--allowed", mask), DONE)
        moved = self.read_plan("moved.json")
        self.assert_sound(moved, parse_cpus(mask))
        used = [parse_cpus(rank[side]["cpus"]) for rank in moved["ranks"] for side in ("training", "optimizer")]
        self.assertEqual([len(cpus) for cpus in used], [8, 8, 8, 8])
        for part in ("made", "machine", "workload", "evidence"):
            self.assertEqual(moved[part], self.plan[part])

    def test_there_and_back_again(self):
        self.assert_exit(self.retarget(*NODE, "--allowed", "3-5,40-47"), DONE)
        (self.folder / "moved.json").rename(self.folder / "plan.json")
        self.assert_exit(self.retarget(*NODE), DONE)
        self.assertEqual(self.read_plan("moved.json"), self.plan)

    def test_another_class_is_refused_with_its_differences(self):
        result = self.retarget("--topology", "pack:1 [numa(memory=256GiB)] core:24 pu:1")
        self.assert_refused(result, STALE, "packages: 2 in the plan, 1 here", "cores: 48 in the plan, 24 here")

    def test_fewer_cores_than_ranks_are_refused(self):
        self.assert_refused(self.retarget(*NODE, "--allowed", "7"), INFEASIBLE)

    def test_another_class_can_be_forced(self):
        self.assert_exit(self.retarget("--topology", "pack:1 [numa(memory=256GiB)] core:24 pu:1", "--force"), DONE)
        moved = self.read_plan("moved.json")
        self.assert_sound(moved, set(range(24)))
        self.assertIn("packages: 2 in the plan, 1 here", moved["warnings"][-1])

    def test_other_ranks_share_all_there_is(self):
        self.assert_exit(self.retarget(*NODE, "--ranks", "4"), DONE)
        moved = self.read_plan("moved.json")
        self.assert_sound(moved, set(range(48)))
        self.assertEqual(len(moved["ranks"]), 4)
        self.assertIn("made for 2 ranks on this node and fitted to 4", moved["warnings"])

    def test_deepspeed_users_get_an_answer_in_the_next_allocation_too(self):
        node = ("--topology", "pack:2 [numa(memory=256GiB)] core:32 pu:1")
        mask = ("--allowed", "0,4-11,21-26,30-46")
        for made, moved, answer in (((), (), INFEASIBLE), ((), ("--for", "deepspeed"), DONE),
                                    (("--for", "deepspeed"), (), DONE)):
            with self.subTest(made=made, moved=moved):
                self.make_plan(*node, "--ranks", "2", *made)
                self.assert_exit(self.retarget(*node, *mask, *moved), DONE)
                self.assert_exit(self.run_tune("export", "moved.json", "--for", "deepspeed"), answer)

    def test_what_the_plan_already_says_is_not_said_again(self):
        self.assert_refused(self.retarget(*NODE, "--params", "7B"), USAGE, "--params")
