"""Where a step by pointers could go wrong without a word, and what is refused in words. Tests optim/around_step.py,
optim/in_place/torch_fallback.py, optim/tensors/eligibility.py."""

import contextlib
import copy
import pickle
import subprocess
import sys
import textwrap
import threading
import warnings
from unittest import mock

import torch
import zf_runtime
from case import Case, deep, loss_of, make_model, states_of, tensors_of, train
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from zf_runtime import ZfError


class Autograd(Case):
    def test_a_graph_over_old_parameters_is_refused(self):
        for dtype in (torch.float32, torch.bfloat16):
            model = make_model(dtype)
            optimizer = zf_runtime.AdamW(model.parameters())
            for step in range(3):
                optimizer.zero_grad()
                loss = loss_of(model, step)
                loss.backward(retain_graph=True)
                optimizer.step()
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                loss.backward()

    def test_a_step_while_gradients_are_enabled_makes_no_graph(self):
        model = make_model()
        optimizer = zf_runtime.AdamW(model.parameters())
        with torch.enable_grad():
            train(model, optimizer, 3)
        for state in optimizer.state.values():
            self.assertFalse(any(value.requires_grad for value in state.values()))

    def test_a_compiled_function_with_a_step_in_it_breaks_its_graph_there(self):
        """The backend is eager: no compiler is needed. Costs 3 s."""
        def program(optimizer_class):
            model = make_model()
            optimizer = optimizer_class(model.parameters(), lr=1e-2)

            def iteration(inputs):
                optimizer.zero_grad()
                loss = model(inputs).pow(2).mean()
                loss.backward()
                optimizer.step()
                return loss.detach() * 2

            iterate = torch.compile(iteration, backend="eager")
            losses = [iterate(torch.full((4, 10), 0.1 * step)) for step in range(6)]
            return [*losses, *tensors_of(model), *states_of(optimizer)]

        warnings.simplefilter("default")
        self.same(program)

    def test_a_compiled_model_in_a_closure(self):
        def program(optimizer_class):
            model = make_model()
            compiled = torch.compile(model, backend="eager")
            optimizer = optimizer_class(model.parameters(), lr=1e-2)

            def closure():
                optimizer.zero_grad()
                loss = compiled(torch.ones(4, 10)).pow(2).mean()
                loss.backward()
                return loss

            return [optimizer.step(closure).detach() for _ in range(6)] + tensors_of(model)

        warnings.simplefilter("default")
        self.same(program)


