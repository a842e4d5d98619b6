"""Shared by the tests of OverlappedAdamW."""

import unittest

import support

torch = support.need("torch")
from models import parameters_of  # noqa: E402
from zf_runtime._in_arena import InArena  # noqa: E402

ROUNDING = {"rtol": 2e-5, "atol": 2e-6}  # of 50 steps; parameters are about 0.1


class AdamWTest(unittest.TestCase):
    def ours(self, params, **options):
        """An optimizer over an arena, also with overlap=False, that is closed when the test is over."""
        optimizer = InArena(params, plan=support.plan(), **options)
        self.addCleanup(optimizer.close)
        return optimizer

    def assert_same(self, got, wanted):
        torch.testing.assert_close(parameters_of(got), parameters_of(wanted), **ROUNDING)
