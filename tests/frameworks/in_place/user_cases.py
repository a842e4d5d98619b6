"""What jobs do with their parameters between steps: in place, each holds as it does with torch's optimizer. Tests
optim/adam.py, optim/in_place/parts.py."""

import inspect
import io
import pathlib
import tempfile

import torch
import zf_runtime
from case import Case, WithMasters, deep, loss_of, make_model, states_of, tensors_of, train
from torch.nn.utils import parameters_to_vector, vector_to_parameters


def at(step, action):
    return lambda model, optimizer, now: action(model, optimizer) if now == step else None


class Storage(Case):
    def test_shared_memory(self):
        self.trained_like_torch(at(3, lambda model, _: model.share_memory()))

    def test_replaced_storage(self):
        def replace(model, _):
            for param in model.parameters():
                param.data = param.data.clone()

        self.trained_like_torch(lambda model, optimizer, _: replace(model, optimizer))

    def test_parameters_that_become_views_of_a_vector(self):
        self.trained_like_torch(at(4, lambda model, _: vector_to_parameters(
            parameters_to_vector(model.parameters()).detach(), model.parameters())))

    def test_weights_clipped_through_data_at_each_step(self):
        def clip(model, *_):
            for param in model.parameters():
                param.data.clamp_(-0.02, 0.02)

        self.trained_like_torch(clip)

    def test_an_average_swapped_in_and_out(self):
        def swap(model, *_):
            kept = [param.data.clone() for param in model.parameters()]
            for param in model.parameters():
                param.data.zero_()
            for param, value in zip(model.parameters(), kept):
                param.data.copy_(value)

        self.trained_like_torch(swap)

    def test_a_layer_initialised_anew(self):
        self.trained_like_torch(at(5, lambda model, _: model[2].reset_parameters()))

    def test_one_layer_is_saved_alone(self):
        model = make_model()
        train(model, zf_runtime.AdamW(model.parameters(), lr=1e-2))
        file = io.BytesIO()
        torch.save(model[2].state_dict(), file)
        self.assertLess(file.tell(), 2 * 4 * (33 * 7 + 7) + 2000)


class Half(Case):
    """16-bit parameters, beside torch's optimizer over fp32 masters."""

    def like_masters(self, action, dtype=torch.bfloat16, steps=20):
        def program(optimizer_class):
            model = make_model(dtype)
            optimizer = optimizer_class(model.parameters(), lr=1e-2)
            for step in range(steps):
                action(model, step)
                train(model, optimizer, 1, step)
            masters = getattr(optimizer, "masters", None) or [optimizer.state[p]["master"] for p in model.parameters()]
            for param, master in zip(model.parameters(), masters):
                self.assertTrue(torch.equal(param, master.to(dtype)), "the parameter is not its rounded master")
            return [master.detach().clone() for master in masters]

        # Another last bit of a master may round a parameter otherwise. Gradients then differ by a rounding of 16 bits.
        wanted, got = program(WithMasters), program(zf_runtime.AdamW)
        for mine, yours in zip(got, wanted):
            self.assertLess((mine - yours).abs().mean().item(), 2e-4)
            self.assertLess((mine - yours).abs().max().item(), 2e-2)

    def test_bf16_trains_like_fp32_masters(self):
        self.like_masters(lambda *_: None)

    def test_fp16_trains_like_fp32_masters(self):
        self.like_masters(lambda *_: None, torch.float16)

    def test_bf16_weights_clipped_through_data(self):
        def clip(model, _):
            for param in model.parameters():
                param.data.clamp_(-0.02, 0.02)

        self.like_masters(clip)

    def test_a_written_bf16_weight_wins_element_by_element(self):
        param = torch.nn.Parameter(torch.linspace(1, 2, 101, dtype=torch.bfloat16))
        optimizer = zf_runtime.AdamW([param], lr=1e-4, weight_decay=0)
        for _ in range(3):
            param.grad = torch.ones_like(param)
            optimizer.step()
        master = optimizer.state[param]["master"].clone()
        self.assertFalse(torch.equal(master, param.float()), "the masters hold no more than the parameters")
        param.data[7] = 5.0
        param.grad = torch.ones_like(param)
        optimizer.step()
        moved = optimizer.state[param]["master"]
        self.assertAlmostEqual(moved[7].item(), 5 - 1e-4, places=6)
        torch.testing.assert_close(moved[8:], master[8:] - 1e-4, rtol=0, atol=3e-7)

    def test_weights_written_then_saved_before_the_next_step_then_resumed(self):
        param = torch.nn.Parameter(torch.ones(9, dtype=torch.bfloat16))
        optimizer = zf_runtime.AdamW([param], lr=1e-2)
        param.grad = torch.ones_like(param)
        optimizer.step()
        with torch.no_grad():
            param.fill_(5)
        saved = deep((param.detach(), optimizer.state_dict()))
        again = torch.nn.Parameter(torch.zeros(9, dtype=torch.bfloat16))
        resumed = zf_runtime.AdamW([again], lr=1e-2)
        again.data.copy_(saved[0])
        resumed.load_state_dict(saved[1])
        again.grad = torch.ones_like(again)
        resumed.step()
        self.assertLess((resumed.state[again]["master"] - 5).abs().max().item(), 0.1)


