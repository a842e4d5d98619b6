"""The completions of bash, zsh and fish know every command and every option, because they come from the help."""

import re
import shutil
import subprocess
import tempfile

from zf_cli import BINARY, SOURCE, CommandTest, all_commands


class Completions(CommandTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(made.cleanup)
        cls.made = made.name
        subprocess.run(["python3", "-B", SOURCE / "scripts/completions.py", BINARY, cls.made], check=True)

    def shell(self, program: str, *arguments: str) -> list[str]:
        if not shutil.which(program):
            self.skipTest(f"no {program} here: install it (scripts/packages.txt, heavy)")
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def in_bash(self, *words: str) -> list[str]:
        listed = " ".join(f"'{word}'" for word in words)
        return self.shell("bash", "--norc", "-c", f"source {self.made}/zf-tune; COMP_WORDS=({listed}); "
                          f"COMP_CWORD={len(words) - 1}; _zf_tune; printf '%s\\n' \"${{COMPREPLY[@]}}\"")

    def in_zsh(self, *words: str) -> list[str]:
        """Returns what zsh's own functions would be asked to offer."""
        return self.shell("zsh", "-f", "-c", "_describe() { print -l -- ${(P)2%%:*} }; "
                          "_arguments() { print -l -- $@ }; "
                          f"words=({' '.join(words)}); CURRENT={len(words)}; source {self.made}/_zf-tune")

    def in_fish(self, line: str) -> list[str]:
        return self.shell("fish", "--no-config", "-c", f"source {self.made}/zf-tune.fish; complete -C '{line}' | "
                          "string replace -r '\\t.*' ''")

    def options_of(self, command: str) -> set[str]:
        return set(re.findall(r"(?m)^ +(?:-\w, )?(--[\w-]+)", self.run_tune(command, "--help").stdout))

    def test_bash_knows_commands_and_options(self):
        self.assertLessEqual(set(all_commands()), set(self.in_bash("zf-tune", "")))
        self.assertEqual(self.in_bash("zf-tune", "expo"), ["export"])
        for command in all_commands():
            with self.subTest(command=command):
                self.assertEqual(set(self.in_bash("zf-tune", command, "--")), self.options_of(command))
        self.assertEqual(set(self.in_bash("zf-tune", "--")), self.options_of("tune"))

    def test_bash_offers_files_where_a_file_is_due_and_nothing_behind_two_dashes(self):
        self.assertIn(f"{self.made}/_zf-tune", self.in_bash("zf-tune", "plan", "--output", f"{self.made}/_"))
        self.assertEqual(self.in_bash("zf-tune", "plan", "--ranks", ""), [])
        self.assertEqual(self.in_bash("zf-tune", "exec", "--", "--"), [])

    def test_zsh_knows_commands_and_options(self):
        self.assertEqual(set(self.in_zsh("zf-tune", "e")), set(all_commands()))
        for command in all_commands():
            with self.subTest(command=command):
                found = " ".join(self.in_zsh("zf-tune", command, "--"))
                self.assertEqual(set(re.findall(r"(?<![\w(-])(--[\w-]+)(?=\[)", found)), self.options_of(command))

    def test_fish_knows_commands_and_options(self):
        self.assertEqual(set(self.in_fish("zf-tune ")) & set(all_commands()), set(all_commands()))
        for command in all_commands():
            with self.subTest(command=command):
                self.assertEqual(set(self.in_fish(f"zf-tune {command} --")), self.options_of(command))
