"""The completions of bash, zsh and fish know every command, option and value, because zf-tune itself says them."""

import os
import pathlib
import re
import shutil
import subprocess

from zf_cli import BINARY, SOURCE, CommandTest, all_commands, clean_environment

FILES = SOURCE / "scripts/completions"


class Completions(CommandTest):
    def setUp(self):
        super().setUp()
        self.write_files({"plan.json": "", "folder/file": ""})

    def shell(self, program: str, *arguments: str) -> list[str]:
        if not shutil.which(program):
            self.skipTest(f"no {program} here: install it (scripts/packages.txt, heavy)")
        path = f"{pathlib.Path(BINARY).resolve().parent}:{os.environ['PATH']}"
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=30, check=False,
                              cwd=self.folder, env=clean_environment(PATH=path))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def in_bash(self, *words: str) -> list[str]:
        listed = " ".join(f"'{word}'" for word in words)
        return self.shell("bash", "--norc", "-c", f"source {FILES}/zf-tune.bash; COMP_WORDS=({listed}); "
                          f"COMP_CWORD={len(words) - 1}; _zf_tune; printf '%s\\n' \"${{COMPREPLY[@]}}\"")

    def in_zsh(self, *words: str) -> list[str]:
        """Returns what zsh's own functions would be asked to offer."""
        listed = " ".join(f"'{word}'" for word in words)
        return self.shell("zsh", "-f", "-c", "_describe() { print -l -- ${${(P)2//\\\\:/\\0}%%:*} }; "
                          f"_files() {{ print -l -- * }}; words=({listed}); CURRENT={len(words)}; "
                          f"source {FILES}/_zf-tune")

    def in_fish(self, *words: str) -> list[str]:
        return self.shell("fish", "--no-config", "-c", f"source {FILES}/zf-tune.fish; complete -C '{' '.join(words)}' "
                          "| string replace -r '\\t.*' ''; true")

    def assert_offered(self, offered: set[str], *words: str):
        """Checks what all shells offer for the last of these words."""
        for shell in (self.in_bash, self.in_zsh, self.in_fish):
            with self.subTest(shell=shell.__name__, words=words):
                self.assertEqual(set(shell("zf-tune", *words)), offered)

    def options_of(self, command: str) -> set[str]:
        return set(re.findall(r"(?m)^ +(?:-\w, )?(--[\w-]+)", self.run_tune(command, "--help").stdout))

    def test_commands(self):
        commands = {*all_commands(), "help"}
        self.assert_offered(commands, "")
        self.assert_offered(commands, "help", "")
        self.assert_offered({"export", "explain", "exec"}, "ex")
        self.assert_offered(set(), "no-such-command", "--")

    def test_options_of_each_command(self):
        for command in all_commands():
            with self.subTest(command=command):
                self.assertEqual(set(self.in_bash("zf-tune", command, "--")), self.options_of(command))
        self.assert_offered(self.options_of("tune"), "--")
        self.assert_offered({"--plan", "--pid"}, "verify", "--job", "--p")

    def test_values_where_they_are_few(self):
        modes, states = {"overlap", "exact", "backward", "wait"}, {"fp32", "bf16", "split", "bf16+split"}
        self.assert_offered(modes, "plan", "--mode", "")
        self.assert_offered(modes, "--mode", "")
        self.assert_offered({"split"}, "bench", "--state", "s")
        self.assert_offered(states, "fit", "--params", "7B", "--state", "")
        self.assert_offered({"json"}, "probe", "-f", "j")
        self.assert_offered({"1", "2", "3"}, "fit", "--stage", "")
        self.assert_offered({"keep"}, "--plan", "plan.json", "exec", "--omp", "k")
        self.assert_offered({"torchrun", "taskset"}, "export", "--for", "t")
        self.assert_offered(set(), "plan", "--ranks", "")

    def test_every_option_whose_value_is_one_of_a_few_names_offers_them(self):
        placeholder = r"(?m)^ +(?:-\w, )?--([\w-]+) (?:NAME|TYPE|FORMAT|HOW|WHERE|WHO|WHICH|[a-z|]+)$"
        found = set()
        for command in all_commands():
            # The columns are so few that each help stands below its option.
            for option in re.findall(placeholder, self.run_tune(command, "--help", COLUMNS="40").stdout):
                found.add(option)
                with self.subTest(command=command, option=option):
                    self.assertNotEqual(self.run_tune("--complete", command, f"--{option}", "").stdout, "")
        self.assertLessEqual({"mode", "framework", "state", "for", "format", "cpus", "device"}, found)

    def test_values_behind_an_equals_sign(self):
        self.assertEqual(self.in_bash("zf-tune", "plan", "--mode", "=", "w"), ["wait"])  # as bash divides them
        self.assertEqual(self.in_bash("zf-tune", "plan", "--mode", "="), ["overlap", "exact", "backward", "wait"])
        self.assertEqual(self.in_zsh("zf-tune", "plan", "--mode=w"), ["--mode=wait"])
        self.assertEqual(self.in_fish("zf-tune", "plan", "--mode=w"), ["--mode=wait"])

    def test_files_where_a_file_is_due(self):
        for words in (("explain", ""), ("explain", "--plan", ""), ("exec", "-q", ""), ("exec", "plan.json", "--", ""),
                      ("exec", "cat", ""), ("tune", "-o", ""), ("fit", "--model", ""), ("--plan", "")):
            for shell in (self.in_bash, self.in_zsh, self.in_fish):
                with self.subTest(shell=shell.__name__, words=words):
                    self.assertEqual({name.rstrip("/") for name in shell("zf-tune", *words)}, {"plan.json", "folder"})
        self.assertEqual(self.in_bash("zf-tune", "exec", "--", "--"), [])
        self.assertEqual(self.in_bash("zf-tune", "bench", ""), [])
