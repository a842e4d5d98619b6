"""Optimizers that only look like ZeRO's and ZenFlow's, over the arena of the DeepSpeed adapter, and what each partition
should be. DeepSpeed is not needed."""

import copy
import types

import support

import numpy
import torch
from reference_adam import F, ReferenceGroup
from zf_runtime import Scalars
from zf_runtime.deepspeed import arena, attach, beside, fused, layout, operator, waiting, zenflow

LR, BETAS, EPS, DECAY, SCALE = 1e-2, (0.9, 0.99), 1e-8, 0.1, 0.5
ACCELERATOR = types.SimpleNamespace(get_accelerator=lambda: types.SimpleNamespace(synchronize=lambda: None))


class Reference(ReferenceGroup):
    """What a partition should be. After an interrupted step, DeepSpeed's rule may say that powers of beta are
    calculated anew."""

    anew = None  # the step's number, if so
    powers = (F(1), F(1))

    def next(self, gradient, grad_scale):
        """Takes a step, with each factor computed in fp32."""
        products = [power * F(beta) for power, beta in zip(self.powers, BETAS)]
        self.powers = products if self.anew is None else [F(numpy.float64(F(beta)) ** self.anew) for beta in BETAS]
        (beta1, beta2), rate = map(F, BETAS), F(LR)
        bias1, bias2 = (F(1) - power for power in self.powers)
        self.step(gradient, Scalars(*map(float, (
            beta1, F(1) - beta1, beta2, F(1) - beta2, EPS, F(1) / numpy.sqrt(bias2), -rate / bias1, -rate * F(DECAY),
            grad_scale)), 1, 0, 1))

    def skip(self, steps):
        """Returns what it is after steps that were counted and not done: their powers are multiplied."""
        then = copy.copy(self)
        for _ in range(steps):
            then.powers = [F(power * F(beta)) for power, beta in zip(then.powers, BETAS)]
        return then

    def after(self, steps, gradients, may_be_anew):
        """Yields what it may be after these steps: of each number and its gradient, with either powers if they may be
        calculated anew."""
        if not steps:
            yield self
            return
        for anew in (None, steps[0]) if may_be_anew else (None,):
            then = copy.copy(self)
            then.anew = anew
            then.next(*gradients[0])
            yield from then.after(steps[1:], gradients[1:], may_be_anew)


class CpuAdam:
    """Steps as DeepSpeedCPUAdam does: it counts, and then calls its operator."""

    def __init__(self, params):
        self.params = params
        self.ds_opt_adam = operator.CpuAdamOperator(lambda: None)
        self.ds_opt_adam.create_adam(0, LR, *BETAS, EPS, DECAY, True, False)
        self.state = {}

    def step(self):
        for param in self.params:
            state = self.state[param]
            state["step"] += 1
            self.ds_opt_adam.adam_update(0, state["step"], LR, *BETAS, EPS, DECAY, True, param.data, param.grad.data,
                                         state["exp_avg"], state["exp_avg_sq"])

    def state_dict(self):
        return {param: dict(state) for param, state in self.state.items()}

    def load_state_dict(self, document):
        pass


class Zero:
    """Has what the adapter uses of ZeRO's optimizer of stage 2."""

    def __init__(self, params, optimizer):
        for name in fused.NEEDED[2] + layout.READERS[2] + layout.WRITERS[2]:
            setattr(self, name, lambda *_: None)
        self.optimizer = optimizer
        self.single_partition_of_fp32_groups = params
        self.param_buffer_of_bit16_for_cpu_offload_groups = [param.to(torch.bfloat16) for param in params]
        self.params_in_partition = [[] for _ in params]
        self.norm_for_param_grads, self.grad_position, self.bit16_groups = {}, {}, []
        self.unscale_and_clip_grads = lambda grads, norm: [grad.mul_(SCALE) for grad in grads]

    def step(self):
        for param in self.single_partition_of_fp32_groups:
            self.unscale_and_clip_grads([param.grad], 1.0)
        self.optimizer.step()

    def _get_offload_gradient_dict(self):
        self.views = [param.grad for param in self.single_partition_of_fp32_groups]

    def backward(self, values):
        for view, value in zip(self.views, values):
            view.copy_(value)


