"""The operator of zf_runtime.deepspeed beside DeepSpeed's own: in one optimizer, in any order of calls, refused and
interrupted. ZF_SEQUENCES=4000 runs that many random sequences of calls. Tests deepspeed/operator.py,
deepspeed/steady.py."""

import contextlib
import copy
import functools
import inspect
import itertools
import os
import pathlib
import random
import sys
import unittest
import warnings
import weakref
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python/helpers"))
import interrupts
import torch
import zf_runtime
import zf_runtime.deepspeed
from deepspeed_case import (
    LENGTHS,
    Case,
    DeepSpeedCPUAdam,
    Subclass,
    bits,
    everything,
    give_gradients,
    parameters,
    steps,
)
from zf_runtime.deepspeed import local_step, messages, operator, steady
from zf_runtime.native import local_calls

SEQUENCES = int(os.environ.get("ZF_SEQUENCES", "60"))


class Mixed(Case):
    """Two step one optimizer: the local engine, and DeepSpeed's own operator, which has its own powers of beta."""

    def test_fp32_and_bf16_parameters_in_one_optimizer(self):
        def program():
            params = parameters(LENGTHS[:3]) + parameters(LENGTHS[:2], dtype=torch.bfloat16) + parameters((64,), seed=4)
            optimizer = self.make(params, lr=1e-2, weight_decay=0.1)
            steps(params, optimizer, range(12))
            return everything(params, optimizer)

        self.same_bits(program, in_place=False)
        self.assertEqual(self.in_place, 2 * 12)
        self.assertEqual(self.said.count("DeepSpeed's own operator steps parameters of bfloat16\n"), 1, self.said)

    def test_a_parameter_that_deepspeeds_own_operator_takes_after_many_steps(self):
        """It is loaded then, and gets the powers of all steps before. The second parameter is stepped in place on."""
        def program():
            params = parameters((32, 64))
            optimizer = self.make(params, lr=1e-2)
            steps(params, optimizer, range(300))
            state = optimizer.state[params[0]]
            state["exp_avg"] = state["exp_avg"].as_subclass(Subclass)
            steps(params, optimizer, range(300, 310))
            state["exp_avg"] = state["exp_avg"].as_subclass(torch.Tensor)
            return everything(params, optimizer)

        self.same_bits(program, in_place=False)
        self.assertEqual(self.in_place, 300 + 10)
        self.assertIn("steps parameters, gradients or moments of type Subclass", self.said)

    def test_moments_in_bf16(self):
        def program():
            params = parameters(dtype=torch.bfloat16)
            optimizer = self.make(params, lr=1e-2, fp32_optimizer_states=False)
            steps(params, optimizer)
            return everything(params, optimizer)

        self.same_bits(program, in_place=False)
        self.assertEqual(self.in_place, 0)

    def test_strides_of_their_own_stay_deepspeeds_and_are_named(self):
        """Its operator steps a copy of such a parameter: the parameter stays as it is."""
        def program():
            param = torch.nn.Parameter(torch.randn(4, 8, 4, 4).to(memory_format=torch.channels_last))
            before = param.detach().clone()
            optimizer = self.make([param], lr=1e-2)
            give_gradients([param], 1)
            optimizer.step()
            return [(param - before).detach()]

        changed, = self.same_bits(program, in_place=False)
        self.assertFalse(changed.any())
        self.assertIn("with strides of their own: it steps a copy of those, and they stay as they are", self.said)

    def test_superoffload_keeps_deepspeeds_own_operator(self):
        """It steps and rolls back single parameters, also where it made the optimizer in a process of its own."""
        def program():
            param, = parameters((64,))
            optimizer = self.make([param], lr=1e-2, weight_decay=0.1)
            for step in range(6):
                give_gradients([param], step)
                optimizer.step_subgroup(0)
                if step == 3:
                    optimizer.rollback_subgroup(0)
            return [param.detach(), *(torch.as_tensor(value) for value in optimizer.state[0].values())]

        self.same_bits(program, in_place=False)
        self.assertEqual(self.in_place, 0)

    def test_who_calls_another_function_of_the_operator_gets_its_steps(self):
        def program():
            params = parameters((64, 32))
            optimizer = self.make(params, lr=1e-2)
            steps(params, optimizer, range(50))
            for param, state in ((param, optimizer.state[param]) for param in params):
                optimizer.ds_opt_adam.adam_rollback(optimizer.opt_id, state["step"], 1e-2, 0.9, 0.999, 1e-8, 0.0, True,
                                                    param.data, param.grad, state["exp_avg"], state["exp_avg_sq"])
                state["step"] -= 1
            steps(params, optimizer, range(50, 60))
            return everything(params, optimizer)

        self.same_bits(program, in_place=False)
        self.assertEqual(self.in_place, 50)

    def test_who_asks_for_a_function_of_the_operator_changes_nothing(self):
        """Also what looks for functions, such as a debugger."""
        def program():
            params = parameters((64,))
            optimizer = self.make(params)
            self.assertTrue(hasattr(optimizer.ds_opt_adam, "adam_rollback"))
            self.assertFalse(hasattr(optimizer.ds_opt_adam, "shape"))
            steps(params, optimizer)
            return everything(params, optimizer)

        self.same_bits(program)

    def test_odd_addresses_are_deepspeeds(self):
        def program():
            param = torch.nn.Parameter(torch.frombuffer(bytearray(4 * 64 + 1), dtype=torch.float32, offset=1, count=64))
            optimizer = self.make([param], lr=1e-2)
            steps([param], optimizer)
            return [param.detach().clone()]

        self.same_bits(program, in_place=False)
        self.assertEqual(self.in_place, 0)
        self.assertIn("at addresses that are no multiple of an element's size\n", self.said)

    def test_in_a_compiled_function(self):
        """Dynamo does not trace into the step. If it does, it warns of what it cannot trace."""
        def program():
            params = parameters((64,))
            optimizer = self.make(params, lr=1e-2)
            step = torch.compile(lambda: optimizer.step(), backend="eager")  # noqa: PLW0108
            for number in range(4):
                give_gradients(params, number)
                step()
            return everything(params, optimizer)

        with warnings.catch_warnings(record=True) as warned:
            self.same_bits(program)
        self.assertFalse([str(warning.message) for warning in warned if "local_step.py" in str(warning.message)])

    def test_without_the_engine_deepspeeds_own_operator_steps(self):
        def program():
            params = parameters()
            optimizer = self.make(params)
            with mock.patch.object(local_calls, "engine",
                                      mock.Mock(side_effect=zf_runtime.ZfError("no library here"))):
                steps(params, optimizer)
            return everything(params, optimizer)

        self.same_bits(program, in_place=False)
        self.assertEqual(self.in_place, 0)
        self.assertEqual(self.said, "zf_runtime.deepspeed: no library here. DeepSpeed's own operator steps\n")


