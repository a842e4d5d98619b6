"""Times ZeRO stage 3 that sleeps in forward and backward, since a GPU would leave the CPUs idle: with steps that
training waits for, and in mode exact, in turns in one process.

Each layer has a weight and a persistent bias. Says per pair {"pair": n, "wait": {"step_and_forward_ms": x, "step_ms":
y}, "exact": {...}}, and at the end {"ratio": exact / wait, "model": the ratio if all of the step is hidden that can be,
"hidden": the part of that which is, ...}, from medians. The model: a layer's weight is waited for until it is stepped,
and the layer's forward follows.

--clipped times whole iterations in modes wait and exact and with steps that begin in backward, where no step, each
tenth or each is clipped. Says per turn the seconds of an iteration of each, and last the medians of their ratios. What
DeepSpeed does with gradients on a GPU takes no CPU then: they are averaged and their norms are known before, and they
are copied once."""

import argparse
import itertools
import random
import statistics
import time

import bench_paths

import report

report.set_rendezvous()

import deepspeed
import torch
import zf_runtime.deepspeed
from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3
from hidden_steps import Sleep
from zero_pairs import arena_of

NAMES = "wait", "exact"
GPU_TO_HOST_BYTES_PER_S = 25e9


class Layer(torch.nn.Module):
    def __init__(self, elements: int):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((elements,), 0.1))
        self.bias = torch.nn.Parameter(torch.full((64,), 0.1))
        self.gradient, self.forward_s = torch.full((elements,), 1e-3, dtype=torch.bfloat16), 0.0

    def works(self, kind: str, seconds: float):
        time.sleep(seconds)

    def forward(self, x):
        return Sleep.apply(x, self.weight, self) + self.weight[:1] + self.bias.sum()


def compute_gradients_elsewhere():
    known, place = set(), DeepSpeedZeroOptimizer_Stage3._offload_grad_partition_at_boundary

    def place_once(self, param, gradient, *args):
        if param not in known:
            place(self, param, gradient, *args)
        known.add(param)
        self.norm_for_param_grads[self.get_param_id(param)] = norm_of(self, gradient)
        time.sleep(gradient.numel() * 4 / GPU_TO_HOST_BYTES_PER_S)

    def norm_of(self, gradient):
        return torch.tensor(1e-3 * gradient.numel() ** 0.5)

    DeepSpeedZeroOptimizer_Stage3._offload_grad_partition_at_boundary = place_once
    DeepSpeedZeroOptimizer_Stage3._constant_buffered_norm2 = norm_of
    DeepSpeedZeroOptimizer_Stage3._DeepSpeedZeroOptimizer_Stage3__avg_scatter_grads = (
        lambda self, params, *_: [param.grad.reshape(-1) for param in params])


def make_engine(options, mode: str):
    zf_runtime.deepspeed.uninstall()
    zf_runtime.deepspeed.install("exact" if mode == "speculated" else mode, speculate=mode == "speculated")
    model = torch.nn.Sequential(*(Layer(options.elements) for _ in range(options.layers)))
    config = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": options.clip, "steps_per_print": 1 << 30,
              "bf16": {"enabled": True}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
              "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"},
                                    "stage3_prefetch_bucket_size": options.bucket,
                                    "reduce_bucket_size": options.elements, "contiguous_gradients": False}}
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    return engine


def iterate(engine) -> tuple[float, float, str]:
    """Returns the times of forward, and of step(), in seconds, and the loss. (Backward is as before, and on CPUs mostly
    DeepSpeed's own work.)"""
    started = time.perf_counter()
    loss = engine(torch.ones(1, dtype=torch.bfloat16, requires_grad=True)).float().sum()
    forward_s = time.perf_counter() - started
    engine.backward(loss)
    stepped = time.perf_counter()
    engine.step()
    ended = time.perf_counter()
    return forward_s, ended - stepped, loss.item().hex()


def in_turns(engines, pairs: int, *, say: bool = False) -> dict:
    """Returns the medians of step() and forward together, and of what step() takes longer if training waits."""
    times, losses = {name: [] for name in NAMES}, {name: [] for name in NAMES}
    for pair in range(pairs):
        for name in NAMES:
            iterate(engines[name])  # so that what comes before is of the same mode
            used, step, loss = iterate(engines[name])
            losses[name].append(loss)
            arena_of(engines[name]).wait()
            times[name].append((used + step, step))
        if say:
            report.say(pair=pair, **{name: {"step_and_forward_ms": times[name][-1][0] * 1e3,
                                            "step_ms": times[name][-1][1] * 1e3} for name in NAMES})
    found = {name: statistics.median(both for both, _ in times[name]) for name in NAMES}
    steps = {name: statistics.median(step for _, step in times[name]) for name in NAMES}
    return found | {"native_s": steps["wait"] - steps["exact"], "losses_equal": losses["wait"] == losses["exact"]}


def period(engine, limits, count: int) -> float:
    """Returns the seconds of an iteration in steady training."""
    def one():
        engine.optimizer.clip_grad = next(limits)
        iterate(engine)

    one()
    started = time.perf_counter()
    for _ in range(count):
        one()
    return (time.perf_counter() - started) / count


def compare_clipped(options, engines):
    norm = float(engines["wait"].optimizer._global_grad_norm)
    none, one = [2 * norm], [0.9 * norm]
    limits = {name: itertools.cycle({"never": none, "tenth": 9 * none + one, "always": one}[options.clipped])
              for name in engines}
    found = []
    for turn in range(options.pairs):
        names = list(engines)
        random.Random(turn).shuffle(names)
        found.append({})
        for name in names:
            found[-1][name] = period(engines[name], limits[name], options.iterations)
            arena_of(engines[name]).wait()
        report.say(turn=turn, **found[-1])
    ratios = (("speculated", "exact"), ("speculated", "wait"), ("exact", "wait"))
    report.say(clipped=options.clipped, forward=options.forward, **{
        f"{one}_to_{other}": statistics.median(turn[one] / turn[other] for turn in found) for one, other in ratios})


def main():
    parser = argparse.ArgumentParser()
    for name, value in {"pairs": 8, "layers": 16, "elements": 2 << 20, "bucket": 50_000_000}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--clipped", choices=("never", "tenth", "always"))
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--forward", type=float, default=1.5, help="of the step")
    options = parser.parse_args()
    bench_paths.need_plan()
    if options.clipped:
        compute_gradients_elsewhere()
    engines = {name: make_engine(options, name) for name in (*NAMES, *(["speculated"] if options.clipped else []))}
    native_s = in_turns(engines, 4)["native_s"]
    for engine in engines.values():
        for layer in engine.module:
            layer.forward_s = options.forward * native_s / options.layers
    if options.clipped:
        compare_clipped(options, engines)
        report.leave_group()
        return
    found = in_turns(engines, options.pairs, say=True)
    forward_s = options.forward * native_s
    native_s, wait_s, exact_s = found["native_s"], found["wait"], found["exact"]
    exposed_s = max(native_s / options.layers, native_s - forward_s * (1 - 1 / options.layers))
    report.say(ratio=exact_s / wait_s, model=(wait_s - native_s + exposed_s) / wait_s, native_ms=native_s * 1e3,
               forward_ms=forward_s * 1e3, hidden=(wait_s - exact_s) / (native_s - exposed_s),
               losses_equal=found["losses_equal"])
    report.leave_group()


if __name__ == "__main__":
    main()