class Layouts(Case):
    def convolutions(self):
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3))
        return model.to(memory_format=torch.channels_last)

    def trained(self, model, optimizer, steps=4):
        for step in range(steps):
            optimizer.zero_grad()
            inputs = torch.randn(2, 3, 9, 9, generator=torch.Generator().manual_seed(step))
            model(inputs.to(memory_format=torch.channels_last)).pow(2).mean().backward()
            optimizer.step()

    def test_channels_last_is_stepped_by_the_engine(self):
        def program(optimizer_class):
            model = self.convolutions()
            optimizer = optimizer_class(model.parameters(), lr=1e-2)
            self.trained(model, optimizer)
            return tensors_of(model) + states_of(optimizer)

        self.same(program)

    def test_moments_of_a_channels_last_parameter_that_have_their_own_strides(self):
        def program(optimizer_class):
            model = self.convolutions()
            optimizer = optimizer_class(model.parameters(), lr=1e-2)
            self.trained(model, optimizer)
            state_dict = deep(optimizer.state_dict())
            for state in state_dict["state"].values():
                for name in ("exp_avg", "exp_avg_sq"):
                    state[name] = state[name].contiguous()
            optimizer.load_state_dict(state_dict)
            self.trained(model, optimizer)
            return tensors_of(model) + states_of(optimizer)

        self.same(program)

    def test_a_layout_that_changes_in_training_stays_with_the_engine_and_the_states_tensors(self):
        def program(optimizer_class):
            model = self.convolutions()
            optimizer = optimizer_class(model.parameters(), lr=1e-2)
            for order in (torch.contiguous_format, torch.channels_last):
                self.trained(model, optimizer)
                kept = optimizer.state_dict()["state"][0]
                model.to(memory_format=order)
                self.trained(model, optimizer)
                self.assertIs(kept["exp_avg"], optimizer.state[model[0].weight]["exp_avg"])
            return tensors_of(model) + states_of(optimizer)

        self.same(program)

    def test_a_moment_turned_where_it_lies(self):
        """The tensor, its address and its size stay: only its strides tell that it is another matrix now."""
        def program(optimizer_class):
            torch.manual_seed(3)
            param = torch.nn.Parameter(torch.randn(6, 6))
            optimizer = optimizer_class([param], lr=1e-2)
            for step in range(6):
                param.grad = torch.sin(param.detach() * 9 + step)
                optimizer.step()
                if step == 3:
                    optimizer.state[param]["exp_avg"].t_()
            return [param.detach(), *states_of(optimizer)]

        self.same(program)

    def test_a_moment_of_another_type_at_the_same_address(self):
        param = torch.nn.Parameter(torch.ones(64))
        optimizer = zf_runtime.AdamW([param])
        for _ in range(2):
            param.grad = torch.ones(64)
            optimizer.step()
        moment = optimizer.state[param]["exp_avg"]
        moment.data = moment.data.view(torch.int32)
        self.expect_torch_steps()
        with self.assertRaises((RuntimeError, ZfError)):
            optimizer.step()

    def test_gradients_whose_strides_change_from_step_to_step(self):
        def program(optimizer_class):
            torch.manual_seed(3)
            params = [torch.nn.Parameter(torch.randn(6, 5)) for _ in range(4)]
            optimizer = optimizer_class(params, lr=1e-2)
            for step in range(12):
                for number, param in enumerate(params):
                    grad = torch.sin(param.detach() + step)
                    param.grad = grad if (step + number) % 3 else grad.t().contiguous().t()
                if step % 5 == 4:
                    params[0].grad = torch.ones(1, 1).expand(6, 5)
                optimizer.step()
            return [param.detach() for param in params] + states_of(optimizer)

        self.same(program)

    def test_transposed_parameters_and_views_with_gaps(self):
        def program(optimizer_class):
            torch.manual_seed(3)
            base = torch.randn(6, 10)
            params = [torch.nn.Parameter(torch.randn(6, 5).t()), torch.nn.Parameter(base[:, ::2]),
                      torch.nn.Parameter(torch.randn(1, 5, 1)), torch.nn.Parameter(torch.tensor(3.0)),
                      torch.nn.Parameter(torch.empty(0, 4)), torch.nn.Parameter(torch.randn(7)[3:])]
            optimizer = optimizer_class(params, lr=1e-2)
            for _ in range(5):
                for param in params:
                    param.grad = torch.cos(param.detach())
                optimizer.step()
            return [param.detach() for param in params] + states_of(optimizer) + [base]

        self.expect_torch_steps()
        self.same(program)

    def test_a_negated_gradient(self):
        def program(optimizer_class):
            param = torch.nn.Parameter(torch.ones(4))
            optimizer = optimizer_class([param], lr=1e-2)
            for _ in range(3):
                param.grad = torch.ones(4)
                optimizer.step()
            param.grad = torch._neg_view(torch.ones(4))  # as of the imaginary part of a conjugate
            self.assertTrue(param.grad.is_neg() and param.grad.is_contiguous())
            optimizer.step()
            return [param.detach(), *states_of(optimizer)]

        self.expect_torch_steps()
        self.same(program)

    def test_parameters_that_overlap_in_memory(self):
        def program(optimizer_class):
            torch.manual_seed(3)
            memory = torch.randn(300_000)
            params = [torch.nn.Parameter(torch.empty(0)) for _ in range(4)]
            for param, (first, last) in zip(params, ((0, 200_000), (100_000, 300_000), (0, 200_000), (5, 9))):
                param.data = memory[first:last]
            optimizer = optimizer_class(params, lr=1e-2)
            for step in range(4):
                for param in params:
                    param.grad = torch.full_like(param, 1.0 + step)
                optimizer.step()
            return [memory]

        self.same(program)

    def test_moments_that_two_parameters_share(self):
        def program(optimizer_class):
            torch.manual_seed(3)
            params = [torch.nn.Parameter(torch.randn(200_000)) for _ in range(2)]
            optimizer = optimizer_class(params, lr=1e-2)
            for step in range(4):
                for number, param in enumerate(params):
                    param.grad = torch.full_like(param, 1.0 + step + number)
                optimizer.step()
                for name in ("exp_avg", "exp_avg_sq"):
                    optimizer.state[params[1]][name] = optimizer.state[params[0]][name]
            return params

        self.same(program)

    def test_a_state_that_two_parameters_share_is_refused(self):
        params = [torch.nn.Parameter(torch.ones(4)) for _ in range(2)]
        optimizer = zf_runtime.AdamW(params, lr=1e-2)
        for param in params:
            param.grad = torch.ones(4)
        optimizer.step()
        before = tensors_of(torch.nn.ParameterList(params))
        optimizer.state[params[1]] = optimizer.state[params[0]]
        with self.assertRaisesRegex(zf_runtime.ZfError, r"shape \[4\] shares its state with another"):
            optimizer.step()
        self.assertTrue(all(map(torch.equal, params, before)))

    def test_what_is_refused_is_refused_before_torch_steps_its_share(self):
        params = [torch.nn.Parameter(torch.ones(4, dtype=dtype)) for dtype in (torch.float32, torch.float64)]
        optimizer = zf_runtime.AdamW(params)
        optimizer.param_groups[0]["lr"] = float("nan")
        for param in params:
            param.grad = torch.ones_like(param)
        with warnings.catch_warnings(), self.assertRaisesRegex(zf_runtime.ZfError, "lr nan"):
            warnings.simplefilter("ignore")
            optimizer.step()
        self.assertEqual([param.tolist() for param in params], [[1.0] * 4] * 2)

    def test_one_parameter_listed_twice(self):
        def program(optimizer_class):
            param = torch.nn.Parameter(torch.ones(4))
            optimizer = optimizer_class([param, param], lr=1e-2, foreach=False)
            for _ in range(3):
                param.grad = torch.ones(4)
                optimizer.step()
            return [param.detach(), *states_of(optimizer)]

        warnings.simplefilter("ignore")
        self.same(program)


