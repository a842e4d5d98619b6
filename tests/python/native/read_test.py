"""The local engine reads arrays once: copies, sums of squares, digests; and what a step is told in words. Needs the
standard library only. Tests native/local_calls.py."""

import ctypes
import math
import time
import unittest
from array import array

import support

from zf_runtime import ZfError
from zf_runtime.native import abi, local_calls
from zf_runtime.native.scalars import Scalars


class Words(unittest.TestCase):
    def test_each_word_of_a_step_is_the_member_that_it_stands_for(self):
        """The package writes structs as words, in their order in the header."""
        engine, told = local_calls.Engine(), {}

        def step(handle, address):
            args = abi.LocalStepArgs.from_address(address)
            told.update({name: getattr(args, name) for name, _ in abi.LocalStepArgs._fields_})
            told["factors"] = [tuple(getattr(args.scalars[at], name) for name in Scalars._fields) for at in range(2)]
            told.update(tensor=args.tensors[1], range=args.ranges[2], counter=args.counters[1])
            return 0

        engine._keeping = engine._releasing = step
        tensors = array("Q", [*range(8), 11, 12, 13, 14, 15, 16, 17, 1 | abi.F32 << 32 | abi.BF16 << 40 | 3 << 48])
        scalars = [Scalars(*[number / 8 for number in range(9)], abi.ADAMW, 2**64 - 1, 7),
                   Scalars(*[number / 4 for number in range(8)], 1e39, abi.ADAM, 5, 2**63)]
        engine.step(tensors, scalars, array("Q", [21, 22]), 2, 1, array("Q", [*range(31, 40)]))
        self.assertEqual([told[name] for name in ("struct_size", "tensor_size", "scalars_size", "range_size")],
                         list(map(ctypes.sizeof, (abi.LocalStepArgs, abi.Tensor, abi.Scalars, abi.Range))))
        self.assertEqual([told[name] for name in ("tensor_count", "scalar_count", "range_count")], [2, 2, 3])
        self.assertEqual(told["factors"], [tuple(scalars[0]), tuple(scalars[1]._replace(grad_scale=math.inf))])
        self.assertEqual(told["counter"], 22)
        found, last = told["tensor"], told["range"]
        self.assertEqual((found.p, found.g, *found.state, found.copy, found.elements, found.first_element),
                         (11, 12, 13, 14, 15, 16, 17))
        self.assertEqual((found.scalars, found.grad_type, found.copy_type, found.format), (1, abi.F32, abi.BF16, 3))
        self.assertEqual((last.tensor, last.position, last.first_element), (37, 38, 39))


class Read(unittest.TestCase):
    def test_the_package_is_that_of_the_tree(self):
        self.assertEqual(str(support.PACKAGE / "zf_runtime/native/local_calls.py"), local_calls.__file__)

    def setUp(self):
        self.engine = local_calls.Engine()
        self.arrays = [array("f", [(i * 7 + k) % 11 * 0.25 - 1 for k in range(size)])
                       for i, size in enumerate((0, 1, 5000, 400_000))]
        self.copies = [array("f", bytes(4 * len(values))) for values in self.arrays]

    def words(self, with_copies=True):
        words = array("Q")
        for values, copy in zip(self.arrays, self.copies):
            words.extend((values.buffer_info()[0], len(values), copy.buffer_info()[0] * with_copies, abi.F32, 0, 0))
        return words

    def read(self, **wishes):
        words = self.words()
        self.engine.read(words, threads=2, **wishes)
        return words

    def test_copies_sums_and_digests(self):
        words = self.read(norm=True, digest=True)
        self.assertEqual(self.copies, self.arrays)
        self.assertEqual(local_calls.sums_of(words), [sum(value * value for value in values) for values in self.arrays])
        digests = local_calls.digests_of(words)
        self.assertEqual(len(set(digests)), 4)
        alone = self.read(norm=True, digest=True, alone=True)
        self.assertEqual((local_calls.sums_of(alone), local_calls.digests_of(alone)),
                         (local_calls.sums_of(words), digests))
        self.arrays[2][4999] += 0.25
        changed = local_calls.digests_of(self.read(digest=True))
        self.assertEqual([mine == other for mine, other in zip(changed, digests)], [True, True, False, True])

    def test_what_is_not_wanted_stays(self):
        self.assertEqual(local_calls.sums_of(self.read(digest=True)), [0.0] * 4)
        self.assertEqual(local_calls.digests_of(self.read(norm=True)), [0] * 4)

    def test_a_wrong_reading_is_named(self):
        words = self.words()
        words[2 * local_calls.READING_WORDS + 3] = 9
        with self.assertRaisesRegex(ZfError, "reading 2: type is 9; it must be ZF_F32, ZF_BF16 or ZF_F16"):
            self.engine.read(words, digest=True, threads=1)
        self.assertNotEqual(self.copies[3], self.arrays[3])

    def test_a_thousand_small_arrays_cost_little(self):
        words = array("Q", [self.arrays[1].buffer_info()[0], 1, 0, abi.F32, 0, 0] * 1000)
        self.engine.read(words, norm=True, digest=True, threads=1)
        best = min(self.time_of(words) for _ in range(20))
        self.assertLess(best, 0.002)
        self.assertEqual(len(set(local_calls.digests_of(words))), 1)

    def time_of(self, words):
        begin = time.perf_counter()
        self.engine.read(words, norm=True, digest=True, threads=1)
        return time.perf_counter() - begin

    def test_words_are_the_struct(self):
        reading = abi.Reading.from_buffer(array("Q", [1, 2, 3, 4, 0, 6]))
        members = (reading.array, reading.elements, reading.copy, reading.type, reading.reserved, reading.digest)
        self.assertEqual(members, (1, 2, 3, 4, 0, 6))
        self.assertEqual(ctypes.sizeof(reading), 8 * local_calls.READING_WORDS)


if __name__ == "__main__":
    unittest.main()
