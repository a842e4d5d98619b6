"""What the cases of mode exact share: a program that runs in it and with overlap="off", and must give the same bits."""

import functools
import os
import signal
import subprocess
import tempfile
import threading
import unittest
import warnings

import case
import torch
import zf_runtime
from zf_runtime.optim.overlap import opened

# Each parameter is waited for by itself, as large ones are. These models are so small that they would be one share.
opened._cut = lambda places: [[place] for place in places]

_folder = tempfile.TemporaryDirectory(prefix="zf-overlap-test-")


@functools.cache
def plan(ranks=1):
    """Returns a plan for mode exact on these CPUs."""
    path = f"{_folder.name}/{ranks}.json"
    subprocess.run([case.support.TUNE, "plan", "-q", "--mode", "exact", "--ranks", str(ranks), "-o", path], check=True,
                   timeout=60)
    return path


def make_model(seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(10, 33), torch.nn.Tanh(), torch.nn.Linear(33, 7))


def batch(step):
    inputs = torch.randn(20, 10, generator=torch.Generator().manual_seed(step))
    return inputs, torch.tanh(inputs[:, :7])


def loss_of(model, step):
    inputs, targets = batch(step)
    return torch.nn.functional.mse_loss(model(inputs), targets)


def values_of(model):
    return [param.detach().clone() for param in model.parameters()]


def is_under_way(optimizer):
    return optimizer.overlap == "exact" and optimizer._engine.opened.overlap.turn is not None


def pause(optimizer):
    """Lets the optimizer process stand still for a moment, if there is one: a read that does not wait finds old
    values."""
    if optimizer.overlap == "exact":
        pid = optimizer.runtime.stats().worker_pid
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(0.01, os.kill, (pid, signal.SIGCONT)).start()


class Counted:
    """Counts the gradients that step() found in the arena already, and those that it had to copy."""

    def __init__(self, optimizer):
        self.early, self.copied = 0, 0
        gradients = optimizer._engine.opened.gradients
        overtaken = gradients._overtaken

        def counting(places, *more):
            held, found = set(gradients._copied), overtaken(places, *more)
            self.copied += len(found)
            self.early += len(places) - len(found) if held else 0
            return found

        gradients._overtaken = counting


class Case(unittest.TestCase):
    modes = ("off", "exact")

    def setUp(self):
        case.forget_compiled()
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.filterwarnings("ignore", message=".*the plan is for mode")
        warnings.filterwarnings("ignore", message=".*with parameters on the CPU")

    def ours(self, params, overlap, **options):
        optimizer = zf_runtime.AdamW(params, **{"lr": 1e-2, "runtime_options": {}, **options}, overlap=overlap,
                                     plan=plan())
        self.addCleanup(optimizer.close)
        return optimizer

    def same(self, program, **options):
        """Runs program(make), which returns tensors and numbers, in both modes. make(params) makes the optimizer."""
        wanted, got = (program(lambda params, mode=mode, **more: self.ours(params, mode, **options, **more))
                       for mode in self.modes)
        self.assertEqual(len(got), len(wanted))
        for number, (mine, theirs) in enumerate(zip(got, wanted)):
            equal = torch.equal(mine, theirs) if isinstance(mine, torch.Tensor) else mine == theirs
            self.assertTrue(equal, f"result {number}: {mine} is not {theirs}")
        return got

    def trained(self, each_step=lambda model, optimizer, step: None, steps=8, model=make_model, zero=True,
                loss=loss_of, **options):
        """Trains in both modes; each_step() is called between backward and step()."""
        def program(make):
            net, losses = model(), []
            optimizer = make(net.parameters())
            for step in range(steps):
                if zero:
                    optimizer.zero_grad()
                found = loss(net, step)
                found.backward()
                each_step(net, optimizer, step)
                optimizer.step()
                losses.append(found.item())
            optimizer.synchronize()
            return [*losses, *values_of(net)]

        return self.same(program, **options)
