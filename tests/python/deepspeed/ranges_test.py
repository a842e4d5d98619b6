"""A tensor is known by its memory to show parameters: which, and no neighbour of theirs. Tests deepspeed/ranges.py."""

import unittest

import support

torch = support.need("torch")
from zf_runtime.deepspeed import ranges  # noqa: E402


class Sized:
    """Has what is asked of a tensor: an older torch has no nbytes."""

    def __init__(self, tensor):
        self.data_ptr, self.numel, self.nbytes = tensor.data_ptr, tensor.numel, 4 * tensor.numel()


class Shown(unittest.TestCase):
    def setUp(self):
        """Three parameters of 10 elements follow each other in one tensor, and a master lies elsewhere."""
        self.flat, self.master = torch.zeros(40), torch.zeros(30)
        begins = [part.data_ptr() for part in self.flat.split(10)]
        weights = [ranges.Weight(self.flat, piece, begins[piece], begins[piece + 1]) for piece in range(3)]
        self.ranges = ranges.Ranges(weights[::-1], [Sized(self.master), Sized(torch.zeros(0))])

    def shown(self, tensor):
        return [weight.piece for weight in self.ranges.of(tensor)]

    def test_a_part_of_a_parameter_is_that_parameter(self):
        self.assertEqual([self.shown(self.flat[at:at + 1]) for at in (0, 9, 10, 19, 20, 29)], [[0], [0], [1], [1], [2],
                                                                                               [2]])

    def test_a_range_is_all_that_it_touches(self):
        for begin, end, pieces in ((0, 10, [0]), (10, 20, [1]), (9, 11, [0, 1]), (0, 40, [0, 1, 2]), (29, 40, [2])):
            with self.subTest(begin=begin, end=end):
                self.assertEqual(self.shown(self.flat[begin:end]), pieces)

    def test_gaps_of_a_view_count(self):
        self.assertEqual(self.shown(self.flat[5:36:15]), [0, 1, 2])
        self.assertEqual(self.shown(self.flat.as_strided((2, 2), (10, 1), 4)), [0, 1])

    def test_other_memory_of_the_step_is_all_parameters(self):
        for other in (self.master, self.master[29:], self.master[:1]):
            self.assertEqual(self.shown(other), [0, 1, 2])

    def test_memory_of_others_is_none(self):
        for other in (torch.zeros(30), self.flat[30:], self.flat[5:5]):
            self.assertEqual(self.shown(other), [])


if __name__ == "__main__":
    unittest.main()
