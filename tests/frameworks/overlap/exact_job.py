"""A training in mode exact on a stand-in for a GPU (double.py), which tells it all that the job reads and writes. It is
run by device_cases.py, also with a wait, an event or a keep-alive less: then it must fail."""

import os
import signal
import threading
import time
import types
import unittest.mock
import warnings

import torch
import zf_runtime
from double import Double
from zf_runtime.optim.overlap import arena, gradients, opened

gradients._AT_ONCE = 1  # byte: these parameters are small, and their gradients are copied early all the same

STEPS = 5


def make_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(10, 33), torch.nn.Tanh(), torch.nn.Linear(33, 300), torch.nn.Tanh(),
                               torch.nn.Linear(300, 7))


def forward(model, step, inputs):
    return model(inputs)


def forward_on_two_streams(model, step, inputs):
    """Reads the parameters on one stream, and then on another that had begun before."""
    double = model.double
    double._current = double._first
    double.use_another_stream()
    other, double._current = double._current, double._first
    model(inputs)  # its loss is not taken
    double._current = other
    result = model(inputs)
    double._first.wait(other.record())  # backward and step() are on the first
    double._current = double._first
    return result


def forward_by_hand(model, step, inputs):
    """Reads the parameters without their modules."""
    for layer in model[::2]:
        inputs = torch.nn.functional.linear(inputs, layer.weight, layer.bias)
        inputs = torch.tanh(inputs) if layer is not model[4] else inputs
        model.double.reads(layer.weight, layer.bias)
    return inputs


def forward_in_a_thread(model, step, inputs):
    found = []
    thread = threading.Thread(target=lambda: found.append(model(inputs)))
    thread.start()
    thread.join()
    return found[0]


def forward_after_a_twin(model, step, inputs):
    """From the third step on, a module that was never called reads parameters of another one before that does."""
    if step < 2:
        return model(inputs)
    twin = torch.nn.Linear(33, 300)
    twin.weight, twin.bias = model[2].weight, model[2].bias
    shift = twin(torch.ones(20, 33)).mean()
    return model(inputs) + shift


def tell_of_reads(model, double):
    """Tells the stand-in what forward reads. Behind the gates: then a parameter must have been waited for."""
    for module in model:
        module.register_forward_pre_hook(lambda module, _: double.reads(*module._parameters.values()))


def watch(optimizer, double, submitting, waits):
    """Tells the stand-in what the optimizer process reads. Calls submitting() before each step. Appends the waits for
    whole steps to a list."""
    submit, wait, arena = optimizer.runtime.submit, optimizer.runtime.wait, optimizer._engine.opened.arena

    def reading(scalars, groups, *, buffer=0, **keywords):
        time.sleep(0.005)
        submitting()
        double.host_reads(*(arena.places[group].grads[buffer] for group in groups))
        return submit(scalars, groups, buffer=buffer, **keywords)

    def waiting(ticket=0, timeout=None):
        wait(ticket, timeout)
        time.sleep(0.01)  # what does not wait for this goes on before it
        waits.append(ticket)

    optimizer.runtime.submit, optimizer.runtime.wait = reading, waiting


def freeing(double):
    """Tells the stand-in which memory of the arena is given back."""
    give_back = arena.give_back

    def checked(array):
        double.check("who frees memory", double.host, array, [double.written_by, double.read_by])
        give_back(array)

    return unittest.mock.patch.object(arena, "give_back", checked)


