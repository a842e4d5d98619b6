"""A submission steps each group by its scalars, which are torch's. Needs the standard library only. Tests
native/scalars.py."""

import ctypes
import unittest
from array import array
from random import Random

import support

from zf_runtime import Group, Runtime, ZfError, adam_scalars
from zf_runtime.native import abi, scalars

SETTINGS = {"lr": 0.01, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1, "maximize": False, "seed": 3}


class Submitted(unittest.TestCase):
    def open(self, groups):
        runtime = Runtime(support.plan(), groups=[Group(elements) for elements in groups])
        self.addCleanup(runtime.close)
        return runtime

    @staticmethod
    def floats(runtime, group, kind):
        memory, *_ = runtime._array(group, kind)
        return (ctypes.c_float * (ctypes.sizeof(memory) // 4)).from_buffer(memory)

    def test_each_group_is_stepped_by_its_scalars(self):
        runtime = self.open([5] * 4)
        for group in range(4):
            self.floats(runtime, group, abi.PARAMS)[:] = [1.0] * 5
            self.floats(runtime, group, abi.GRADS_0)[:] = [0.5] * 5
        given = [scalars.scalars(SETTINGS, 7, True), scalars.scalars(SETTINGS | {"lr": 0.02}, 9, False)]
        runtime.wait(runtime.submit(given, scalars_of=[0, 1, 1, 0]))
        self.assertEqual([runtime.step(group) for group in range(4)], [7, 9, 9, 7])
        params = [list(self.floats(runtime, group, abi.PARAMS)) for group in range(4)]
        self.assertEqual((params[0], params[1]), (params[3], params[2]))
        beta1_bias, beta2_bias = 1 - 0.9 ** 7, 1 - 0.99 ** 7
        wanted = 1 - 0.01 * 0.1 - 0.01 / beta1_bias * 0.05 / ((0.01 * 0.25 / beta2_bias) ** 0.5 + 1e-8)
        self.assertAlmostEqual(params[0][0], wanted, places=6)
        self.assertNotAlmostEqual(params[1][0], wanted, places=4)

    def test_arrays_of_words_and_any_order(self):
        runtime = self.open([3] * 3)
        given = [scalars.scalars(SETTINGS, count, True) for count in (4, 5)]
        runtime.wait(runtime.submit(given, array("I", [2, 0])))
        runtime.wait(runtime.submit(given, [1], scalars_of=array("I", [1])))
        self.assertEqual([runtime.step(group) for group in range(3)], [5, 5, 4])

    def test_wrong_lists(self):
        runtime = self.open([3] * 3)
        given = [scalars.scalars(SETTINGS, 1, True)]
        with self.assertRaisesRegex(ValueError, "scalars_of has length 2; the number of groups is 3"):
            runtime.submit(given, scalars_of=[0, 0])
        with self.assertRaisesRegex(ValueError, "scalars_of is -1; it must be 0 to"):
            runtime.submit(given, [0], scalars_of=[-1])
        with self.assertRaisesRegex(ZfError, r"scalars_of\[0\] is 1, but scalar_count is 1"):
            runtime.submit(given, [0], scalars_of=[1])
        with self.assertRaisesRegex(ZfError, "there is no group 3"):
            runtime.submit(given, array("I", [3]))
        with self.assertRaisesRegex(ZfError, "scalar_count is 2 for 3 groups"):
            runtime.submit(given * 2)
        self.assertEqual(runtime.stats().submitted, 0)

    def test_the_c_function_has_the_bits_of_the_python_one(self):
        """Of that one the tests with torch know that its bits are torch's."""
        names = ("lr", "betas", "eps", "weight_decay")
        for number in range(2000):
            random = Random(number)
            settings = dict(zip(names, (10 ** random.uniform(-6, 0), (random.random(), 1 - 10 ** random.uniform(-6, 0)),
                                        10 ** random.uniform(-12, -2), random.choice((0.0, random.random())))))
            step, decoupled = random.choice((random.randint(1, 50), random.randint(1, 10 ** 9))), number % 2 == 0
            ours = adam_scalars(step, mode="adamw" if decoupled else "adam", **settings)
            torchs = scalars.scalars(settings | {"maximize": False}, step, decoupled)
            self.assertEqual(bytes(abi.Scalars(*ours)), bytes(abi.Scalars(*torchs)), settings)


if __name__ == "__main__":
    unittest.main()
