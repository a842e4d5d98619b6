"""AdamW with an optimizer process does what torch.optim.AdamW does, to fp32 rounding, and what AdamW in place does, bit
for bit: where step() waits, and in mode exact. Tests optim/adam.py, optim/overlap/engine.py."""

import warnings

import case
import torch
import zf_runtime
from models import groups_of, make_model, parameters_of, train


class LikeTorch(case.AdamWTest):
    def compare(self, groups, steps=50, scheduler=lambda optimizer: None, make=make_model, **options):
        """groups(model) makes the argument of each optimizer."""
        options = {"lr": 1e-2, "weight_decay": 0.01, **options}
        model, place = make(), make()
        theirs = torch.optim.AdamW(groups(model), **options)
        losses = train(model, theirs, steps, scheduler(theirs))
        self.assertLess(losses[-1], losses[0])
        own = zf_runtime.AdamW(groups(place), **options)
        in_place = train(place, own, steps, scheduler(own))
        for mode in case.WAITING:
            with self.subTest(mode=mode):
                ours = make()
                optimizer = self.ours(groups(ours), mode, **options)
                found = train(ours, optimizer, steps, scheduler(optimizer))
                optimizer.synchronize()
                torch.testing.assert_close(torch.tensor(found), torch.tensor(losses), **case.ROUNDING)
                self.assert_same(ours, model)
                self.assertEqual(found, in_place)
                self.assert_bits(optimizer.state_dict(), own.state_dict())
                self.assert_bits(parameters_of(ours), parameters_of(place))

    def test_over_50_steps(self):
        self.compare(lambda model: model.parameters())

    def test_with_groups_of_different_settings(self):
        self.compare(groups_of)

    def test_to_a_maximum(self):
        def make():
            model = make_model()
            for param in model.parameters():
                param.register_hook(torch.neg)
            return model

        self.compare(groups_of, make=make, maximize=True)

    def test_with_a_scheduler(self):
        self.compare(groups_of, scheduler=lambda optimizer: torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min(1, (step + 1) / 10) * 0.97 ** step))

    def test_with_betas_that_change(self):
        class Cycle:
            def __init__(self, optimizer):
                self.optimizer, self.steps = optimizer, 0

            def step(self):
                self.steps += 1
                for group in self.optimizer.param_groups:
                    group["betas"] = (0.95 if self.steps % 2 else 0.9, 0.99)

        self.compare(groups_of, steps=10, scheduler=Cycle)

    def test_a_scheduler_counts_no_step_before_the_optimizers(self):
        for mode in case.MODES:
            model = make_model()
            optimizer = self.ours(model.parameters(), mode)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                train(model, optimizer, 2, torch.optim.lr_scheduler.StepLR(optimizer, 1))

    def test_frozen_parameters_and_a_group_without_gradients(self):
        def groups(model):
            model[0].bias.requires_grad_(False)
            return [{"params": list(model.parameters())}, {"params": [torch.nn.Parameter(torch.ones(3))]}]

        self.compare(groups, steps=5)
        for mode in case.WAITING:
            model = make_model()
            optimizer = self.ours(groups(model), mode)
            train(model, optimizer, 2)
            self.assertTrue(torch.equal(optimizer.param_groups[1]["params"][0], torch.ones(3)))
            self.assertEqual(len(optimizer.state), 3)

    def test_frozen_and_unfrozen_while_it_trains(self):
        """Also a parameter that was frozen when the optimizer was made."""
        class Thawing:
            def __init__(self, optimizer):
                self.params = [param for group in optimizer.param_groups for param in group["params"]]
                self.steps = 0

            def step(self):
                self.steps += 1
                self.params[1].requires_grad_(self.steps >= 3)
                self.params[2].requires_grad_(not 4 <= self.steps < 8)

        def groups(model):
            model[0].bias.requires_grad_(False)
            return groups_of(model)

        self.compare(groups, steps=12, scheduler=Thawing)

    def test_gradients_that_are_missing_in_some_steps(self):
        class Dropping(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.parts, self.calls = make_model(), 0

            def __getitem__(self, number):
                return self.parts[number]

            def forward(self, inputs):
                self.calls += 1
                hidden = self.parts[0](inputs) if self.calls % 3 else inputs.new_zeros(len(inputs), 33)
                return self.parts[2](self.parts[1](hidden))

        self.compare(groups_of, steps=20, make=Dropping)

    def test_closure_returns_its_loss(self):
        for mode in case.MODES:
            param = torch.nn.Parameter(torch.ones(4))
            optimizer = self.ours([param], mode, lr=0.1, weight_decay=0)

            def closure(param=param, optimizer=optimizer):
                optimizer.zero_grad()
                loss = (param * param).sum()
                loss.backward()
                return loss

            self.assertEqual(optimizer.step(closure).item(), 4)
            optimizer.synchronize()
            torch.testing.assert_close(param.detach(), torch.full((4,), 0.9))

    def test_a_graph_over_old_parameters_is_refused(self):
        for mode in case.MODES:
            with self.subTest(mode=mode):
                param = torch.nn.Parameter(torch.ones(4))
                reader = case.Reader([param])
                optimizer = self.ours([param], mode)
                reader.give([torch.ones(4)])
                optimizer.step()
                optimizer.synchronize()
                loss = (param * param).sum()
                optimizer.step()
                if mode == "late":  # until then they are not old
                    optimizer.synchronize()
                with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                    loss.backward()

    def test_written_parameters_count(self):
        for mode in case.MODES:
            param = torch.nn.Parameter(torch.ones(4))
            optimizer = self.ours([param], mode, lr=0.5, weight_decay=0)
            for value in (1.0, 7.0):
                optimizer.synchronize()
                with torch.no_grad():
                    param.fill_(value)
                param.grad = torch.ones(4)
                optimizer.step()
            optimizer.synchronize()
            torch.testing.assert_close(param.detach(), torch.full((4,), 6.5))

    def test_bf16_parameters_have_fp32_masters(self):
        for mode in case.MODES:
            model = make_model(torch.bfloat16)
            optimizer = self.ours(model.parameters(), mode, lr=1e-3)
            losses = train(model, optimizer, 20)
            optimizer.synchronize()
            self.assertLess(losses[-1], losses[0])
            for param in model.parameters():
                state = optimizer.state[param]
                self.assertEqual(state["exp_avg"].dtype, torch.float32)
                self.assertTrue(torch.equal(state["master"].to(torch.bfloat16), param))

    def test_16_bit_parameters_of_several_types_in_one_group(self):
        def make():
            model = make_model()
            model[2].bias.data = model[2].bias.data.to(torch.bfloat16)
            model[0].bias.data = model[0].bias.data.to(torch.float16)
            return model

        def stepped(optimizer, model):
            generator = torch.Generator().manual_seed(4)
            for _ in range(6):
                for param in model.parameters():
                    param.grad = torch.randn(param.shape, generator=generator).to(param.dtype)
                optimizer.step()
            optimizer.synchronize()
            return list(model.parameters()), optimizer.state_dict()["state"]

        model = make()
        wanted = stepped(zf_runtime.AdamW(model.parameters(), lr=1e-2), model)
        for mode in case.MODES:
            with self.subTest(mode=mode):
                model = make()
                self.assert_bits(stepped(self.ours(model.parameters(), mode, lr=1e-2), model), wanted)