def train(overlap, micro_batches=1, is_stopped=False, clip=None, dropped_at=-1, forward=forward,
          backward_ends=lambda optimizer: None, has_two_streams=False, ends=lambda optimizer: optimizer.synchronize()):
    """Returns losses, parameters and moments, and the last norm.

    is_stopped: the optimizer process stands still as each forward begins, so that a read without a wait finds old
    values. dropped_at: in this step the gradients of a first backward are dropped. has_two_streams: backward computes
    the gradients of weights and of biases on two. ends: what comes after the last step."""
    model, double = make_model(), Double()
    vars(model)["double"] = double

    def arrived(param):
        if has_two_streams:
            double._current = double._first if param.dim() > 1 else other
        double.reads(param)
        double.writes(param.grad)

    for param in model.parameters():
        param.register_post_accumulate_grad_hook(arrived)  # before the optimizer's
    with unittest.mock.patch.object(opened, "device_of", lambda device: double), \
            unittest.mock.patch("zf_runtime.optim.adam._has_gpu", lambda params: True):
        optimizer = zf_runtime.AdamW([*model.parameters(), torch.nn.Parameter(torch.ones(2))],  # the last is not read
                                     lr=1e-2, overlap=overlap, clip_grad_norm=clip)
    params = list(model.parameters())
    pauses, waits, watched = [], [], None
    tell_of_reads(model, double)
    losses, generator = [], torch.Generator().manual_seed(2)
    for step in range(STEPS):
        for number in range(micro_batches + (step == dropped_at)):
            if is_stopped:
                pauses.append(pause(optimizer))
            inputs = torch.randn(20, 10, generator=generator)
            loss = torch.nn.functional.mse_loss(forward(model, step, inputs), torch.tanh(inputs[:, :7]))
            if has_two_streams:
                double.use_another_stream()
                other, double._current = double._current, double._first
            loss.backward()
            if has_two_streams:
                double._current = double._first
                double._first.wait(other.record())
            losses.append(loss.item())
            with freeing(double):
                backward_ends(optimizer)
            if step == dropped_at and number == 0:
                drop(params)
        if optimizer.runtime is not watched:
            watched = optimizer.runtime
            watch(optimizer, double, lambda: pauses.append(pause(optimizer)) if is_stopped else None, waits)
        optimizer.step()
        check_counts(optimizer, params, step + 1)
        before = [param.detach().clone() for param in params] if overlap == "late" else []  # in exact a read waits
        for param in params:
            double.writes(param.grad)  # the allocator may give its memory to the next tensor
        drop(params)
        if overlap == "late":
            time.sleep(0.015)
            assert all(map(torch.equal, before, params)), "a parameter has changed between two steps"
    ends(optimizer)
    double.reads(*params)
    assert len(waits) == optimizer._engine._turns, "a step was not waited for to its end"
    values = [param.detach().clone() for param in params]
    moments = [optimizer.state[param]["exp_avg_sq"].clone() for param in params if optimizer._engine.opened is not None]
    norm = optimizer.grad_norm
    end_all(pauses, optimizer, double)
    return losses, values + moments, norm


def end_all(pauses, optimizer, double):
    for each in pauses:
        each.join()
    optimizer.close()
    double.ends()


def check_counts(optimizer, params, wanted):
    counts = [int(optimizer.state[param]["step"]) for param in params]
    assert counts == [wanted] * len(params), counts


def pause(optimizer):
    """Lets the optimizer process stand still for a while. Returns the thread that wakes it."""
    pid = optimizer.runtime.stats().worker_pid
    os.kill(pid, signal.SIGSTOP)
    timer = threading.Timer(0.015, os.kill, (pid, signal.SIGCONT))
    timer.start()
    return timer


def drop(params):
    for param in params:
        param.grad = None


def collect(optimizer):
    """Does what happens to an optimizer that was not closed, after one more forward."""
    for double in optimizer._engine._devices.values():
        double.reads(*(place.param for place in optimizer._engine.opened.arena.places if place.is_shown))
    optimizer._engine._finalizer()
    optimizer._engine.opened = None


def params_of(optimizer):
    return [place.param for place in optimizer._engine.opened.arena.places if place.is_shown]


def step_again(optimizer):
    """Steps without a forward: the optimizer may still read the gradients of the step before."""
    for param in params_of(optimizer):
        param.grad = torch.ones_like(param).mul_(0.01)
    optimizer.step()
    optimizer.synchronize()


def average_unseen(optimizer):
    """Stands in for DDP that averages gradients of parameters that were not waited for."""
    if optimizer.overlap == "exact":
        optimizer._engine._reduced(params_of(optimizer), [torch.ones_like(param) for param in params_of(optimizer)])
    optimizer.synchronize()


def copy_and_close(optimizer):
    """Leaves gradients that are being copied: close() comes next."""
    optimizer.synchronize()
    if optimizer.overlap == "exact":
        for param in params_of(optimizer):
            param.grad = torch.ones_like(param)
            optimizer._engine._arrived(param)


