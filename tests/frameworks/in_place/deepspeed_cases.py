"""DeepSpeedCPUAdam by hand under zf_runtime.deepspeed: DeepSpeed's bits, without its compiled operator.

Each case runs one program twice, with DeepSpeed's own operator and with install(). Lengths are multiples of 16, except
where a case says otherwise. ZF_SEQUENCES=4000 runs that many random sequences of calls."""

import contextlib
import copy
import functools
import io
import itertools
import os
import random
import sys
import unittest
from unittest import mock

import cpuinfo
import torch
import zf_runtime
import zf_runtime.deepspeed
from case import make_model, train

with contextlib.redirect_stdout(sys.stderr):
    from deepspeed.ops.adam import DeepSpeedCPUAdam
from zf_runtime import _local
from zf_runtime.deepspeed import _local_step, _messages, _operator, _powers

cpuinfo.get_cpu_info = functools.cache(cpuinfo.get_cpu_info)  # DeepSpeedCPUAdam asks each time: 1 s
LENGTHS = (16, 48, 64, 128, 1600, 4096 + 32)
SEQUENCES = int(os.environ.get("ZF_SEQUENCES", "60"))


def parameters(lengths=LENGTHS, seed=3, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(length, generator=generator).to(dtype)) for length in lengths]


def give_gradients(params, step: int):
    for at, param in enumerate(params):
        generator = torch.Generator().manual_seed(1000 * step + at)
        param.grad = torch.randn(param.shape, generator=generator).to(param.dtype)


def steps(params, optimizer, numbers=range(1, 9)):
    for step in numbers:
        give_gradients(params, step)
        optimizer.step()


def everything(params, optimizer) -> list:
    """Returns parameters, moments and counts."""
    found = []
    for param in params:
        state = optimizer.state.get(param, {})
        found += [param.detach().clone(), *(torch.as_tensor(state[name]).clone() for name in sorted(state))]
    return found


def bits(tensor) -> list:
    tensor = tensor.contiguous()
    return tensor.view(torch.uint8).tolist() if tensor.dim() else [float(tensor)]


def steps_of_engine() -> int:
    return int(_local.engine().statistics().steps)


class Case(unittest.TestCase):
    def setUp(self):
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())
        self.addCleanup(zf_runtime.deepspeed.uninstall)
        _messages.say_once.cache_clear()

    def make(self, *arguments, **settings):
        """Returns a DeepSpeedCPUAdam, whose operator is ours between install() and uninstall()."""
        with contextlib.redirect_stdout(sys.stderr):
            return DeepSpeedCPUAdam(*arguments, **settings)

    def same_bits(self, program, in_place=True):
        """program() returns tensors. They are the same bits with DeepSpeed's own operator and with ours. in_place:
        whether all steps are the local engine's."""
        zf_runtime.deepspeed.uninstall()
        wanted = program()
        zf_runtime.deepspeed.install()
        before, said = steps_of_engine(), io.StringIO()
        with mock.patch.object(_operator.CpuAdamOperator, "own", property(self.refuse_own)) if in_place \
                else contextlib.nullcontext(), contextlib.redirect_stderr(said):
            got = program()
        self.said = said.getvalue()
        self.in_place = steps_of_engine() - before
        if in_place:
            self.assertGreater(self.in_place, 0, "nothing was stepped in place")
            self.assertEqual(self.said.count("\n"), 1, self.said)
            self.assertIn("zf_runtime.deepspeed: DeepSpeedCPUAdam steps in place: ", self.said)
        self.assertEqual(len(wanted), len(got))
        for at, both in enumerate(zip(wanted, got)):
            self.assertEqual(*map(bits, both), f"tensor {at}")
        return got

    def refuse_own(self, operator):
        raise AssertionError("DeepSpeed's own operator was asked for")


