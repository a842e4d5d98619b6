"""What a model does while its optimizer's step is under way: it is saved, copied, pickled and spawned. And the one
class that is in place or has a process."""

import copy
import gc
import io
import pickle
import warnings
import weakref

import case
import torch
import zf_runtime
from case import support
from models import make_model, train
from zf_runtime import AdamW, ZfError

LATE = ("late", "exact")


def child(model, queue):
    queue.put(float(sum(value.sum() for value in model.state_dict().values())))


def gates_of(model):
    """Returns how many hooks stand in front of the modules of a model."""
    return sum(len(each._state_dict_pre_hooks) + len(each._forward_pre_hooks) for each in model.modules())


class OneStep(case.AdamWTest):
    def trained(self, mode, steps=5):
        model = make_model()
        optimizer = self.ours(model.parameters(), mode, lr=1e-2)
        train(model, optimizer, steps)
        return model, optimizer

    def test_a_model_that_is_saved_first_is_of_the_same_step(self):
        for mode in LATE:
            for save in (lambda model: model.state_dict(), lambda model: torch.nn.ModuleList([model]).state_dict(),
                         lambda model: model[0].state_dict()):
                model, optimizer = self.trained(mode)
                saved = copy.deepcopy(save(model))
                optimizer.synchronize()
                self.assert_bits(save(model), saved, mode)

    def test_in_mode_exact_whoever_asks_for_parameters_waits(self):
        whole, _ = self.trained("off")
        for ask in (lambda model: [param.clone() for param in model.parameters()],
                    lambda model: [param.clone() for _, param in model.named_parameters()],
                    lambda model: [param.clone() for part in model for param in part.parameters()],
                    lambda model: [copy.deepcopy(param) for param in copy.deepcopy(model).parameters()],
                    lambda model: list(pickle.loads(pickle.dumps(model)).parameters()),
                    lambda model: list(copy.deepcopy(model).to(torch.float64).to(torch.float32).parameters())):
            model, optimizer = self.trained("exact")
            self.assert_bits(ask(model), list(whole.parameters()))
            optimizer.synchronize()
            self.assert_bits(list(model.parameters()), list(whole.parameters()))

    def test_a_forward_of_a_part_waits(self):
        whole, _ = self.trained("off")
        for part in (0, 2):
            model, _ = self.trained("exact")
            inputs = torch.ones(1, model[part].in_features)
            with torch.no_grad():
                self.assertTrue(torch.equal(model[part](inputs), whole[part](inputs)))

    def test_it_stays_so_after_add_param_group(self):
        for mode in LATE:
            more = torch.nn.Parameter(torch.ones(3))
            model, optimizer = self.trained(mode, 2)
            optimizer.add_param_group({"params": [more]})
            train(model, optimizer, 3, first=2)
            saved = copy.deepcopy(model.state_dict())
            optimizer.synchronize()
            self.assert_bits(model.state_dict(), saved)
            self.assertEqual(gates_of(model) > 0, mode == "late")
            optimizer.close()
            self.assertEqual(gates_of(model), 0)

    def test_it_resumes_where_it_was(self):
        for mode in LATE:
            model, optimizer = self.trained(mode)
            file = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            file.seek(0)
            saved = torch.load(file)
            again = make_model()
            other = self.ours(again.parameters(), mode, lr=1e-2)
            again.load_state_dict(saved["model"])
            other.load_state_dict(saved["optimizer"])
            self.assertEqual(train(again, other, 5, first=5)[0], train(model, optimizer, 5, first=5)[0])

    def test_a_model_that_is_loaded_while_its_step_is_under_way(self):
        """In mode exact load_state_dict() waits, so that what it loads stays."""
        model, _ = self.trained("exact")
        wanted = make_model().state_dict()
        model.load_state_dict(wanted)
        self.assert_bits(dict(model.state_dict()), dict(wanted))

    def test_the_first_step_has_seen_no_forward_before_it(self):
        """A model with a forward before its optimizer was made: mode exact waits in step()."""
        model, whole = make_model(), make_model()
        model(torch.ones(1, 10)).sum().backward()
        whole(torch.ones(1, 10)).sum().backward()
        zf_runtime.AdamW(whole.parameters()).step()
        optimizer = self.ours(model.parameters(), "exact")
        optimizer.step()
        self.assert_bits(list(model.parameters()), list(whole.parameters()))

    def test_copied_pickled_and_spawned_models_work(self):
        for mode in LATE:
            model, optimizer = self.trained(mode, 3)
            file = io.BytesIO()
            torch.save(model, file)
            file.seek(0)
            copies = [copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model)),
                      torch.load(file, weights_only=False)]
            for other in copies:
                other.state_dict()
                other(torch.ones(1, 10))
                list(other.parameters())
            train(copies[0], torch.optim.AdamW(copies[0].parameters()), 1)
            optimizer.synchronize()
            self.assertEqual(len(copy.deepcopy(model).state_dict()), 4)
            if mode == "late":
                continue
            train(model, optimizer, 1, first=3)
            context = torch.multiprocessing.get_context("spawn")
            queue = context.Queue()
            process = context.Process(target=child, args=(model, queue))
            process.start()
            found = queue.get(timeout=120)
            process.join()
            self.assertAlmostEqual(found, float(sum(value.sum() for value in model.state_dict().values())), 4)

    def test_the_model_does_not_keep_the_optimizer(self):
        for mode in LATE:
            model = make_model()
            with case.with_process(model.parameters(), mode) as optimizer:
                train(model, optimizer, 2)
                gone = weakref.ref(optimizer)
            del optimizer
            gc.collect()
            self.assertIsNone(gone())
            model.state_dict()
            self.assertEqual(gates_of(model), 0)