class ZeroJob:
    """A fake ZeRO over the arena, in mode wait, exact or late."""

    scale = SCALE

    def __init__(self, mode, sizes, **options):
        generator = torch.Generator().manual_seed(2)
        self.random = lambda size: torch.randn(size, generator=generator)
        self.params = [self.random(size) for size in sizes]
        self.mode = mode
        self.optimizer = CpuAdam(self.params)
        self.arena = arena.FlatArena([arena.Partition(param, torch.bfloat16) for param in self.params], mode,
                                      {"plan": support.plan(), **options})
        self.wanted = [[Reference(param.numpy())] for param in self.params]
        self.counts = [0] * len(sizes)
        self.was_interrupted = False  # the counts of partitions may have parted, too
        for slot in self.arena.slots:
            slot.master.copy_(slot.param)
            slot.param.data = slot.master
            slot.param.grad = arena.hand_out(slot.grads[0])
        self.start()

    def start(self):
        for slot in self.arena.slots:
            self.optimizer.state[slot.param] = {"step": 0} | dict(zip(arena.MOMENTS,
                                                                      map(arena.hand_out, slot.moments)))
        self.zero = Zero(self.params, self.optimizer)
        self.optimizer.ds_opt_adam.arena = self.arena
        fused.fuse_stage_1_and_2(self.zero, self.arena)
        waiting.make_others_wait(self.zero, self.optimizer, self.arena)
        if self.mode == "late":
            attach.make_late(self.zero, self.arena)
        elif self.mode == "exact":
            beside.make_beside(self.zero, self.arena, lambda: True,
                               lambda: self.arena.hand_over(lambda slot: slot.index))
        self.zero._get_offload_gradient_dict()

    def backward(self):
        values = [self.random(param.numel()) for param in self.params]
        if self.mode == "exact":
            self.arena.wait()  # there is one gradient buffer: a real backward waits before it writes
        self.zero.backward(values)
        return [value.numpy() for value in values]

    def step(self):
        self.zero.step()

    def settle(self):
        """A program that reads the state, as for a checkpoint."""
        self.optimizer.state_dict()

    def check(self, test, *given):
        """given: the gradients of the steps since the last check. All but the last were interrupted, so each counts or
        does not. Partitions must be what some such steps make of them, bit for bit."""
        test.assertTrue(self.arena.runtime.done(), "a step is running")
        for index, slot in enumerate(self.arena.slots):
            count, before = self.optimizer.state[slot.param]["step"], self.counts[index]
            test.assertEqual(self.arena.runtime.step(index), count)
            gradients = [(gradient[index], self.scale) for gradient in given]
            ways = [gradients[first:] for first in range(len(gradients)) if len(gradients) - first <= count - before]
            if count == before:
                ways = [[]]
                test.assertEqual(len(given), 1, "a step is lost")
            found = {}
            for wanted in self.wanted[index]:
                for way in ways:
                    numbers = range(count - len(way) + 1, count + 1)
                    skipped = wanted.skip(count - len(way) - before)
                    for then in skipped.after(numbers, way, self.was_interrupted):
                        pairs = zip((slot.master, *slot.moments), (then.p, then.m, then.v))
                        if all(numpy.array_equal(got.numpy(), value) for got, value in pairs):
                            found[tuple(then.powers)] = then
            test.assertTrue(found, f"partition {index} is not what {count - before} steps make of it")
            self.wanted[index], self.counts[index] = list(found.values()), count


class ZenFlowJob(ZeroJob):
    """ZenFlow's submission and wait, with two sets of moments. Here one buffer is used."""

    scale = 1.0

    def start(self):
        self.zero = types.SimpleNamespace(optimizer=self.optimizer)
        for slot in self.arena.slots:
            self.optimizer.state[slot.param] = {}
            slot.param.overlap_grad = [arena.hand_out(grads) for grads in slot.grads]
        self.operator = zenflow.ZenFlowOperator(self.zero, self.arena)

    def backward(self):
        values = [self.random(param.numel()) for param in self.params]
        self.arena.wait()  # ZenFlow writes to the other buffer
        for param, value in zip(self.params, values):
            param.overlap_grad[0].copy_(value)
        return [value.numpy() for value in values]

    def step(self):
        count = len(self.arena.slots)
        step = self.optimizer.state[self.params[0]]["step"] + 1
        self.operator.zenflow_adam_submit(0, 0, step, *([value] * count for value in (LR, *BETAS, EPS, DECAY, True)))
        while not self.operator.zenflow_adam_wait(0, 10):
            pass

    def settle(self):
        self.arena.settle()  # as ZeRO's state_dict() does, see start_optimizer_process()


def stand_in_for_deepspeed(test):
    """Lets the adapter import what it uses of DeepSpeed, until the end of a test."""
    test.enterContext(support.stand_ins({"deepspeed": types.ModuleType("deepspeed"),
                                         "deepspeed.accelerator": ACCELERATOR}))


def make_job(test, mode, sizes=(48, 160), **options):
    job = (ZenFlowJob if mode == "zenflow" else ZeroJob)(mode, sizes, **options)
    test.addCleanup(job.arena.close)
    return job
