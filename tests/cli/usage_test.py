"""What every command owes to the person who mistypes."""

import re

from zf_cli import DONE, USAGE, CommandTest

COMMANDS = ["tune", "probe", "plan", "explain", "check", "exec", "record", "bench", "publish"]


class Usage(CommandTest):
    def test_version_is_one_line_on_stdout(self):
        result = self.run_tune("--version")
        self.assert_exit(result, DONE)
        self.assertRegex(result.stdout, r"^zf-tune \d+\.\d+\.\d+\n$")
        self.assertEqual(result.stderr, "")

    def test_help_names_every_command_and_exit_code(self):
        result = self.run_tune("--help")
        self.assert_exit(result, DONE)
        for command in COMMANDS:
            self.assertIn(command, result.stdout)
        self.assertRegex(result.stdout, r"(?s)0 done.*2 usage.*3 stale.*4 infeasible")

    def test_help_of_each_command_gives_its_options(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                result = self.run_tune(command, "--help")
                self.assert_exit(result, DONE)
                self.assertIn(f"zf-tune {command}" if command != "tune" else "zf-tune", result.stdout)
                self.assertIn("--help", result.stdout)

    def test_help_says_which_commands_refuse_another_machine(self):
        for command, refuses in (("tune", True), ("bench", True), ("plan", False), ("check", False)):
            with self.subTest(command=command):
                self.assertEqual("refused here" in self.run_tune(command, "--help").stdout, refuses)
                if refuses:
                    self.assert_refused(self.run_tune(command, "--topology", "pack:2 core:2 pu:1"), USAGE, "not this machine")

    def test_an_option_that_would_do_nothing_is_refused(self):
        self.assert_refused(self.run_tune("plan", "--force"), USAGE, "--force does nothing without --from")
        self.assert_wrote_nothing()

    def test_help_writes_nothing(self):
        self.run_tune("tune", "--help")
        self.assert_wrote_nothing()

    def test_unknown_flag_is_refused_by_name(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                self.assert_refused(self.run_tune(command, "--no-such-flag", "x"), USAGE, "no-such-flag", "--help")
                self.assert_wrote_nothing()

    def test_unknown_flag_without_a_command_is_refused(self):
        self.assert_refused(self.run_tune("--no-such-flag"), USAGE, "no-such-flag")
        self.assert_wrote_nothing()

    def test_unknown_command_is_refused_by_name(self):
        self.assert_refused(self.run_tune("tuen"), USAGE, "tuen", "--help")

    def test_wrong_cpu_lists_are_quoted(self):
        for text in ["4-2", "a", "1,,2", "-1", "0-99999999999"]:
            with self.subTest(text=text):
                self.assert_refused(self.run_tune("plan", f"--allowed={text}"), USAGE, text, "--allowed")
                self.assert_wrote_nothing()

    def test_wrong_values_are_quoted(self):
        for option, text in [
            ("--ranks", "0"),
            ("--ranks", "two"),
            ("--ranks", "1e3"),
            ("--params", "3X"),
            ("--budget", "0s"),
            ("--budget", "soon"),
        ]:
            with self.subTest(option=option, text=text):
                self.assert_refused(self.run_tune("tune", option, text), USAGE, option, text)
                self.assert_wrote_nothing()

    def test_missing_value_is_refused_by_name(self):
        self.assert_refused(self.run_tune("plan", "--ranks"), USAGE, "ranks")

    def test_unwritable_output_fails_before_measuring(self):
        result = self.run_tune("tune", "--budget", "40s", "-o", "no/such/folder/plan.json", timeout=10)
        self.assertIn(result.returncode, (1, 2))
        self.assertIn("no/such/folder", result.stderr)
        self.assert_wrote_nothing()

    def test_unreadable_topology_is_named(self):
        self.assert_refused(self.run_tune("probe", "--topology", "missing.xml"), USAGE, "missing.xml")

    def test_nonsense_topology_never_falls_back_to_this_machine(self):
        (self.folder / "bad.xml").write_text("<topology><object")
        for text in ["bad.xml", "pack:two core"]:
            with self.subTest(topology=text):
                self.assert_refused(self.run_tune("probe", "--topology", text), USAGE, text)

    def test_missing_sysroot_is_named(self):
        self.assert_refused(self.run_tune("probe", "--sysroot", "no-such-folder"), USAGE, "no-such-folder")

    def test_messages_are_plain_text(self):
        result = self.run_tune("plan", "--allowed", "1\x1b[31m\n2")
        self.assert_refused(result, USAGE)
        self.assertIsNone(re.search(r"[\x00-\x09\x0b-\x1f]", result.stderr), repr(result.stderr))
