"""Times training that sleeps in forward and backward, since a GPU would leave the CPUs idle: without an optimizer and
with AdamW waiting, exact and late, in turns in one process. Parameters are on the CPU, and all steps go through the
arena.

--first is the first module's part of the parameters; the others are equal.

The last line compares medians with runtime/plan/period.hpp, by which mode exact exposes the first module's part of the
step, and the copy and norm of the last gradient. Hidden is the part of what is exposed with "off" that a mode hides.

--outside compares exact with "off" where another one than the optimizer clips, and so writes every gradient again:
torch's clip_grad_norm_(), which Lightning calls, accelerate's, which the Trainer calls, or GradScaler's unscale_().

--clipped compares steps that begin in backward, AdamW(speculate=True), with exact and off in turns: where no step, each
tenth or each is clipped. The limit comes with step(), so the tenth is begun as a whole, and taken back. With --fsdp
each module is a group of FSDP2, with shards on the CPU; "off" steps them in place.

step() and the sender read digests of gradients and parameters. With --digests asleep that takes the time of a GPU that
reads 1 TB/s, and no CPU; with "cpu" the CPU of training reads them, as for parameters on the CPU."""

import argparse
import collections
import itertools
import pathlib
import random
import statistics
import time
import unittest.mock
import warnings

import bench_paths  # noqa: F401

import report
import sharded_elsewhere
import torch
import turns
import zf_runtime
from step_picture import Bar, draw
from zf_runtime.optim.tensors.streams import Host, HostStream, Reading, ThreadStream

GPU_BYTES_PER_S = 1e12


class Sleep(torch.autograd.Function):
    """One module's work: it takes time, and its backward gives the parameter its gradient."""

    @staticmethod
    def forward(context, x, weight, layer):
        context.layer = layer
        layer.works("forward", layer.forward_s)
        return x + 0

    @staticmethod
    def backward(context, gradient):
        context.layer.works("backward", 2 * context.layer.forward_s)
        return gradient, context.layer.gradient.detach(), None  # a new tensor over the same memory: nothing is copied


class Asleep(HostStream):
    """A stream that takes as long for digests as a GPU does. They are all the same: nothing is written."""

    def read(self, tensors, *, norm=False, digest=False, copies=None):
        if digest:
            time.sleep(sum(tensor.nbytes for tensor in tensors) / GPU_BYTES_PER_S)
        if norm or copies is not None:
            readings = super().read(tensors, norm=norm, copies=copies)
        else:
            readings = [Reading(None, None)] * len(tensors)
        return [Reading(reading.square, 0) for reading in readings]


class Gpu(Host):
    def current(self):
        return Asleep()

    def side(self):
        stream = ThreadStream()
        stream._own = Asleep(alone=True)
        return stream

    def sender(self):
        return Asleep(alone=True)


class Layer(torch.nn.Module):
    def __init__(self, elements, gradient):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((elements,), 0.1))
        self.gradient, self.forward_s, self.bars = gradient, 0.0, collections.deque(maxlen=100)

    def works(self, kind, seconds):
        begin = time.perf_counter_ns()
        time.sleep(seconds)
        self.bars.append(Bar(kind, begin, time.perf_counter_ns()))

    def forward(self, x):
        return Sleep.apply(x, self.weight, self)


def make_model(sizes, is_sharded=False):
    model = torch.nn.Sequential(*(Layer(size, torch.full((size,), 1e-3)) for size in sizes))
    if is_sharded:
        sharded_elsewhere.shard(model)
    return model


def by_torch(model, optimizer):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


class ByAccelerate:
    def __init__(self):
        import accelerate

        self.accelerator = accelerate.Accelerator(cpu=True)

    def __call__(self, model, optimizer):
        self.accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


class ByScaler:
    def __init__(self):
        self.scalers = {}  # by optimizer

    def __call__(self, model, optimizer):
        scaler = self.scalers.setdefault(id(optimizer), torch.amp.GradScaler("cpu", init_scale=1.0))
        scaler.scale(torch.ones(1))
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


