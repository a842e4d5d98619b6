"""NumPy views are the runtime's own memory, and its steps are the documented arithmetic, bit for bit. Tests
native/group.py, native/runtime.py."""

import gc
import os
import signal
import unittest

import support

np = support.need("numpy")
from reference_adam import ReferenceGroup  # noqa: E402
from zf_runtime import Group, Runtime, ZfBusy, ZfError, ZfTimeout, adam_scalars  # noqa: E402

ONE = adam_scalars(1)


def bits(array):
    return array.view(np.uint32 if array.dtype == np.float32 else np.uint16)


class Views(unittest.TestCase):
    def test_they_alias_the_optimizers_memory(self):
        with Runtime(support.plan(), groups=[Group(1000)]) as runtime:
            first, second = runtime.params(0), runtime.params(0)
            self.assertEqual(first.ctypes.data, second.ctypes.data)
            first[:] = 3
            self.assertEqual(second[999], 3)
            runtime.grads(0)[:] = -1
            runtime.wait(runtime.submit(adam_scalars(1, lr=0.5)))
            np.testing.assert_allclose(second, 3.5, rtol=1e-6)  # the first step is lr long
            np.testing.assert_allclose(runtime.exp_avg(0), -0.1, rtol=1e-6)
            np.testing.assert_allclose(runtime.exp_avg_sq(0), 1e-3, rtol=1e-4)

    def test_types_and_shapes(self):
        groups = [Group(7, grad_type="bf16", copy_type="f16", stale=True), Group(0)]
        with Runtime(support.plan(), groups=groups) as runtime:
            for view, dtype in ((runtime.grads(0, 1), np.uint16), (runtime.copy(0), np.float16),
                                (runtime.stale(0), np.float32), (runtime.params(0), np.float32)):
                self.assertEqual((view.dtype, view.shape), (np.dtype(dtype), (7,)))
                self.assertTrue(view.flags.writeable)
            self.assertEqual(runtime.params(1).shape, (0,))
            with self.assertRaisesRegex(ZfError, "no buffer of kind"):
                runtime.copy(1)
            with self.assertRaisesRegex(IndexError, "group 2: there are 0 to 1"):
                runtime.params(2)

    def test_they_outlive_close_and_then_free_the_memory(self):
        before = support.mapped_arenas()
        with Runtime(support.plan(), groups=[Group(4096)]) as runtime:
            view = runtime.params(0)[10:20]
            view[:] = 7
            pid = runtime.stats().worker_pid
        self.assertFalse(support.process_exists(pid))
        self.assertEqual(view.sum(), 70)
        with self.assertRaisesRegex(ZfError, "closed"):
            runtime.params(0)
        self.assertGreater(support.mapped_arenas(), before)
        del view
        gc.collect()
        self.assertEqual(support.mapped_arenas(), before)

    def test_they_outlive_a_runtime_that_nobody_closed(self):
        before = support.mapped_arenas()
        runtime = Runtime(support.plan(), groups=[Group(100)])
        pid = runtime.stats().worker_pid
        view = runtime.params(0)
        del runtime
        gc.collect()
        view[:] = 1
        del view
        gc.collect()
        self.assertFalse(support.process_exists(pid))
        self.assertEqual(support.mapped_arenas(), before)


