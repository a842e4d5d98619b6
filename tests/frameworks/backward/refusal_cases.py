"""What cannot be stepped within backward is refused in words, or is stepped as in mode off. Tests
optim/backward/engine.py."""

import warnings

import torch
from bits_cases import Checkpointed, Tied
from case import BIG, SMALL, Case, adamw, bits_of, left, loss_of, make_model, turn


class Boom(torch.autograd.Function):
    armed = False

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if Boom.armed:
            raise ValueError("boom")
        return grad


class Broken(torch.nn.Module):
    """Its backward raises when the layers behind have their gradients."""

    def __init__(self, width):
        super().__init__()
        self.layers = make_model(width)

    def forward(self, x):
        return self.layers[2:](Boom.apply(self.layers[:2](x)))


class Refusals(Case):
    def test_what_clips_or_scales(self):
        with self.refused("neither clip_grad_norm"):
            adamw(make_model().parameters(), "backward", clip_grad_norm=1.0)
        with self.refused("neither clip_grad_norm"):
            adamw(make_model().parameters(), "backward", differentiable=True)
        model = make_model(BIG)
        optimizer = adamw(model.parameters(), "backward")
        loss_of(model, 0).backward()
        for arguments in ({"max_norm": 1.0}, {"grad_scale": 0.5}):
            with self.subTest(arguments), self.refused("neither clip nor scale"):
                optimizer.step(**arguments)
        with self.refused("no norm"):
            optimizer.clip_grad_norm_(max_norm=1.0)

    def test_who_writes_gradients_before_step(self):
        def scaled(model, optimizer):
            scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
            scaler.scale(loss_of(model, 1)).backward()
            scaler.step(optimizer)

        def drop(model, _):
            for param in model.parameters():
                param.grad = None

        ways = {"clip_grad_norm_": lambda model, _: torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9),
                "clip_grad_value_": lambda model, _: torch.nn.utils.clip_grad_value_(model.parameters(), 1e9),
                "dropped": drop, "model.zero_grad": lambda model, _: model.zero_grad(),
                "late": lambda model, _: setattr(model[0][0].weight, "grad", torch.ones(BIG, BIG))}
        for name, way in ways.items():
            with self.subTest(name):
                model = make_model(BIG)
                optimizer = adamw(model.parameters(), "backward")
                loss_of(model, 0).backward()
                way(model, optimizer)
                with self.refused("written or dropped between"):
                    optimizer.step()
        with self.subTest("all large"):
            large = torch.nn.Sequential(*(torch.nn.Linear(BIG, BIG, bias=False) for _ in range(3)))
            optimizer = adamw(large.parameters(), "backward")
            large(torch.ones(2, BIG)).sum().backward()
            torch.nn.utils.clip_grad_norm_(large.parameters(), 1e-3)
            with self.refused("written or dropped between"):
                optimizer.step()
        with self.subTest("the smallest has no gradient"):  # it tells nothing in the first step, and another one then
            unused = torch.nn.Parameter(torch.ones(3))
            optimizer = adamw([*large.parameters(), unused], "backward")
            for step in range(2):
                large(torch.ones(2, BIG)).sum().backward()
                torch.nn.utils.clip_grad_norm_(large.parameters(), 1e-3)
                if step == 0:
                    optimizer.step()
            with self.refused("written or dropped between"):
                optimizer.step()
        with self.subTest("GradScaler"), self.refused("written or dropped between"):
            model = make_model(BIG)
            optimizer = adamw(model.parameters(), "backward")
            scaled(model, optimizer)

    def test_settings_between_backward_and_step(self):
        for name, value in {"lr": 1e-3, "weight_decay": 0.5, "betas": (0.1, 0.2)}.items():
            with self.subTest(name):
                model = make_model(BIG)
                optimizer = adamw(model.parameters(), "backward")
                loss_of(model, 0).backward()
                optimizer.param_groups[0][name] = value
                with self.refused("set between"):
                    optimizer.step()
                optimizer.zero_grad()
                turn(model, optimizer, 1)

    def test_second_gradients(self):
        for width in (SMALL, BIG):
            with self.subTest("accumulation", width=width):
                model = make_model(width)
                optimizer = adamw(model.parameters(), "backward")
                loss_of(model, 0).backward()
                with self.refused("second gradient"):
                    loss_of(model, 1).backward()
            with self.subTest("tied, in two reentrant checkpoints", width=width):
                tied = Tied(width)
                model = Checkpointed(torch.nn.Sequential(tied, tied), use_reentrant=True)
                optimizer = adamw(model.parameters(), "backward")
                with self.refused("use_reentrant=False"):
                    loss_of(model, 0, width).backward()
        with self.subTest("one graph, two backwards"):
            model = make_model(BIG)
            optimizer = adamw(model.parameters(), "backward")
            loss = loss_of(model, 0)
            loss.backward(retain_graph=True)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation|second gradient"):
                loss.backward()
        self.assertEqual(optimizer.overlap, "backward")

    def test_double_backward(self):
        model = make_model(BIG)
        optimizer = adamw(model.parameters(), "backward")
        before = bits_of(model, optimizer)
        with warnings.catch_warnings(), self.refused("create_graph=True"):
            warnings.simplefilter("ignore")  # torch warns of a cycle
            loss_of(model, 0).backward(create_graph=True)
        self.assertTrue(all(map(torch.equal, before, bits_of(model, optimizer))))

    def test_odd_parameters(self):
        param = torch.nn.Parameter(torch.ones(4))
        with warnings.catch_warnings(), self.refused("listed twice"):
            warnings.simplefilter("ignore")
            adamw([param, param], "backward")
        with self.refused("on the CPU, in place|is on"):
            class OnGpu(torch.nn.Parameter):
                device = torch.device("cuda")

            adamw([OnGpu(torch.ones(4))], "backward")

    def test_sparse_gradients_as_in_mode_off(self):
        for overlap in ("off", "backward"):
            with self.subTest(overlap):
                table = torch.nn.Embedding(50, 4, sparse=True)
                optimizer = adamw(table.parameters(), overlap)
                table(torch.tensor([1, 2])).sum().backward()
                before = table.weight.detach().clone()
                with self.refused("sparse gradient"):
                    optimizer.step()
                self.assertTrue(torch.equal(before, table.weight))


