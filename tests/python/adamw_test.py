"""OverlappedAdamW with overlap=False does what torch.optim.AdamW does, to fp32 rounding."""

import unittest
import warnings

import support

torch = support.need("torch")
import adamw_case  # noqa: E402
from models import groups_of, make_model, train  # noqa: E402


class LikeTorch(adamw_case.AdamWTest):
    def compare(self, groups, steps=50, scheduler=lambda optimizer: None, **options):
        models = make_model(), make_model()
        theirs = torch.optim.AdamW(groups(models[0]), lr=1e-2, weight_decay=0.01)
        ours = self.ours(groups(models[1]), lr=1e-2, weight_decay=0.01, overlap=False, **options)
        losses = [train(model, optimizer, steps, scheduler(optimizer))
                  for model, optimizer in zip(models, (theirs, ours))]
        self.assertLess(losses[0][-1], losses[0][0])
        torch.testing.assert_close(torch.tensor(losses[1]), torch.tensor(losses[0]), **adamw_case.ROUNDING)
        self.assert_same(models[1], models[0])

    def test_over_50_steps(self):
        self.compare(lambda model: model.parameters())

    def test_with_groups_of_different_settings(self):
        self.compare(groups_of)

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
        model = make_model()
        optimizer = self.ours(model.parameters())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            train(model, optimizer, 2, torch.optim.lr_scheduler.StepLR(optimizer, 1))

    def test_frozen_parameters_and_a_group_without_gradients(self):
        models = make_model(), make_model()
        for model in models:
            model[0].bias.requires_grad_(False)
        theirs = torch.optim.AdamW([{"params": model.parameters()} for model in models[:1]])
        ours = self.ours([{"params": models[1].parameters()}, {"params": [torch.nn.Parameter(torch.ones(3))]}],
                         overlap=False)
        for model, optimizer in zip(models, (theirs, ours)):
            train(model, optimizer, 5)
        self.assert_same(models[1], models[0])
        self.assertTrue(torch.equal(ours.param_groups[1]["params"][0], torch.ones(3)))

    def test_closure_returns_its_loss(self):
        param = torch.nn.Parameter(torch.ones(4))
        optimizer = self.ours([param], lr=0.1, weight_decay=0, overlap=False)

        def closure():
            optimizer.zero_grad()
            loss = (param * param).sum()
            loss.backward()
            return loss

        self.assertEqual(optimizer.step(closure).item(), 4)
        torch.testing.assert_close(param.detach(), torch.full((4,), 0.9))

    def test_a_graph_over_old_parameters_is_refused(self):
        param = torch.nn.Parameter(torch.ones(4))
        optimizer = self.ours([param], overlap=False)
        loss = (param * param).sum()
        param.grad = torch.ones(4)
        optimizer.step()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            loss.backward()

    def test_written_parameters_count(self):
        for overlap in (False, True):
            param = torch.nn.Parameter(torch.ones(4))
            optimizer = self.ours([param], lr=0.5, weight_decay=0, overlap=overlap)
            for value in (1.0, 7.0):
                optimizer.synchronize()
                with torch.no_grad():
                    param.fill_(value)
                param.grad = torch.ones(4)
                optimizer.step()
            optimizer.synchronize()
            torch.testing.assert_close(param.detach(), torch.full((4,), 6.5))

    def test_bf16_parameters_have_fp32_masters(self):
        model = make_model(torch.bfloat16)
        optimizer = self.ours(model.parameters(), lr=1e-3, overlap=False)
        losses = train(model, optimizer, 20)
        self.assertLess(losses[-1], losses[0])
        for param in model.parameters():
            state = optimizer.state[param]
            self.assertEqual(state["exp_avg"].dtype, torch.float32)
            self.assertTrue(torch.equal(state["master"].to(torch.bfloat16), param))


if __name__ == "__main__":
    unittest.main()
