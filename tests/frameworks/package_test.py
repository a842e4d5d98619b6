"""The tests of tests/python that need torch, with a current one. tests/python runs them with the system's."""

import os
import subprocess
import unittest

from frameworks_case import PYTHON, need_environment
from zf_cli import BINARY, SOURCE


class Package(unittest.TestCase):
    def run_file(self, room: str, name: str):
        need_environment()
        environment = os.environ | {"ZF_SOURCE_DIR": str(SOURCE), "ZF_TUNE_BINARY": BINARY,
                                    "PYTHONPATH": str(SOURCE / "tests/python/helpers")}
        ended = subprocess.run([PYTHON, "-B", "-m", "unittest", "discover", "-s", ".", "-p", f"{name}_test.py"],
                               cwd=SOURCE / "tests/python" / room, env=environment, text=True, capture_output=True,
                               timeout=250, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertTrue(ended.stderr.endswith("OK\n"), ended.stderr)

    def test_adamw(self):
        self.run_file("optim", "adamw")

    def test_adamw_ends(self):
        self.run_file("optim", "adamw_ends")

    def test_deepspeed_refused(self):
        self.run_file("deepspeed", "refused")

    def test_overlapped(self):
        self.run_file("optim", "overlapped")

    def test_state_dict(self):
        self.run_file("optim", "state_dict")


if __name__ == "__main__":
    unittest.main()