class Steps(unittest.TestCase):
    GROUPS = (Group(100003), Group(12345, stale=True), Group(7), Group(5001, grad_type="f16", copy_type="f16"))
    SETTINGS = ({"weight_decay": 0.01}, {"mode": "adam", "weight_decay": 0.1, "lr": 3e-4},
                {"bias_correction": False, "betas": (0.8, 0.99)}, {"eps": 1e-4})

    def test_agree_bit_for_bit_with_numpy(self):
        random = np.random.default_rng(1)
        with Runtime(support.plan(), groups=self.GROUPS) as runtime:
            wanted = []
            for index, group in enumerate(self.GROUPS):
                runtime.params(index)[:] = random.standard_normal(group.elements, dtype=np.float32)
                wanted.append(ReferenceGroup(runtime.params(index)))
            for step in range(6):
                buffer, scale = step % 2, 0.125 if step == 2 else 1.0
                scalars = [adam_scalars(step + 1, **settings, grad_scale=scale) for settings in self.SETTINGS]
                for index, want in enumerate(wanted):
                    grads = runtime.grads(index, buffer)
                    grads[:] = random.standard_normal(grads.size, dtype=np.float32)
                    want.step(grads.astype(np.float32), scalars[index])
                runtime.wait(runtime.submit(scalars, buffer=buffer))
                for index, want in enumerate(wanted):
                    self.check_group(runtime, index, want)

    def check_group(self, runtime, index, want):
        for name, got, expected in (("p", runtime.params(index), want.p), ("m", runtime.exp_avg(index), want.m),
                                    ("v", runtime.exp_avg_sq(index), want.v)):
            np.testing.assert_array_equal(bits(got), bits(expected), f"{name} of group {index}")
        if self.GROUPS[index].stale:
            np.testing.assert_array_equal(bits(runtime.stale(index)), bits(want.p))
        if self.GROUPS[index].copy_type == "f16":
            np.testing.assert_array_equal(bits(runtime.copy(index)), bits(want.p.astype(np.float16)))

    def test_two_sets_of_moments_agree_bit_for_bit_with_numpy(self):
        random = np.random.default_rng(3)
        group = Group(5001, moment_sets=2)
        with Runtime(support.plan(), groups=[group]) as runtime:
            want = ReferenceGroup(runtime.params(0))
            sets = [(want.m, want.v), (want.m, want.v)]
            for step in range(6):
                buffer = step % 2
                grads = runtime.grads(0, buffer)
                grads[:] = random.standard_normal(grads.size, dtype=np.float32)
                want.m, want.v = sets[buffer]
                scalars = adam_scalars(step + 1, weight_decay=0.01)
                want.step(grads, scalars)
                sets[buffer] = want.m, want.v
                runtime.wait(runtime.submit(scalars, buffer=buffer))
                np.testing.assert_array_equal(bits(runtime.params(0)), bits(want.p))
                for number, (m, v) in enumerate(sets):
                    np.testing.assert_array_equal(bits(runtime.exp_avg(0, number)), bits(m))
                    np.testing.assert_array_equal(bits(runtime.exp_avg_sq(0, number)), bits(v))

    def test_groups_may_go_one_by_one(self):
        with Runtime(support.plan(), groups=[Group(10), Group(10)]) as runtime:
            for index in (0, 1):
                runtime.grads(index)[:] = 1
            runtime.wait(runtime.submit(ONE, [1]))
            self.assertEqual(runtime.params(0).any(), False)
            self.assertTrue(runtime.params(1).all())
            self.assertEqual(runtime.stats().completed, 1)
            self.assertTrue(runtime.done())


