"""Random sequences of what users do, beside torch's optimizer: no difference."""

import copy
import io
import itertools
import os
import random
import unittest
import warnings

import torch
import zf_runtime
from zf_runtime.optim.in_place import pointers

SEQUENCES = int(os.environ.get("ZF_SEQUENCES", "60"))
SEED = int(os.environ.get("ZF_SEED", "1"))


class Program:
    """One job with one of the optimizers. Every action takes its random numbers from a generator of its own, which is
    the same for both."""

    def __init__(self, optimizer_class, seed):
        torch.manual_seed(seed)
        self.optimizer_class, self.clock = optimizer_class, 0
        self.params = [torch.nn.Parameter(torch.randn(shape)) for shape in ((4, 3), (7,), (2, 3, 2, 2), ())]
        self.optimizer = self.made(self.params)
        self.frozen = {}  # by id; held, so that no id is used again

    def made(self, params):
        half = len(params) // 2
        groups = [{"params": params[:half]}, {"params": params[half:], "weight_decay": 0.1}]
        return self.optimizer_class(groups, lr=1e-2)

    def pick(self, chance):
        return chance.choice([param for group in self.optimizer.param_groups for param in group["params"]])

    def step(self, chance):
        self.clock += 1
        for group in self.optimizer.param_groups:
            for number, param in enumerate(group["params"]):
                missing = chance.random() < 0.15 or id(param) in self.frozen
                param.grad = None if missing else torch.cos(3 * param.detach() + self.clock + number)
        self.optimizer.step()

    def write(self, chance):
        self.pick(chance).data.mul_(chance.random())

    def fill(self, chance):
        with torch.no_grad():
            self.pick(chance).fill_(chance.random())

    def replace_storage(self, chance):
        param = self.pick(chance)
        param.data = param.data.clone()

    def transpose(self, chance):
        param = self.pick(chance)
        if param.dim() == 4:
            order = chance.choice([torch.channels_last, torch.contiguous_format])
            param.data = param.data.contiguous(memory_format=order)
            self.optimizer.state.pop(param, None)

    def share(self, chance):
        param = self.pick(chance)
        param.data = param.data.clone()
        param.share_memory_()

    def freeze(self, chance):
        param = self.pick(chance)
        self.frozen[id(param)] = param

    def unfreeze(self, _):
        self.frozen.clear()

    def add_group(self, chance):
        if len(self.optimizer.param_groups) < 6:
            self.optimizer.add_param_group({"params": [torch.nn.Parameter(torch.full((3,), chance.random()))],
                                            "lr": chance.random() / 50})

    def append(self, chance):
        params = chance.choice(self.optimizer.param_groups)["params"]
        params.append(torch.nn.Parameter(torch.full((2,), chance.random())))

    def remove(self, chance):
        params = chance.choice(self.optimizer.param_groups)["params"]
        if len(params) > 1:
            self.optimizer.state.pop(params.pop(chance.randrange(len(params))), None)

    def grow(self, chance):
        params = chance.choice(self.optimizer.param_groups)["params"]
        at = chance.randrange(len(params))
        old = params[at]
        if old.dim() != 1:
            return
        params[at] = torch.nn.Parameter(torch.cat([old.detach(), old.detach()[:1]]))
        state = self.optimizer.state.pop(old, None)
        if state:
            self.optimizer.state[params[at]] = {name: value if name == "step" else torch.cat([value, value[:1]])
                                                for name, value in state.items()}

    def settings(self, chance):
        chance.choice(self.optimizer.param_groups).update(
            lr=chance.random() / 50, betas=(chance.random() / 2 + 0.4, 0.9 + chance.random() / 11),
            weight_decay=chance.random() / 5, maximize=chance.random() < 0.3)

    def write_state(self, chance):
        state = self.optimizer.state.get(self.pick(chance))
        if state:
            state["exp_avg"].mul_(chance.random())
            state["step"].fill_(chance.randrange(9))

    def replace_state(self, chance):
        state = self.optimizer.state.get(self.pick(chance))
        if state:
            state.update(step=state["step"].clone() + 1, exp_avg_sq=state["exp_avg_sq"] * 2)

    def forget_state(self, chance):
        self.optimizer.state.pop(self.pick(chance), None)

    def clear_states(self, chance):
        if chance.random() < 0.3:
            self.optimizer.state.clear()

    def reload(self, _):
        file = io.BytesIO()
        torch.save(self.optimizer.state_dict(), file)
        file.seek(0)
        self.optimizer.load_state_dict(torch.load(file))

    def restart(self, _):
        """The process ends, and another one goes on from what it has saved."""
        groups = [list(group["params"]) for group in self.optimizer.param_groups]
        saved = copy.deepcopy(self.optimizer.state_dict())
        frozen = [at for at, param in enumerate(itertools.chain(*groups)) if id(param) in self.frozen]
        groups = [[torch.nn.Parameter(param.detach().clone()) for param in group] for group in groups]
        self.frozen = {id(param): param for at, param in enumerate(itertools.chain(*groups)) if at in frozen}
        self.optimizer = self.optimizer_class([{"params": group} for group in groups], lr=1.0)
        self.optimizer.load_state_dict(saved)

    def duplicate(self, _):
        order = [id(param) in self.frozen for group in self.optimizer.param_groups for param in group["params"]]
        self.optimizer = copy.deepcopy(self.optimizer)
        params = [param for group in self.optimizer.param_groups for param in group["params"]]
        self.frozen = {id(param): param for param, frozen in zip(params, order) if frozen}

    ACTIONS = (write, fill, replace_storage, transpose, share, freeze, unfreeze, add_group, append, remove, grow,
               settings, write_state, replace_state, forget_state, clear_states, reload, restart, duplicate)

    def tensors(self):
        params = [param for group in self.optimizer.param_groups for param in group["params"]]
        return [param.detach() for param in params] + [
            self.optimizer.state[param][name].float() for param in params if self.optimizer.state.get(param)
            for name in ("step", "exp_avg", "exp_avg_sq")]


class Sequences(unittest.TestCase):
    def test_beside_torch(self):
        """60 sequences of 40 actions cost 6 s. ZF_SEQUENCES=4000 is the long form; the first seed is ZF_SEED."""
        warnings.simplefilter("ignore")
        for seed in range(SEED, SEED + SEQUENCES):
            pointers.FEW = seed % 2 * 16  # every second one is looked at as a model of many tensors
            theirs, ours = Program(torch.optim.AdamW, seed), Program(zf_runtime.AdamW, seed)
            chance, done = random.Random(seed), []
            for number in range(40):
                action = Program.step if chance.random() < 0.5 else chance.choice(Program.ACTIONS)
                done.append(action.__name__)
                for program in (theirs, ours):
                    action(program, random.Random(1000 * seed + number))
                wanted, got = theirs.tensors(), ours.tensors()
                self.assertEqual(len(got), len(wanted), f"seed {seed}: {done}")
                for mine, yours in zip(got, wanted):
                    torch.testing.assert_close(mine, yours, rtol=1e-4, atol=1e-5,
                                               msg=lambda text: f"seed {seed}, {done}: {text}")  # noqa: B023
