"""Runs zf-tune at a pseudo-terminal of some width."""

import fcntl
import os
import re
import struct
import subprocess
import termios

from permissions import need_terminal
from zf_cli import BINARY, DONE, CommandTest, clean_environment


def read_to_end(controller: int) -> str:
    """Returns what was written to a terminal that no process holds open any more: its end is an error, EIO."""
    text = b""
    try:
        while piece := os.read(controller, 1 << 16):
            text += piece
    except OSError:
        pass
    return text.decode()


class TerminalTest(CommandTest):
    def run_at_terminal(self, columns: int, streams: tuple[str, ...], *words: str, code=DONE) -> tuple[str, str]:
        """Runs a command with some of its streams at a terminal. Returns what it wrote there, and to the other one."""
        controller, terminal = need_terminal()
        self.addCleanup(os.close, controller)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        other = self.folder / "other"
        with open(other, "w") as file:
            where = {"stdout": file, "stderr": file} | dict.fromkeys(streams, terminal)
            process = subprocess.Popen([BINARY, *map(str, words)], stdin=subprocess.DEVNULL, cwd=self.folder,
                                       env=clean_environment(COLUMNS="80"), **where)
        os.close(terminal)
        self.addCleanup(process.kill)
        said = read_to_end(controller)  # a terminal holds few kilobytes that were not read
        self.assertEqual(process.wait(timeout=50), code, said + other.read_text())
        return said.replace("\r\n", "\n"), other.read_text()

    def assert_fits(self, text: str, columns: int):
        """Checks that no line is wider, unless a word has no place to break and no room beside what leads it."""
        for line in text.splitlines():
            longest = max(map(len, re.split(r"(?<=[,|])| ", line)))
            self.assertTrue(len(line) <= columns or longest > columns - LONGEST_LEAD, f"{columns} columns: {line}")


LONGEST_LEAD = 13  # "Allocation  "; "  > " of a stacked row