class Together(Case):
    """The engine is called once for a step of the optimizer, whatever its groups are."""

    def test_one_call_for_a_step(self):
        def program():
            params = parameters()
            optimizer = self.make([{"params": params[:2], "lr": 1e-2}, {"params": params[2:], "weight_decay": 0.1}])
            steps(params, optimizer)
            return everything(params, optimizer)

        self.same_bits(program)
        self.assertEqual(self.in_place, 8)

    def test_the_look_at_moved_threads_is_told_the_number_of_each_step(self):
        """It looks once, at the 20th."""
        zf_runtime.deepspeed.install()
        params = parameters((16, 32))
        optimizer = self.make(params)
        with mock.patch.object(local_step.moved_threads, "look") as look:
            steps(params, optimizer, range(25))
        self.assertEqual([call.args for call in look.call_args_list], [(number,) for number in range(1, 26)])

    def test_hooks_behind_a_step_see_it_done(self):
        """Of an optimizer made after install(), whether torch had put hooks around the class's step before or not."""
        def program():
            params, seen = parameters(), []
            optimizer = self.make(params, lr=1e-2)
            optimizer.register_step_pre_hook(lambda *_: seen.append(params[1].detach().clone()))
            optimizer.register_step_post_hook(lambda *_: seen.append(params[1].detach().clone()))
            steps(params, optimizer)
            return seen

        wanted = program()
        for step in (DeepSpeedCPUAdam.step, DeepSpeedCPUAdam.step.__wrapped__):
            with self.subTest(step=step), mock.patch.object(DeepSpeedCPUAdam, "step", step):
                zf_runtime.deepspeed.install()
                got = program()
                zf_runtime.deepspeed.uninstall()
                self.assertEqual(list(map(bits, got)), list(map(bits, wanted)))
                self.assertEqual(len(got), 16)

    def test_a_closure_that_steps_too(self):
        """And a call of the operator that no step makes is done when it returns."""
        def program():
            params = parameters()
            optimizer = self.make(params, lr=1e-2)

            def closure():
                steps(params, optimizer, [2])
                give_gradients(params, 3)

            give_gradients(params, 1)
            optimizer.step(closure)
            state = optimizer.state[params[0]]
            optimizer.ds_opt_adam.adam_update(optimizer.opt_id, 3, 1e-2, 0.9, 0.999, 1e-8, 0.0, True, params[0].data,
                                              params[0].grad, state["exp_avg"], state["exp_avg_sq"])
            return everything(params, optimizer)

        self.same_bits(program)

    def test_a_step_within_a_step_loses_nothing(self):
        """As a signal handler may make it, between the parameters of the one that it interrupts."""
        def program():
            params = parameters()
            optimizer = self.make(params, lr=1e-2)
            steps(params, optimizer, range(1, 3))
            update, left = optimizer.ds_opt_adam.adam_update, [2]

            def adam_update(*args):
                done = update(*args)
                left[0] -= 1
                if left[0] == 0:
                    optimizer.step()
                return done

            give_gradients(params, 3)
            with mock.patch.object(optimizer.ds_opt_adam, "adam_update", adam_update, create=True):
                optimizer.step()
            return everything(params, optimizer)

        self.same_bits(program)

    def test_nothing_behind_a_parameter(self):
        """The betas of a group without elements count for the groups behind it."""
        def program():
            params = [*parameters((64, 0)), *parameters((32,), seed=4)]
            optimizer = self.make([{"params": [each], "betas": betas} for each, betas in
                                   zip(params, ((0.9, 0.999), (0.8, 0.99), (0.9, 0.999)))], lr=1e-2)
            steps(params, optimizer)
            return everything(params, optimizer)

        self.same_bits(program)

    def test_a_gradient_that_another_parameter_is(self):
        def program():
            seen = []
            for order in ((0, 1), (1, 0)):
                params = parameters((400_000, 400_000))
                optimizer = self.make([params[at] for at in order], lr=1e-2)
                for _ in range(3):
                    params[0].grad, params[1].grad = torch.full((400_000,), 0.5), params[0].data
                    optimizer.step()
                seen += everything(params, optimizer)
            return seen

        self.same_bits(program)

    def test_hooks_stay_when_our_step_goes(self):
        zf_runtime.deepspeed.install()
        params, seen = parameters(), []
        optimizer = self.make(params, lr=1e-2)
        optimizer.register_step_post_hook(lambda *_: seen.append(1))
        steps(params, optimizer, [1])
        zf_runtime.deepspeed.uninstall()
        steps(params, optimizer, [2])
        self.assertEqual(seen, [1, 1])

    def test_what_is_refused_leaves_the_parameters_before_it_stepped(self):
        """As with DeepSpeed's operator, called for one after the other."""
        zf_runtime.deepspeed.install()
        params = parameters((16, 32, 64))
        optimizer = self.make(params, lr=1e-2)
        steps(params, optimizer)
        before = [param.detach().clone() for param in params]
        optimizer.state[params[1]]["exp_avg"] = torch.zeros(16)
        with self.assertRaisesRegex(zf_runtime.ZfError, "32 elements has a gradient of 32 and moments of 16 and 32"):
            optimizer.step()
        self.assertEqual([torch.equal(*both) for both in zip(before, params)], [False, True, True])


