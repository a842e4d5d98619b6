"""A function of ours in the place of one of DeepSpeed's has that function, and passes on what it returns. Tests
deepspeed/replacing.py."""

import unittest

import support

support.need("torch")
from zf_runtime.deepspeed.replacing import replace, wrap  # noqa: E402


class Theirs:
    missing = None

    def __init__(self):
        self.said = []

    def step(self, number, *, twice=False, function=None):
        """Steps."""
        self.said.append("theirs")
        return number * (2 if twice else 1)


class Replacing(unittest.TestCase):
    def test_ours_is_called_with_theirs_and_all_arguments(self):
        theirs = Theirs()

        @replace(theirs, "step")
        def ours(step, number, **keywords):
            return step(number, **keywords) + 100

        self.assertEqual(theirs.step(3, twice=True), 106)
        self.assertEqual((theirs.step.__name__, theirs.step.__doc__), ("step", "Steps."))
        self.assertEqual(Theirs().step(3), 3, "another object has its own")

    def test_wrap_calls_before_and_after_and_returns_what_theirs_does(self):
        theirs = Theirs()
        wrap(theirs, ["missing", "nowhere", "step"], lambda: theirs.said.append("before"),
             lambda: theirs.said.append("after"))
        self.assertEqual(theirs.step(3, function=None), 3)
        self.assertEqual(theirs.said, ["before", "theirs", "after"])
        self.assertIsNone(theirs.missing)
        self.assertFalse(hasattr(theirs, "nowhere"))


if __name__ == "__main__":
    unittest.main()
