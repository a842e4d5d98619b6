"""The line that says what runs names what differs from DeepSpeed's own optimizer. Tests deepspeed/messages.py."""

import contextlib
import io
import types
import unittest

import support

torch = support.need("torch")
from zf_runtime.deepspeed import messages  # noqa: E402


def arena(*lengths, mode="wait", state="fp32", speculation=None, **more):
    stats = types.SimpleNamespace(**{"worker_pid": 7, "threads": 2, "isa": "avx2", "training_threads": 4,
                                     "home_threads": 4} | more)
    slots = [types.SimpleNamespace(param=torch.zeros(length)) for length in lengths]
    return types.SimpleNamespace(slots=slots, mode=mode, state=state, speculation=speculation,
                                 runtime=types.SimpleNamespace(stats=lambda: stats))


class Described(unittest.TestCase):
    def test_what_steps_is_named(self):
        self.assertEqual(messages.describe(arena(32, threads=1)),
                         "optimizer process 7 steps 32 parameters in 1 partition with 1 thread (avx2)")
        self.assertEqual(messages.describe(arena(80_000, 80_000)),
                         "optimizer process 7 steps 0.2M parameters in 2 partitions with 2 threads (avx2)")

    def test_what_differs_is_named(self):
        for given, said in (({"mode": "late"}, ", one step late"), ({"mode": "exact"}, ", beside the next forward"),
                            ({"mode": "exact", "speculation": 1}, ", beside the next forward, beginning in backward"),
                            ({"state": "bf16"}, "; state bf16: 8 bytes a parameter"),
                            ({"training_threads": 3}, "; the plan divides the home although training waits")):
            with self.subTest(said):
                self.assertTrue(messages.describe(arena(32, **given)).partition("(avx2)")[2].startswith(said))

    def test_elements_that_round_differently_are_counted(self):
        self.assertIn("would round 13 elements differently", messages.describe(arena(32, 18, 27)))
        self.assertIn("would round 1 element differently", messages.describe(arena(17)))
        self.assertNotIn("round", messages.describe(arena(17, state="bf16")))


class Once(unittest.TestCase):
    def test_a_line_comes_once(self):
        self.addCleanup(messages.say_once.cache_clear)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            for line in ("one", "two", "one"):
                messages.say_once(line)
        self.assertEqual(said.getvalue(), "zf_runtime.deepspeed: one\nzf_runtime.deepspeed: two\n")


if __name__ == "__main__":
    unittest.main()
