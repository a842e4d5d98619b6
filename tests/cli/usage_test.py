"""What every command owes to the person who mistypes."""

import re

from zf_cli import DONE, SOURCE, USAGE, CommandTest, all_commands


def options_in_help(text: str) -> list[tuple[str, ...]]:
    """Returns the names of each option except --help: ("-o", "--output")."""
    lines = re.findall(r"^ +((?:-\w, )?--[\w-]+)", text, re.MULTILINE)
    return [tuple(line.replace("_", "-").split(", ")) for line in lines if "--help" not in line]


def flags_in(mdoc: str) -> set[str]:
    """Returns the options that the macro Fl names: "Fl o , -output" is -o and --output. The two ways to write
    --local_rank are one."""
    names = re.findall(r"(?:\bFl| ,) (?!Fl )(-?\w[\w-]*)", mdoc)
    return {"-" + name.replace("_", "-") for name in names}


def section_of(manual: str, name: str) -> str:
    return manual.split(f".Sh {name}")[1].partition(".Sh ")[0]


def options_in_synopsis(manual: str, command: str) -> set[str]:
    synopsis = section_of(manual, "SYNOPSIS")
    (own,) = (part for part in synopsis.split(".Nm\n")[1:] if re.match(rf"\.(Op )?Cm {command}\n", part))
    return flags_in(own)


def options_explained(manual: str, command: str) -> set[str]:
    """Returns the names of the options that the manual explains for this command, here or for several commands."""
    sections = dict(part.split("\n", 1) for part in section_of(manual, "OPTIONS").split(".Ss ")[1:])
    common = [item for item in sections["Common options"].split("\n.It ")[1:]
              if any(command in line for line in re.findall(r"^\.Cm (.*) :$", item, re.MULTILINE))]
    own = sections.get(f"Options of {command}", "").split("\n.It ")[1:]
    machine = sections["Machine options"].split("\n.It ")
    machine = machine[1:] if re.search(rf"(?m)^\.Cm .*\b{command}\b.* :$", machine[0]) else []
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
        listed = re.findall(r"^  (\w+) ", result.stdout.split("Commands:\n")[1], re.MULTILINE)
        self.assertGreater(len(listed), 10)
        self.assertEqual(sorted(listed), sorted(all_commands()))
        self.assertRegex(result.stdout, r"(?s)0 done.*2 usage.*3 the plan does not fit.*4 no plan")

    def test_text_is_ascii_for_terminals_without_utf_8(self):
        machine = str(SOURCE / "configs/machines/cloud-2vcpu.json")
        tune = self.run_tune("tune", "--simulate", machine, "-o", "plan.json")
        self.assert_exit(tune, DONE)
        others = [self.run_tune("explain", "plan.json")]
        others += [self.run_tune(command, "--help") for command in all_commands()]
        for result in [tune, *others]:
            self.assertEqual([line for line in (result.stdout + result.stderr).splitlines() if not line.isascii()], [])

    def test_help_of_each_command_gives_its_options(self):
        for command in all_commands():
            with self.subTest(command=command):
                result = self.run_tune(command, "--help")
                self.assert_exit(result, DONE)
                self.assertIn(f"zf-tune {command}" if command != "tune" else "zf-tune", result.stdout)
                self.assertIn("--help", result.stdout)

    def test_help_with_a_command_is_that_command_s(self):
        for words in (("help", "exec"), ("--help", "exec"), ("-h", "exec"), ("--plan", "p.json", "help", "exec")):
            self.assertEqual(self.run_tune(*words).stdout, self.run_tune("exec", "--help").stdout)
        self.assert_refused(self.run_tune("help", "exce"), USAGE, 'there is no command "exce"; did you mean exec?')

    def test_a_letter_means_one_thing_in_all_commands(self):
        letters = {}
        for command in all_commands():
            for names in options_in_help(self.run_tune(command, "--help").stdout):
                if len(names) == 2:
                    letters.setdefault(names[0], set()).add(names[1])
        self.assertEqual({letter: names for letter, names in letters.items() if len(names) > 1}, {})
        fixed = {"-p": "--plan", "-r": "--ranks", "-w": "--workload", "-m": "--model", "-t": "--threads"}
        self.assertLessEqual({(letter, name) for letter, name in fixed.items()},
                             {(letter, name) for letter, names in letters.items() for name in names})
        spelt_out = {"--rounds", "--trials", "--warmup", "--watch", "--metric", "--pid", "--params"}
        self.assertEqual(spelt_out & set().union(*letters.values()), set())

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
        for command in all_commands():
            with self.subTest(command=command):
                self.assert_refused(self.run_tune(command, "--no-such-flag", "x"), USAGE, "no-such-flag", "--help")
                self.assert_wrote_nothing()

    def test_unknown_flag_without_a_command_is_refused(self):
        self.assert_refused(self.run_tune("--no-such-flag"), USAGE, "no-such-flag")
        self.assert_wrote_nothing()

    def test_unknown_command_is_refused_by_name(self):
        self.assert_refused(self.run_tune("no-such-command"), USAGE, '"no-such-command"', "see zf-tune --help")

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
        self.assert_refused(self.run_tune("plan", "--ranks"), USAGE, "--ranks needs a value; write --ranks N")

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

    def test_manual_has_every_command(self):
        manual = (SOURCE / "docs/zf-tune.1").read_text()
        synopsis = re.findall(r"^\.Nm\n\.(?:Op )?Cm (\w+)$", section_of(manual, "SYNOPSIS"), re.MULTILINE)
        self.assertEqual(sorted(set(synopsis)), sorted(all_commands()))
        described = re.findall(r"^\.It Cm (\w+)$", section_of(manual, "DESCRIPTION"), re.MULTILINE)
        self.assertEqual(sorted(set(described)), sorted(all_commands()))

    def test_manual_has_every_option_of_every_command(self):
        manual = (SOURCE / "docs/zf-tune.1").read_text()
        for command in all_commands():
            options = options_in_help(self.run_tune(command, "--help").stdout)
            with self.subTest(command=command, part="synopsis"):
                known = {name for names in options for name in names}
                self.assertEqual(options_in_synopsis(manual, command) - known, set(), "the command has no such option")
            with self.subTest(command=command, part="options"):
                explained = options_explained(manual, command)
                self.assertEqual([names for names in options if not set(names) <= explained], [])

    def test_messages_are_plain_text(self):
        result = self.run_tune("plan", "--allowed", "1\x1b[31m\n2")
        self.assert_refused(result, USAGE)
        self.assertIsNone(re.search(r"[\x00-\x09\x0b-\x1f]", result.stderr), repr(result.stderr))


