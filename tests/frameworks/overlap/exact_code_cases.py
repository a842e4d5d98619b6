"""In mode exact code of the program's own that torch calls, or that runs beside it, steps and reads as with
overlap="off", bit for bit. Costs 4 s."""

import concurrent.futures
import os
import signal
import threading
import unittest

import torch
from exact import Case, loss_of, make_model, pause, values_of

INPUTS = torch.linspace(-1, 1, 30).view(3, 10)
current = {}  # the model that the operations below read


@torch.library.custom_op("zf_test::first_of_model", mutates_args=())
def first_of_model(inputs: torch.Tensor) -> torch.Tensor:
    """Reads a parameter that it is not given."""
    return inputs @ current["model"][0].weight.detach().t()


@torch.library.custom_op("zf_test::product", mutates_args=())
def product(inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return inputs @ weight.t()


product.register_autograd(lambda ctx, gradient: (gradient @ ctx.saved_tensors[0], None),
                          setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1]))


class Reading:
    """Is no tensor, and reads a parameter when torch is called with it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return current["model"][0].weight.detach().clone()


class ReadingTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {})) * current["model"][2].bias.detach().sum()


class Calls(torch.utils.data.Dataset):
    """Calls a model in the processes of a DataLoader."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        with torch.no_grad():
            return current["model"](INPUTS).tolist()


READS = {
    "a custom operation that is given nothing": lambda model: first_of_model(INPUTS),
    "a custom operation": lambda model: product(INPUTS, model[0].weight).detach(),
    "a class": lambda model: torch.add(Reading(), 1), "a subclass": lambda model: torch.ones(
        3).as_subclass(ReadingTensor).exp().as_subclass(torch.Tensor),
    "a model in a DataLoader": lambda model: torch.tensor(list(torch.utils.data.DataLoader(
        Calls(), num_workers=1, batch_size=None, multiprocessing_context="fork", timeout=20))),
}


class OwnCode(Case):
    def stepped(self, make, step_with, look, steps=3):
        """Trains, and lets the optimizer process stand still for a moment in each step."""
        model, found = make_model(), []
        current["model"] = model
        optimizer = make(model.parameters())
        for step in range(steps):
            optimizer.zero_grad()
            loss = loss_of(model, step)
            loss.backward()
            if optimizer.overlap == "exact":
                pid = optimizer.runtime.stats().worker_pid
                os.kill(pid, signal.SIGSTOP)
                threading.Timer(0.01, os.kill, (pid, signal.SIGCONT)).start()
            step_with(optimizer)
            found += [loss.item(), look(model)]
        optimizer.close()
        return [*found, *values_of(model)]

    def test_what_reads_inside(self):
        for name, look in READS.items():
            with self.subTest(name):
                self.same(lambda make, look=look: self.stepped(make, lambda optimizer: optimizer.step(), look))

    def test_a_step_in_another_thread(self):
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            def beside(optimizer):
                threads.submit(optimizer.step).result()

            self.same(lambda make: self.stepped(make, beside, lambda model: model[0].weight.detach().clone()))

            def made_beside(make):
                return self.stepped(lambda params: threads.submit(make, params).result(), beside,
                                    lambda model: model(INPUTS).detach())

            self.same(made_beside)  # it steps where it was made, and forward is called here

    def test_steps_in_backward(self):
        """As optimizers do that free each gradient at once. The process stands still while it has steps to do: what
        does not wait finds old values."""
        def program(make):
            model, optimizers, found = make_model(), {}, []

            def stepped(param):
                pause(optimizers[param])
                optimizers[param].step()
                optimizers[param].zero_grad()

            for param in model.parameters():
                optimizers[param] = make([param])
                param.register_post_accumulate_grad_hook(stepped)
            for step in range(3):
                loss = loss_of(model, step)
                loss.backward()
                found += [*values_of(model), loss.item()]
            for optimizer in optimizers.values():
                optimizer.close()
            return found

        self.same(program)


if __name__ == "__main__":
    unittest.main()
