"""Times iterations of plain torch on CPUs with torch's fused AdamW and with zf_runtime.AdamW, in turns in
one process.

Two models train on the same data. Each pair is some iterations of each; which goes first alternates. Says per pair
{"pair": n, "torch": {"step_ms": x, "iteration_ms": y}, "ours": {...}} with medians, and at the end the largest relative
difference of both losses. Takes --pairs, --iterations, --width, --blocks and --tokens. Neither narrows the
process, so both have all CPUs."""

import argparse
import statistics
import time

import report
import torch
import zf_runtime
from model import Block


def make_model(options):
    torch.manual_seed(1)
    return torch.nn.Sequential(*(Block(options.width) for _ in range(options.blocks)))


def iterate(model, optimizer, batch) -> tuple[float, float, float]:
    """Returns the milliseconds of step(), those of the iteration, and the loss."""
    started = time.perf_counter_ns()
    optimizer.zero_grad()
    loss = (model(batch) - 1).square().mean()
    loss.backward()
    stepped = time.perf_counter_ns()
    optimizer.step()
    ended = time.perf_counter_ns()
    return (ended - stepped) / 1e6, (ended - started) / 1e6, loss.item()


def main():
    parser = argparse.ArgumentParser()
    for name, value in {"pairs": 25, "iterations": 8, "width": 1024, "blocks": 3, "tokens": 128}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    models = {name: make_model(options) for name in ("torch", "ours")}
    optimizers = {"torch": torch.optim.AdamW(models["torch"].parameters(), lr=1e-4, fused=True),
                  "ours": zf_runtime.AdamW(models["ours"].parameters(), lr=1e-4)}
    batch, losses = torch.randn(options.tokens, options.width), {name: [] for name in models}
    for pair in range(options.pairs):
        facts = {}
        for name in sorted(models, reverse=pair % 2 == 1):
            runs = [iterate(models[name], optimizers[name], batch) for _ in range(options.iterations)]
            steps, iterations, its_losses = zip(*runs)
            facts[name] = {"step_ms": statistics.median(steps), "iteration_ms": statistics.median(iterations)}
            losses[name] += its_losses
        report.say(pair=pair, **facts)
    optimizers["ours"].close()
    report.say(parameters=sum(param.numel() for param in models["ours"].parameters()), threads=torch.get_num_threads(),
               loss_difference=max(abs(a - b) / b for a, b in zip(losses["ours"], losses["torch"])))


if __name__ == "__main__":
    main()
