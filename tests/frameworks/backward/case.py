"""What the cases share: one program is run with overlap="off" and with "backward", and leaves the same bits."""

import unittest
import warnings

import torch
import zf_runtime
from zf_runtime.native import planned

SMALL, BIG = 12, 300  # a square of BIG is more than the engine collects


def make_model(width=SMALL, dtype=torch.float32, layers=3):
    torch.manual_seed(1)
    made = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Tanh()) for _ in range(layers)]
    return torch.nn.Sequential(*made, torch.nn.Linear(width, 5)).to(dtype)


def loss_of(model, step: int, width=0):
    first = next(model.parameters())
    inputs = torch.randn(8, width or first.shape[-1], generator=torch.Generator().manual_seed(step)).to(first.dtype)
    return model(inputs).float().sub(1).square().mean()


def adamw(params, overlap, **options):
    return zf_runtime.AdamW(params, **{"lr": 1e-2} | options, overlap=overlap)


def turn(model, optimizer, step: int):
    optimizer.zero_grad()
    loss_of(model, step).backward()
    optimizer.step()


def left(model) -> list:
    """Returns the parameters that have a gradient."""
    return [param for param in model.parameters() if param.grad is not None]


def bits_of(model, optimizer) -> list:
    """Returns all parameters and their states."""
    states = [optimizer.state.get(param, {}) for group in optimizer.param_groups for param in group["params"]]
    tensors = [torch.as_tensor(state[name]).clone() for state in states for name in sorted(state)]
    return [param.detach().clone() for param in model.parameters()] + tensors


class Case(unittest.TestCase):
    def setUp(self):
        planned._said.clear()
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("error")
        warnings.filterwarnings("default", module="torch")
        for kind in (DeprecationWarning, FutureWarning):
            warnings.filterwarnings("default", category=kind)

    def same(self, program):
        """Runs program(overlap), which returns a model and its optimizer. All bits are the same."""
        wanted, got = (bits_of(*program(overlap)) for overlap in ("off", "backward"))
        self.assertEqual(len(got), len(wanted))
        self.assertTrue(all(map(torch.equal, wanted, got)), "the bits differ")

    def trained(self, prepare=lambda model, optimizer, step: None, make=make_model, steps=4, turn=turn, **options):
        """prepare(model, optimizer, step) is called before each step."""
        def program(overlap):
            model = make()
            optimizer = adamw(model.parameters(), overlap, **options)
            for step in range(steps):
                prepare(model, optimizer, step)
                turn(model, optimizer, step)
            self.assertGreater(max(float(state["step"]) for state in optimizer.state.values()), 0)
            return model, optimizer

        self.same(program)

    def refused(self, words: str):
        return self.assertRaisesRegex(zf_runtime.ZfError, words)
