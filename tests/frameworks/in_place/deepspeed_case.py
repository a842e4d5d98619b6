"""What the cases of DeepSpeedCPUAdam share: a program that runs with DeepSpeed's own operator and with install().

Lengths are multiples of 16, except where a case says otherwise."""

import contextlib
import io
import sys
import unittest
from unittest import mock

import torch
import zf_runtime.deepspeed

with contextlib.redirect_stdout(sys.stderr):
    from deepspeed.ops.adam import DeepSpeedCPUAdam
from zf_runtime.deepspeed import messages, operator
from zf_runtime.native import local_calls

LENGTHS = (16, 48, 64, 128, 1600, 4096 + 32)


def parameters(lengths=LENGTHS, seed=3, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(length, generator=generator).to(dtype)) for length in lengths]


def give_gradients(params, step: int):
    for at, param in enumerate(params):
        generator = torch.Generator().manual_seed(1000 * step + at)
        param.grad = torch.randn(param.shape, generator=generator).to(param.dtype)


def steps(params, optimizer, numbers=range(1, 9)):
    for step in numbers:
        give_gradients(params, step)
        optimizer.step()


def everything(params, optimizer) -> list:
    """Returns parameters, moments and counts."""
    found = []
    for param in params:
        state = optimizer.state.get(param, {})
        found += [param.detach().clone(), *(torch.as_tensor(state[name]).clone() for name in sorted(state))]
    return found


def bits(tensor) -> list:
    tensor = tensor.contiguous()
    return tensor.view(torch.uint8).tolist() if tensor.dim() else [float(tensor)]


def steps_of_engine() -> int:
    return int(local_calls.engine().statistics().steps)


class Case(unittest.TestCase):
    def setUp(self):
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        self.addCleanup(zf_runtime.deepspeed.uninstall)
        messages.say_once.cache_clear()

    def make(self, *arguments, **settings):
        """Returns a DeepSpeedCPUAdam. Its operator is ours between install() and uninstall()."""
        with contextlib.redirect_stdout(sys.stderr):
            return DeepSpeedCPUAdam(*arguments, **settings)

    def same_bits(self, program, in_place=True):
        """program() returns tensors. They are the same bits with DeepSpeed's own operator and with ours. in_place:
        whether all steps are the local engine's."""
        zf_runtime.deepspeed.uninstall()
        wanted = program()
        zf_runtime.deepspeed.install()
        before, said = steps_of_engine(), io.StringIO()
        with mock.patch.object(operator.CpuAdamOperator, "own", property(self.refuse_own)) if in_place \
                else contextlib.nullcontext(), contextlib.redirect_stderr(said):
            got = program()
        self.said = said.getvalue()
        self.in_place = steps_of_engine() - before
        if in_place:
            self.assertGreater(self.in_place, 0, "nothing was stepped in place")
            self.assertEqual(self.said.count("\n"), 1, self.said)
            self.assertIn("zf_runtime.deepspeed: DeepSpeedCPUAdam steps in place: ", self.said)
        self.assertEqual(len(wanted), len(got))
        for at, both in enumerate(zip(wanted, got)):
            self.assertEqual(*map(bits, both), f"tensor {at}")
        return got

    def refuse_own(self, operator):
        raise AssertionError("DeepSpeed's own operator was asked for")


class Subclass(torch.Tensor):
    """What the engine does not take, although it is fp32: in 16 bits the last bits of a step are not seen."""
