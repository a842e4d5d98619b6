"""What a person reads fits the page: 80 columns where nobody knows better, the terminal where there is one."""

import fcntl
import os
import struct
import subprocess
import termios
import unittest

from permissions import need_terminal
from zf_cli import BINARY, SOURCE, CommandTest, all_commands, clean_environment

MACHINES = sorted((SOURCE / "configs/machines").glob("*.json"))


def widest(text: str) -> str:
    return max(text.splitlines(), key=len)


def read_to_end(controller: int) -> str:
    """Returns what was written to a terminal that nobody holds open any more: its end is an error, EIO."""
    text = b""
    try:
        while piece := os.read(controller, 1 << 16):
            text += piece
    except OSError:
        pass
    return text.decode()


class Width(CommandTest):
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

    def test_the_table_and_the_reason_fit_80_columns_where_there_is_no_terminal(self):
        for machine in MACHINES:
            with self.subTest(machine=machine.name):
                self.plan_of(machine)
                text = self.run_at("", "explain", "plan.json")
                # A path has no place to break.
                lines = "\n".join(line for line in text.splitlines() if str(SOURCE) not in line)
                self.assertLessEqual(len(widest(lines)), 80, widest(lines))
                self.assertIn("training", text)

    def test_wide_shows_every_column_and_breaks_no_line(self):
        self.plan_of(MACHINES[0])
        text = self.run_at("80", "explain", "--wide", "plan.json")
        self.assertIn("of roofline", text)
        self.assertNotIn("of roofline", self.run_at("80", "explain", "plan.json"))
        self.assertEqual(text, self.run_at("10000", "explain", "plan.json"))

    def test_a_terminal_with_room_shows_every_column(self):
        self.plan_of(MACHINES[0])
        for columns, wide in ((80, False), (200, True)):
            controller, terminal = need_terminal()
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            subprocess.run([BINARY, "explain", "plan.json"], stdin=subprocess.DEVNULL, stdout=terminal,
                           env=clean_environment(COLUMNS="80"), cwd=self.folder, check=True)
            os.close(terminal)
            text = read_to_end(controller)
            os.close(controller)
            self.assertEqual("of roofline" in text, wide, text)

    def run_at_terminal(self, columns: int, streams: tuple[str, ...], *words: str) -> tuple[str, str]:
        """Runs a command with some of its streams at a terminal. Returns what it wrote there, and to the other one."""
        controller, terminal = need_terminal()
        self.addCleanup(os.close, controller)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        other = self.folder / "other"
        with open(other, "w") as file:
            where = {"stdout": file, "stderr": file} | dict.fromkeys(streams, terminal)
            process = subprocess.Popen([BINARY, *words], stdin=subprocess.DEVNULL, cwd=self.folder,
                                       env=clean_environment(COLUMNS="80"), **where)
        os.close(terminal)
        self.addCleanup(process.kill)
        said = read_to_end(controller)  # a terminal holds few kilobytes that nobody has read
        self.assertEqual(process.wait(timeout=50), 0, said)
        return said.replace("\r\n", "\n"), other.read_text()

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