def of_first(change):
    """Returns a change of the first parameter's state."""
    return lambda params, optimizer: change(optimizer.state[params[0]])


# What a program may do between two steps.
CHANGES = {
    "nothing": lambda params, optimizer: None,
    "a moment is replaced": of_first(lambda state: state.update(exp_avg=state["exp_avg"] * 2)),
    "a moment is written": of_first(lambda state: state["exp_avg_sq"].mul_(2)),
    "a count is set": of_first(lambda state: state.update(step=9)),
    "a count is a tensor": of_first(lambda state: state.update(step=torch.tensor(3.0))),
    "a state is replaced": lambda params, optimizer: optimizer.state.update(
        {params[1]: {name: torch.clone(value) if name != "step" else value
                     for name, value in optimizer.state[params[1]].items()}}),
    "a state is gone": lambda params, optimizer: optimizer.state.pop(params[1]),
    "a state has one entry more": of_first(lambda state: state.update(more=1)),
    "storage moves": lambda params, optimizer: setattr(params[0], "data", params[0].data.clone()),
    "a rate": lambda params, optimizer: optimizer.param_groups[1].update(lr=3e-3),
    "betas": lambda params, optimizer: optimizer.param_groups[0].update(betas=(0.8, 0.99)),
    "a parameter less": lambda params, optimizer: optimizer.param_groups[0]["params"].pop(),
    "a parameter is frozen": lambda params, optimizer: params[1].requires_grad_(False),
    "a group more": lambda params, optimizer: optimizer.add_param_group({"params": parameters((32,), seed=8)}),
}