class WhileItRuns(unittest.TestCase):
    def test_progress_counts_chunks_and_is_all_in_the_end(self):
        n = 500001
        with Runtime(support.plan(), groups=[Group(n, copy_type="f16")], chunk_bytes=8192) as runtime:
            runtime.grads(0)[:] = 1
            ticket = runtime.submit(ONE)
            sent = 0
            while sent < n:
                done = runtime.progress(0, sent + 1, ticket=ticket)
                self.assertTrue(done == n or (done > sent and done % 4096 == 0))
                np.testing.assert_array_equal(bits(runtime.copy(0)[sent:done]),
                                              bits(runtime.params(0)[sent:done].astype(np.float16)))
                self.assertTrue(runtime.params(0)[sent:done].all())
                sent = done
            runtime.wait(ticket)
            os.kill(runtime.stats().worker_pid, signal.SIGSTOP)
            try:
                runtime.submit(ONE)
                self.assertEqual(runtime.progress(0, 1, timeout=0.01), 0)
            finally:
                os.kill(runtime.stats().worker_pid, signal.SIGCONT)

    def test_the_end_of_a_copy_waits_for_a_stopped_process_no_longer_than_for_its_close(self):
        with Runtime(support.plan(), groups=[Group(10)], close_timeout=0.2) as runtime:
            worker = runtime.stats().worker_pid
            os.kill(worker, signal.SIGSTOP)
            try:
                runtime.save_begin()
                runtime.save_end()
                with self.assertRaisesRegex(ZfBusy, "has not stopped copying"):
                    runtime.save_begin()
            finally:
                os.kill(worker, signal.SIGCONT)
            runtime.wait()
            runtime.save_begin()
            runtime.save_wait()
            runtime.save_end()

    def test_norms_agree_with_numpy(self):
        random = np.random.default_rng(2)
        with Runtime(support.plan(), groups=[Group(100003), Group(5001, grad_type="f16")]) as runtime:
            for index in (0, 1):
                grads = runtime.grads(index, 1)
                grads[:] = random.standard_normal(grads.size, dtype=np.float32)
            runtime.submit_norm(buffer=1)
            runtime.wait()
            for index in (0, 1):
                wanted = np.sum(runtime.grads(index, 1).astype(np.longdouble) ** 2)
                norm = runtime.norm(index, 1)
                self.assertTrue(norm.finite)
                self.assertAlmostEqual(norm.sum_of_squares, float(wanted), delta=1e-12 * float(wanted))
            runtime.grads(1, 1)[4] = np.nan
            runtime.wait(runtime.submit_norm([1], buffer=1))
            self.assertFalse(runtime.norm(1, 1).finite)

    def test_wishes_for_memory_are_met_or_noted(self):
        with Runtime(support.plan(), groups=[Group(1 << 20)], huge_pages="try", lock_memory="try") as runtime:
            stats = runtime.stats()
            self.assertTrue(stats.huge_bytes or "huge" in stats.memory_note)
            self.assertTrue(stats.locked_bytes or "mlock" in stats.memory_note)
            self.assertTrue(stats.pages_on_plan or "move_pages" in stats.memory_note)
        with self.assertRaisesRegex(ValueError, "lock_memory"):
            Runtime(support.plan(), groups=[Group(1)], lock_memory="yes")


class Calls(unittest.TestCase):
    def test_a_step_that_takes_long_is_a_timeout_and_its_buffer_busy(self):
        with Runtime(support.plan(), groups=[Group(1000)]) as runtime:
            worker = runtime.stats().worker_pid
            os.kill(worker, signal.SIGSTOP)
            try:
                ticket = runtime.submit(ONE)
                with self.assertRaises(ZfBusy):
                    runtime.submit(ONE)
                self.assertFalse(runtime.done(ticket))
                with self.assertRaisesRegex(ZfTimeout, "0.25 s") as caught:
                    runtime.wait(ticket, timeout=0.25)
                self.assertIsInstance(caught.exception, TimeoutError)
            finally:
                os.kill(worker, signal.SIGCONT)
            runtime.wait(ticket)

    def test_wrong_arguments_are_named(self):
        for change in ({"grad_type": "f64"}, {"grad_type": None}, {"copy_type": "f8"},
                       {"elements": -1}, {"moment_sets": 0}, {"moment_sets": 3}):
            with self.subTest(change), self.assertRaisesRegex(ValueError, next(iter(change))):
                Group(**{"elements": 1, **change})
        with self.assertRaisesRegex(ZfError, "beta1"):
            adam_scalars(1, betas=(1.0, 0.9))
        with self.assertRaisesRegex(ValueError, "mode is 'sgd'; it must be one of 'adam', 'adamw'"):
            adam_scalars(1, mode="sgd")
        with Runtime(support.plan(), groups=[Group(1)]) as runtime:
            with self.assertRaisesRegex(ZfError, "no buffer of kind 7; .* the moments of set 1 exist only if"):
                runtime.exp_avg(0, 1)
            with self.assertRaisesRegex(ValueError, "buffer 2"):
                runtime.grads(0, 2)
            with self.assertRaisesRegex(ValueError, "buffer 2"):
                runtime.submit(ONE, buffer=2)
            with self.assertRaises(ValueError):
                runtime.submit(ONE, [])
            with self.assertRaisesRegex(ZfError, "ticket"):
                runtime.wait(99)


if __name__ == "__main__":
    unittest.main()
