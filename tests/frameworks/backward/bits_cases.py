"""Mode backward trains with the bits of mode off, whatever the model is, and frees the gradients. Tests
optim/backward/engine.py."""

import copy
import io
import warnings

import torch
import zf_runtime
from case import BIG, SMALL, Case, adamw, bits_of, left, loss_of, make_model, turn
from torch.utils.checkpoint import checkpoint


class Tied(torch.nn.Module):
    """Two layers with one weight, which is used a third time as a vector."""

    def __init__(self, width=SMALL):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = torch.nn.Linear(width, width), torch.nn.Linear(width, width)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.tanh(self.first(x))) + self.first.weight[0]


class Checkpointed(torch.nn.Module):
    def __init__(self, inner, **options):
        super().__init__()
        self.inner, self.options = inner, options

    def forward(self, x):
        for layer in self.inner:
            x = checkpoint(layer, x.requires_grad_(), **self.options)
        return x


class Unused(torch.nn.Module):
    def __init__(self, width=SMALL):
        super().__init__()
        self.layers, self.step = make_model(width), 0

    def forward(self, x):
        self.step += 1
        return self.layers[-1](self.layers[self.step % 3](x))


def at(step, action):
    return lambda model, optimizer, now: action(model, optimizer) if now == step else None


class Bits(Case):
    def test_models_and_formats(self):
        settings = [{}, {"state": "bf16"}, {"state": "bf16", "seed": 7}, {"amsgrad": False, "maximize": True},
                    {"weight_decay": 0.3, "betas": (0.5, 0.9)}, {"lr": torch.tensor(0.01)}]
        halves = [{"state": state} for state in ("fp32", "bf16", "split", "bf16+split")]
        for width in (SMALL, BIG):
            for options in settings:
                with self.subTest(width=width, options=options):
                    self.trained(make=lambda width=width: make_model(width), **options)
            for options in halves:
                with self.subTest("bf16", width=width, options=options):
                    self.trained(make=lambda width=width: make_model(width, torch.bfloat16), **options)
            with self.subTest("fp16", width=width):
                self.trained(make=lambda width=width: make_model(width, torch.float16))

    def test_modules(self):
        for width in (SMALL, BIG):
            for name, make in {"tied": lambda width=width: Tied(width), "unused": lambda width=width: Unused(width),
                               "checkpointed": lambda width=width: Checkpointed(make_model(width), use_reentrant=False),
                               "reentrant": lambda width=width: Checkpointed(make_model(width), use_reentrant=True),
                               "tied and checkpointed": lambda width=width: torch.nn.Sequential(
                                   Checkpointed(torch.nn.Sequential(Tied(width)), use_reentrant=False))}.items():
                with self.subTest(name, width=width):
                    self.trained(make=make)

    def test_compiled_modules(self):
        """Also in two graphs, where the later one's parameters are stepped before the earlier one's backward begins;
        and a compiled function that calls backward. Costs 10 s."""
        class Broken(torch.nn.Sequential):
            def forward(self, x):
                for at, layer in enumerate(self):
                    if at == 2:
                        torch._dynamo.graph_break()
                    x = layer(x)
                return x

        for name, make in {"tied": Tied, "in two graphs": lambda width: Broken(*make_model(width))}.items():
            with self.subTest(name):
                torch._dynamo.reset()
                self.trained(make=lambda make=make: torch.compile(make(BIG), backend="aot_eager"))
        with self.subTest("a compiled turn"):
            torch._dynamo.reset()
            self.trained(make=lambda: make_model(BIG), turn=torch.compile(turn, backend="aot_eager"))

    def test_a_gradient_is_freed_once_it_is_stepped(self):
        """All but the smallest parameter, which waits for step()."""
        model = make_model(BIG)
        optimizer = adamw(model.parameters(), "backward")
        before = [param.detach().clone() for param in model.parameters()]
        loss_of(model, 0).backward()
        self.assertEqual([id(param) for param in left(model)], [id(model[-1].bias)])
        moved = [not torch.equal(*both) for both in zip(before, model.parameters())]
        self.assertEqual(moved, [True] * (len(moved) - 1) + [False])
        optimizer.step()
        self.assertEqual(left(model), [])
        self.assertEqual({float(state["step"]) for state in optimizer.state.values()}, {1.0})

    def test_an_unfrozen_parameter_is_stepped_in_backward_after_its_first_step(self):
        model = make_model(BIG)
        model[0].requires_grad_(False)
        optimizer = adamw(model.parameters(), "backward")
        model[0].requires_grad_(True)
        for step, count in enumerate((3, 1)):
            loss_of(model, step).backward()
            self.assertEqual(len(left(model)), count)
            optimizer.step()

    def test_small_gradients_wait_for_each_other(self):
        model = make_model(64, layers=40)  # 16 KiB a layer
        optimizer = adamw(model.parameters(), "backward")
        loss_of(model, 0).backward()
        bytes_left = sum(param.grad.nbytes for param in left(model))
        self.assertGreater(len(left(model)), 1)
        self.assertLess(bytes_left, 256 * 1024 + 4096)
        optimizer.step()
        self.assertEqual(left(model), [])

    def test_schedules_groups_and_frozen_parameters(self):
        for width in (SMALL, BIG):
            def make(width=width):
                return make_model(width)

            with self.subTest("schedule", width=width):
                self.trained(lambda model, optimizer, step: optimizer.param_groups[0].update(lr=1e-2 / (step + 1)),
                             make=make)
            with self.subTest("frozen later", width=width):
                self.trained(at(2, lambda model, _: model[1].requires_grad_(False)), make=make)
            with self.subTest("frozen and unfrozen", width=width):
                self.trained(lambda model, _, step: model[1].requires_grad_(step > 1), make=make, steps=6)
            with self.subTest("storage moves", width=width):
                self.trained(lambda model, *_: [setattr(param, "data", param.data.clone())
                                                for param in model.parameters()], make=make)
            with self.subTest("a state is dropped", width=width):
                self.trained(at(2, lambda model, optimizer: optimizer.state.pop(model[0][0].weight)), make=make)
            with self.subTest("a parameter leaves", width=width):
                self.trained(at(2, lambda model, optimizer: optimizer.param_groups[0]["params"].pop(0)), make=make,
                             turn=lambda *what: (turn(*what), what[0].zero_grad()))
            with self.subTest("gradients by hand", width=width):
                def by_hand(model, optimizer, step):
                    for param in model.parameters():
                        param.grad = torch.full_like(param, step + 1.0)
                    optimizer.step()
                self.trained(make=make, turn=by_hand)
            with self.subTest("three groups, one of them added", width=width):
                def groups(overlap, width=width):
                    model = make_model(width)
                    optimizer = adamw([{"params": model[0].parameters(), "lr": 1e-3},
                                       {"params": model[1].parameters(), "weight_decay": 0.0}], overlap, state="bf16")
                    turn(model, optimizer, 0)
                    optimizer.add_param_group({"params": list(model[2:].parameters()), "betas": (0.8, 0.9)})
                    for step in range(1, 4):
                        model.zero_grad()
                        turn(model, optimizer, step)
                    return model, optimizer
                self.same(groups)

    def test_a_scheduler_of_torch(self):
        def program(overlap):
            model = make_model()
            optimizer = adamw(model.parameters(), overlap)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
            for step in range(5):
                turn(model, optimizer, step)
                schedule.step()
            return model, optimizer

        self.same(program)

    def test_resume(self):
        """From each mode into each, and from torch's optimizer."""
        def resumed(before, after, width):
            model = make_model(width)
            optimizer = before(model.parameters())
            for step in range(2):
                turn(model, optimizer, step)
            file = io.BytesIO()
            torch.save(optimizer.state_dict(), file)
            file.seek(0)
            again = make_model(width)
            again.load_state_dict(model.state_dict())
            loaded = after(again.parameters())
            loaded.load_state_dict(torch.load(file))
            for step in range(2, 4):
                turn(again, loaded, step)
            return again, loaded

        def off(params):
            return adamw(params, "off")

        def backward(params):
            return adamw(params, "backward")

        def theirs(params):
            return torch.optim.AdamW(params, lr=1e-2)

        for width in (SMALL, BIG):
            wanted = bits_of(*resumed(off, off, width))
            for before, after in ((off, backward), (backward, off), (backward, backward)):
                with self.subTest(before=before.__name__, after=after.__name__, width=width):
                    self.assertTrue(all(map(torch.equal, wanted, bits_of(*resumed(before, after, width)))))
            with self.subTest("from torch", width=width):
                self.assertTrue(all(map(torch.equal, bits_of(*resumed(theirs, off, width)),
                                        bits_of(*resumed(theirs, backward, width)))))

    def test_copies_step_their_own_parameters(self):
        def program(overlap):
            model = make_model(BIG)
            optimizer = adamw(model.parameters(), overlap)
            turn(model, optimizer, 0)
            model, optimizer = copy.deepcopy((model, optimizer))
            for step in range(1, 3):
                turn(model, optimizer, step)
            return model, optimizer

        self.same(program)

    def test_a_new_optimizer_takes_the_parameters(self):
        def program(overlap):
            model = make_model(BIG)
            former = adamw(model.parameters(), overlap)
            turn(model, former, 0)
            optimizer = adamw(model.parameters(), overlap)
            for step in range(1, 3):
                turn(model, optimizer, step)
            self.assertEqual({float(state["step"]) for state in former.state.values()}, {1.0})
            return model, optimizer

        self.same(program)

    def test_evaluation_and_penalties(self):
        def evaluated(model, optimizer, step):
            model.eval()
            with torch.no_grad():
                loss_of(model, 99)
            model.train()
            optimizer.zero_grad()
            loss = loss_of(model, step)
            grads = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
            (loss + sum(grad.square().sum() for grad in grads)).backward()
            optimizer.step()

        for width in (SMALL, BIG):
            with self.subTest(width=width):
                self.trained(make=lambda width=width: make_model(width), turn=evaluated)

    def test_a_closure_steps_once(self):
        def closed(model, optimizer, step):
            def closure():
                optimizer.zero_grad()
                loss = loss_of(model, step)
                loss.backward()
                return loss

            self.assertGreater(optimizer.step(closure).item(), 0)

        self.trained(turn=closed, make=lambda: make_model(BIG))

    def test_after_close_nothing_is_stepped(self):
        model = make_model(BIG)
        with adamw(model.parameters(), "backward") as optimizer:
            turn(model, optimizer, 0)
        loss_of(model, 1).backward()
        self.assertEqual(len(left(model)), len(list(model.parameters())))
        with self.refused("closed"):
            optimizer.step()
        self.assertEqual({float(state["step"]) for state in optimizer.state.values()}, {1.0})

    def test_what_torch_steps_is_stepped_by_torch(self):
        warnings.filterwarnings("ignore", message="zf_runtime.AdamW")
        with self.subTest("amsgrad"):
            self.trained(make=lambda: make_model(BIG), amsgrad=True)
        with self.subTest("float64"):
            self.trained(make=lambda: make_model(BIG, torch.float64))

    def test_the_mode_is_named(self):
        self.assertEqual(adamw(make_model().parameters(), "backward").overlap, "backward")
        with self.refused("\"backward\""):
            zf_runtime.AdamW(make_model().parameters(), overlap="forward")
