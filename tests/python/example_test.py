"""The example trains, agrees with torch, and survives a kill of its optimizer."""

import re
import subprocess
import sys
import unittest

import support

support.need("torch")
EXAMPLE = support.PACKAGE / "examples/train_tiny_lm.py"


def run_example(*arguments):
    return subprocess.run([support.TUNE, "exec", "--plan", support.plan(), "--", sys.executable, "-B", EXAMPLE,
                           "--text", EXAMPLE, "--steps", "12", "--batch", "2", *arguments],
                          capture_output=True, text=True, timeout=250, check=False)


class Example(unittest.TestCase):
    def test_it_agrees_with_torch(self):
        ran = run_example()
        self.assertEqual(ran.returncode, 0, ran.stderr)
        waiting = re.search(r"torch and waiting: (\S+)", ran.stdout)
        overlapped = re.search(r"one step late\): (\S+)", ran.stdout)
        self.assertLess(float(waiting[1]), 1e-4)
        self.assertLess(float(overlapped[1]), 1.0)

    def test_a_kill_changes_no_loss(self):
        ran = run_example("--kill-at", "5")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        self.assertIn("maximum difference to the undisturbed run: 0", ran.stdout)


if __name__ == "__main__":
    unittest.main()