class Steady(Case):
    """From the second step on, tensors of the same kinds are stepped without DeepSpeed's loop."""

    def make_groups(self):
        params = parameters()
        return params, self.make([{"params": params[:2], "lr": 1e-2}, {"params": params[2:], "weight_decay": 0.1}])

    def test_no_call_for_each_tensor(self):
        zf_runtime.deepspeed.install()
        params, optimizer = self.make_groups()
        steps(params, optimizer, [1])
        with mock.patch.object(operator.CpuAdamOperator, "adam_update", side_effect=AssertionError):
            steps(params, optimizer, range(2, 6))
        params[2].grad = None
        with mock.patch.object(operator.CpuAdamOperator, "adam_update") as update:
            optimizer.step()
        self.assertEqual(update.call_count, len(params) - 1)

    def test_what_changes_between_steps_counts(self):
        for name, change in CHANGES.items():
            with self.subTest(name):
                messages.say_once.cache_clear()
                self.same_bits(lambda change=change: self.changed(change))

    def changed(self, change):
        """Steps three times after a change, and once without a gradient, where another one has strides of its own."""
        params, optimizer = self.make_groups()
        steps(params, optimizer, range(1, 4))
        change(params, optimizer)
        steps(params, optimizer, range(4, 7))
        give_gradients(params, 7)
        wide = torch.randn(64, 2, generator=torch.Generator().manual_seed(1))
        params[1].grad, params[2].grad = None, wide[:, 0]
        optimizer.step()
        return everything(params, optimizer)

    def test_without_a_closure_it_may_be_said_that_there_is_none(self):
        """As accelerate's optimizers do."""
        zf_runtime.deepspeed.install()
        params, optimizer = self.make_groups()
        steps(params, optimizer, [1])
        with mock.patch.object(operator.CpuAdamOperator, "adam_update", side_effect=AssertionError):
            optimizer.step(None)

    def test_what_the_program_frees_is_free(self):
        zf_runtime.deepspeed.install()
        params, optimizer = self.make_groups()
        steps(params, optimizer, [1, 2])
        moment, gradient = map(weakref.ref, (optimizer.state[params[0]]["exp_avg"], params[0].grad))
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        optimizer.zero_grad()
        self.assertEqual((moment(), gradient()), (None, None))
        param = weakref.ref(params[0])
        optimizer.state.clear()
        optimizer.param_groups.clear()
        del params
        self.assertIsNone(param())

    def test_betas_that_deepspeed_refuses(self):
        zf_runtime.deepspeed.install()
        params, optimizer = self.make_groups()
        steps(params, optimizer, [1])
        optimizer.param_groups[1]["betas"] = (0.9, 0.99, 0.999)
        self.assertRaisesRegex(ValueError, "too many values", optimizer.step)

    def test_a_step_that_does_more_keeps_its_loop(self):
        def more(optimizer):
            for group in optimizer.param_groups:
                optimizer.ds_opt_adam.adam_update(*group["params"])

        raw = inspect.unwrap(DeepSpeedCPUAdam.step)
        around = functools.wraps(raw)(lambda optimizer: raw(optimizer))  # noqa: PLW0108
        self.assertTrue(steady.is_known(torch.no_grad()(raw)))
        for step in (torch.no_grad()(more), around, torch.no_grad()(around)):
            self.assertFalse(steady.is_known(step))