OUTSIDE = {"torch": lambda: by_torch, "accelerate": ByAccelerate, "scaler": ByScaler}


def iterate(model, optimizer, step=lambda model, optimizer: optimizer.step()):
    loss = model(torch.ones(1, requires_grad=True)).sum()
    loss.backward()
    if optimizer is not None:
        step(model, optimizer)
    for layer in model:
        layer.weight.grad = None


def clipper(clipped, norm):
    """Returns a step() that clips gradients of this norm as often as --clipped says."""
    none, one = [2 * norm], [0.9 * norm]
    limits = itertools.cycle({"never": none, "tenth": 9 * none + one, "always": one}[clipped])
    return lambda model, optimizer: optimizer.step(max_norm=next(limits))


def norm_of(model, optimizer):
    model(torch.ones(1, requires_grad=True)).sum().backward()
    return float(optimizer.clip_grad_norm_())


def against_waiting(found):
    """Returns medians of what is compared with --clipped."""
    pairs = (("speculated", "exact"), ("speculated", "off"), ("exact", "off"))
    return {f"{one}_to_{other}": statistics.median(turn[one] / turn[other] for turn in found) for one, other in pairs}


def timed(model, optimizer, count, **more):
    """Returns the period of steady training: from the end of one step() to that of another."""
    iterate(model, optimizer, **more)
    started = time.perf_counter()
    for _ in range(count):
        iterate(model, optimizer, **more)
    took = (time.perf_counter() - started) / count
    if optimizer is not None:
        optimizer.synchronize()
    return took


def compared(turns, exposed_by_the_model):
    """Returns hidden shares, the model's one, and how long the period of mode exact is beside the model's."""
    exposed = {name: statistics.median(turn[name] - turn["base"] for turn in turns)
               for name in ("off", "exact", "late")}
    hidden = {f"hidden_{name}": statistics.median(1 - (turn[name] - turn["base"]) / (turn["off"] - turn["base"])
                                                  for turn in turns) for name in ("exact", "late")}
    periods = statistics.median(turn["exact"] / (turn["base"] + exposed_by_the_model) for turn in turns)
    return {**{f"exposed_{name}_s": value for name, value in exposed.items()}, **hidden,
            "hidden_by_the_model": 1 - exposed_by_the_model / exposed["off"], "period_by_the_models": periods}


def pairs_with_an_outside_clipper(models, optimizers, step, count):
    """Times "exact" and "off" in turns: one iteration of each is a pair, and every second pair has the other order."""
    ratios = []
    for name in ("off", "exact"):  # early copies pause from the second on, until the 102nd
        for _ in range(3):
            iterate(models[name], optimizers[name], step)
    for number in range(count):
        names = ("off", "exact") if number % 2 else ("exact", "off")
        took = {}
        for name in names:
            started = time.perf_counter()
            iterate(models[name], optimizers[name], step)
            optimizers[name].synchronize()
            took[name] = time.perf_counter() - started
        ratios.append(took["exact"] / took["off"])
    mean, low, high = turns.interval(ratios)
    report.say(pairs=count, exact_to_off=mean, low=low, high=high)


def picture_of(model, spans):
    """Draws from the last layers of a backward to the end of the next forward."""
    bars = [bar for layer in model for bar in layer.bars] + [Bar(span.kind, span.begin_ns, span.end_ns)
                                                             for span in spans]
    copy = [span for span in spans if span.kind == "copy"][-2]
    end_ns = min(bar.end_ns for bar in model[-1].bars if bar.kind == "forward" and bar.begin_ns > copy.end_ns)
    title = "One step of AdamW(overlap=\"exact\") beside forward"
    return draw(bars, copy.begin_ns - 10_000_000, end_ns + 10_000_000, title)