class Exceptions(Case):
    def broken(self, overlap, width, then):
        """Backward raises in the second turn; then(optimizer) is what the program does before the third."""
        model = Broken(width)
        optimizer = adamw(model.parameters(), overlap)
        for step in range(4):
            Boom.armed = step == 1
            try:
                optimizer.zero_grad()
                loss_of(model, step).backward()
            except ValueError:
                then(optimizer)
                continue
            optimizer.step()
        return model, optimizer

    def test_a_step_after_it_is_that_of_mode_off(self):
        for width in (SMALL, BIG):
            with self.subTest(width=width):
                self.same(lambda overlap, width=width: self.broken(overlap, width, lambda optimizer: optimizer.step()))

    def test_zero_grad_after_it_keeps_what_is_stepped_and_says_so(self):
        with self.assertWarnsRegex(UserWarning, r"zero_grad\(\) came before step\(\), and 3 parameters are stepped"):
            model, optimizer = self.broken("backward", BIG, lambda optimizer: None)
        self.assertEqual([float(optimizer.state[param]["step"]) for param in model.parameters()],
                         [3.0, 3.0, 3.0, 3.0, 4.0, 4.0, 4.0, 3.0])

    def test_a_batch_that_is_dropped(self):
        model = make_model(BIG)
        optimizer = adamw(model.parameters(), "backward")
        loss_of(model, 0).backward()
        with self.assertWarnsRegex(UserWarning, "stay so"):
            optimizer.zero_grad()
        self.assertEqual(left(model), [])
        turn(model, optimizer, 1)

    def test_the_next_backward_without_either_is_refused(self):
        model = Broken(BIG)
        optimizer = adamw(model.parameters(), "backward")
        Boom.armed = True
        with self.assertRaises(ValueError):
            loss_of(model, 0).backward()
        Boom.armed = False
        with self.refused("second gradient"):
            loss_of(model, 1).backward()
        with self.assertWarnsRegex(UserWarning, "stay so"):
            optimizer.zero_grad()
        turn(model, optimizer, 2)


def twice(param):
    param.grad.mul_(2)


class Hooks(Case):
    def test_hooks_of_the_program(self):
        seen = {}

        def double(model, *_):
            model[0][0].weight.register_hook(lambda grad: grad * 2)

        def keep(model, optimizer, step):
            if step == 0:
                for name, param in model.named_parameters():
                    param.register_hook(lambda grad, name=name: seen.__setitem__(name, grad))

        def write_later(model, optimizer, step):
            if step == 0:  # behind ours
                for param in model.parameters():
                    param.register_post_accumulate_grad_hook(twice)

        def replace_later(model, optimizer, step):
            def replace(param):
                param.grad = param.grad * 3
            if step == 1:
                model[1][0].weight.register_post_accumulate_grad_hook(replace)
                model[-1].bias.register_post_accumulate_grad_hook(replace)

        for width in (SMALL, BIG):
            for prepare in (double, keep, write_later, replace_later):
                with self.subTest(prepare.__name__, width=width):
                    self.trained(prepare, make=lambda width=width: make_model(width))

    def test_a_hook_before_ours(self):
        def make():
            model = make_model(BIG)
            for param in model.parameters():
                param.register_post_accumulate_grad_hook(twice)
            return model

        self.trained(make=make)

    def test_hooks_of_the_optimizer(self):
        calls = []

        def prepare(model, optimizer, step):
            if step == 0:
                optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
                optimizer.register_step_post_hook(lambda *_: calls.append("after"))

        self.trained(prepare, make=lambda: make_model(BIG))
        self.assertEqual(calls, ["before", "after"] * 8)
