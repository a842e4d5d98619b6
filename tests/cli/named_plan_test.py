"""A plan is named in one way by all commands that read one: by --plan, or alone; before a wrapped command with --."""

from zf_cli import DONE, USAGE, CommandTest, all_commands

# How each command that reads a plan is called besides that.
READERS = {"explain": (), "check": ("--no-gpus",), "export": ("--for", "taskset"), "doctor": ("--format", "json"),
           "verify": ("--job",), "publish": ("--to", "-"), "where": ("--rank", "0", "--ranks", "1")}
WRAPPERS = {"exec": ("-q",), "trial": ("--metric", "x")}


class NamedPlan(CommandTest):
    def setUp(self):
        super().setUp()
        self.make_plan("--ranks", "1", name="my plan.json")
        self.make_plan("--ranks", "1", name="other.json")

    def test_these_are_all_commands_that_read_one(self):
        with_plan = {command for command in all_commands() if "--plan " in self.run_tune(command, "--help").stdout}
        self.assertEqual(with_plan, {*READERS, *WRAPPERS})

    def test_alone_or_by_plan(self):
        for command, options in READERS.items():
            said = [self.run_tune(*words) for words in (
                (command, *options, "nix.json"), (command, *options, "--plan", "nix.json"),
                (command, *options, "-p", "nix.json"), ("--plan", "nix.json", command, *options),
                ("--plan=nix.json", command, *options))]
            with self.subTest(command=command):
                self.assertIn("nix.json", said[0].stdout + said[0].stderr)
                self.assertEqual({(done.returncode, done.stdout, done.stderr) for done in said},
                                 {(said[0].returncode, said[0].stdout, said[0].stderr)})
                twice = self.run_tune(command, *options, "--plan", "my plan.json", "other.json")
                self.assert_refused(twice, USAGE, '"other.json" is one argument too many')

    def test_before_a_wrapped_command(self):
        for words in (("exec", "my plan.json", "-q", "--"), ("--plan", "my plan.json", "exec", "-q", "--"),
                      ("-p", "my plan.json", "exec", "-q"), ("exec", "-q", "-p", "my plan.json")):
            with self.subTest(words=words):
                done = self.run_tune(*words, "sh", "-c", "echo $ZF_PLAN $0", "word")
                self.assert_exit(done, DONE)
                self.assertEqual(done.stdout, f"{self.folder.resolve()}/my plan.json word\n")
        self.assert_refused(self.run_tune("trial", "nix.json", "--metric", "x", "--", "true"), USAGE, "nix.json")

    def test_in_the_place_of_a_command_says_what_to_type(self):
        for command, options in WRAPPERS.items():
            for rest in ((), ("touch", "started")):
                done = self.run_tune(command, *options, "my plan.json", *rest)
                self.assert_refused(done, USAGE, f'zf-tune {command}: "my plan.json" is a plan, not a command; write '
                                    f"zf-tune {command} --plan 'my plan.json' -- COMMAND")
        self.assertFalse((self.folder / "started").exists())

    def test_a_command_may_end_so_behind_two_dashes(self):
        self.write_files({"run.json": "#!/bin/sh\necho started\n"})
        (self.folder / "run.json").chmod(0o755)
        done = self.run_tune("exec", "-q", "other.json", "--", "./run.json")
        self.assertEqual((done.returncode, done.stdout), (DONE, "started\n"))
