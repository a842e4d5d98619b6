"""zf-tune publish: the plan of this node's class, where jobs find it."""

import json
import os

from zf_cli import DONE, RUNTIME_ERROR, STALE, USAGE, CommandTest

NODE = ("--topology", "pack:2 [numa(memory=64GiB)] core:8 pu:1")


class Publish(CommandTest):
    def setUp(self):
        super().setUp()
        self.plan = self.make_plan(*NODE)
        self.name = self.plan["machine"]["fingerprint"] + ".json"
        (self.folder / "plans").mkdir()
        self.class_plan = self.folder / "plans" / self.name
        (self.folder / "plan.json").rename(self.class_plan)

    def publish(self, *node: str):
        return self.run_tune("publish", "--plans", "plans", "--to", "run/4711.json", *(node or NODE))

    def assert_nothing_published(self):
        self.assertFalse((self.folder / "run/4711.json").exists())

    def test_jobs_get_the_plan_of_the_nodes_class(self):
        result = self.publish()
        self.assert_exit(result, DONE)
        self.assertIn("run/4711.json", result.stdout)
        self.assertEqual(self.read_plan("run/4711.json"), self.plan)

    def test_every_option_is_asked_for(self):
        self.assert_refused(self.run_tune("publish", "--plans", "plans", *NODE), USAGE, "--to")
        self.assert_refused(self.run_tune("publish", "--to", "run/1.json", *NODE), USAGE, "--plans")

    def test_class_without_a_plan_is_named(self):
        result = self.publish("--topology", "pack:1 [numa(memory=64GiB)] core:4 pu:1")
        self.assert_refused(result, STALE, "plans/", "no plan for this node's class", "4 cores")
        self.assert_nothing_published()

    def test_plan_of_another_class_under_this_ones_name_is_refused(self):
        other = self.make_plan("--topology", "pack:1 [numa(memory=64GiB)] core:4 pu:1")
        self.class_plan.write_text(json.dumps(other))
        self.assert_refused(self.publish(), STALE, self.name, "cores: 4 in the plan, 16 here")
        self.assert_nothing_published()

    def test_plan_that_is_no_plan_is_refused(self):
        for text in ("", "{}", "[" * 100000, '{"schema": "zf-plan/1"}'):
            with self.subTest(text=text[:20]):
                self.class_plan.write_text(text)
                self.assert_refused(self.publish(), USAGE, self.name)
                self.assert_nothing_published()

    def test_plan_on_a_fifo_does_not_hang(self):
        os.remove(self.class_plan)
        os.mkfifo(self.class_plan)
        self.assert_refused(self.publish(), USAGE, "FIFO")
        self.assert_nothing_published()

    def test_folder_that_others_may_write_in_is_refused(self):
        (self.folder / "run").mkdir()
        (self.folder / "run").chmod(0o777)
        self.assert_refused(self.publish(), RUNTIME_ERROR, "others may write")
        self.assert_nothing_published()