class SameBits(Case):
    def test_every_kind_of_step(self):
        """AdamW and Adam, with and without weight decay (one below 0 is none) and bias correction, on 1 and 2
        threads."""
        for threads, adamw, decay, corrected in itertools.product((1, 2), (True, False), (0, 0.1, -0.1), (True, False)):
            with self.subTest(threads=threads, adamw=adamw, decay=decay, corrected=corrected):
                torch.set_num_threads(threads)
                _messages.say_once.cache_clear()

                def program(adamw=adamw, decay=decay, corrected=corrected):
                    params = parameters()
                    optimizer = self.make(params, lr=1e-2, weight_decay=decay, adamw_mode=adamw,
                                          bias_correction=corrected)
                    steps(params, optimizer)
                    return everything(params, optimizer)

                self.same_bits(program)

    def test_a_large_parameter_on_two_threads(self):
        torch.set_num_threads(2)

        def program():
            params = parameters((1 << 20, (1 << 19) + 16))
            optimizer = self.make(params, lr=1e-3, weight_decay=0.01)
            steps(params, optimizer, range(1, 4))
            return [param.detach() for param in params]

        zf_runtime.deepspeed.uninstall()
        wanted = program()
        zf_runtime.deepspeed.install()
        self.assertEqual([torch.equal(*both) for both in zip(wanted, program())], [True, True])

    def test_many_steps(self):
        """1,000: products of the betas, not powers, correct the bias."""
        def program():
            params = parameters((32, 16))
            optimizer = self.make(params, lr=1e-2)
            steps(params, optimizer, range(1000))
            return everything(params, optimizer)

        self.same_bits(program)

    def test_groups_with_settings_of_their_own(self):
        """All groups share one pair of powers, which other betas calculate anew."""
        for betas in ((0.9, 0.999), (0.8, 0.99)):
            with self.subTest(betas=betas):
                _messages.say_once.cache_clear()

                def program(betas=betas):
                    params = parameters()
                    optimizer = self.make([{"params": params[:2], "lr": 1e-3, "weight_decay": 0.1},
                                           {"params": params[2:4], "betas": betas, "eps": 1e-4},
                                           {"params": params[4:], "lr": 3e-3, "bias_correction": False}])
                    steps(params, optimizer, range(20))
                    return everything(params, optimizer)

                self.same_bits(program)

    def test_a_schedule(self):
        """The learning rate changes at each step, beginning with 0, and once is a tensor."""
        def program():
            params = parameters()
            optimizer = self.make(params, lr=1e-2, weight_decay=0.1)
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
            for step in range(20):
                steps(params, optimizer, [step])
                schedule.step()
            optimizer.param_groups[0]["lr"] = torch.tensor(0.003)
            steps(params, optimizer, [21])
            return everything(params, optimizer)

        self.same_bits(program)

    def test_parameters_without_a_gradient_on_some_steps(self):
        """Their counts part from the others', so the steps of one call after the other jump."""
        def program():
            params = parameters()
            optimizer = self.make(params, lr=1e-2)
            for step in range(20):
                give_gradients(params, step)
                for at, param in enumerate(params):
                    if step % (at + 2) == 1:
                        param.grad = None
                optimizer.step()
            return everything(params, optimizer)

        self.same_bits(program)

    def test_states_that_are_loaded(self):
        """Back to an earlier step, to the same one again, and to one far ahead."""
        def program():
            params = parameters()
            optimizer = self.make(params, lr=1e-2, weight_decay=0.1)
            steps(params, optimizer, range(5))
            saved = copy.deepcopy(optimizer.state_dict())
            steps(params, optimizer, range(5, 8))
            for change in (0, 0, -1, 2000):
                again = copy.deepcopy(saved)
                for state in again["state"].values():
                    state["step"] += change
                optimizer.load_state_dict(again)
                steps(params, optimizer, range(8, 12))
            return everything(params, optimizer)

        self.same_bits(program)

    def test_memory_that_parameters_share_and_storage_that_moves(self):
        def program():
            whole = torch.randn(96, generator=torch.Generator().manual_seed(5))
            params = [torch.nn.Parameter(whole[first:first + 48]) for first in (0, 16, 48)]
            optimizer = self.make(params, lr=1e-2)
            steps(params, optimizer)
            params[1].data = params[1].data.clone()
            steps(params, optimizer)
            return [whole, *everything(params, optimizer)]

        self.same_bits(program)

    def test_gradients_of_other_strides(self):
        """DeepSpeed's operator reads a contiguous copy of them."""
        def program():
            param = torch.nn.Parameter(torch.randn(16, 32, generator=torch.Generator().manual_seed(5)))
            optimizer = self.make([param], lr=1e-2)
            for _ in range(3):
                param.grad = None
                param.sum().backward()  # expanded
                optimizer.step()
                param.grad = torch.arange(512.0).view(32, 16).t()
                optimizer.step()
            return everything([param], optimizer)

        self.same_bits(program)

    def test_the_autograd_version_stays_as_with_deepspeed(self):
        def program():
            params = parameters()
            optimizer = self.make(params)
            steps(params, optimizer)
            return [torch.tensor(param._version) for param in params]

        self.same_bits(program)

    def test_other_lengths_differ_only_at_their_ends(self):
        """DeepSpeed steps the last 1 to 15 elements in scalar code, which rounds otherwise."""
        params = parameters((1, 7, 100, 1606))
        found = []
        for prepare in (zf_runtime.deepspeed.uninstall, zf_runtime.deepspeed.install):
            prepare()
            mine = copy.deepcopy(params)
            optimizer = self.make(mine, lr=1e-2, weight_decay=0.1)
            steps(mine, optimizer)
            found.append([tensor for tensor in everything(mine, optimizer) if tensor.dim()])
        for wanted, got in zip(*found):
            vectors = wanted.numel() // 16 * 16
            self.assertTrue(torch.equal(got[:vectors], wanted[:vectors]))
            torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-7)

    def test_an_engine_of_deepspeed_without_zero(self):
        """The optimizer is the program's own, and engine.step() steps it."""
        import deepspeed
        for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1",
                            "MASTER_PORT": "0"}.items():
            os.environ.setdefault(name, value)
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False

        def program():
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 16))
            params = list(model.parameters())
            with contextlib.redirect_stdout(sys.stderr):
                engine, optimizer, *_ = deepspeed.initialize(
                    model=model, optimizer=self.make(params, lr=1e-2), dist_init_required=True,
                    config={"train_micro_batch_size_per_gpu": 8, "steps_per_print": 1 << 30})
            for step in range(6):
                inputs = torch.randn(8, 16, generator=torch.Generator().manual_seed(step))
                engine.backward((engine(inputs) - inputs.roll(1, 1)).square().mean())
                engine.step()
            found = everything(params, optimizer)
            engine.destroy()
            return found

        self.addCleanup(lambda: torch.distributed.is_initialized() and torch.distributed.destroy_process_group())
        self.same_bits(program)


