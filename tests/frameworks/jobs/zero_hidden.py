"""Times ZeRO-2 with an optimizer process, waiting and in mode exact, in turns in one process. Forward and backward
sleep, as those of a GPU would leave the CPUs.

forward takes --forward times the optimizer's step, and backward twice as long. Says per turn {"wait": seconds per
iteration, "exact": the same}, and last {"step_s": the optimizer's step, "ratio": exact / wait, "model": the same by
docs/tuning.md, "reached": model / exact}.
The ratios are medians over the turns."""

import argparse
import statistics
import time

import report

report.set_rendezvous()

import deepspeed
import torch
import zf_runtime.deepspeed
from zero_pairs import arena_of

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


class Sleeping(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, seconds):
        time.sleep(seconds)
        ctx.seconds, ctx.weight = seconds, weight
        return x + 1

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(2 * ctx.seconds)
        return gradient, torch.full_like(ctx.weight, 1e-3), None


class Layer(torch.nn.Module):
    def __init__(self, elements: int):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(elements))
        self.forward_s = 0.0

    def forward(self, x):
        return Sleeping.apply(x, self.weight, self.forward_s)


def make_engine(options, mode: str):
    zf_runtime.deepspeed.uninstall()
    zf_runtime.deepspeed.install(mode)
    model = torch.nn.Sequential(*(Layer(options.elements // options.layers) for _ in range(options.layers)))
    config = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": options.clip, "bf16": {"enabled": True},
              "steps_per_print": 1 << 30, "optimizer": {"type": "AdamW", "params": {"lr": 1e-6}},
              "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": False}}}
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config,
                                      dist_init_required=True)
    return engine


def iterations(engine, count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        x = torch.zeros(1, dtype=torch.bfloat16, requires_grad=True)
        engine.backward(engine(x).float().sum())
        engine.step()
    return (time.perf_counter() - began) / count


def step_s(engine, count=9) -> float:
    """Returns how long the optimizer process takes for a step, alone."""
    found = []
    for _ in range(count):
        iterations(engine, 1)
        found.append(arena_of(engine).runtime.stats().last_step_ns / 1e9)
    return statistics.median(found)


def main():
    parser = argparse.ArgumentParser()
    for name, value in {"elements": 64 << 20, "layers": 16, "turns": 15, "iterations": 2, "clip": 1.0,
                        "forward": 1.5}.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    options = parser.parse_args()
    engines = {mode: make_engine(options, mode) for mode in ("wait", "exact")}
    step = step_s(engines["wait"])
    forward = options.forward * step
    for engine in engines.values():
        for layer in engine.module:
            layer.forward_s = forward / options.layers
    arena = arena_of(engines["exact"])
    ratios, models, reached = [], [], []
    for turn in range(options.turns + 1):
        took, steps = {}, []
        for mode in sorted(engines, reverse=turn % 2 == 1):
            took[mode] = iterations(engines[mode], options.iterations)
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
    report.say(step_s=step, ratio=statistics.median(ratios), model=statistics.median(models),
               reached=statistics.median(reached))
    report.leave_group()


if __name__ == "__main__":
    main()
