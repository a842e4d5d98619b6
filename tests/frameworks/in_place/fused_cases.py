"""How far a step in place is from torch.optim.AdamW(fused=True), and that errors which look small are far. Tests
optim/in_place/engine.py."""

import copy
import pathlib
import sys
import unittest

import torch
import zf_runtime
from case import WithMasters
from zf_runtime.native import scalars
from zf_runtime.optim.in_place import engine

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from ulps import ELEMENTS, LR, ulps_between


def distance_of_each_step(steps=10):
    """Steps 1M elements from the same p, m, v and g with both, and goes on from what fused has made."""
    generator = torch.Generator().manual_seed(7)
    param = torch.nn.Parameter(torch.randn(ELEMENTS, generator=generator))
    theirs = torch.optim.AdamW([param], lr=LR, fused=True)
    furthest = 0.0
    for _ in range(steps):
        again = torch.nn.Parameter(param.detach().clone())
        ours = zf_runtime.AdamW([again], lr=LR)
        if theirs.state[param]:
            ours.load_state_dict(copy.deepcopy(theirs.state_dict()))
        param.grad = torch.randn(ELEMENTS, generator=generator)
        again.grad = param.grad.clone()
        theirs.step()
        ours.step()
        furthest = max(furthest, ulps_between(again.detach(), param.detach()))
    return furthest


class OneStep(unittest.TestCase):
    """Each costs 0.5 s."""

    def with_scalars(self, change):
        right = scalars.scalars
        self.addCleanup(setattr, engine, "scalars", right)
        engine.scalars = lambda group, count, *others: change(list(right(group, count, *others)), group, count)
        return distance_of_each_step()

    def test_ten_steps_are_within_8_ulp_of_fused(self):
        """Seen: 5 to 6."""
        furthest = distance_of_each_step()
        print(f"{furthest:.1f} ulp")
        self.assertLessEqual(furthest, 8)

    def test_bias_correction_in_fp32_is_further(self):
        """Running fp32 products of the betas, as DeepSpeed's operator has them."""
        def worse(scalars, group, count):
            power = [torch.tensor(1.0), torch.tensor(1.0)]
            for _ in range(int(count)):
                power = [value * torch.tensor(beta) for value, beta in zip(power, group["betas"])]
            scalars[5] = (1 / (1 - power[1]).sqrt()).item()
            scalars[6] = (-torch.tensor(LR) / (1 - power[0])).item()
            return tuple(scalars)

        self.assertGreater(self.with_scalars(worse), 8)

    def test_a_wrong_eps_is_further(self):
        self.assertGreater(self.with_scalars(lambda scalars, *_: (*scalars[:4], 1e-6, *scalars[5:])), 8)

    def test_a_skipped_decay_is_further(self):
        self.assertGreater(self.with_scalars(lambda scalars, *_: (*scalars[:7], 0.0, *scalars[8:])), 8)


def changing_job(optimizer_of, dtype, maximize, seed):
    """Trains 200 steps with missing gradients, changing freezes and two groups. Returns the losses."""
    torch.manual_seed(seed)
    model = torch.nn.ModuleList([torch.nn.Linear(16, 32), torch.nn.Linear(32, 32), torch.nn.Linear(32, 8)]).to(dtype)
    first = [param for layer in model[:2] for param in layer.parameters()]
    optimizers = optimizer_of([{"params": first, "weight_decay": 0.1},
                               {"params": list(model[2].parameters()), "lr": 3e-3, "betas": (0.8, 0.99)}], maximize)
    generator, losses = torch.Generator().manual_seed(seed), []
    inputs = torch.randn(200, 24, 16, generator=generator).to(dtype)
    for step in range(200):
        model[0].requires_grad_(step % 7 != 3)
        hidden = torch.tanh(model[0](inputs[step]))
        if step % 3:  # else the second layer gets no gradient
            hidden = torch.tanh(model[1](hidden))
        loss = (model[2](hidden).float() - inputs[step, :, :8].float()).pow(2).mean()
        optimizers.zero_grad()
        (-loss if maximize else loss).backward()
        optimizers.step()
        losses.append(loss.item())
    return torch.tensor(losses)


class Half(WithMasters):
    """WithMasters, of two groups."""

    def __init__(self, groups, maximize, **options):
        groups = [dict(group) for group in groups]
        super().__init__([param for group in groups for param in group["params"]], **options)
        masters = iter(self.masters)
        for group in groups:
            group["params"] = [next(masters) for _ in group["params"]]
        self.inner = torch.optim.AdamW(groups, maximize=maximize, **options)


class ManySteps(unittest.TestCase):
    """Each costs 1 s, the last 5 s."""

    def compare(self, dtype, maximize, seeds=1):
        """Takes the largest distances of all seeds. Where masters differ in their last bit, a few 16-bit parameters are
        rounded otherwise, which one run of foreach may show and another not. On some processors foreach has fused's
        bits; so for 16 bits fused with the next lr counts, too."""
        def with_torch(**options):
            if dtype is torch.float32:
                return lambda groups, maximize: torch.optim.AdamW(groups, maximize=maximize, **options)
            return lambda groups, maximize: Half(groups, maximize, **options)

        def distance(optimizer_of):
            return max((changing_job(optimizer_of, dtype, maximize, seed) - losses).abs().max().item()
                       for seed, losses in fused.items())

        fused = {seed: changing_job(with_torch(fused=True), dtype, maximize, seed) for seed in range(seeds)}
        self.assertLess(fused[0][-20:].mean().item(), 0.7 * fused[0][:20].mean().item(), "nothing was trained")
        others = [with_torch(foreach=True)]
        if dtype is not torch.float32:
            others.append(with_torch(fused=True, lr=LR * (1 + 2 ** -22)))
        bar = max(1e-5, 20 * max(map(distance, others)))
        ours = distance(lambda groups, maximize: zf_runtime.AdamW(groups, maximize=maximize))
        print(f"ours {ours:.2e}, bar {bar:.2e}")
        self.assertLessEqual(ours, bar)

    def test_losses_of_200_steps(self):
        self.compare(torch.float32, maximize=False)

    def test_losses_of_200_steps_that_maximize(self):
        self.compare(torch.float32, maximize=True)

    def test_losses_of_200_steps_of_bf16(self):
        self.compare(torch.bfloat16, maximize=False, seeds=8)
