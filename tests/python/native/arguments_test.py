"""An integer that C cannot hold or an index out of range is one Python error. Needs the standard library only. Tests
native/checks.py."""

import re
import unittest

import support

from zf_runtime import Group, Runtime, adam_scalars

ONE = adam_scalars(1)


class Index:
    """An integer that is not an int, such as NumPy's."""

    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class Arguments(unittest.TestCase):
    def open(self, **options):
        runtime = Runtime(support.plan(), groups=[Group(1000), Group(10)], **options)
        self.addCleanup(runtime.close)
        return runtime

    def assert_range(self, name, value, highest, call):
        reason = f"^{name} is {value}; it must be 0 to {highest}"
        with self.subTest(name, value=value), self.assertRaisesRegex(ValueError, reason):
            call()

    def test_elements(self):
        for value in (2**70, 2**64, -1):
            self.assert_range("elements", value, 2**64 - 1, lambda value=value: Group(elements=value))
        with self.assertRaisesRegex(TypeError, "elements is 1.5"):
            Group(elements=1.5)

    def test_options(self):
        for name, highest in (("rank", 2**31 - 1), ("spin_us", 2**31 - 1), ("max_restarts", 2**31 - 1),
                              ("chunk_bytes", 2**64 - 1)):
            for value in (2**70, highest + 1, -1, -7):
                self.assert_range(name, value, highest, lambda name=name, value=value: self.open(**{name: value}))
        for name in ("start_timeout", "close_timeout"):
            for value in (-1, float("nan")):
                with self.subTest(name, value=value), self.assertRaisesRegex(ValueError, f"{name} is {value} s"):
                    self.open(**{name: value})
            with self.assertRaisesRegex(TypeError, f"{name} is '3'; it must be a number of seconds"):
                self.open(**{name: "3"})

    def test_a_path_with_a_zero_byte(self):
        runtime = self.open()
        for call in (Runtime, runtime.export_state, runtime.export_begin, runtime.import_state):
            with self.subTest(call=call.__name__), self.assertRaisesRegex(ValueError, "has a zero byte"):
                call("state\0.zf")

    def test_what_the_c_types_hold_is_taken(self):
        runtime = self.open(rank=Index(0), spin_us=2**31 - 1, max_restarts=2**31 - 1, chunk_bytes=2**64 - 1,
                            start_timeout=2**70, close_timeout=float("inf"))
        runtime.wait(runtime.submit(ONE, [Index(1)]))
        self.assertEqual((runtime.step(0), runtime.step(1)), (0, 1))

    def test_numbers(self):
        runtime = self.open()
        calls = {"ticket": (runtime.wait, lambda value: runtime.progress(0, ticket=value)),
                 "at_least": (lambda value: runtime.progress(0, value),),
                 "step": (adam_scalars,), "seed": (lambda value: adam_scalars(1, seed=value),)}
        for name, uses in calls.items():
            for use in uses:
                for value in (-1, 2**64):
                    self.assert_range(name, value, 2**64 - 1, lambda use=use, value=value: use(value))
        for value in (-1, 9, 2**32):
            self.assert_range("kind", value, 8, lambda value=value: runtime.numpy(0, value))
        self.assertEqual(runtime.stats().submitted, 0)

    def test_groups_are_not_counted_from_the_end(self):
        runtime = self.open()
        uses = (runtime.params, runtime.exp_avg, runtime.exp_avg_sq, runtime.grads, runtime.stale, runtime.copy,
                runtime.progress, runtime.norm, runtime.step, lambda group: runtime.tensor(group, 0),
                lambda group: runtime.submit(ONE, [group]), lambda group: runtime.submit_norm([0, group]))
        for number, use in enumerate(uses):
            for group in (-1, 2, 2**32, 2**64):
                reason = re.escape(f"group {group}: there are 0 to 1")
                with self.subTest(use=number, group=group), self.assertRaisesRegex(IndexError, reason):
                    use(group)
            with self.assertRaisesRegex(TypeError, "group is 'a'; it must be an integer"):
                use("a")

    def test_gradient_buffers(self):
        runtime = self.open()
        for use in (lambda buffer: runtime.grads(0, buffer), lambda buffer: runtime.norm(0, buffer),
                    lambda buffer: runtime.submit(ONE, buffer=buffer),
                    lambda buffer: runtime.submit_norm(buffer=buffer)):
            for buffer in (-1, 2, 2**32):
                with self.assertRaisesRegex(ValueError, f"gradient buffer {buffer}: there are 0 and 1"):
                    use(buffer)
            with self.assertRaisesRegex(TypeError, "gradient buffer is 1.0"):
                use(1.0)
        runtime.grads(0, Index(1))

    def test_moment_sets(self):
        runtime = self.open()
        for use in (runtime.exp_avg, runtime.exp_avg_sq):
            for number in (-1, 2, 2**32):
                with self.assertRaisesRegex(ValueError, f"moment set {number}: there are 0 and 1"):
                    use(0, number)
            with self.assertRaisesRegex(TypeError, "moment set is 1.0"):
                use(0, 1.0)
            use(0, Index(0))
        with self.assertRaisesRegex(TypeError, "moment_sets is '2'"):
            Group(1, moment_sets="2")
        with self.assertRaisesRegex(ValueError, "grad_buffers is 3; it must be 1 or 2"):
            Group(1, grad_buffers=3)


if __name__ == "__main__":
    unittest.main()
