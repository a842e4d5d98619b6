"""The operator of zf_runtime.deepspeed beside DeepSpeed's own: in one optimizer, in any order of calls, refused and
interrupted. ZF_SEQUENCES=4000 runs that many random sequences of calls."""

import contextlib
import itertools
import os
import random
import sys
import unittest
from unittest import mock

import torch
import zf_runtime
import zf_runtime.deepspeed
from deepspeed_case import LENGTHS, Case, Subclass, bits, everything, give_gradients, parameters, steps
from zf_runtime import _local
from zf_runtime.deepspeed import _local_step, _operator, _powers

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
        self.assertEqual(self.in_place, 4 * 12)
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
        self.assertEqual(self.in_place, 2 * 300 + 10)
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
            self.assertTrue(callable(optimizer.ds_opt_adam.adam_rollback))
            steps(params, optimizer, range(50, 60))
            return everything(params, optimizer)

        self.same_bits(program, in_place=False)
        self.assertEqual(self.in_place, 2 * 50)

    def test_without_the_engine_deepspeeds_own_operator_steps(self):
        def program():
            params = parameters()
            optimizer = self.make(params)
            with mock.patch.object(_local, "engine", mock.Mock(side_effect=zf_runtime.ZfError("no library here"))):
                steps(params, optimizer)
            return everything(params, optimizer)

        self.same_bits(program, in_place=False)
        self.assertEqual(self.in_place, 0)
        self.assertEqual(self.said, "zf_runtime.deepspeed: no library here. DeepSpeed's own operator steps\n")


class AnySequence(Case):
    """Calls of the operator itself: (optimizer, step, settings, type of its tensors)."""

    OPTIMIZERS = (70001, 70002)

    def setUp(self):
        super().setUp()
        self.own = self.make(parameters((16,))).ds_opt_adam

    def compare(self, calls):
        both, kinds = (self.own, _operator.CpuAdamOperator(lambda: Renumbered(self.own))), (torch.Tensor, Subclass)
        for operator, number in itertools.product(both, self.OPTIMIZERS):
            operator.create_adam(number, 1e-3, 0.9, 0.999, 1e-8, 0.0, number == self.OPTIMIZERS[0], False)
        tensors = {key: [[torch.rand(32, generator=torch.Generator().manual_seed(at)).as_subclass(key[1])
                          for at in range(3)] for _ in both] for key in itertools.product(self.OPTIMIZERS, kinds)}
        for at, (number, step, settings, kind) in enumerate(calls):
            grad = torch.randn(32, generator=torch.Generator().manual_seed(at))
            for operator, (param, *moments) in zip(both, tensors[number, kind]):
                operator.adam_update(number, step, *settings, param, grad, *moments)
        for pairs in tensors.values():
            for at, pair in enumerate(zip(*pairs)):
                self.assertEqual(*(bits(tensor.as_subclass(torch.Tensor)) for tensor in pair), f"tensor {at}")

    def random_calls(self, chance):
        own_from, step, betas = chance.choice((0, 20, 1000)), 1, (0.9, 0.999)
        for call in range(60):
            step = chance.choice((step,) * 3 + (step + 1,) * 12 + (max(1, step - chance.randrange(6)), step + 20))
            if chance.random() < 0.1:
                betas = chance.choice(((0.9, 0.999), (0.8, 0.99), (0.9, 0.99)))
            yield (chance.choice(self.OPTIMIZERS), step, (chance.choice((1e-2, 3e-3)), *betas, 1e-8,
                                                          chance.choice((0.0, 0.1)), chance.random() < 0.9),
                   Subclass if call >= own_from and chance.random() < 0.3 else torch.Tensor)

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

    def test_a_gradient_of_another_type(self):
        operator, moments = self.optimizer.ds_opt_adam, [torch.zeros(16), torch.zeros(16)]
        with self.assertRaisesRegex(zf_runtime.ZfError, "an fp32 parameter has a gradient of bfloat16"):
            operator.adam_update(self.optimizer.opt_id, 1, 1e-3, 0.9, 0.999, 1e-8, 0.0, True, torch.zeros(16),
                                 torch.zeros(16, dtype=torch.bfloat16), *moments)

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


class Interrupted(Case):
    STEP = 3  # of five

    def test_at_any_line_leaves_a_whole_step_or_none(self):
        """An exception at each line of the operator, in the third of five steps of two parameters. What follows is what
        DeepSpeed computes if the exception came ahead of its operator or behind it."""
        files = {module.__file__ for module in (_operator, _local_step, _powers, _local)}
        wanted = {(param, where): self.trained(self.with_own(param, where))
                  for param in (0, 1) for where in ("ahead", "behind")}
        zf_runtime.deepspeed.install()
        seen, line, done = set(), 0, False
        while not done:
            got, done = self.traced(files, line)
            found = {at for at, value in wanted.items() if value == got}
            self.assertTrue(found or done, f"line {line}")
            seen |= found
            line += 1
        self.assertGreater(line, 40)
        self.assertEqual(seen, set(wanted))

    def trained(self, step_of):
        """Steps two parameters five times, and returns all bits. step_of(optimizer) does the third step."""
        params = parameters((16, 32))
        optimizer = self.make(params, lr=1e-2)
        for step in range(1, 6):
            give_gradients(params, step)
            if step == self.STEP:
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

    def traced(self, files, line):
        """Trains with an exception at line number `line` of those that the third step runs in these files. Returns the
        bits, and whether there was no such line."""
        left = line

        def trace(frame, event, _):
            nonlocal left
            if event == "call" and frame.f_code.co_filename not in files:
                return None
            if event == "line":
                left -= 1
                if left < 0:
                    sys.settrace(None)
                    raise KeyboardInterrupt
            return trace

        def step(optimizer):
            sys.settrace(trace)
            try:
                optimizer.step()
            finally:
                sys.settrace(None)

        return self.trained(step), left >= 0


if __name__ == "__main__":
    unittest.main()
