"""In mode exact models of every kind train as with overlap="off", bit for bit. Costs 6 s."""

import unittest
import unittest.mock

import torch
import torch.utils.checkpoint
from exact import Case, batch, loss_of, make_model, values_of
from zf_runtime.binding import moved_threads


class Attention(torch.nn.Module):
    """out_proj is never called, and its weight is read; the last weight is tied to the first."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Linear(10, 16, bias=False)
        self.attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        self.encoder = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.last = torch.nn.Linear(16, 10, bias=False)
        self.last.weight = torch.nn.Parameter(self.embedding.weight.detach().t().clone())
        self.head = torch.nn.Linear(10, 7)

    def forward(self, inputs):
        hidden = self.embedding(inputs)[None]
        hidden = self.attention(hidden, hidden, hidden, need_weights=False)[0]
        hidden = self.last(self.encoder(hidden)[0])
        return torch.nn.functional.linear(hidden, self.head.weight, self.head.bias)  # the head is not called either


class Checkpointed(torch.nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.parts, self.reentrant = make_model(), reentrant

    def forward(self, inputs):
        for part in self.parts:
            inputs = torch.utils.checkpoint.checkpoint(part, inputs.requires_grad_(), use_reentrant=self.reentrant)
        return inputs


class Shared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Linear(10, 10)
        self.last = torch.nn.Linear(10, 7)

    def forward(self, inputs):
        for _ in range(3):
            inputs = torch.tanh(self.one(inputs))
        return self.last(inputs)


class Models(Case):
    def test_parameters_that_are_read_without_a_call(self):
        def model():
            torch.manual_seed(3)
            return Attention()

        self.trained(model=model)
        self.trained(model=model, clip_grad_norm=0.01)

    def test_activation_checkpoints(self):
        for reentrant in (False, True):
            def model(reentrant=reentrant):
                torch.manual_seed(3)
                return Checkpointed(reentrant)

            self.trained(model=model, clip_grad_norm=0.05)

    def test_a_module_that_is_called_several_times(self):
        def model():
            torch.manual_seed(3)
            return Shared()

        self.trained(model=model)

    def test_parts_that_come_go_and_freeze(self):
        def program(make):
            model, extra = make_model(), torch.nn.Linear(7, 7)
            torch.nn.init.eye_(extra.weight)
            torch.nn.init.zeros_(extra.bias)
            optimizer = make([*model.parameters(), *extra.parameters()])
            for step in range(12):
                for param in model[0].parameters():
                    param.requires_grad_(step not in (2, 3, 7))
                optimizer.zero_grad()
                inputs, targets = batch(step)
                outputs = model(inputs)
                if step % 3 == 2:
                    outputs = extra(outputs)
                torch.nn.functional.mse_loss(outputs, targets).backward()
                optimizer.step()
            optimizer.synchronize()
            counts = [float(optimizer.state[param]["step"]) for param in (*model.parameters(), *extra.parameters())]
            self.assertEqual(counts, [9, 9, 12, 12, 4, 4])
            return values_of(model) + values_of(extra)

        self.same(program)

    def test_two_optimizers_that_step_in_turns(self):
        """As of a GAN: each backward reaches the parameters of both."""
        def program(make):
            torch.manual_seed(4)
            maker, judge = torch.nn.Linear(6, 10), torch.nn.Sequential(torch.nn.Linear(10, 8), torch.nn.Linear(8, 1))
            of_maker, of_judge = make(maker.parameters()), make(judge.parameters())
            for step in range(8):
                noise = torch.randn(20, 6, generator=torch.Generator().manual_seed(step))
                of_judge.zero_grad()
                (judge(maker(noise).detach()).mean() - judge(batch(step)[0]).mean()).backward()
                of_judge.step()
                of_maker.zero_grad()
                (-judge(maker(noise)).mean()).backward()
                of_maker.step()
            return values_of(maker) + values_of(judge)

        self.same(program)

    def test_closures(self):
        def program(make):
            model = make_model()
            optimizer = make(model.parameters())
            losses = []
            for step in range(6):
                def closure(step=step):
                    optimizer.zero_grad()
                    loss = loss_of(model, step)
                    loss.backward()
                    return loss

                losses.append(optimizer.step(closure).item())
            return [*losses, *values_of(model)]

        self.same(program)

    def test_each_step_asks_who_moved_threads(self):
        for mode in (*self.modes, "late"):
            model = make_model()
            optimizer = self.ours(model.parameters(), mode)
            with unittest.mock.patch.object(moved_threads, "look") as look:
                for step in range(3):
                    loss_of(model, step).backward()
                    optimizer.step()
            self.assertEqual([call.args for call in look.call_args_list], [(1,), (2,), (3,)])

    def test_a_group_that_is_added(self):
        def program(make):
            model = make_model()
            optimizer = make(model[0].parameters())
            for step in range(8):
                if step == 3:
                    optimizer.add_param_group({"params": model[2].parameters(), "lr": 3e-3})
                model.zero_grad()
                loss_of(model, step).backward()
                optimizer.step()
            return values_of(model)

        self.same(program)

    def test_every_type_and_format(self):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            for state in ("fp32",) if dtype is torch.float16 else ("fp32", "bf16", "bf16+split"):
                def program(make, dtype=dtype):
                    model = make_model().to(dtype)
                    optimizer = make(model.parameters())
                    for step in range(5):
                        optimizer.zero_grad()
                        inputs, targets = batch(step)
                        torch.nn.functional.mse_loss(model(inputs.to(dtype)).float(), targets).backward()
                        optimizer.step()
                    optimizer.synchronize()
                    return values_of(model) + [optimizer.state[param]["exp_avg_sq"].clone()
                                               for param in model.parameters()]

                with self.subTest(dtype=dtype, state=state):
                    self.same(program, state=state, clip_grad_norm=0.05)

if __name__ == "__main__":
    unittest.main()
