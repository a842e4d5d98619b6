"""A plan file that is off is refused with the field's name, by every command that reads one."""

import copy
import json
import os

from zf_cli import DONE, USAGE, CommandTest

NODE = "pack:2 [numa(memory=64GiB)] core:8 pu:1"


class BrokenPlan(CommandTest):
    def setUp(self):
        super().setUp()
        self.plan = self.make_plan("--topology", NODE, "--ranks", "2")

    def assert_every_reader_refuses(self, *named: str):
        started = self.folder / "started"
        for words in (["explain", "plan.json"], ["check", "plan.json"],
                      ["exec", "--plan", "plan.json", "--rank", "0", "--", "touch", started]):
            with self.subTest(command=words[0]):
                self.assert_refused(self.run_tune(*words), USAGE, "plan.json", *named)
        self.assertFalse(started.exists(), "a command was started under a broken plan")

    def assert_refused_when(self, change, *named: str):
        plan = copy.deepcopy(self.plan)
        change(plan)
        (self.folder / "plan.json").write_text(json.dumps(plan))
        self.assert_every_reader_refuses(*named)

    def test_sound_plan_is_read(self):
        self.assert_exit(self.run_tune("explain", "plan.json"), DONE)

    def test_missing_file_is_named(self):
        os.remove(self.folder / "plan.json")
        self.assert_every_reader_refuses()

    def test_folder_is_no_plan(self):
        os.remove(self.folder / "plan.json")
        os.mkdir(self.folder / "plan.json")
        self.assert_every_reader_refuses()

    def test_fifo_does_not_hang(self):
        os.remove(self.folder / "plan.json")
        os.mkfifo(self.folder / "plan.json")
        self.assert_every_reader_refuses()

    def test_what_it_quotes_cannot_drive_the_terminal(self):
        self.plan["made"]["host"] = "node\x1b[2J\x07\x7f"
        self.plan["machine"]["model"] = "CPU\x9b31m\x85 é"
        self.plan["warnings"] = ["red\x1b[31m"]
        (self.folder / "plan.json").write_text(json.dumps(self.plan))
        for command in ("explain", "check"):
            result = self.run_tune(command, "plan.json")
            self.assertIn("CPU", result.stdout)
            self.assertIn("é", result.stdout)
            self.assertNotRegex(result.stdout, r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")

    def test_truncated_anywhere(self):
        text = json.dumps(self.plan)
        for length in [0, 1, len(text) // 3, len(text) // 2, len(text) - 1]:
            with self.subTest(length=length):
                (self.folder / "plan.json").write_text(text[:length])
                self.assert_refused(self.run_tune("explain", "plan.json"), USAGE, "plan.json")

    def test_50_mib_of_tiny_values_take_little_time_and_memory(self):
        some = 1 << 16
        for name, begin, items in (("numbers", '{"ranks": [', "0," * some), ("objects", '{"ranks": [', "{}," * some),
                                   ("keys", "{", "".join(f'"{i:x}":0,' for i in range(some)))):
            with self.subTest(name):
                # In pieces: the most memory that this process had counts as that of its children.
                with open(self.folder / "plan.json", "w") as plan:
                    plan.write(begin)
                    while plan.tell() < 50 << 20:
                        plan.write(items)
                process = self.start_tune("explain", "plan.json")
                said = process.stderr.read()
                _, status, used = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                self.assertEqual((process.returncode, process.communicate()[0]), (USAGE, ""), said)
                self.assertRegex(said, r"plan.json: has more than \d+ (values|fields in an object); is it the right")
                self.assertLess(used.ru_maxrss, 200 << 10, "KiB")
                self.assertLess(used.ru_utime + used.ru_stime, 2)

    def test_other_documents_are_no_plan(self):
        for text in ["[]", "3", "null", "{}", '{"schema": "zf-plan/2"}', "\x00\xff"]:
            with self.subTest(text=text):
                (self.folder / "plan.json").write_bytes(text.encode("latin-1"))
                self.assert_refused(self.run_tune("explain", "plan.json"), USAGE, "plan.json")

    def test_unknown_schema_version(self):
        self.assert_refused_when(lambda plan: plan.update(schema="zf-plan/3"), "schema", "zf-plan/3")

    def test_missing_field(self):
        self.assert_refused_when(lambda plan: plan["ranks"][0].pop("training"), "training")

    def test_wrong_type(self):
        self.assert_refused_when(lambda plan: plan["ranks"][1]["training"].update(cpus=4), "ranks[1].training.cpus")

    def test_negative_count(self):
        self.assert_refused_when(lambda plan: plan["ranks"][0]["training"].update(threads=-1), "training.threads")

    def test_number_beyond_its_type(self):
        self.assert_refused_when(lambda plan: plan["ranks"][0]["training"].update(threads=2**40), "training.threads")

    def test_wrong_list(self):
        self.assert_refused_when(lambda plan: plan["ranks"][0]["optimizer"].update(cpus="4-2"),
                                 "ranks[0].optimizer.cpus", "4-2")

    def test_cpus_out_of_range(self):
        self.assert_refused_when(lambda plan: plan["ranks"][0]["optimizer"].update(cpus="500"),
                                 "ranks[0].optimizer.cpus", "500")

    def test_empty_side(self):
        self.assert_refused_when(lambda plan: plan["ranks"][0]["training"].update(cpus=""), "ranks[0].training.cpus")

    def test_sides_overlap(self):
        def overlap(plan):
            plan["ranks"][0]["optimizer"]["cpus"] = plan["ranks"][0]["training"]["cpus"]

        self.assert_refused_when(overlap, "ranks[0]")

    def test_ranks_overlap(self):
        def overlap(plan):
            plan["ranks"][1] = dict(copy.deepcopy(plan["ranks"][0]), rank=1)

        self.assert_refused_when(overlap, "ranks[1]")

    def test_no_ranks(self):
        self.assert_refused_when(lambda plan: plan.update(ranks=[]), "ranks")
