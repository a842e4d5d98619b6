"""Without a plan, a command says which command makes one."""

from zf_cli import DONE, USAGE, CommandTest

NONE_HERE = "zf-tune: no plan.json here: make one with zf-tune tune, or name one with --plan"


class MissingPlan(CommandTest):
    def assert_says(self, line: str, *words: str):
        with self.subTest(words=words):
            result = self.run_tune(*words)
            self.assert_refused(result, USAGE)
            self.assertEqual(result.stderr, line + "\n")
            self.assert_wrote_nothing()

    def test_a_command_that_takes_plan_json_says_how_to_make_it(self):
        self.assert_says(NONE_HERE, "explain")
        self.assert_says(NONE_HERE, "check")
        self.assert_says(NONE_HERE, "export", "--for", "taskset")
        self.assert_says(NONE_HERE, "exec", "--", "touch", "started")
        self.assert_says(NONE_HERE, "trial", "--metric", "x", "--", "touch", "started")

    def test_a_named_plan_that_is_not_there_is_named(self):
        said = "nix.json: No such file or directory; make a plan with zf-tune tune, or name another file"
        for words in (["explain", "nix.json"], ["check", "nix.json"], ["export", "nix.json", "--for", "taskset"],
                      ["trial", "--plan", "nix.json", "--metric", "x", "--", "touch", "started"],
                      ["plan", "--from", "nix.json"], ["doctor", "--plan", "nix.json"]):
            self.assert_says(f"zf-tune: {said}", *words)
        self.assert_says(f"zf-tune: {self.folder.resolve()}/{said}", "exec", "-p", "nix.json", "--", "touch", "started")

    def test_force_starts_the_command_and_says_it_too(self):
        result = self.run_tune("exec", "--force", "--", "echo", "started")
        self.assert_exit(result, DONE)
        self.assertEqual(result.stdout, "started\n")
        self.assertEqual(result.stderr, NONE_HERE.replace("zf-tune:", "zf-tune exec:") +
                         "; going on, bound to nothing\n")

    def test_a_plan_of_the_environment_is_named(self):
        result = self.run_tune("exec", "--", "touch", "started", ZF_PLAN="nix.json")
        self.assert_refused(result, USAGE, "nix.json: No such file or directory; make a plan with zf-tune tune")
        self.assert_wrote_nothing()
