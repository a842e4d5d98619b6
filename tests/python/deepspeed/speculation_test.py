"""A step that begins in backward is kept if step() gives its factors, and taken back first if it gives others or none.
Costs 1 s. Tests deepspeed/speculation.py."""

import time
import unittest
import unittest.mock

import support

support.need("torch")
support.need("numpy")
from zf_runtime import Group, Runtime, adam_scalars  # noqa: E402
from zf_runtime.deepspeed.speculation import Span, Speculation  # noqa: E402
from zf_runtime.optim.tensors.streams import REACHED  # noqa: E402

GUESS, CLIPPED = adam_scalars(1, lr=0.1), adam_scalars(1, lr=0.1, grad_scale=0.5)


class Decided(unittest.TestCase):
    def setUp(self):
        self.runtime = Runtime(support.plan(), groups=[Group(elements=64, speculative=True) for _ in range(3)])
        self.addCleanup(self.runtime.close)
        self.speculation = Speculation(self.runtime, 1 << 20)
        self.addCleanup(self.speculation.end)  # first
        self.spans = [Span(group, group, 0, 64) for group in range(3)]
        self.speculation.expect(self.spans)
        self.calls = []
        for name in ("take_back", "submit"):
            call = getattr(self.runtime, name)
            unittest.mock.patch.object(self.runtime, name, self.noting(name, call)).start()
        self.addCleanup(unittest.mock.patch.stopall)

    def noting(self, name, call):
        def noted(*given):
            self.calls.append((name, list(given[-1])))
            return call(*given)

        return noted

    def backward(self, limit=None):
        """Begins a step of each group, unless what has come is clipped."""
        self.speculation.stepped(True)
        begun = self.runtime.stats().submitted
        for group, span in enumerate(self.spans):
            self.runtime.grads(group)[:] = 1 + group
            self.speculation.comes(span)
            self.speculation.came(span, 8.0, limit, lambda: [(each, GUESS) for each in range(3)], lambda: None, REACHED)
        deadline = time.monotonic() + 20
        while limit is None and self.runtime.stats().submitted < begun + 3 and time.monotonic() < deadline:
            time.sleep(0.001)

    def decide(self, factors):
        """Returns what was called, and the parameters."""
        self.speculation.decide(factors, lambda: self.runtime.submit(list(factors.values()), list(factors)))
        self.runtime.wait()
        return self.calls, [list(self.runtime.params(group)) for group in range(3)]

    def wanted(self, factors):
        with Runtime(support.plan(), groups=[Group(elements=64)] * 3) as runtime:
            for group in factors:
                runtime.grads(group)[:] = 1 + group
            runtime.wait(runtime.submit(list(factors.values()), list(factors)))
            return [list(runtime.params(group)) for group in range(3)]

    def check(self, factors, *calls, limit=None):
        self.backward(limit)
        self.assertEqual(self.decide(factors), ([*calls, ("submit", list(factors))], self.wanted(factors)))

    def test_a_right_guess_is_kept(self):
        self.check(dict.fromkeys(range(3), GUESS))

    def test_groups_with_other_factors_are_taken_back_first(self):
        self.check({0: CLIPPED, 1: GUESS, 2: CLIPPED}, ("take_back", [0, 2]))

    def test_groups_that_are_not_stepped_are_taken_back_first(self):
        self.check({1: GUESS}, ("take_back", [0, 2]))

    def test_what_will_be_clipped_is_not_begun(self):
        self.check(dict.fromkeys(range(3), CLIPPED), limit=1.0)

    def test_a_step_that_is_skipped_is_taken_back(self):
        self.backward()
        self.speculation.stepped(True)
        self.assertEqual(self.calls, [("take_back", [0, 1, 2])])
        self.assertFalse(any(map(any, (self.runtime.params(group) for group in range(3)))))


if __name__ == "__main__":
    unittest.main()
