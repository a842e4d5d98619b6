"""zf-tune publish: the plan of this node's class, where jobs find it."""

import json
import os

from zf_cli import DONE, RUNTIME_ERROR, SOURCE, STALE, USAGE, CommandTest

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

    def test_a_dry_run_prints_the_plans_path_alone(self):
        result = self.run_tune("publish", "--plans", "plans", "--dry-run", *NODE)
        self.assert_exit(result, DONE)
        self.assertEqual((result.stdout, result.stderr), (f"plans/{self.name}\n", ""))
        os.remove(self.class_plan)
        none = self.run_tune("publish", "--plans", "plans", "--dry-run", *NODE)
        self.assertEqual((none.returncode, none.stdout), (DONE, ""))

    def test_a_plan_may_be_named(self):
        named = self.run_tune("publish", "--plan", f"plans/{self.name}", "--to", "-", *NODE)
        self.assert_exit(named, DONE)
        self.assertEqual(json.loads(named.stdout), self.plan)
        other = ("--topology", "pack:1 [numa(memory=64GiB)] core:4 pu:1")
        self.assert_refused(self.run_tune("publish", "--plan", f"plans/{self.name}", "--to", "-", *other), STALE,
                            "another class")

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
        for text in ("", "{}", "[" * 100000, '{"schema": "zf-plan/2"}'):
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


class Remembered(CommandTest):
    """What the health check asks for: a node that has changed is still held against the plan of its class."""

    WHOLE = ("--topology", str(SOURCE / "tests/machines/qemu-2ht.xml"))
    TWO_CPUS_OFF = ("--topology", str(SOURCE / "tests/machines/qemu-2ht-offline2,5.xml"))

    def setUp(self):
        super().setUp()
        (self.folder / "plans").mkdir()
        self.fingerprint = self.put_class_plan(*self.WHOLE)
        self.memory = self.folder / "lib/class"

    def put_class_plan(self, *node: str) -> str:
        fingerprint = self.make_plan(*node)["machine"]["fingerprint"]
        (self.folder / "plan.json").rename(self.folder / f"plans/{fingerprint}.json")
        return fingerprint

    def publish(self, *node: str):
        return self.run_tune("publish", "--plans", "plans", "--to", "run/node.json", "--remember", "lib/class", *node)

    def test_changed_node_is_held_against_the_plan_it_had(self):
        self.assert_exit(self.publish(*self.WHOLE), DONE)
        self.assertEqual(self.memory.read_text(), self.fingerprint + "\n")
        result = self.publish(*self.TWO_CPUS_OFF)
        self.assert_exit(result, DONE)
        self.assertIn(f"the plan of class {self.fingerprint}, which was the class of this node before", result.stdout)
        self.assertEqual(self.memory.read_text(), self.fingerprint + "\n")
        check = self.run_tune("check", *self.TWO_CPUS_OFF, "run/node.json")
        self.assert_exit(check, STALE)
        self.assertIn("CPUs 2,5 are offline here, and were online in the plan", check.stdout)

    def test_without_a_memory_there_is_no_plan(self):
        for forget in (lambda: None, self.memory.unlink):
            forget()
            self.assert_refused(self.publish(*self.TWO_CPUS_OFF), STALE, "no plan for this node's class")
            self.assert_exit(self.publish(*self.WHOLE), DONE)
        (self.folder / f"plans/{self.fingerprint}.json").unlink()
        self.assert_refused(self.publish(*self.TWO_CPUS_OFF), STALE, "no plan for this node's class")

    def test_change_to_a_class_that_has_a_plan_is_said_once(self):
        other = self.put_class_plan(*self.TWO_CPUS_OFF)
        self.assert_exit(self.publish(*self.WHOLE), DONE)
        result = self.publish(*self.TWO_CPUS_OFF)
        self.assert_exit(result, DONE)
        self.assertIn(f"was of class {self.fingerprint} and is of class {other}", result.stderr)
        self.assertEqual(self.publish(*self.TWO_CPUS_OFF).stderr, "")
        self.assertEqual(self.memory.read_text(), other + "\n")

    def test_memory_that_others_may_write_is_not_believed(self):
        self.assert_exit(self.publish(*self.WHOLE), DONE)
        self.memory.parent.chmod(0o777)
        self.assert_refused(self.publish(*self.TWO_CPUS_OFF), RUNTIME_ERROR, "others may write")
        result = self.publish(*self.WHOLE)
        self.assert_exit(result, DONE)
        self.assertIn("zf-tune publish: the node's class is not remembered: ", result.stderr)

    def test_memory_that_names_no_class_names_no_file(self):
        self.assert_exit(self.publish(*self.WHOLE), DONE)
        self.memory.write_text("../../etc/passwd")
        self.assert_refused(self.publish(*self.TWO_CPUS_OFF), RUNTIME_ERROR, "does not hold a class of nodes")