class OneClass(case.AdamWTest):
    """AdamW is one class, in place and with a process."""

    def test_a_subclass_stays_one(self):
        class Mine(AdamW):
            def step(self, closure=None):
                self.mine = True
                return super().step(closure)

        for overlap in case.MODES:
            model = make_model()
            with Mine(model.parameters(), overlap=overlap, plan=support.plan()) as optimizer:
                train(model, optimizer, 1)
                self.assertTrue(optimizer.mine)
                self.assertIs(type(optimizer), Mine)

    def test_each_state_format_moves_to_a_late_optimizer_and_back(self):
        for state in ("bf16", "bf16+split"):
            models = [make_model().to(torch.bfloat16) for _ in range(2)]
            own = AdamW(models[0].parameters(), lr=1e-2, state=state, seed=5)
            for step in range(4):
                for param in models[0].parameters():
                    param.grad = torch.full_like(param, 0.1 * step - 0.2)
                own.step()
            models[1].load_state_dict(models[0].state_dict())
            late = self.ours(models[1].parameters(), "late", state=state)
            late.load_state_dict(copy.deepcopy(own.state_dict()))
            back = AdamW(models[1].parameters(), lr=1e-2, state=state)
            back.load_state_dict(copy.deepcopy(late.state_dict()))
            for ours, theirs in zip(models[1].parameters(), models[0].parameters()):
                for name in ("exp_avg", "exp_avg_sq", "step", *(["low"] if "split" in state else ["master"])):
                    self.assertTrue(torch.equal(back.state[ours][name], own.state[theirs][name]), name)

    def test_scaled_gradients_of_fp16_are_not_rounded(self):
        """The products are subnormal in fp16. The second gradient has other strides. torch steps with amsgrad."""
        warnings.filterwarnings("ignore", message="zf_runtime.AdamW: .* stepped by torch's own")
        for more in ({}, {"maximize": True}, {"amsgrad": True}):
            generator = torch.Generator().manual_seed(4)
            values, gradients = (torch.randn(2, 6, 5, generator=generator).to(torch.float16) for _ in range(2))
            halves = [torch.nn.Parameter(value.clone()) for value in values]
            floats = [torch.nn.Parameter(value.to(torch.float32)) for value in values]
            halves[0].grad, halves[1].grad = gradients[0].clone(), gradients[1].t().contiguous().t()
            given = [half.grad for half in halves]
            for param, gradient in zip(floats, gradients):
                param.grad = gradient.to(torch.float32) / 65536
            optimizers = AdamW(halves, **more), torch.optim.AdamW(floats, **more)
            optimizers[0].step(grad_scale=1 / 65536)
            optimizers[1].step()
            for half, param, gradient, kept in zip(halves, floats, gradients, given):
                mine, theirs = optimizers[0].state[half], optimizers[1].state[param]
                torch.testing.assert_close(mine["exp_avg"], theirs["exp_avg"], rtol=1e-6, atol=0)
                torch.testing.assert_close(mine["exp_avg_sq"], theirs["exp_avg_sq"], rtol=1e-6, atol=0)
                torch.testing.assert_close(mine["master"], param.detach(), rtol=1e-6, atol=1e-7)
                self.assertIs(half.grad, kept)
                self.assertTrue(torch.equal(kept, gradient))

    def test_hooks_run_once_and_generators_are_taken(self):
        model, calls = make_model(), []
        optimizer = AdamW({"params": each.parameters()} for each in (model[0], model[2]))
        optimizer.register_step_pre_hook(lambda *_: calls.append(1))
        train(model, optimizer, 3)
        self.assertEqual(len(calls), 3)
        self.assertEqual(len(optimizer.param_groups), 2)

    def test_each_form_of_params_is_taken(self):
        """And what torch refuses is refused."""
        one = torch.nn.Parameter(torch.tensor(1.0))
        for params in ({"params": one}, {"params": [one]}, {"params": (one,)}, {"params": iter([one])}, one):
            optimizer = AdamW([params])
            self.assertIsInstance(optimizer, zf_runtime.AdamW)
            self.assertIs(optimizer.param_groups[0]["params"][0], one)
        for wrong in (one, [{"params": {one}}], [], [{"params": 3}]):
            with self.assertRaises((TypeError, ValueError)) as theirs:
                torch.optim.AdamW(wrong)
            self.assertRaises(type(theirs.exception), AdamW, wrong)

    def test_after_close_it_refuses(self):
        model = make_model()
        with AdamW(model.parameters()) as optimizer:
            train(model, optimizer, 1)
            self.assertRaisesRegex(ZfError, "in place", getattr, optimizer, "runtime")
        with self.assertRaisesRegex(ZfError, "closed"):
            optimizer.step()
