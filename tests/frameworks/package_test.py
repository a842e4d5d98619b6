"""The tests of tests/python that need torch, with a current one. tests/python runs them with the system's."""

import os
import unittest

import warm
from frameworks_case import PYTHON, need_environment
from zf_cli import BINARY, SOURCE


class Package(unittest.TestCase):
    def run_files(self, room: str, pattern: str):
        need_environment()
        environment = os.environ | {"ZF_SOURCE_DIR": str(SOURCE), "ZF_TUNE_BINARY": BINARY,
                                    "PYTHONPATH": str(SOURCE / "tests/python/helpers")}
        ended = warm.run([PYTHON, "-B", "-m", "unittest", "discover", "-s", ".", "-p", pattern], warm.TORCH,
                         cwd=SOURCE / "tests/python" / room, env=environment, timeout=250)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertTrue(ended.stderr.endswith("OK\n"), ended.stderr)
        self.assertNotIn("Ran 0 tests", ended.stderr, f"there is no {room}/{pattern}")

    def test_cuda(self):
        self.run_files("native", "cuda_test.py")

    def test_deepspeed(self):
        self.run_files("deepspeed", "*_test.py")


if __name__ == "__main__":
    unittest.main()