def step_s(model, optimizer):
    """Returns how long the optimizer process takes for a step, alone."""
    iterate(model, optimizer)
    steps = []
    for _ in range(5):
        iterate(model, optimizer)
        optimizer.synchronize()
        steps.append(optimizer.runtime.stats().last_step_ns / 1e9)
    return statistics.median(steps)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--params", type=int, default=48_000_000)
    parser.add_argument("--groups", type=int, default=24)
    parser.add_argument("--first", type=float, default=0.0, help="0: all are equal")
    parser.add_argument("--clip", type=float)
    parser.add_argument("--forward", type=float, default=1.5, help="its time, in steps; backward takes twice that")
    parser.add_argument("--clipped", choices=("never", "tenth", "always"))
    parser.add_argument("--fsdp", action="store_true", help="with --clipped")
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--digests", choices=("asleep", "cpu"), default="asleep")
    parser.add_argument("--timeline", help="write that of mode exact, for Perfetto")
    parser.add_argument("--picture", help="draw its last whole step as an SVG")
    parser.add_argument("--outside", choices=OUTSIDE)
    parser.add_argument("--pairs", type=int, default=200)
    return parser.parse_args()


def main():
    options = arguments()
    first = options.first or 1 / options.groups
    rest = int(options.params * (1 - first) / (options.groups - 1))
    sizes = [int(options.params * first)] + [rest] * (options.groups - 1)
    warnings.simplefilter("ignore")
    if options.fsdp:
        report.set_rendezvous()
        torch.distributed.init_process_group("gloo")
    models, optimizers = {"base": make_model(sizes, options.fsdp)}, {"base": None}
    names = ("off", "exact", "speculated" if options.clipped else "late")
    for name in names:
        models[name] = make_model(sizes, options.fsdp)
        device = (lambda _: Gpu()) if options.digests == "asleep" and not options.fsdp else (lambda _: Host())
        with unittest.mock.patch("zf_runtime.optim.adam._has_gpu", lambda params: not options.fsdp), \
                unittest.mock.patch("zf_runtime.optim.overlap.opened.device_of", device):
            optimizers[name] = zf_runtime.AdamW(models[name].parameters(), lr=1e-6, clip_grad_norm=options.clip,
                                                overlap="exact" if name == "speculated" else name,
                                                speculate=name == "speculated",
                                                runtime_options={} if options.fsdp and name != "off" else None)
    timed_alone = "exact" if options.fsdp else "off"  # in place no process steps
    alone_s = step_s(models[timed_alone], optimizers[timed_alone])
    for model in models.values():
        for layer in model:
            layer.forward_s = options.forward * alone_s / len(sizes)
    if options.outside:
        pairs_with_an_outside_clipper(models, optimizers, OUTSIDE[options.outside](), options.pairs)
        return
    clip = {}
    if options.clipped:
        clip = {"step": clipper(options.clipped, norm_of(models["off"], optimizers["off"]))}
    generator = random.Random(1)
    found = []
    for turn in range(options.turns):
        names = list(models)
        generator.shuffle(names)
        periods = {name: timed(models[name], optimizers[name], options.iterations, **clip) for name in names}
        report.say(turn=turn, step_s=alone_s, **periods)
        found.append(periods)
    if options.clipped:
        report.say(clipped=options.clipped, **against_waiting(found))
        return
    exact = optimizers["exact"]
    spans = exact.timeline()
    last_gradient_s = statistics.median(span.end_ns - span.begin_ns for span in spans if span.kind == "copy") / 1e9
    report.say(first=first, elements=sum(sizes), last_gradient_s=last_gradient_s,
               **compared(found, first * alone_s + last_gradient_s))
    if options.timeline:
        exact.save_timeline(options.timeline)
    if options.picture:
        pathlib.Path(options.picture).write_text(picture_of(models["exact"], spans))
    for name in ("off", "exact", "late"):
        optimizers[name].close()


if __name__ == "__main__":
    main()
