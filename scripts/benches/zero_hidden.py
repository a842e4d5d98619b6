"""Times ZeRO with an optimizer process, waiting and in mode exact, in turns in one process. Forward and backward sleep,
since a GPU would leave the CPUs idle. Forward takes --forward times the optimizer's step, and backward twice as long.

--stage 1 or 2 times whole iterations. Says per turn {"wait": seconds per iteration, "exact": the same}, and last
{"step_s": the optimizer's step, "ratio": exact / wait, "model": the same by docs/tuning.md, "reached": model / exact}.
The ratios are medians over the turns. With --speculate "speculated" is the same as "exact", with steps that begin in
backward, and last comes "speculated_to_exact". --clipped says which steps are clipped. With --busy forward and backward
compute on torch's threads instead, as much as these do alone in that time.

--stage 3 times step() and forward. Each layer has a weight and a persistent bias. Says per turn {"wait":
{"step_and_forward_ms": x, "step_ms": y}, "exact": {...}}, and last {"ratio": exact / wait, "model": the ratio if all of
the step is hidden that can be, "hidden": the part of that which is, ...}, from medians. The model: a layer's weight is
waited for until it is stepped, and the layer's forward follows. With --speculate it times whole iterations of the three
modes, and says last the medians of their ratios.

What DeepSpeed does with gradients on a GPU takes no CPU where whole iterations are timed: they are averaged, and their
norms are known. Each is copied once."""

import argparse
import itertools
import random
import statistics
import sys
import time

import bench_paths

import report

report.set_rendezvous()

import deepspeed
import torch
import zf_runtime.deepspeed
from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3
from deepspeed.runtime.zero.stage_1_and_2 import DeepSpeedZeroOptimizer
from hidden_steps import Sleep
from zero_pairs import arena_of

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False

GRADIENT, GPU_TO_HOST_BYTES_PER_S = 1e-3, 25e9
NAMES = "wait", "exact"


class Layer(torch.nn.Module):
    def __init__(self, elements: int, *, has_bias: bool):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((elements,), 0.1))
        self.bias = torch.nn.Parameter(torch.full((64,), 0.1)) if has_bias else None
        self.gradient, self.forward_s = torch.full((elements,), GRADIENT, dtype=torch.bfloat16), 0.0

    works = staticmethod(lambda kind, seconds: time.sleep(seconds))

    def forward(self, x):
        y = Sleep.apply(x, self.weight, self)
        return y if self.bias is None else y + self.weight[:1] + self.bias.sum()


def compute_here():
    """Lets layers compute: what runs beside them makes them take longer."""
    a, b = torch.ones(256, 256), torch.empty(256, 256)
    rounds = 200
    for _ in range(2):  # the first is cold
        began = time.perf_counter()
        for _ in range(rounds):
            torch.mm(a, a, out=b)
        took = time.perf_counter() - began

    def works(kind: str, seconds: float):
        for _ in range(round(seconds / took * rounds)):
            torch.mm(a, a, out=b)

    Layer.works = staticmethod(works)


def take_gradients_1_and_2():
    zero, known = DeepSpeedZeroOptimizer, set()
    place = zero.async_inplace_copy_grad_to_fp32_buffer_from_gpu

    def place_once(self, param):
        if param not in known:
            place(self, param)
        known.add(param)
        self.clear_grad_attribute(param)
        time.sleep(param.numel() * 4 / GPU_TO_HOST_BYTES_PER_S)

    def note_norm(self, param):
        self.norm_for_param_grads[self.get_param_id(param)] = torch.tensor(GRADIENT * param.numel() ** 0.5)

    zero.async_inplace_copy_grad_to_fp32_buffer_from_gpu = place_once
    zero.set_norm_for_param_grad_in_gpu = note_norm
    zero.average_tensor = zero.update_offload_overflow_tracker_for_param_grad = lambda *_: None