class Saving(Case):
    def resumed(self, save, load):
        """save(model, optimizer) in the middle, load into new objects: as if nothing had happened."""
        model = make_model()
        optimizer = zf_runtime.AdamW(model.parameters(), lr=1e-2)
        train(model, optimizer, 5)
        saved = save(model, optimizer)
        wanted = train(model, optimizer, 5, 5)
        again = make_model(seed=2)
        other = zf_runtime.AdamW(again.parameters(), lr=1e-2)
        load(again, other, saved)
        self.assertEqual(train(again, other, 5, 5), wanted)
        for mine, yours in zip(tensors_of(again) + states_of(other), tensors_of(model) + states_of(optimizer)):
            self.assertTrue(torch.equal(mine, yours))

    def test_the_model_saved_before_the_optimizer(self):
        def load(model, optimizer, saved):
            model.load_state_dict(saved[0])
            optimizer.load_state_dict(saved[1])

        self.resumed(lambda model, optimizer: (deep(model.state_dict()), deep(optimizer.state_dict())), load)

    def test_the_optimizer_loaded_before_the_model(self):
        def load(model, optimizer, saved):
            optimizer.load_state_dict(saved[1])
            model.load_state_dict(saved[0])

        self.resumed(lambda model, optimizer: (deep(model.state_dict()), deep(optimizer.state_dict())), load)

    def test_accelerate_saves_and_loads_the_state(self):
        """Costs 2 s: accelerate is imported."""
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=True)
        with tempfile.TemporaryDirectory() as folder:
            def prepared(seed):
                model = make_model(seed=seed)
                return accelerator.prepare(model, zf_runtime.AdamW(model.parameters(), lr=1e-2))

            model, optimizer = prepared(1)
            train(model, optimizer, 5)
            accelerator.save_state(folder)
            self.assertTrue(list(pathlib.Path(folder).glob("model*.safetensors")))
            wanted = train(model, optimizer, 5, 5)
            accelerator.load_state(folder)
            self.assertEqual(train(model, optimizer, 5, 5), wanted)

    def test_weights_written_then_a_group_added(self):
        def program(optimizer_class):
            model, more = make_model(), torch.nn.Parameter(torch.ones(5))
            optimizer = optimizer_class(model.parameters(), lr=1e-3)
            train(model, optimizer, 2)
            with torch.no_grad():
                model[2].bias.fill_(5)
            optimizer.add_param_group({"params": [more], "lr": 1e-2})
            more.grad = torch.ones(5)
            loss_of(model, 2).backward()
            optimizer.step()
            return [*tensors_of(model), more.detach()]

        got = self.same(program)
        self.assertGreater(got[3].min().item(), 4.9)


