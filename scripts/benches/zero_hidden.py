"""Times ZeRO-1 or 2 with an optimizer process, waiting and in mode exact, in turns in one process. Forward and backward
sleep, since a GPU would leave the CPUs idle. --speculate adds an engine with steps that begin in backward.

forward takes --forward times the optimizer's step, and backward twice as long. What DeepSpeed does with gradients on a
GPU takes no CPU: they are averaged, and their norms are known. Each is copied once. Says per turn {"wait": seconds per
iteration, "exact": the same}, and last {"step_s": the optimizer's step, "ratio": exact / wait, "model": the same by
docs/tuning.md, "reached": model / exact}.
The ratios are medians over the turns. With --speculate "speculated" is the same as "exact", and last comes
"speculated_to_exact". --clipped says which steps are clipped.

With --busy forward and backward compute on torch's threads instead, as much as these do alone in that time."""

import argparse
import itertools
import statistics
import time

import bench_paths

import report

report.set_rendezvous()

import deepspeed
import torch
import zf_runtime.deepspeed
from deepspeed.runtime.zero.stage_1_and_2 import DeepSpeedZeroOptimizer
from hidden_steps import Sleep
from zero_pairs import arena_of

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False

GRADIENT, GPU_TO_HOST_BYTES_PER_S = 1e-3, 25e9


class Layer(torch.nn.Module):
    def __init__(self, elements: int):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(elements))
        self.gradient, self.forward_s = torch.full((elements,), GRADIENT, dtype=torch.bfloat16), 0.0

    works = staticmethod(lambda kind, seconds: time.sleep(seconds))

    def forward(self, x):
        return Sleep.apply(x, self.weight, self)


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


def compute_gradients_elsewhere():
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


def make_engine(options, mode: str):
    zf_runtime.deepspeed.uninstall()
    zf_runtime.deepspeed.install("exact" if mode == "speculated" else mode, speculate=mode == "speculated")
    model = torch.nn.Sequential(*(Layer(options.elements // options.layers) for _ in range(options.layers)))
    config = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0, "bf16": {"enabled": True},
              "steps_per_print": 1 << 30, "optimizer": {"type": "AdamW", "params": {"lr": 1e-6}},
              "zero_optimization": {"stage": options.stage, "offload_optimizer": {"device": "cpu", "pin_memory": False},
                                    "overlap_comm": options.stage == 1,  # else it takes gradients after backward
                                    # A gradient of more elements is not copied into a bucket.
                                    "reduce_bucket_size": options.elements // options.layers - 1}}
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config,
                                      dist_init_required=True)
    engine.optimizer._offload_gradient_safety_enabled = False  # it clones gradients, for streams that CPUs have not
    return engine


def iterations(engine, count: int, limits) -> float:
    """Returns the seconds of an iteration."""
    began = time.perf_counter()
    for _ in range(count):
        engine.optimizer.clip_grad = next(limits)
        x = torch.zeros(1, dtype=torch.bfloat16, requires_grad=True)
        engine.backward(engine(x).float().sum())
        engine.step()
    return (time.perf_counter() - began) / count


def limits_of(options):
    """Returns the norms to which steps are clipped."""
    norm = GRADIENT * options.elements ** 0.5
    none, one = [2 * norm], [0.9 * norm]
    return itertools.cycle({"never": none, "tenth": 9 * none + one, "always": one}[options.clipped])


def step_s(engine, options, count=9) -> float:
    """Returns how long the optimizer process takes for a step, alone."""
    found = []
    for _ in range(count):
        iterations(engine, 1, limits_of(options))
        found.append(arena_of(engine).runtime.stats().last_step_ns / 1e9)
    return statistics.median(found)


def main():
    parser = argparse.ArgumentParser()
    for name, value in {"elements": 64 << 20, "layers": 16, "turns": 15, "iterations": 4, "stage": 2,
                        "forward": 1.5}.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    parser.add_argument("--speculate", action="store_true")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--clipped", choices=("never", "tenth", "always"), default="always")
    options = parser.parse_args()
    bench_paths.need_plan()
    compute_gradients_elsewhere()
    if options.busy:
        compute_here()
    modes = ["wait", "exact", *(["speculated"] if options.speculate else [])]
    engines = {mode: make_engine(options, mode) for mode in modes}
    limits = {mode: limits_of(options) for mode in modes}
    step = step_s(engines["wait"], options)
    forward = options.forward * step
    for engine in engines.values():
        for layer in engine.module:
            layer.forward_s = forward / options.layers
    arena = arena_of(engines["exact"])
    ratios, models, reached, speculated = [], [], [], []
    for turn in range(options.turns + 1):
        took, steps = {}, []
        for mode in sorted(engines, reverse=turn % 2 == 1):
            iterations(engines[mode], 1, limits[mode])  # so that its own step is under way, and no other
            took[mode] = iterations(engines[mode], options.iterations, limits[mode])
            arena_of(engines[mode]).wait()
        steps.append(arena_of(engines["wait"]).runtime.stats().last_step_ns / 1e9)
        if turn == 0:
            continue
        report.say(turn=turn, step_s=steps[0], **took)
        first = arena.piece_bytes / 2 / arena.slots[0].param.numel()
        model = took["wait"] - steps[0] - forward + max(first * steps[0] + forward,
                                                        steps[0] + forward / options.layers)
        ratios.append(took["exact"] / took["wait"])
        models.append(model / took["wait"])
        reached.append(model / took["exact"])
        speculated.append(took.get("speculated", took["exact"]) / took["exact"])
    report.say(step_s=step, ratio=statistics.median(ratios), model=statistics.median(models),
               reached=statistics.median(reached), speculated_to_exact=statistics.median(speculated))
    report.leave_group()


if __name__ == "__main__":
    main()