def take_gradients_3():
    known, place = set(), DeepSpeedZeroOptimizer_Stage3._offload_grad_partition_at_boundary

    def place_once(self, param, gradient, *args):
        if param not in known:
            place(self, param, gradient, *args)
        known.add(param)
        self.norm_for_param_grads[self.get_param_id(param)] = norm_of(self, gradient)
        time.sleep(gradient.numel() * 4 / GPU_TO_HOST_BYTES_PER_S)

    def norm_of(self, gradient):
        return torch.tensor(GRADIENT * gradient.numel() ** 0.5)

    DeepSpeedZeroOptimizer_Stage3._offload_grad_partition_at_boundary = place_once
    DeepSpeedZeroOptimizer_Stage3._constant_buffered_norm2 = norm_of
    DeepSpeedZeroOptimizer_Stage3._DeepSpeedZeroOptimizer_Stage3__avg_scatter_grads = (
        lambda self, params, *_: [param.grad.reshape(-1) for param in params])


def make_engine(options, mode: str):
    zf_runtime.deepspeed.uninstall()
    zf_runtime.deepspeed.install("exact" if mode == "speculated" else mode, speculate=mode == "speculated")
    each, stage = options.elements // options.layers, options.stage
    model = torch.nn.Sequential(*(Layer(each, has_bias=stage == 3) for _ in range(options.layers)))
    zero = {"stage": stage, "offload_optimizer": {"device": "cpu", "pin_memory": False}}
    if stage == 3:
        zero |= {"stage3_prefetch_bucket_size": options.bucket, "reduce_bucket_size": each,
                 "contiguous_gradients": False}
    else:
        zero |= {"overlap_comm": stage == 1,  # else it takes gradients after backward
                 "reduce_bucket_size": each - 1}  # a gradient of more elements is not copied into a bucket
    config = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0, "bf16": {"enabled": True},
              "steps_per_print": 1 << 30, "optimizer": {"type": "AdamW", "params": {"lr": 1e-6}},
              "zero_optimization": zero}
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config,
                                      dist_init_required=True)
    engine.optimizer._offload_gradient_safety_enabled = False  # it clones gradients, for streams that CPUs have not
    return engine


def limits_of(options):
    """Returns the norms to which steps are clipped."""
    norm = GRADIENT * options.elements ** 0.5
    none, one = [2 * norm], [0.9 * norm]
    return itertools.cycle({"never": none, "tenth": 9 * none + one, "always": one}[options.clipped])


def iterate(engine) -> tuple[float, float, str]:
    """Returns the times of forward, and of step(), in seconds, and the loss."""
    started = time.perf_counter()
    loss = engine(torch.ones(1, dtype=torch.bfloat16, requires_grad=True)).float().sum()
    forward_s = time.perf_counter() - started
    engine.backward(loss)
    stepped = time.perf_counter()
    engine.step()
    ended = time.perf_counter()
    return forward_s, ended - stepped, loss.item().hex()


def iterations(engine, count: int, limits) -> float:
    """Returns the seconds of an iteration."""
    began = time.perf_counter()
    for _ in range(count):
        engine.optimizer.clip_grad = next(limits)
        iterate(engine)
    return (time.perf_counter() - began) / count


def turns_of(options, engines):
    """Yields per turn the seconds of an iteration of each engine, in another order each time. The first is cold."""
    limits = {mode: limits_of(options) for mode in engines}
    for turn in range(options.turns + 1):
        names, took = list(engines), {}
        random.Random(turn).shuffle(names)
        for mode in names:
            iterations(engines[mode], 1, limits[mode])  # so that its own step is under way, and no other
            took[mode] = iterations(engines[mode], options.iterations, limits[mode])
            arena_of(engines[mode]).wait()
        if turn > 0:
            yield turn, took


def last_step_s(engine) -> float:
    return arena_of(engine).runtime.stats().last_step_ns / 1e9


def step_s(engine, options, count=9) -> float:
    """Returns how long the optimizer process takes for a step, alone."""
    found = []
    for _ in range(count):
        iterations(engine, 1, limits_of(options))
        found.append(last_step_s(engine))
    return statistics.median(found)


def make_slow(options, engines, step: float) -> float:
    """Lets forward take --forward times a step. Returns how long that is."""
    for engine in engines.values():
        for layer in engine.module:
            layer.forward_s = options.forward * step / options.layers
    return options.forward * step


