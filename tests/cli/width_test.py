"""What a person reads fits the page: a terminal's columns where there is one, else 80."""

import subprocess
import unittest

from at_terminal import TerminalTest
from zf_cli import BINARY, SOURCE, all_commands, clean_environment

MACHINES = sorted((SOURCE / "configs/machines").glob("*.json"))


def widest(text: str) -> str:
    return max(text.splitlines(), key=len)


class Width(TerminalTest):
    def run_at(self, columns: str, *words: str) -> str:
        """Returns standard output and error of zf-tune, with COLUMNS set, or without it if that is empty."""
        environment = clean_environment(COLUMNS=columns)
        if not columns:
            del environment["COLUMNS"]
        result = subprocess.run([BINARY, *words], capture_output=True, text=True, env=environment, cwd=self.folder,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout + result.stderr

    def plan_of(self, machine) -> None:
        self.run_at("", "tune", "--simulate", str(machine), "-o", "plan.json", "--quiet")

    def test_every_help_fits_80_columns(self):
        for command in all_commands():
            with self.subTest(command=command):
                self.assertLessEqual(len(widest(self.run_at("", command, "--help"))), 80)
        self.assertLessEqual(len(widest(self.run_at("", "--help"))), 80)

    def test_the_table_and_the_reason_fit_the_page(self):
        for machine in MACHINES:
            self.plan_of(machine)
            for columns in ("", "80", "40"):
                with self.subTest(machine=machine.name, columns=columns):
                    text = self.run_at(columns, "explain", "plan.json")
                    self.assert_fits(text, int(columns or 80))
                    self.assertIn("training", text)

    def test_every_machine_is_shown_on_a_page(self):
        for machine in sorted((SOURCE / "tests/machines").glob("*.xml")):
            for columns in (80, 40):
                with self.subTest(machine=machine.name, columns=columns):
                    text, _ = self.run_at_terminal(columns, ("stdout",), "probe", "--topology", str(machine))
                    self.assert_fits(text, columns)

    def test_wide_shows_every_column_and_breaks_no_line(self):
        self.plan_of(MACHINES[0])
        text = self.run_at("80", "explain", "--wide", "plan.json")
        self.assertIn("of roofline", text)
        self.assertNotIn("of roofline", self.run_at("80", "explain", "plan.json"))
        self.assertEqual(text, self.run_at("10000", "explain", "plan.json"))

    def test_a_terminal_with_room_shows_every_column(self):
        self.plan_of(MACHINES[0])
        for columns, wide in ((80, False), (200, True)):
            text, _ = self.run_at_terminal(columns, ("stdout",), "explain", "plan.json")
            self.assertEqual("of roofline" in text, wide, text)

    def test_the_width_is_that_of_the_stream_that_gets_the_table(self):
        tune = ("tune", "--simulate", str(MACHINES[0]))
        for words, stream, other in ((tune, "stdout", "stderr"), ((*tune, "-o", "-"), "stderr", "stdout")):
            with self.subTest(words=words):
                self.assertIn("of roofline", self.run_at_terminal(200, (stream,), *words)[0])
                self.assertNotIn("of roofline", self.run_at_terminal(80, (stream,), *words)[0])
                self.assertNotIn("of roofline", self.run_at_terminal(200, (other,), *words)[1])

    def test_on_a_terminal_the_table_is_below_the_notes(self):
        said, _ = self.run_at_terminal(100, ("stdout", "stderr"), "tune", "--simulate", str(MACHINES[0]))
        self.assertIn("\x1b[K", said, "there was a live line")
        # The live line is erased last of all, before the notes.
        self.assertRegex(said.split("\x1b[K")[-1], r"\Awrote plan.json\n\nA plan made by")


if __name__ == "__main__":
    unittest.main()