def with_copies_of(size, train, **more):
    """Lets gradients of so many bytes be copied together."""
    with unittest.mock.patch.object(gradients, "_AT_ONCE", size):
        train(**more)


def average(optimizer):
    """Stands in for DDP, which hands over its averages: twice, and the first ones are gone at once."""
    params = [place.param for place in optimizer._engine.opened.arena.places if place.param.grad is not None]
    if optimizer.overlap == "exact":
        optimizer._engine._averaged.update(map(id, params))
        optimizer._engine._reduced(params, [param.grad.clone() for param in params])
        optimizer._engine._reduced(params, [param.grad for param in params])


def grow(optimizer):
    """Adds a parameter in the fourth step, while its gradients are copied: the arena is opened anew."""
    if optimizer._engine._turns == 3:
        more = torch.nn.Parameter(torch.ones(3))
        more.grad = torch.ones(3)
        optimizer.add_param_group({"params": [more]})
        optimizer._engine._active()


class OneAtATime(Double):
    """A device that raises AssertionError if two threads ask it at the same time."""

    def __init__(self):
        super().__init__()
        self._asking = threading.Lock()

    def current(self):
        assert self._asking.acquire(blocking=False), "two threads are in it"
        time.sleep(0.01)
        self._asking.release()
        return super().current()


def gradients_of_two_devices():
    """Lets gradients come on two threads at the same time: autograd has one for each GPU."""
    params = [torch.nn.Parameter(torch.ones(2)) for _ in range(2)]
    places = [types.SimpleNamespace(index=index, param=param, kind=(None, None, param.device))
              for index, param in enumerate(params)]
    copies, errors = gradients.Gradients({params[0].device: OneAtATime()}, early=True), []

    def arrives(place):
        try:
            copies.arrived(place, True)
        except AssertionError as error:
            errors.append(error)

    for place in places:
        copies.arrived(place, True)
    copies.stepped(0)  # from now on they are expected
    threads = [threading.Thread(target=arrives, args=(place,)) for place in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def exact_is_off(micro_batches=1, clip=None, dropped_at=-1, **more):
    """Compares a training in mode exact with one that waits, bit for bit."""
    got = train("exact", micro_batches, is_stopped=True, clip=clip, dropped_at=dropped_at, **more)
    wanted = train("off", micro_batches, clip=clip, dropped_at=dropped_at, **more)
    assert (got[0], got[2]) == (wanted[0], wanted[2]), (got[0], wanted[0])
    assert all(map(torch.equal, got[1], wanted[1]))
    assert all(value.isfinite().all() for value in got[1])


CASES = {"plain": exact_is_off, "clipped": lambda: exact_is_off(clip=0.05),
         "dropped": lambda: exact_is_off(dropped_at=3), "micro batches": lambda: exact_is_off(3, 0.05, 3),
         "by hand": lambda: exact_is_off(forward=forward_by_hand),
         "in a thread": lambda: exact_is_off(forward=forward_in_a_thread),
         "seen later": lambda: exact_is_off(forward=forward_after_a_twin),
         "two streams": lambda: exact_is_off(forward=forward_on_two_streams),
         "averaged twice": lambda: exact_is_off(clip=0.05, backward_ends=average),
         "gradients of two streams": lambda: with_copies_of(12_000, exact_is_off, has_two_streams=True),
         "stepped again": lambda: exact_is_off(ends=step_again),
         "averaged unseen": lambda: exact_is_off(ends=average_unseen),
         "closed": lambda: exact_is_off(ends=copy_and_close),
         "grown": lambda: exact_is_off(backward_ends=grow),
         "gradients of two devices": lambda: with_copies_of(1 << 20, gradients_of_two_devices),
         "late, collected": lambda: train("late", is_stopped=True, ends=collect),
         "late": lambda: train("late", is_stopped=True)}


def run(case):
    warnings.simplefilter("error")  # such as: gradients were copied twice
    warnings.filterwarnings("ignore", message=".*the plan is for mode")
    warnings.filterwarnings("ignore", message=".*with parameters on the CPU")
    CASES[case]()