def compare_stages_1_and_2(options, engines):
    step = step_s(engines["wait"], options)
    forward = make_slow(options, engines, step)
    arena = arena_of(engines["exact"])
    ratios, models, reached, speculated = [], [], [], []
    for turn, took in turns_of(options, engines):
        last = last_step_s(engines["wait"])
        report.say(turn=turn, step_s=last, **took)
        first = arena.piece_bytes / 2 / arena.slots[0].param.numel()
        model = took["wait"] - last - forward + max(first * last + forward, last + forward / options.layers)
        ratios.append(took["exact"] / took["wait"])
        models.append(model / took["wait"])
        reached.append(model / took["exact"])
        speculated.append(took.get("speculated", took["exact"]) / took["exact"])
    report.say(step_s=step, ratio=statistics.median(ratios), model=statistics.median(models),
               reached=statistics.median(reached), speculated_to_exact=statistics.median(speculated))


def in_turns(engines, turns: int, *, say: bool = False) -> dict:
    """Returns the medians of step() and forward together, and of what step() takes longer if training waits."""
    times, losses = {name: [] for name in NAMES}, {name: [] for name in NAMES}
    for turn in range(turns):
        for name in NAMES:
            iterate(engines[name])  # so that what comes before is of the same mode
            used, step, loss = iterate(engines[name])
            losses[name].append(loss)
            arena_of(engines[name]).wait()
            times[name].append((used + step, step))
        if say:
            report.say(turn=turn, **{name: {"step_and_forward_ms": times[name][-1][0] * 1e3,
                                            "step_ms": times[name][-1][1] * 1e3} for name in NAMES})
    found = {name: statistics.median(both for both, _ in times[name]) for name in NAMES}
    steps = {name: statistics.median(step for _, step in times[name]) for name in NAMES}
    native_s = steps["wait"] - steps["exact"]
    if native_s <= 0:
        sys.exit("a step is too short to be measured: --elements must be larger")
    return found | {"native_s": native_s, "losses_equal": losses["wait"] == losses["exact"]}


def compare_stage_3(options, engines):
    native_s = in_turns(engines, 4)["native_s"]
    forward_s = make_slow(options, engines, native_s)
    if options.speculate:
        found = []
        for turn, took in turns_of(options, engines):
            report.say(turn=turn, **took)
            found.append(took)
        ratios = (("speculated", "exact"), ("speculated", "wait"), ("exact", "wait"))
        report.say(clipped=options.clipped, forward=options.forward, **{
            f"{one}_to_{other}": statistics.median(turn[one] / turn[other] for turn in found) for one, other in ratios})
        return
    found = in_turns(engines, options.turns, say=True)
    native_s, wait_s, exact_s = found["native_s"], found["wait"], found["exact"]
    exposed_s = max(native_s / options.layers, native_s - forward_s * (1 - 1 / options.layers))
    report.say(ratio=exact_s / wait_s, model=(wait_s - native_s + exposed_s) / wait_s, native_ms=native_s * 1e3,
               forward_ms=forward_s * 1e3, hidden=(wait_s - exact_s) / (native_s - exposed_s),
               losses_equal=found["losses_equal"])


def main():
    parser = argparse.ArgumentParser()
    for name, value in {"elements": 64 << 20, "layers": 16, "turns": 15, "iterations": 4, "stage": 2, "forward": 1.5,
                        "bucket": 50_000_000}.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--speculate", action="store_true")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--clipped", choices=("never", "tenth", "always"), default="always")
    options = parser.parse_args()
    bench_paths.need_plan()
    if options.stage < 3:
        take_gradients_1_and_2()
    elif options.speculate:
        take_gradients_3()
    if options.busy:
        compute_here()
    engines = {mode: make_engine(options, mode) for mode in (*NAMES, *(["speculated"] if options.speculate else []))}
    (compare_stage_3 if options.stage == 3 else compare_stages_1_and_2)(options, engines)
    report.leave_group()


if __name__ == "__main__":
    main()
