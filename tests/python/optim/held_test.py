"""A copy of masters and moments is of the moment between two steps, and its memory is given back once, when nothing
uses it any more. The runtime only looks like ours. Tests optim/overlap/held.py."""

import gc
import types
import unittest

import support

numpy, torch = support.need("numpy"), support.need("torch")
from zf_runtime.native import abi  # noqa: E402
from zf_runtime.optim.overlap.held import Held  # noqa: E402


class Runtime:
    def __init__(self, more=0.0):
        self.calls, self.more = [], more

    def save_begin(self):
        self.calls.append("begin")

    def save_wait(self):
        self.calls.append("wait")

    def save_end(self):
        self.calls.append("end")

    def saved(self, index, kind):
        """Returns a tensor in which each element says what it is of, and an object that lives as long as its memory."""
        memory = numpy.full(4, 10.0 * index + kind + self.more, dtype=numpy.float32)
        return torch.from_numpy(memory), memory


def place(index, **more):
    local, first, second = (torch.zeros(2, 2) for _ in range(3))
    return types.SimpleNamespace(**{"index": index, "local": local, "exp_avg": first, "exp_avg_sq": second,
                                    "fp32_master": None, "is_split": False} | more)


class Copy(unittest.TestCase):
    def setUp(self):
        self.runtime = Runtime()
        self.places = [place(1), place(2, local=torch.zeros(2, 2, dtype=torch.bfloat16), fp32_master=torch.zeros(4))]
        self.held = Held(self.runtime, self.places)

    def test_each_array_is_found_in_the_type_and_shape_of_what_shows_it(self):
        for each in self.places:
            for tensor, kind in ((each.local, abi.PARAMS), (each.exp_avg, abi.MOMENT_1),
                                 (each.exp_avg_sq, abi.MOMENT_2), (each.fp32_master, abi.PARAMS)):
                if tensor is not None:
                    made = self.held.find(tensor)()
                    self.assertTrue(torch.equal(made, torch.full_like(tensor, 10.0 * each.index + kind)))

    def test_a_split_master_is_saved_by_its_high_half(self):
        split = place(3, local=torch.zeros(2, 2, dtype=torch.bfloat16), is_split=True)
        half_way = Runtime(more=0.0625)  # torch would round 30.0625 to 30
        made = Held(half_way, [split]).find(split.local)()
        self.assertTrue(torch.equal(made, torch.full((2, 2), 30.125, dtype=torch.bfloat16)))

    def test_other_tensors_are_not_in_it(self):
        for other in (torch.zeros(2, 2), self.places[0].local[:1], self.places[0].local.t()):
            self.assertIsNone(self.held.find(other))

    def test_its_memory_is_given_back_once(self):
        self.held.wait()
        self.held.release()
        self.held.release()
        self.assertEqual(self.runtime.calls, ["begin", "wait", "end"])
        del self.held
        gc.collect()
        self.assertEqual(self.runtime.calls, ["begin", "wait", "end"])

    def test_a_tensor_of_it_keeps_its_memory(self):
        made = self.held.find(self.places[0].local)()
        del self.held
        gc.collect()
        self.assertEqual(self.runtime.calls, ["begin"])
        del made
        gc.collect()
        self.assertEqual(self.runtime.calls, ["begin", "end"])


if __name__ == "__main__":
    unittest.main()
