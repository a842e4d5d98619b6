"""Steps that DeepSpeed skips are said in one line with their count, at most once a minute. Tests
deepspeed/skipped.py."""

import contextlib
import io
import os
import subprocess
import sys
import types
import unittest
import unittest.mock

import support

torch = support.need("torch")
from zf_runtime.deepspeed import skipped  # noqa: E402


class Skipped(unittest.TestCase):
    def train(self, overflows, dtype=torch.bfloat16):
        """Steps once a second, and returns the lines that were said: by each step, and by destroy()."""
        zero = types.SimpleNamespace(dtype=dtype, overflow=False, step=lambda: "result", destroy=lambda: None)
        skipped.announce_skipped_steps(zero)
        said = []
        for second, overflow in enumerate([*overflows, None]):
            with unittest.mock.patch.object(skipped.time, "monotonic", lambda second=second: 1000.0 + second), \
                    contextlib.redirect_stderr(io.StringIO()) as lines:
                zero.overflow = bool(overflow)
                self.assertEqual((zero.destroy if overflow is None else zero.step)(), None if overflow is None
                                 else "result")
            said.append(lines.getvalue())
        return {at: line.split(": ")[1] for at, line in enumerate(said) if line}

    def test_one_line_a_minute_with_the_count(self):
        overflows = [second in (3, 4, 50, 63, 100) for second in range(120)]
        self.assertEqual(self.train(overflows), {
            3: "DeepSpeed has skipped 1 of 4 steps, the last of them step 4",
            63: "DeepSpeed has skipped 4 of 64 steps, the last of them step 64",
            120: "DeepSpeed has skipped 5 of 120 steps, the last of them step 101"})

    def test_no_line_without_one(self):
        self.assertEqual(self.train([False] * 5), {})

    def test_a_program_that_ends_says_the_rest(self):
        program = """
import types
from zf_runtime.deepspeed.skipped import announce_skipped_steps
zero = types.SimpleNamespace(overflow=True, step=lambda: None, destroy=lambda: None)
announce_skipped_steps(zero)
zero.step(), zero.step()
"""
        said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual([line.split(": ")[1] for line in said.stderr.splitlines()], [
            "DeepSpeed has skipped 1 of 1 steps, the last of them step 1",
            "DeepSpeed has skipped 2 of 2 steps, the last of them step 2"])

    def test_in_fp16_the_loss_scaler_speaks(self):
        self.assertEqual(self.train([True] * 5, torch.float16), {})


if __name__ == "__main__":
    unittest.main()