class Mistyped(CommandTest):
    """One line in our words: what is wrong, and what may have been meant."""

    def assert_says(self, said: str, *words: str):
        with self.subTest(words=words):
            result = self.run_tune(*words)
            self.assert_exit(result, USAGE)
            self.assertEqual((result.stdout, result.stderr), ("", said + "\n"))
            self.assert_wrote_nothing()

    def test_a_command(self):
        for typed, meant in (("tun", "tune"), ("tuen", "tune"), ("Plan", "plan"), ("pla", "plan"), ("b", "bench"),
                             ("expalin", "explain"), ("exprot", "export"), ("hlep", "help"), ("version", "--version")):
            self.assert_says(f'zf-tune: there is no command "{typed}"; did you mean {meant}?', typed)

    def test_a_command_that_is_near_none(self):
        for typed in ("", "x", "t", "python", "train.py", "tunes-and-more"):
            self.assert_says(f'zf-tune: there is no command "{typed}"; see zf-tune --help', typed)

    def test_a_plan_in_the_place_of_a_command(self):
        self.assert_says('zf-tune: there is no command "plan.json"; to explain a plan: zf-tune explain plan.json',
                         "plan.json")
        self.assert_says('zf-tune: there is no command "my plan.json"; to explain a plan: '
                         "zf-tune explain 'my plan.json'", "my plan.json")

    def test_a_command_twice(self):
        self.assert_says('zf-tune tune: "tune" is one argument too many; see zf-tune tune --help', "tune", "tune")

    def test_an_option_without_a_command_names_none(self):
        self.assert_says("zf-tune: there is no option --bugdet; did you mean --budget?", "--bugdet", "3")
        self.assert_says("zf-tune: there is no option --no-such-flag; see zf-tune tune --help", "--no-such-flag")
        self.assert_says("zf-tune: there is no option --verison; did you mean --version?", "--verison")
        self.assert_says("zf-tune: --budget needs a value; write --budget TIME", "--budget")
        self.assert_says("zf-tune: -o needs a value; write -o FILE", "-o")
        self.assert_says("zf-tune: -o needs a value before --fresh; write -o FILE", "-o", "--fresh")
        self.assert_says("zf-tune: --quiet takes no value; write --quiet, or leave it out", "--quiet=no")
        self.assert_says('zf-tune: "plan" stands behind an option; write the command first: zf-tune plan -q ...', "-q",
                         "plan")
        self.assert_says('zf-tune: "plan.json" is one argument too many; see zf-tune --help', "-q", "plan.json")
        self.assert_says('zf-tune: --budget: "soon" is not a duration; write a duration such as 60s, 500ms or 2m',
                         "--budget", "soon")

    def test_an_option_of_a_command(self):
        self.assert_says("zf-tune tune: there is no option --bugdet; did you mean --budget?", "tune", "--bugdet", "3")
        self.assert_says("zf-tune plan: there is no option --upd; did you mean --update-interval?", "plan", "--upd",
                         "3")
        self.assert_says("zf-tune plan: there is no option --update_interval; did you mean --update-interval?", "plan",
                         "--update_interval=3")
        self.assert_says("zf-tune plan: there is no option -ranks; did you mean --ranks?", "plan", "-ranks", "3")
        self.assert_says("zf-tune plan: there is no option -x; see zf-tune plan --help", "plan", "-x")
        self.assert_says("zf-tune plan: there is no option -x in -qx; see zf-tune plan --help", "plan", "-qx")
        self.assert_says("zf-tune plan: -oplan.json: the value of -o cannot be read; write a blank before it: "
                         "-o plan.json", "plan", "-oplan.json")
        self.assert_says("zf-tune explain: there is no option --wied; did you mean --wide?", "explain", "--wied")
        self.assert_says("zf-tune trial: --metric needs a value before --; write --metric REGEX", "trial", "--metric",
                         "--", "true")

    def test_a_value_where_the_set_is_closed(self):
        self.assert_says('zf-tune: --mode: "wiat" is not known; did you mean wait?', "--mode", "wiat")
        self.assert_says('zf-tune plan: --mode: "late" is not known; give one of overlap, exact, backward, wait',
                         "plan", "--mode", "late")
        self.assert_says('zf-tune plan: --framework: "torhc" is not known; did you mean torch?', "plan", "--framework",
                         "torhc")
        self.assert_says('zf-tune probe: --format: "jsn" is not known; did you mean json?', "probe", "--format",
                         "jsn")
        self.assert_says('zf-tune probe: --format: "xml" is not known; give one of text, json', "probe", "--format",
                         "xml")

    def test_a_reader_of_an_export(self):
        self.make_plan()
        result = self.run_tune("export", "--for", "deepsped")
        self.assert_refused(result, USAGE, 'there is no consumer "deepsped"; did you mean deepspeed?')

    def test_the_words_of_a_wrapped_command_are_its_own(self):
        for words in (["exec", "--force", "-q", "-p", "no.json", "sh", "-c", "echo $0 $1", "--rnak", "tun"],
                      ["exec", "--force", "-q", "-p", "no.json", "--", "sh", "-c", "echo $0 $1", "--rnak", "tun"]):
            with self.subTest(words=words):
                result = self.run_tune(*words)
                self.assert_exit(result, DONE)
                self.assertEqual((result.stdout, result.stderr), ("--rnak tun\n", ""))
        self.assert_says("zf-tune exec: there is no option --rnak; did you mean --rank?", "exec", "--rnak", "0", "--",
                         "true")
        result = self.run_tune("exec", "--force", "-q", "-p", "no.json", "pyhton")
        self.assert_exit(result, 127)
        self.assertEqual(result.stderr, "zf-tune: pyhton: No such file or directory\n")
        (self.folder / "here.py").touch()
        result = self.run_tune("exec", "--force", "-q", "-p", "no.json", "here.py")
        self.assert_exit(result, 127)
        self.assertEqual(result.stderr,
                         "zf-tune: here.py: is not in PATH; write ./here.py for the one in this folder\n")

    def test_version_may_follow_an_option(self):
        result = self.run_tune("-q", "--version")
        self.assert_exit(result, DONE)
        self.assertEqual(result.stdout, self.run_tune("--version").stdout)
        self.assert_wrote_nothing()
