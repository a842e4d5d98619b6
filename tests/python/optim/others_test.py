"""An optimizer waits for the others that write its parameters, and for no others. Tests optim/tensors/others.py."""

import unittest
import weakref

import support

support.need("torch")
from zf_runtime import ZfError  # noqa: E402
from zf_runtime.optim.tensors import others  # noqa: E402


class Optimizer:
    """Has a step under way over these parameters."""

    def __init__(self, *pending, error=None):
        self.pending, self.error, self.finished = set(pending), error, 0
        others.remember(self)

    def _pending(self):
        return self.pending

    def _finish_own(self):
        self.finished += 1
        if self.error:
            raise self.error


class Settled(unittest.TestCase):
    def test_those_that_write_a_parameter_of_mine_are_finished(self):
        own, beside, elsewhere, idle = Optimizer("a"), Optimizer("a", "b"), Optimizer("c"), Optimizer()
        others.settle(own, iter(("a", "d")))
        self.assertEqual([each.finished for each in (own, beside, elsewhere, idle)], [0, 1, 0, 0])

    def test_each_of_several_is_finished(self):
        own, *beside = Optimizer(), Optimizer("a"), Optimizer("b"), Optimizer("a")
        others.settle(own, iter("ab"))
        self.assertEqual([each.finished for each in beside], [1, 1, 1])

    def test_one_that_has_failed_is_for_its_own_next_call_to_say(self):
        own, dead, beside = Optimizer(), Optimizer("a", error=ZfError("dead")), Optimizer("a")
        others.settle(own, "a")
        self.assertEqual((dead.finished, beside.finished), (1, 1))

    def test_it_keeps_none_alive(self):
        own, gone = Optimizer(), weakref.ref(Optimizer("a"))
        others.settle(own, "a")
        self.assertIsNone(gone())


if __name__ == "__main__":
    unittest.main()