class Subclass(torch.Tensor):
    """What the engine does not take, although it is fp32: in 16 bits the last bits of a step are not seen."""


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


class States(Case):
    def moved(self, source, target):
        """Trains with one, and goes on with its state in the other. Returns what it comes to."""
        model = make_model()
        first = source(model.parameters())
        train(model, first, 5)
        saved = copy.deepcopy(first.state_dict())
        second = target(model.parameters())
        second.load_state_dict(saved)
        train(model, second, 5, 5)
        return everything(list(model.parameters()), second)

    def test_of_adamw_into_deepspeed_cpu_adam(self):
        """With DeepSpeed's own operator and with ours. Our counts are tensors there, and stay such."""
        def theirs(params):
            return self.make(params, lr=1e-2)

        def ours(params):
            return zf_runtime.AdamW(params, lr=1e-2, weight_decay=0)

        wanted = self.moved(ours, theirs)
        zf_runtime.deepspeed.install()
        for got in (self.moved(ours, theirs), self.moved(theirs, ours), self.moved(theirs, theirs)):
            for both in zip(got, wanted):
                torch.testing.assert_close(*both, rtol=1e-4, atol=1e-5, check_dtype=False)

    def test_between_both_operators(self):
        def program():
            params = parameters()
            first = self.make(params, lr=1e-2)
            steps(params, first)
            zf_runtime.deepspeed.uninstall()
            second = self.make(params, lr=1e-2)
            second.load_state_dict(copy.deepcopy(first.state_dict()))
            steps(params, second)
            return everything(params, second)

        self.same_bits(program)


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
