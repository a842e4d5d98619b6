"""DeepSpeedCPUAdam by hand under zf_runtime.deepspeed: DeepSpeed's bits, without its compiled operator. Tests
deepspeed/local_step.py."""

import contextlib
import copy
import itertools
import os
import sys
import unittest

import torch
import zf_runtime
import zf_runtime.deepspeed
from case import make_model, train
from deepspeed_case import Case, everything, give_gradients, parameters, steps
from zf_runtime.deepspeed import messages


class SameBits(Case):
    def test_every_kind_of_step(self):
        """AdamW and Adam, with and without weight decay (one below 0 is none) and bias correction, on 1 and 2
        threads."""
        for threads, adamw, decay, corrected in itertools.product((1, 2), (True, False), (0, 0.1, -0.1), (True, False)):
            with self.subTest(threads=threads, adamw=adamw, decay=decay, corrected=corrected):
                torch.set_num_threads(threads)
                messages.say_once.cache_clear()

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
                messages.say_once.cache_clear()

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


if __name__ == "__main__":
    unittest.main()