class States(Case):
    def test_states_cleared(self):
        self.trained_like_torch(at(5, lambda _, optimizer: optimizer.state.clear()))

    def test_a_new_dict_of_states(self):
        def renew(_, optimizer):
            optimizer.state = type(optimizer.state)(dict)

        self.trained_like_torch(at(5, renew))

    def test_one_state_removed(self):
        self.trained_like_torch(at(5, lambda model, optimizer: optimizer.state.pop(model[0].weight)))

    def test_one_state_replaced_by_another_dict(self):
        def replace(model, optimizer):
            state = optimizer.state[model[0].weight]
            optimizer.state[model[0].weight] = {"step": torch.tensor(3.0), "exp_avg": state["exp_avg"] * 2,
                                                "exp_avg_sq": state["exp_avg_sq"] * 3}

        self.trained_like_torch(at(5, replace))

    def test_moments_and_steps_written_in_place(self):
        def write(_, optimizer):
            for state in optimizer.state.values():
                state["exp_avg"].zero_()
                state["exp_avg_sq"].mul_(2)
                state["step"].fill_(3)

        self.trained_like_torch(at(5, write))

    def test_steps_written_through_numpy_and_data(self):
        def write(model, optimizer):
            optimizer.state[model[0].weight]["step"].numpy()[...] = 2
            optimizer.state[model[0].bias]["step"].data.fill_(1)

        self.trained_like_torch(at(5, write))

    def test_moments_and_steps_replaced(self):
        def replace(_, optimizer):
            for state in optimizer.state.values():
                for name in state:
                    state[name] = state[name].clone() + (name == "step")

        self.trained_like_torch(at(5, replace))

    def test_storage_of_moments_and_steps_replaced(self):
        def replace(_, optimizer):
            for state in optimizer.state.values():
                for name in state:
                    state[name].data = state[name].clone() + (name == "step")

        self.trained_like_torch(at(5, replace))

    def test_steps_that_are_numbers_or_doubles_are_taken(self):
        for kind in (float, int, lambda value: torch.tensor(float(value), dtype=torch.float64)):
            model = make_model()
            optimizer = zf_runtime.AdamW(model.parameters())
            train(model, optimizer, 3)
            for state in optimizer.state.values():
                state["step"] = kind(7)
            train(model, optimizer, 2, 3)
            self.assertEqual({state["step"].item() for state in optimizer.state.values()}, {9.0})

    def test_one_tensor_given_as_the_step_of_all(self):
        model = make_model()
        optimizer = zf_runtime.AdamW(model.parameters())
        train(model, optimizer, 3)
        shared = torch.tensor(0.0)
        for state in optimizer.state.values():
            state["step"] = shared
        train(model, optimizer, 2, 3)
        self.assertEqual([state["step"].item() for state in optimizer.state.values()], [2.0] * 4)

    def test_a_load_hook_that_corrects_the_state(self):
        def program(optimizer_class):
            model = make_model()
            optimizer = optimizer_class(model.parameters(), lr=1e-2)
            train(model, optimizer, 3)

            def correct(_, state_dict):
                state_dict = deep(state_dict)
                for state in state_dict["state"].values():
                    state["exp_avg"].mul_(-1)
                return state_dict

            optimizer.register_load_state_dict_pre_hook(correct)
            optimizer.load_state_dict(deep(optimizer.state_dict()))
            train(model, optimizer, 3, 3)
            return tensors_of(model) + states_of(optimizer)

        self.same(program)


