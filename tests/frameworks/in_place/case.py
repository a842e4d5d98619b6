"""What the cases share: a small model, and the same program run with torch's optimizer and with ours."""

import copy
import unittest
import warnings

import torch
import zf_runtime
from zf_runtime.optim.in_place import pointers

pointers.FEW = 0  # models here have few tensors, and are looked at as those with many
ROUNDING = {"rtol": 2e-5, "atol": 2e-6}  # of some tens of steps at lr 1e-2; parameters are about 0.1


def make_model(dtype=torch.float32, seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(10, 33), torch.nn.Tanh(), torch.nn.Linear(33, 7)).to(dtype)


def batch(step: int, dtype=torch.float32):
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(20, 10, generator=generator)
    return inputs.to(dtype), torch.tanh(2 * inputs[:, :7]).to(dtype)


def loss_of(model, step: int):
    inputs, targets = batch(step, next(model.parameters()).dtype)
    return torch.nn.functional.mse_loss(model(inputs).float(), targets.float())


def train(model, optimizer, steps=5, first=0):
    losses = []
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss = loss_of(model, step)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def tensors_of(model) -> list:
    return [param.detach().clone() for param in model.parameters()]


def states_of(optimizer) -> list:
    """Returns step, exp_avg and exp_avg_sq of every parameter that has a state, in the order of the param_groups."""
    return [torch.as_tensor(optimizer.state[param][name]).detach().clone().float()
            for group in optimizer.param_groups for param in group["params"] if param in optimizer.state
            for name in ("step", "exp_avg", "exp_avg_sq")]


class WithMasters:
    """torch.optim.AdamW over fp32 masters, with 16-bit parameters as copies; a parameter that was written wins."""

    def __init__(self, params, lr=1e-2, optimizer=torch.optim.AdamW, **options):
        self.params = list(params)
        self.masters = [torch.nn.Parameter(param.detach().float()) for param in self.params]
        self.inner = optimizer(self.masters, lr=lr, **options)

    def zero_grad(self):
        for param in self.params:
            param.grad = None

    @torch.no_grad()
    def step(self):
        for param, master in zip(self.params, self.masters):
            master.copy_(torch.where(master.to(param.dtype) == param, master, param.float()))
            master.grad = None if param.grad is None else param.grad.float()
        self.inner.step()
        for param, master in zip(self.params, self.masters):
            param.copy_(master)


class Case(unittest.TestCase):
    theirs, ours = torch.optim.AdamW, zf_runtime.AdamW

    def setUp(self):
        torch.manual_seed(0)
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.simplefilter("error")  # all is stepped by the engine, unless a case says otherwise
        warnings.filterwarnings("default", module="torch")
        warnings.filterwarnings("default", category=DeprecationWarning)
        warnings.filterwarnings("default", category=FutureWarning)
        warnings.filterwarnings("error", message="zf_runtime")

    def expect_torch_steps(self):
        warnings.filterwarnings("ignore", message="zf_runtime")

    def same(self, program, **tolerance):
        """Runs program(optimizer class), which returns tensors, with both classes. They agree within rounding."""
        wanted, got = program(self.theirs), program(self.ours)
        self.assertEqual(len(got), len(wanted))
        for at, (mine, yours) in enumerate(zip(got, wanted)):
            torch.testing.assert_close(mine, yours, **ROUNDING | tolerance,
                                       msg=lambda text, at=at: f"tensor {at}: {text}")
        return got

    def trained_like_torch(self, prepare, steps=20, make=make_model, lr=1e-2, **options):
        """prepare(model, optimizer, step) is called before each step of a training."""
        def program(optimizer_class):
            model = make()
            before = tensors_of(model)
            optimizer = optimizer_class(model.parameters(), lr=lr, **options)
            for step in range(steps):
                prepare(model, optimizer, step)
                train(model, optimizer, 1, step)
            moved = [not torch.equal(*both) for both in zip(before, tensors_of(model))]
            self.assertTrue(any(moved), "nothing was trained")
            return tensors_of(model) + states_of(optimizer)

        self.same(program)


def deep(state_dict):
    return copy.deepcopy(state_dict)
