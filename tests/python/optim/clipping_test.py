"""Gradients are clipped by the factor of torch.nn.utils.clip_grad_norm_(), and by none where their norm is not finite.
Tests optim/tensors/clipping.py."""

import math
import unittest

import support

torch = support.need("torch")
from zf_runtime.optim.tensors import clipping  # noqa: E402


class Factor(unittest.TestCase):
    def test_it_is_torchs_in_every_bit(self):
        generator = torch.Generator().manual_seed(1)
        for size in (1e-3, 0.1, 1.0, 30.0):
            for limit in (0.0, 0.5, 1.0, 7.0):
                param = torch.nn.Parameter(torch.zeros(100))
                gradient = size * torch.randn(100, generator=generator)
                param.grad = gradient.clone()
                norm = torch.nn.utils.clip_grad_norm_([param], limit).item()
                with self.subTest(size=size, limit=limit):
                    self.assertTrue(torch.equal(gradient * clipping.coefficient(norm, limit), param.grad))

    def test_it_never_makes_gradients_larger(self):
        self.assertEqual(clipping.coefficient(0.5, 1.0), 1.0)

    def test_a_norm_that_is_not_finite_clips_to_nan(self):
        for norm in (math.inf, math.nan):
            self.assertTrue(math.isnan(clipping.coefficient(norm, 1.0)))


class Norm(unittest.TestCase):
    def test_it_is_of_all_gradients_that_there_are(self):
        params = [torch.nn.Parameter(torch.zeros(size)) for size in (2, 3, 5)]
        params[0].grad, params[2].grad = torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0, 0.0, 0.0, 12.0])
        self.assertEqual((clipping.norm_in_place(params), clipping.norm_in_place([])), (13.0, 0.0))

    def test_sums_that_are_not_finite_stay_so(self):
        self.assertEqual(clipping.total([9.0, 16.0]), 5.0)
        self.assertEqual(clipping.total([9.0, math.inf]), math.inf)
        self.assertTrue(math.isnan(clipping.total([9.0, math.nan])))


class Limit(unittest.TestCase):
    def test_what_is_no_limit_is_refused(self):
        for value in (None, 0, 1.5, math.inf):
            clipping.check_max_norm(value)
        for value in (-1, math.nan):
            with self.subTest(value), self.assertRaisesRegex(ValueError, f"clip_grad_norm is {value}; it must be"):
                clipping.check_max_norm(value)


if __name__ == "__main__":
    unittest.main()
