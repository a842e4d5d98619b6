"""What the cases share: AdamW with an optimizer process in each of its modes, and the same step in place beside it."""

import os
import pathlib
import sys
import unittest
import unittest.mock
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python/helpers"))
import support

import interrupts  # noqa: F401
import torch
import zf_runtime
from models import parameters_of
from zf_runtime.optim.overlap import compiled, gradients

gradients._AT_ONCE = 1  # byte: these parameters are small, and their gradients are copied early all the same

ROUNDING = {"rtol": 2e-5, "atol": 2e-6}  # of 50 steps; parameters are about 0.1
MODES = ("off", "late", "exact")
WAITING = ("off", "exact")  # what step() has done, the next forward finds
EXPECTED = (".*the plan is for", ".*with parameters on the CPU")


SPECULATES = bool(os.environ.get("ZF_SPECULATES"))  # in mode exact steps begin in backward, in whatever cases
if SPECULATES:
    new_engine = zf_runtime.AdamW._new_engine

    def speculating(self):
        self._speculates = self._mode == "exact"
        return new_engine(self)

    zf_runtime.AdamW._new_engine = speculating


def with_process(params, overlap="late", *, make=zf_runtime.AdamW, plan=None, **options):
    """Returns an optimizer with a process. overlap="off" has one for parameters on a GPU alone: these look like
    some."""
    with unittest.mock.patch("zf_runtime.optim.adam._has_gpu", lambda params: True):
        return make(params, overlap=overlap, plan=plan or support.plan(), **options)


def forget_compiled():
    """Lets torch.compile count as unused, whatever other cases have compiled before: else each step waits."""
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
    compiled._state["is used"] = False


class Reader(torch.nn.Module):
    """A module over parameters of any shapes. Its backward gives them exactly the gradients that forward() gets."""

    def __init__(self, params):
        super().__init__()
        for number, param in enumerate(params):
            self.register_parameter(f"at_{number}", param)

    def forward(self, gradients):
        """gradients: one for each parameter; None: it gets none."""
        products = [(param * gradient).sum() for param, gradient in zip(self._parameters.values(), gradients)
                    if gradient is not None]
        return torch.stack([product.float() for product in products]).sum()

    def give(self, gradients):
        """Drops the gradients that there are, and makes these by forward and backward."""
        for param in self._parameters.values():
            param.grad = None
        self(gradients).backward()


class AdamWTest(unittest.TestCase):
    def setUp(self):
        forget_compiled()
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("error")
        warnings.filterwarnings("default", module="torch")
        warnings.filterwarnings("error", message="zf_runtime")  # also if torch has called it
        for message in EXPECTED:
            warnings.filterwarnings("ignore", message=message)

    def ours(self, params, overlap="late", **options):
        """Returns an optimizer with a process, also with overlap="off", that is closed when the test is over."""
        optimizer = with_process(params, overlap, **options)
        self.addCleanup(optimizer.close)
        return optimizer

    def assert_same(self, got, wanted):
        torch.testing.assert_close(parameters_of(got), parameters_of(wanted), **ROUNDING)

    def assert_bits(self, got, wanted, *place):
        """Compares two lists, or dicts, of tensors and other values: tensors bit for bit."""
        if isinstance(wanted, dict):
            self.assertEqual(set(got), set(wanted), place)
            for name, value in wanted.items():
                self.assert_bits(got[name], value, *place, name)
        elif isinstance(wanted, (list, tuple)):
            self.assertEqual(len(got), len(wanted), place)
            for number, (one, other) in enumerate(zip(got, wanted)):
                self.assert_bits(one, other, *place, number)
        elif isinstance(wanted, torch.Tensor):
            self.assertEqual((got.dtype, got.shape), (wanted.dtype, wanted.shape), place)
            self.assertTrue(torch.equal(got, wanted), (place, got, wanted))
        else:
            self.assertEqual(got, wanted, place)
