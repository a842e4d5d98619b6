"""clip_grad_norm_() counts for the next step of the gradients that it has seen, and for no other. The engine only says
a norm. Tests optim/clips.py."""

import math
import types
import unittest

import case  # noqa: F401
import torch
from zf_runtime import ZfError
from zf_runtime.optim.clips import Clips


class Optimizer(Clips):
    def __init__(self, norm=5.0, max_norm=None):
        self.param = torch.nn.Parameter(torch.zeros(2))
        self.param.grad = torch.ones(2)
        self._max_norm = max_norm
        self._engine = types.SimpleNamespace(norm=lambda: norm, drop_gradients=lambda: None)
        super().__init__([self.param], {})


class Clipped(unittest.TestCase):
    def test_the_next_step_is_clipped_and_the_one_behind_it_is_not(self):
        optimizer = Optimizer()
        norm = optimizer.clip_grad_norm_(max_norm=1.0)
        self.assertEqual((norm.item(), optimizer.grad_norm), (5.0, 5.0))
        limit, factor = optimizer._take_limit(None)
        self.assertIsNone(limit)
        self.assertAlmostEqual(factor, 0.2, delta=1e-6)
        self.assertEqual(optimizer._take_limit(None), (None, 1.0))

    def test_without_max_norm_it_is_that_of_the_constructor(self):
        optimizer = Optimizer(max_norm=2.5)
        self.assertEqual(optimizer._take_limit(None), (2.5, 1.0))
        optimizer.clip_grad_norm_()
        self.assertAlmostEqual(optimizer._take_limit(None)[1], 0.5, delta=1e-6)

    def test_max_norm_of_a_step_comes_before_all_others(self):
        optimizer = Optimizer(max_norm=2.5)
        optimizer.clip_grad_norm_(max_norm=1.0)
        self.assertEqual(optimizer._take_limit(4.0), (4.0, 1.0))

    def test_it_is_forgotten_with_the_gradients(self):
        def replace(optimizer):
            optimizer.param.grad = torch.ones(2)

        for forget in (replace, Clips.zero_grad):
            optimizer = Optimizer()
            optimizer.clip_grad_norm_(max_norm=1.0)
            forget(optimizer)
            self.assertEqual(optimizer._take_limit(None), (None, 1.0), forget)

    def test_a_norm_that_is_not_finite_raises_only_if_asked_to(self):
        optimizer = Optimizer(norm=math.inf)
        with self.assertRaisesRegex(RuntimeError, "the norm of the gradients is inf"):
            optimizer.clip_grad_norm_(max_norm=1.0, error_if_nonfinite=True)
        optimizer.clip_grad_norm_(max_norm=1.0)
        self.assertTrue(math.isnan(optimizer._take_limit(None)[1]))

    def test_another_norm_and_no_limit_are_refused(self):
        with self.assertRaisesRegex(ZfError, "norm_type is 1.0; this optimizer takes the norm of type 2"):
            Optimizer().clip_grad_norm_(max_norm=1.0, norm_type=1.0)
        with self.assertRaisesRegex(ValueError, "max_norm is -1"):
            Optimizer().clip_grad_norm_(max_norm=-1)
        with self.assertRaisesRegex(ValueError, "max_norm is -1; it must be"):
            Optimizer()._take_limit(-1)

    def test_a_wrapper_of_lightning_clips_what_it_wraps(self):
        optimizer = Optimizer()
        wrapper = object.__new__(type("Wrapper", (Optimizer,), {}))
        wrapper._optimizer = optimizer
        wrapper.clip_grad_norm_(max_norm=1.0)
        self.assertEqual((wrapper.grad_norm, optimizer.grad_norm), (5.0, 5.0))
        self.assertAlmostEqual(optimizer._take_limit(None)[1], 0.2, delta=1e-6)


if __name__ == "__main__":
    unittest.main()