class Lists(Case):
    def test_a_parameter_replaced_appended_and_removed(self):
        def program(optimizer_class):
            torch.manual_seed(4)
            first, second, third = (torch.nn.Parameter(torch.randn(6)) for _ in range(3))
            optimizer = optimizer_class([first, second], lr=1e-2)
            kept = [first, second, third]

            def step():
                for param in kept:
                    param.grad = torch.sin(param.detach() + 1)
                optimizer.step()

            step()
            bigger = torch.nn.Parameter(torch.cat([first.detach(), torch.ones(3)]))  # as Gaussian splatting grows one
            state = optimizer.state.pop(first)
            state = {name: value if name == "step" else torch.cat([value, torch.zeros(3)])
                     for name, value in state.items()}
            optimizer.param_groups[0]["params"][0], optimizer.state[bigger] = bigger, state
            kept.append(bigger)
            step()
            optimizer.param_groups[0]["params"].append(third)
            step()
            del optimizer.param_groups[0]["params"][1]
            step()
            optimizer.param_groups.append({**optimizer.param_groups[0], "params": [second], "lr": 0.1})
            step()
            optimizer.param_groups.pop(0)
            step()
            return [param.detach().clone() for param in kept]

        self.same(program)

    def test_a_group_frozen_and_unfrozen_on_the_way(self):
        def freeze(model, _, step):
            model[0].requires_grad_(step not in range(2, 6))
            model[2].weight.requires_grad_(step >= 4)

        self.trained_like_torch(freeze)

    def test_an_expert_without_a_gradient_at_most_steps(self):
        def program(optimizer_class):
            torch.manual_seed(4)
            experts = [torch.nn.Parameter(torch.randn(5, 3)) for _ in range(6)]
            optimizer = optimizer_class(experts, lr=1e-2)
            for step in range(30):
                optimizer.zero_grad()
                for number, expert in enumerate(experts[:5]):
                    if (step * step + number) % 4 == 0:
                        expert.grad = torch.cos(expert.detach() + step)
                optimizer.step()
            return [expert.detach() for expert in experts] + states_of(optimizer)

        self.same(program)

    def test_one_optimizer_per_parameter_that_steps_inside_backward(self):
        def program(optimizer_class):
            model = make_model()
            optimizers = {param: optimizer_class([param], lr=1e-2) for param in model.parameters()}

            def step(param):
                optimizers[param].step()
                optimizers[param].zero_grad()

            for param in model.parameters():
                param.register_post_accumulate_grad_hook(step)
            for number in range(10):
                loss_of(model, number).backward()
            return tensors_of(model)

        self.same(program)


class Arguments(Case):
    def test_fused_and_foreach_are_accepted(self):
        for options in ({"fused": True}, {"foreach": True}, {"fused": False, "foreach": False}):
            self.trained_like_torch(lambda *_: None, **options)

    def test_wrong_arguments_are_refused_as_by_torch(self):
        for options in ({"fused": True, "foreach": True}, {"lr": -1}, {"betas": (1.0, 0.9)}, {"eps": -1},
                        {"fused": True, "differentiable": True}):
            raised = []
            for optimizer_class in (self.theirs, self.ours):
                with self.assertRaises((ValueError, RuntimeError)) as caught:
                    optimizer_class([torch.nn.Parameter(torch.ones(1))], **options)
                raised.append((type(caught.exception), str(caught.exception)))
            self.assertEqual(raised[0], raised[1])

    def test_a_beta2_of_five_nines(self):
        self.trained_like_torch(lambda *_: None, betas=(0.9, 0.99999), steps=200, lr=1e-4)

    def test_adam_with_weight_decay_in_the_gradient(self):
        self.theirs, self.ours = torch.optim.Adam, zf_runtime.Adam
        self.trained_like_torch(lambda *_: None, weight_decay=0.1)

    def test_adam_with_decoupled_weight_decay(self):
        self.theirs, self.ours = torch.optim.Adam, zf_runtime.Adam
        self.trained_like_torch(lambda *_: None, weight_decay=0.1, decoupled_weight_decay=True)

    def test_settings_that_change_between_steps(self):
        def change(_, optimizer, step):
            group = optimizer.param_groups[0]
            group.update(lr=1e-2 / (step + 1), betas=(0.8 + step / 200, 0.99), eps=1e-6, weight_decay=0.02 * step,
                         maximize=step == 7)

        self.trained_like_torch(change)

    def test_help_and_completion_name_all(self):
        self.assertLessEqual({"Adam", "AdamW", "Binding", "bind"}, set(dir(zf_runtime)))
        for make, theirs in ((zf_runtime.Adam, torch.optim.Adam), (zf_runtime.AdamW, torch.optim.AdamW)):
            ours = inspect.signature(make).parameters
            self.assertLessEqual(set(inspect.signature(theirs).parameters), set(ours))
            self.assertNotIn(inspect.Parameter.VAR_KEYWORD, [each.kind for each in ours.values()])
        group = zf_runtime.Adam([torch.nn.Parameter(torch.ones(2))], decoupled_weight_decay=True).param_groups[0]
        self.assertTrue(group["decoupled_weight_decay"])