class Others(Case):
    """What the engine does not take is stepped by torch in the same call, and one line says so."""

    def mixed(self, odd, **options):
        """Trains an odd parameter beside plain ones."""
        def program(optimizer_class):
            torch.manual_seed(2)
            params = [torch.nn.Parameter(tensor) for tensor in (torch.randn(5), odd(), torch.randn(6, 2))]
            optimizer = optimizer_class(params, lr=1e-2, **options)
            for _ in range(6):
                for param in params:
                    param.grad = torch.sin(param.detach())
                optimizer.step()
            return [param.detach() for param in params] + [optimizer.state[p]["step"] for p in params]

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.same(program)
        return [str(each.message) for each in caught if "zf_runtime" in str(each.message)]

    def test_doubles(self):
        self.assertEqual(self.mixed(lambda: torch.randn(3, dtype=torch.float64)),
                         ["zf_runtime.AdamW: 1 of 3 parameters is stepped by torch's own adam() in the same call: "
                          "1 of float64"])

    def test_complex_numbers(self):
        self.assertRegex(self.mixed(lambda: torch.randn(3, dtype=torch.complex64))[0], "1 of complex64")

    def test_amsgrad(self):
        self.assertRegex(self.mixed(lambda: torch.randn(3), amsgrad=True)[0], "3 of 3 .* 3 with amsgrad=True")

    def test_a_subclass(self):
        class Logged(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, arguments=(), keywords=None):
                return super().__torch_function__(function, types, arguments, keywords or {})

        self.assertRegex(self.mixed(lambda: torch.randn(3).as_subclass(Logged))[0], "1 of type Logged")

    def test_a_kind_of_parameter_that_leaves_all_to_torch_is_the_engines(self):
        class Tagged(torch.nn.Parameter):
            pass

        def program(optimizer_class):
            param = Tagged(torch.ones(3))
            optimizer = optimizer_class([param], lr=1e-2)
            param.grad = torch.ones(3)
            optimizer.step()
            return [param.detach().as_subclass(torch.Tensor)]

        self.same(program)

    def test_bf16_with_amsgrad_is_stepped_through_its_master(self):
        param = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        optimizer = zf_runtime.AdamW([param], lr=1e-4, amsgrad=True)
        self.expect_torch_steps()
        for _ in range(5):
            param.grad = torch.ones_like(param)
            optimizer.step()
        state = optimizer.state[param]
        self.assertEqual({state[name].dtype for name in ("exp_avg", "max_exp_avg_sq", "master")}, {torch.float32})
        self.assertNotEqual(state["master"][0].item(), 1.0)
        self.assertTrue(torch.equal(state["master"].bfloat16(), param))

    def test_a_differentiable_step(self):
        def program(optimizer_class):
            param = torch.ones(3, requires_grad=True)
            moved = param.clone()
            moved.retain_grad()
            moved.grad = (param * 3)
            optimizer = optimizer_class([moved], lr=1e-2, differentiable=True)
            optimizer.step()
            return list(torch.autograd.grad(moved.sum(), param))

        self.expect_torch_steps()
        warnings.simplefilter("ignore")
        self.same(program)

    def test_the_line_comes_once_for_each_reason_and_count(self):
        params = [torch.nn.Parameter(torch.ones(2, dtype=torch.float64)) for _ in range(2)]
        optimizer = zf_runtime.AdamW(params)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for step in range(6):
                params[0].grad = torch.ones(2, dtype=torch.float64)
                params[1].grad = torch.ones(2, dtype=torch.float64) if step > 2 else None
                optimizer.step()
        self.assertEqual(len(caught), 2)