class AnySequence(Case):
    """Calls of the operator itself: (optimizer, step, settings, type of its tensors)."""

    OPTIMIZERS = (70001, 70002)

    def setUp(self):
        super().setUp()
        self.own = self.make(parameters((16,))).ds_opt_adam

    def compare(self, calls):
        both, kinds = (self.own, operator.CpuAdamOperator(lambda: Renumbered(self.own))), (torch.Tensor, Subclass)
        for each, number in itertools.product(both, self.OPTIMIZERS):
            each.create_adam(number, 1e-3, 0.9, 0.999, 1e-8, 0.0, number == self.OPTIMIZERS[0], False)
        tensors = {key: [[torch.rand(32, generator=torch.Generator().manual_seed(at)).as_subclass(key[1])
                          for at in range(3)] for _ in both] for key in itertools.product(self.OPTIMIZERS, kinds)}
        for at, (number, step, settings, kind) in enumerate(calls):
            grad = torch.randn(32, generator=torch.Generator().manual_seed(at))
            for each, (param, *moments) in zip(both, tensors[number, kind]):
                each.adam_update(number, step, *settings, param, grad, *moments)
        for pairs in tensors.values():
            for at, pair in enumerate(zip(*pairs)):
                self.assertEqual(*(bits(tensor.as_subclass(torch.Tensor)) for tensor in pair), f"tensor {at}")

    def random_calls(self, chance):
        own_from, step, betas = chance.choice((0, 20, 1000)), 1, (0.9, 0.999)
        for turn in range(60):
            step = chance.choice((step,) * 3 + (step + 1,) * 12 + (max(1, step - chance.randrange(6)), step + 20))
            if chance.random() < 0.1:
                betas = chance.choice(((0.9, 0.999), (0.8, 0.99), (0.9, 0.99)))
            yield (chance.choice(self.OPTIMIZERS), step, (chance.choice((1e-2, 3e-3)), *betas, 1e-8,
                                                          chance.choice((0.0, 0.1)), chance.random() < 0.9),
                   Subclass if turn >= own_from and chance.random() < 0.3 else torch.Tensor)

    def test_random_calls(self):
        """Steps that go on, repeat, jump and go back; other betas; two optimizers; tensors for the engine and for
        DeepSpeed's own operator, which in some sequences comes late."""
        for seed in range(SEQUENCES):
            with self.subTest(seed=seed):
                self.compare(self.random_calls(random.Random(seed)))

    def test_back_to_where_the_powers_were_calculated(self):
        """DeepSpeed's own operator has gone further from there than the engine has."""
        settings = (1e-2, 0.9, 0.999, 1e-8, 0.0, True)
        for first in range(50, 70):
            steps = [(step, Subclass) for step in range(first, first + 9)]
            steps += [(step, torch.Tensor) for step in range(first, first + 4)] + [(first + 4, Subclass)]
            self.compare([(self.OPTIMIZERS[0], step, settings, kind) for step, kind in steps])


class Renumbered:
    """Another operator of DeepSpeed's with optimizers of its own: it has one table for the process."""

    def __init__(self, own):
        self.own = own

    def create_adam(self, number, *settings):
        self.own.create_adam(number + 10, *settings)

    def adam_update(self, number, *arguments):
        self.own.adam_update(number + 10, *arguments)


