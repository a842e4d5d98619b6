"""What every command owes to the person who mistypes."""

import re

from zf_cli import DONE, SOURCE, USAGE, CommandTest

COMMANDS = ["tune", "probe", "plan", "explain", "check", "exec", "export", "doctor", "verify", "record", "trial",
            "bench", "publish"]
MACHINE_OPTIONS = {"--topology", "--sysroot", "--allowed", "--mems", "--isolated"}


def options_in_help(text: str) -> list[tuple[str, ...]]:
    """Returns the names of each option except --help: ("-o", "--output")."""
    lines = re.findall(r"^ +((?:-\w, )?--[\w-]+)", text, re.MULTILINE)
    return [tuple(line.replace("_", "-").split(", ")) for line in lines if "--help" not in line]


def flags_in(mdoc: str) -> set[str]:
    """Returns the options that the macro Fl names: "Fl o , -output" is -o and --output. The two ways to write
    --local_rank are one."""
    names = re.findall(r"(?:\bFl| ,) (?!Fl )(-?\w[\w-]*)", mdoc)
    return {"-" + name.replace("_", "-") for name in names}


def options_in_synopsis(manual: str, command: str) -> set[str]:
    synopsis = manual.split(".Sh SYNOPSIS")[1].split(".Sh ")[0]
    (own,) = (part for part in synopsis.split(".Nm\n")[1:] if re.match(rf"\.(Op )?Cm {command}\n", part))
    return flags_in(own) | (MACHINE_OPTIONS if "machine options" in own else set())


def options_explained(manual: str, command: str) -> set[str]:
    """Returns the names of the options that the manual explains for this command, here or for several commands."""
    sections = dict(part.split("\n", 1) for part in manual.split(".Sh OPTIONS")[1].split(".Sh ")[0].split(".Ss ")[1:])
    common = [item for item in sections["Common options"].split("\n.It ")[1:]
              if any(command in line for line in re.findall(r"^\.Cm (.*) :$", item, re.MULTILINE))]
    own = sections.get(f"Options of {command}", "").split("\n.It ")[1:]
    machine = sections["Machine options"].split("\n.It ")[1:]
    return set().union(*(flags_in(item.split("\n")[0]) for item in common + own + machine))


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
        self.assertRegex(result.stdout, r"(?s)0 done.*2 usage.*3 the plan does not fit.*4 no plan")

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
                    refused = self.run_tune(command, "--topology", "pack:2 core:2 pu:1")
                    self.assert_refused(refused, USAGE, "not this machine")

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
        result = self.run_tune("tune", "--budget", "40s", "-o", "no/such/folder/plan.json", timeout=30)
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

    def test_manual_has_every_option_of_every_command(self):
        manual = (SOURCE / "docs/zf-tune.1").read_text()
        for command in COMMANDS:
            options = options_in_help(self.run_tune(command, "--help").stdout)
            with self.subTest(command=command, part="synopsis"):
                shown = options_in_synopsis(manual, command)
                known = {name for names in options for name in names}
                self.assertEqual(shown - known, set(), "the command has no such option")
                self.assertEqual([names for names in options if not shown & set(names)], [])
            with self.subTest(command=command, part="options"):
                explained = options_explained(manual, command)
                self.assertEqual([names for names in options if not set(names) <= explained], [])

    def test_messages_are_plain_text(self):
        result = self.run_tune("plan", "--allowed", "1\x1b[31m\n2")
        self.assert_refused(result, USAGE)
        self.assertIsNone(re.search(r"[\x00-\x09\x0b-\x1f]", result.stderr), repr(result.stderr))