class Refused(Case):
    def test_a_sparse_gradient_before_anything_is_stepped(self):
        embedding, other = torch.nn.Embedding(9, 3, sparse=True), torch.nn.Linear(3, 2)
        optimizer = zf_runtime.AdamW([*other.parameters(), embedding.weight])
        before = [param.detach().clone() for param in (*other.parameters(), embedding.weight)]
        for _ in range(2):
            optimizer.zero_grad()
            other(embedding(torch.tensor([1, 2]))).sum().backward()
            with self.assertRaisesRegex(ZfError, "sparse gradient.*SparseAdam"):
                optimizer.step()
        for param, old in zip((*other.parameters(), embedding.weight), before):
            self.assertTrue(torch.equal(param, old))
        self.assertFalse(any(state["step"].item() for state in optimizer.state.values()))

    def test_a_gradient_that_becomes_sparse_later(self):
        param, other = torch.nn.Parameter(torch.ones(3, 2)), torch.nn.Parameter(torch.ones(4))
        optimizer = zf_runtime.AdamW([other, param])
        for _ in range(3):
            param.grad, other.grad = torch.ones(3, 2), torch.ones(4)
            optimizer.step()
        param.grad, before = None, other.detach().clone()
        param.grad = torch.ones(3, 2).to_sparse()
        with self.assertRaisesRegex(ZfError, "sparse gradient"):
            optimizer.step()
        self.assertTrue(torch.equal(other, before))
        self.assertEqual(optimizer.state[other]["step"].item(), 3)

    def test_parameters_on_a_gpu(self):
        """There need not be a GPU: torch's fake tensors say that they are on one."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            there = torch.nn.Parameter(torch.empty(3, device="cuda"))
        with self.assertRaisesRegex(ZfError, r"on cuda.*torch\.optim\.AdamW\(fused=True\).*zf_runtime\.AdamW"):
            zf_runtime.Adam([there])
        with warnings.catch_warnings(), self.assertRaisesRegex(ZfError, "no plan"):  # it needs a process
            warnings.filterwarnings("ignore", "Accessing the data pointer of FakeTensor")
            zf_runtime.AdamW([there])
        optimizer = zf_runtime.AdamW([torch.nn.Parameter(torch.ones(2))])
        with self.assertRaisesRegex(ZfError, "on cuda"):
            optimizer.add_param_group({"params": [there]})
        self.assertEqual(len(optimizer.param_groups), 1)

    def test_a_count_below_zero(self):
        param = torch.nn.Parameter(torch.ones(2))
        optimizer = zf_runtime.AdamW([param])
        param.grad = torch.ones(2)
        optimizer.step()
        optimizer.state[param]["step"].fill_(-1)
        with self.assertRaisesRegex(ZfError, "step is -1"):
            optimizer.step()

    def test_a_setting_that_is_not_finite(self):
        param = torch.nn.Parameter(torch.ones(2))
        optimizer = zf_runtime.AdamW([param])
        param.grad = torch.ones(2)
        optimizer.param_groups[0]["lr"] = float("nan")
        with self.assertRaisesRegex(ZfError, "lr nan: set it to a finite number"):
            optimizer.step()
        self.assertTrue(torch.equal(param.detach(), torch.ones(2)))

    def test_a_gradient_of_another_shape_and_the_same_length(self):
        param = torch.nn.Parameter(torch.ones(2, 3))
        optimizer = zf_runtime.AdamW([param])
        for _ in range(2):
            param.grad = torch.ones(2, 3)
            optimizer.step()
        param.grad.data = torch.ones(3, 2)
        self.expect_torch_steps()
        with self.assertRaises(RuntimeError):
            optimizer.step()

    def test_an_older_torch(self):
        code = textwrap.dedent("""
            import torch, zf_runtime
            torch.__version__ = "2.3.1+cpu"
            try:
                zf_runtime.AdamW
            except ImportError as error:
                print(error)
        """)
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        self.assertEqual(said, "zf_runtime.AdamW and Adam need torch 2.4 or newer, and this is torch 2.3.1+cpu\n")


class Scaling(Case):
    def test_a_grad_scaler_hands_over_gradients_without_its_scale(self):
        def program(optimizer_class):
            model = make_model()
            optimizer = optimizer_class(model.parameters(), lr=1e-2)
            scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
            for step in range(6):
                optimizer.zero_grad()
                scaler.scale(loss_of(model, step)).backward()
                if step == 3:
                    model[0].weight.grad[0, 0] = float("inf")
                scaler.step(optimizer)
                scaler.update()
            return tensors_of(model) + states_of(optimizer)

        self.same(lambda optimizer_class: program(lambda params, lr: optimizer_class(params, lr=lr, fused=True)))
        optimizer = zf_runtime.AdamW(make_model().parameters(), fused=True)
        self.assertFalse(getattr(optimizer, "_step_supports_amp_scaling", False))

    def test_tensors_as_lr_and_betas_are_read_at_each_step(self):
        def program(optimizer_class):
            model = make_model()
            lr, betas = torch.tensor(1e-2), (torch.tensor(0.9), torch.tensor(0.99))
            optimizer = optimizer_class(model.parameters(), lr=lr, betas=betas, foreach=False)
            for step in range(10):
                lr.mul_(0.7)
                betas[0].fill_(0.9 if step % 2 else 0.8)
                train(model, optimizer, 1, step)
            return tensors_of(model)

        self.same(program)

    def test_a_scheduler(self):
        def program(optimizer_class):
            model = make_model()
            optimizer = optimizer_class(model.parameters(), lr=1e-2)
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-2, total_steps=30)
            for step in range(20):
                train(model, optimizer, 1, step)
                scheduler.step()
            return tensors_of(model)

        self.same(program)


class SameAsTorch(Case):
    def test_closures_and_hooks(self):
        def program(optimizer_class):
            model, seen = make_model(), []
            optimizer = optimizer_class(model.parameters(), lr=1e-2)
            optimizer.register_step_pre_hook(lambda *_: seen.append(torch.tensor(1.0)))
            optimizer.register_step_post_hook(lambda *_: seen.append(torch.tensor(2.0)))

            def closure():
                seen.append(torch.tensor(3.0 + torch.is_grad_enabled()))
                optimizer.zero_grad()
                loss = loss_of(model, 1)
                loss.backward()
                return loss

            with torch.no_grad():
                losses = [optimizer.step(closure).detach() for _ in range(3)]
            optimizer.zero_grad(set_to_none=False)
            self.assertFalse(any(param.grad.any() for param in model.parameters()))
            return seen + losses + tensors_of(model)

        self.same(program)

    def test_a_hook_that_a_closure_registers_is_called_at_once(self):
        def program(optimizer_class):
            model, seen = make_model(), []
            optimizer = optimizer_class(model.parameters(), lr=1e-2)

            def closure():
                optimizer.register_step_post_hook(lambda *_: seen.append(torch.tensor(1.0)))
                return loss_of(model, 1)

            optimizer.step(closure)
            optimizer.step(closure=closure)
            self.assertEqual(len(seen), 3)
            return seen

        self.same(program)

    def test_hooks_of_all_optimizers(self):
        def program(optimizer_class):
            model, seen = make_model(), []
            optimizer = optimizer_class(model.parameters(), lr=1e-2)
            for register in (register_optimizer_step_pre_hook, register_optimizer_step_post_hook):
                handle = register(lambda *_: seen.extend(tensors_of(model)))
                train(model, optimizer, 2)
                handle.remove()
            train(model, optimizer, 2)
            return seen + tensors_of(model)

        self.same(program)

    def test_a_profiler_finds_the_step_and_without_one_there_is_no_span(self):
        model = make_model()
        optimizer = zf_runtime.AdamW(model.parameters())
        train(model, optimizer, 1)
        with torch.profiler.profile() as found:
            optimizer.step()
        self.assertIn("Optimizer.step#AdamW.step", [event.key for event in found.key_averages()])
        with mock.patch("torch.autograd.profiler.record_function", side_effect=AssertionError("a span")):
            optimizer.step()
            optimizer.register_step_post_hook(lambda *_: None)
            with self.assertRaisesRegex(AssertionError, "a span"):
                optimizer.step()

    def copied(self, duplicate, dtype=torch.float32):
        """A copy goes on as its original does, and neither touches the other."""
        model = make_model(dtype)
        optimizer = zf_runtime.AdamW(model.parameters(), lr=1e-2, fused=True)
        train(model, optimizer, 4)
        again, other = duplicate((model, optimizer))
        wanted = train(model, optimizer, 4, 4)
        self.assertEqual(train(again, other, 4, 4), wanted)
        for mine, yours in zip(tensors_of(again) + states_of(other), tensors_of(model) + states_of(optimizer)):
            self.assertTrue(torch.equal(mine, yours))
        self.assertEqual(optimizer.state[model[0].weight]["step"].item(), 8)

    def test_deepcopy(self):
        for dtype in (torch.float32, torch.bfloat16):
            self.copied(copy.deepcopy, dtype)

    def test_pickle(self):
        for dtype in (torch.float32, torch.bfloat16):
            self.copied(lambda both: pickle.loads(pickle.dumps(both)), dtype)

    def test_a_fork_steps_on_its_own(self):
        """Costs 1 s. A child of a process with threads that have stepped."""
        code = textwrap.dedent("""
            import os, torch, zf_runtime
            param = torch.nn.Parameter(torch.ones(1 << 20))
            optimizer = zf_runtime.AdamW([param], lr=1e-2)
            param.grad = torch.ones_like(param)
            optimizer.step()
            child = os.fork()
            optimizer.step()
            # One write, since parent and child share the pipe and Python may be told not to buffer.
            os.write(1, f"{param[0].item() == param[-1].item()} {optimizer.state[param]['step'].item()}\\n".encode())
            if child:
                os._exit(os.waitpid(child, 0)[1])
            os._exit(0)
        """)
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                              timeout=60).stdout
        self.assertEqual(said.splitlines(), ["True 2.0"] * 2)

    def test_two_threads_with_an_optimizer_each(self):
        def job(seed, model, found):
            found[seed] = train(model, zf_runtime.AdamW(model.parameters(), lr=1e-2), 20)

        alone, beside = {}, {}
        for seed in (1, 2):
            job(seed, make_model(seed=seed), alone)
        threads = [threading.Thread(target=job, args=(seed, make_model(seed=seed), beside)) for seed in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(beside, alone)

    def test_as_many_threads_as_torch_is_told(self):
        from zf_runtime.native import local_calls

        param = torch.nn.Parameter(torch.ones(1 << 20))
        optimizer = zf_runtime.AdamW([param])
        before = torch.get_num_threads()
        self.addCleanup(torch.set_num_threads, before)
        for threads in (2, 1, 2):
            torch.set_num_threads(threads)
            param.grad = torch.ones_like(param)
            optimizer.step()
            self.assertEqual(local_calls.engine().statistics().threads, threads)


class StateDicts(Case):
    def moved(self, source_class, target_class, dtype=torch.float32, **options):
        """Trains with one class, goes on with the other, as with one alone."""
        model = make_model(dtype)
        source = source_class(model.parameters(), lr=1e-2, **options)
        train(model, source, 5)
        again = copy.deepcopy(model)
        target = target_class(again.parameters(), lr=1e-3, **options)
        target.load_state_dict(deep(source.state_dict()))
        train(model, source, 5, 5)
        train(again, target, 5, 5)
        for mine, yours in zip(tensors_of(again) + states_of(target), tensors_of(model) + states_of(source)):
            torch.testing.assert_close(mine, yours, rtol=1e-4, atol=1e-5)
        return target

    def test_from_and_to_torch(self):
        for options in ({}, {"fused": True}, {"foreach": True}):
            self.moved(self.theirs, self.ours, **options)
            self.moved(self.ours, self.theirs, **options)

    def test_fp32_moments_and_masters_of_bf16_stay_fp32(self):
        model = make_model(torch.bfloat16)
        optimizer = zf_runtime.AdamW(model.parameters(), lr=1e-3)
        train(model, optimizer, 5)
        saved = deep(optimizer.state_dict())
        optimizer.register_load_state_dict_pre_hook(
            lambda _, given: {**given, "state": {key: {**state, "exp_avg": state["exp_avg"] * (1 + 2**-20)}
                                                 for key, state in given["state"].items()}})
        optimizer.load_state_dict(saved)
        for key, param in enumerate(model.parameters()):
            for name in ("exp_avg", "exp_avg_sq", "master"):
                wanted = saved["state"][key][name] * (1 + 2**-20 if name == "exp_avg" else 1)
                self.assertTrue(torch.equal(optimizer.state[param][name], wanted), name)

    def test_a_load_post_hook_has_the_last_word(self):
        model = make_model(torch.bfloat16)
        optimizer = zf_runtime.AdamW(model.parameters(), lr=1e-3)
        train(model, optimizer, 2)

        def zero(loaded):
            for state in loaded.state.values():
                state["exp_avg"].zero_()

        optimizer.register_load_state_dict_post_hook(zero)
        optimizer.load_state_dict(deep(optimizer.state_dict()))
        self.assertFalse(any(state["exp_avg"].any() for state in optimizer.state.values()))

    def test_bf16_moments_of_torch_are_taken(self):
        model = make_model(torch.bfloat16)
        theirs = torch.optim.AdamW(model.parameters(), lr=1e-3)
        train(model, theirs, 5)
        ours = zf_runtime.AdamW(model.parameters(), lr=1e-3)
        ours.load_state_dict(deep(theirs.state_dict()))
        for param in model.parameters():
            self.assertTrue(torch.equal(ours.state[param]["exp_avg"], theirs.state[param]["exp_avg"].float()))
        train(model, ours, 2)

    def test_into_deepspeeds_cpu_adam_and_back(self):
        """Costs 5 s: DeepSpeed is imported."""
        try:
            with contextlib.redirect_stdout(sys.stderr):
                from deepspeed.ops.adam import DeepSpeedCPUAdam
        except ImportError as error:
            self.skipTest(str(error))
        warnings.simplefilter("ignore")
        self.moved(self.ours, DeepSpeedCPUAdam)
        self.moved(DeepSpeedCPUAdam, self.ours)

    def test_another_number_of_groups_is_refused_as_by_torch(self):
        model = make_model()
        optimizer = zf_runtime.AdamW(model.parameters())
        before = optimizer.state_dict()
        with self.assertRaisesRegex(ValueError, "different number of parameter groups"):
            optimizer.load_state_dict({"state": {}, "param_groups": []})
        self.assertEqual(optimizer.state_dict(), before)