class Refused(Case):
    def setUp(self):
        super().setUp()
        zf_runtime.deepspeed.install()
        self.param, = parameters((64,))
        self.optimizer = self.make([self.param], lr=1e-2)
        steps([self.param], self.optimizer)

    def test_what_would_touch_memory_of_others(self):
        """DeepSpeed's operator would write behind the moments, and read gradients as numbers that they are not."""
        self.param.data = torch.zeros(128)
        give_gradients([self.param], 9)
        with self.assertRaisesRegex(zf_runtime.ZfError, "128 elements has .* moments of 64 and 64.*state.pop"):
            self.optimizer.step()
        self.assertFalse(self.param.any())
        self.optimizer.state.pop(self.param)
        self.optimizer.step()
        self.assertTrue(self.param.all())

    def update(self, *tensors, step=1):
        self.optimizer.ds_opt_adam.adam_update(self.optimizer.opt_id, step, 1e-3, 0.9, 0.999, 1e-8, 0.0, True, *tensors)

    def test_types_that_do_not_go_together(self):
        """DeepSpeed's operator would read them as what they are not, or has no code for them."""
        fp32, bf16, fp16, fp64 = torch.float32, torch.bfloat16, torch.float16, torch.float64
        for types, reason in (((fp32, bf16, fp32, fp32), "of float32 has a gradient of bfloat16: give it one of"),
                              ((bf16, fp32, fp32, fp32), "of bfloat16 has a gradient of float32: give it one of"),
                              ((bf16, fp16, fp32, fp32), "of bfloat16 has a gradient of float16: give it one of"),
                              ((fp32, fp32, bf16, bf16), "float32 has moments of bfloat16 and bfloat16: both must be"),
                              ((bf16, bf16, fp32, bf16), "bfloat16 has moments of float32 and bfloat16: both must be"),
                              ((bf16, bf16, fp16, fp16), "bfloat16 has moments of float16 and float16: both must be"),
                              ((fp64, fp64, fp32, fp32), "a parameter is of float64: DeepSpeedCPUAdam steps float32,")):
            with self.subTest(types=types), self.assertRaisesRegex(zf_runtime.ZfError, reason):
                self.update(*(torch.zeros(16, dtype=dtype) for dtype in types))
            with self.subTest(types=types, of="a subclass"), self.assertRaisesRegex(zf_runtime.ZfError, reason):
                self.update(*(torch.zeros(16, dtype=dtype).as_subclass(Subclass) for dtype in types))

    def test_a_gradient_in_fp32_of_a_parameter_in_bf16(self):
        param, = parameters((64,), dtype=torch.bfloat16)
        param.grad_dtype = torch.float32
        param.grad, before = torch.full((64,), 0.01), param.detach().clone()
        with self.assertRaisesRegex(zf_runtime.ZfError, "parameter of bfloat16 has a gradient of float32"):
            self.make([param]).step()
        self.assertTrue(torch.equal(param, before))

    def test_lengths_of_16_bits(self):
        with self.assertRaisesRegex(zf_runtime.ZfError, "16 elements has a gradient of 16 and moments of 16 and 8"):
            self.update(*(torch.zeros(length, dtype=torch.bfloat16) for length in (16, 16, 16, 8)))

    def test_memory_that_is_not_there(self):
        for dtype in (torch.float32, torch.bfloat16):
            for at in range(4):
                tensors = [torch.zeros(16, dtype=dtype) for _ in range(4)]
                tensors[at].untyped_storage().resize_(0)
                with self.subTest(dtype=dtype, at=at), \
                        self.assertRaisesRegex(zf_runtime.ZfError, "16 elements, .* no memory"):
                    self.update(*tensors)
        elsewhere = torch.zeros(16), torch.zeros(16), *torch.zeros(2, 16, device="meta")
        sparse = torch.zeros(16), torch.zeros(16).to_sparse(), torch.zeros(16), torch.zeros(16)
        for tensors in (elsewhere, sparse):
            with self.assertRaisesRegex(zf_runtime.ZfError, "are sparse, or not on the CPU"):
                self.update(*tensors)

    def test_steps_that_are_no_whole_number(self):
        before = self.param.detach().clone()
        for step in (-2, 3.7, float("nan"), float("inf"), torch.tensor(2.5)):
            with self.subTest(step=step), self.assertRaisesRegex(zf_runtime.ZfError, "state.param.*whole number"):
                self.update(self.param.data, torch.ones(64), torch.zeros(64), torch.zeros(64), step=step)
        self.assertTrue(torch.equal(self.param, before))
        self.update(self.param.data, torch.ones(64), torch.zeros(64), torch.zeros(64), step=torch.tensor(9.0))
        self.assertFalse(torch.equal(self.param, before))

    def test_settings_that_are_no_numbers_and_betas_of_1(self):
        for settings, reason in (({"lr": float("nan")}, "has lr nan"), ({"eps": float("inf")}, "has eps inf"),
                                 ({"betas": (1.0, 0.9)}, "betas 1 and 0.9 has no bias correction"),
                                 ({"betas": (0.9, 1 - 1e-9)}, "betas 0.9 and 1 has no bias correction")):
            before, group = self.param.detach().clone(), self.optimizer.param_groups[0]
            kept = dict(group)
            with self.subTest(reason=reason), self.assertRaisesRegex(zf_runtime.ZfError, reason):
                group.update(settings)
                steps([self.param], self.optimizer, [9])
            self.assertTrue(torch.equal(self.param, before))
            group.update(kept)

    def test_an_operator_that_is_destroyed(self):
        self.optimizer.ds_opt_adam.destroy_adam(self.optimizer.opt_id)
        with self.assertRaisesRegex(zf_runtime.ZfError, "it was destroyed, or never made"):
            self.optimizer.step()

    def test_without_a_compiler_what_needs_one_says_so(self):
        def load():
            raise RuntimeError("Ninja is required to load C++ extensions\nand more")

        param, = parameters((16,), dtype=torch.bfloat16)
        optimizer = self.make([param])
        optimizer.ds_opt_adam._load = load
        give_gradients([param], 1)
        with self.assertRaisesRegex(zf_runtime.ZfError, "cannot be compiled: Ninja is required to load C.. ext.* g.."):
            optimizer.step()

    def test_without_engine_and_compiler_both_reasons_are_named(self):
        self.optimizer.ds_opt_adam._load = mock.Mock(side_effect=RuntimeError("no g++"))
        self.optimizer.ds_opt_adam._is_open = False
        no_engine = mock.patch.object(local_calls, "engine",
                                      mock.Mock(side_effect=zf_runtime.ZfError("no library here")))
        with no_engine, self.assertRaisesRegex(zf_runtime.ZfError, "here .no library here., and .* compiled: no g"):
            self.optimizer.step()


