"""With overlap="late" parameters are one step old in each forward, and nothing else differs. Tests
optim/overlap/gates.py, optim/overlap/turn.py."""

import copy
import os
import signal
import threading

import case
import torch
import zf_runtime
from models import make_model, parameters_of, train


class Late(case.AdamWTest):
    def test_parameters_are_one_step_late(self):
        param = torch.nn.Parameter(torch.zeros(5))
        optimizer = self.ours([param], lr=1.0, weight_decay=0)
        seen = []
        for _ in range(3):
            param.grad = torch.ones(5)
            optimizer.step()
            seen.append(round(param[0].item(), 4))
        self.assertEqual(seen, [0, -1, -2])
        optimizer.synchronize()
        self.assertAlmostEqual(param[0].item(), -3, 4)

    def test_it_is_adamw_on_late_gradients(self):
        """torch's within rounding, and bit for bit the one in place."""
        ours = make_model()
        optimizer = self.ours(ours.parameters(), lr=1e-2)
        losses = train(ours, optimizer, 20)
        optimizer.synchronize()
        for make in (torch.optim.AdamW, zf_runtime.AdamW):
            model = make_model()
            late, theirs = copy.deepcopy(model), make(model.parameters(), lr=1e-2)
            wanted = []
            for step in range(20):  # gradients at the parameters of the step before
                before = copy.deepcopy(model)
                wanted += train(late, _Grads(late, model), 1, first=step)
                theirs.step()
                late.load_state_dict(before.state_dict())
            torch.testing.assert_close(torch.tensor(losses), torch.tensor(wanted), **case.ROUNDING)
            self.assert_same(ours, model)
        self.assertEqual(losses, wanted)
        self.assert_bits([parameters_of(ours), optimizer.state_dict()], [parameters_of(model), theirs.state_dict()])

    def test_training_goes_on_while_the_step_runs(self):
        """The optimizer process stands still during a whole forward and backward."""
        model, whole = make_model(), make_model()
        optimizer, other = self.ours(model.parameters()), self.ours(whole.parameters())
        train(whole, other, 4)
        pid = optimizer.runtime.stats().worker_pid
        train(model, optimizer, 2)
        os.kill(pid, signal.SIGSTOP)
        before = [param.detach().clone() for param in model.parameters()]
        train(model, _Zeroed(model), 1, first=2)
        self.assert_bits(list(model.parameters()), before)
        threading.Timer(0.05, os.kill, (pid, signal.SIGCONT)).start()
        optimizer.step()
        train(model, optimizer, 1, first=3)
        for each in (optimizer, other):
            each.synchronize()
        self.assertTrue(torch.equal(parameters_of(model), parameters_of(whole)))

    def test_parameters_come_back_while_the_step_runs(self):
        """Each share of some parameters is sent as soon as it is finished, before the next one is waited for."""
        for mode in case.MODES:
            params = [torch.nn.Parameter(torch.zeros(1 << 19, dtype=torch.bfloat16)) for _ in range(6)]  # 1 MiB each
            optimizer = self.ours(params, mode, lr=1.0, weight_decay=0)
            reader = case.Reader(params)
            reader.give([torch.ones_like(param) for param in params])
            progress, asked = optimizer.runtime.progress, []

            def watched(group, at_least, asked=asked, params=params, progress=progress, **keywords):
                if asked:  # the one before was sent before this one is waited for
                    self.assertEqual(params[asked[-1]][0].item(), -1)
                asked.append(group)
                return progress(group, at_least, **keywords)

            optimizer.runtime.progress = watched
            optimizer.step()
            optimizer.synchronize()
            self.assertEqual(asked, list(range(6)), mode)
            self.assertTrue(all((param == -1).all() for param in params))
            optimizer.close()

    def test_parameters_come_back_in_the_order_of_forward(self):
        """It is not that of param_groups here. Until a forward was seen, that is the order."""
        layers = torch.nn.ModuleList(torch.nn.Linear(512, 512, bias=False) for _ in range(4))  # 1 MiB each
        optimizer = self.ours(layers.parameters(), "exact")
        progress, asked = optimizer.runtime.progress, []

        def watched(group, at_least, **keywords):
            asked.append(group)
            return progress(group, at_least, **keywords)

        optimizer.runtime.progress = watched
        for _ in range(3):
            value = torch.ones(2, 512)
            for layer in reversed(layers):
                value = layer(value)
            value.sum().backward()
            optimizer.step()
        optimizer.synchronize()
        self.assertEqual(asked[-4:], [3, 2, 1, 0])
        optimizer.close()

    def test_a_write_during_a_step_is_warned_of(self):
        param = torch.nn.Parameter(torch.zeros(5))
        optimizer = self.ours([param], lr=1.0, weight_decay=0)
        param.grad = torch.ones(5)
        optimizer.step()
        with torch.no_grad():
            param.fill_(4)
        with self.assertWarnsRegex(UserWarning, "1 parameter was written while.*synchronize"):
            optimizer.step()
        optimizer.synchronize()
        self.assertAlmostEqual(param[0].item(), 3, 4)


class _Zeroed:
    """Stands in for an optimizer: drops old gradients, and steps nothing."""

    def __init__(self, model):
        self.params = list(model.parameters())

    def zero_grad(self):
        for param in self.params:
            param.grad = None

    def step(self):
        pass


class _Grads(_Zeroed):
    """Hands one model's gradients to another of the same shape."""

    def __init__(self, source, target):
        super().__init__(source)
        self.targets = list(target.parameters())

    def step(self):
        for source, target in zip(self.params, self.targets):
            target.grad = source.grad.clone()