class Interrupted(Case):
    STEPS = 1, 2, 3, 5, 20  # at the fifth, powers of 0.9 and 0.999 that are multiplied and those of pow() part
    AFTER = 5

    def test_at_any_line_leaves_a_whole_step_or_none(self):
        """An exception at each line of the operator, in one step of two parameters. What follows is what DeepSpeed
        computes if the exception came ahead of its operator or behind it, ahead of the step, or if it left out both
        parameters: those of a step are stepped together."""
        files = {module.__file__ for module in (operator, steady, local_step, local_calls)}
        for step, loop in itertools.product(self.STEPS, (False, True)):
            zf_runtime.deepspeed.uninstall()
            wanted = {(param, where): self.trained(self.with_own(param, where), step)
                      for param in (0, 1) for where in ("ahead", "behind")}
            wanted["none"] = self.trained(lambda optimizer: None, step)
            wanted["both counted"] = self.trained(self.without_operator, step)
            zf_runtime.deepspeed.install()
            seen, line, done = set(), 1, False
            looks = mock.patch.object(operator, "_LOOKS", 0 if loop else 8)
            while not done:
                with looks:
                    got, done = self.traced(lambda code: code.co_filename in files, line, step)
                found = {at for at, value in wanted.items() if value == got}
                self.assertTrue(found or done, f"step {step}, line {line}")
                seen |= found
                line += 1
            self.assertGreater(line, 40)
            self.assertEqual(seen, set(wanted) if loop or step == 1 else {"none", "both counted", (1, "behind")})

    def test_while_the_engine_steps_counts_as_a_step(self):
        """A signal that arrives then is handled when the engine returns."""
        def step(optimizer):
            own = local_step.step

            def interrupted(*arguments):
                own(*arguments)
                raise KeyboardInterrupt

            with mock.patch.object(local_step, "step", interrupted):
                optimizer.step()

        wanted = self.trained(self.with_own(1, "behind"), 5)
        zf_runtime.deepspeed.install()
        self.assertEqual(self.trained(step, 5), wanted)

    def test_while_deepspeeds_own_operator_is_brought_up(self):
        """At each line of that. Then the same step is made again, by DeepSpeed's own operator."""
        code, line, done, settings = operator.CpuAdamOperator._bring_up.__code__, 1, False, (100.0, 0.9, 0.999, 1e-8)
        codes = {code, *(each for each in code.co_consts if hasattr(each, "co_code"))}
        own = self.make(parameters((16,))).ds_opt_adam

        def trained(operator, number, interrupted):
            """The own operator makes step 5. It is asked again for step 12, where it is interrupted, and for 13."""
            operator.create_adam(number, *settings, 0.0, True, False)
            tensors = [torch.zeros(16) for _ in range(3)]
            for step in range(1, 16):
                grad = torch.randn(16, generator=torch.Generator().manual_seed(step))
                kind = Subclass if step == 5 or step in (12, 13) else torch.Tensor
                arguments = number, step, *settings, 0.0, True, tensors[0].as_subclass(kind), grad, *tensors[1:]
                if step == 12 and interrupted:
                    interrupted(operator, arguments)
                    operator.adam_update(*arguments)
                else:
                    operator.adam_update(*arguments)
            operator.destroy_adam(number)
            return [bits(tensor) for tensor in tensors]

        wanted = trained(own, 70100, None)
        while not done:
            ours = operator.CpuAdamOperator(lambda: own)
            came = []
            got = trained(ours, 70100 + line, lambda operator, arguments, line=line, came=came: came.append(
                interrupts.at_line(line, lambda: operator.adam_update(*arguments), codes.__contains__)))
            done = came == [False]
            self.assertTrue(got == wanted or done, f"line {line}")
            line += 1
        self.assertGreater(line, 20)

    def trained(self, step_of, interrupted):
        """Steps two parameters, and returns all bits. step_of(optimizer) does the step that is interrupted."""
        params = parameters((16, 32))
        optimizer = self.make(params, lr=100.0)
        for step in range(1, interrupted + self.AFTER):
            give_gradients(params, step)
            if step == interrupted:
                with contextlib.suppress(KeyboardInterrupt):
                    step_of(optimizer)
            else:
                optimizer.step()
        return [bits(tensor) for tensor in everything(params, optimizer)]

    def with_own(self, param, where):
        """Returns a step that is interrupted ahead of the call for a parameter, or behind it."""
        def step(optimizer):
            own, numbers = optimizer.ds_opt_adam, itertools.count()

            def adam_update(*arguments):
                interrupt = next(numbers) == param
                if where == "behind" or not interrupt:
                    own.adam_update(*arguments)
                if interrupt:
                    raise KeyboardInterrupt

            with mock.patch.object(optimizer, "ds_opt_adam", mock.Mock(adam_update=adam_update)):
                optimizer.step()

        return step

    def without_operator(self, optimizer):
        """Steps, and calls no operator."""
        with mock.patch.object(optimizer, "ds_opt_adam", mock.Mock()):
            optimizer.step()

    def traced(self, wanted, line, step):
        """Trains with an exception at line number `line` of those that a step runs in the wanted code. Returns the
        bits, and whether there was no such line."""
        came = []
        got = self.trained(lambda optimizer: came.append(interrupts.at_line(line, optimizer.step, wanted)), step)
        return got, came == [False]


if __name__ == "__main__":
    unittest.main()
