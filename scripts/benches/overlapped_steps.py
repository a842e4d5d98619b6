"""Times training with zf_runtime.AdamW, waiting, exact and late, beside torch's own AdamW(fused=True) where the
parameters are.

Four models train on the same data, in turns in one process; which goes first rotates. Says per turn: {"turn": n,
"torch": {"step_ms": x, "iteration_ms": y}, "off": {...}, "exact": {...}, "late": {...}}, and at the end the losses of
all and the largest difference of a parameter between torch's and the waiting one. Runs on a GPU if there is one."""

import argparse
import time

import bench_paths  # noqa: F401

import report
import torch
from model import loss_of, make_model
from zf_runtime import AdamW

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def now_ns() -> int:
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter_ns()


def make_optimizer(name: str, model):
    if name == "torch":
        return torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    return AdamW(model.parameters(), lr=1e-4, overlap=name, runtime_options={})


def iterate(model, optimizer, batch) -> tuple[dict, float]:
    started = now_ns()
    optimizer.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    stepped = now_ns()
    optimizer.step()
    ended = now_ns()
    return {"step_ms": (ended - stepped) / 1e6, "iteration_ms": (ended - started) / 1e6}, loss.item()


def main():
    parser = argparse.ArgumentParser()
    for name, value in {"turns": 15, "width": 1024, "blocks": 6, "tokens": 64}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    names = ["torch", "off", "exact", "late"]
    models = {name: make_model(options).to(DEVICE, getattr(torch, options.dtype)) for name in names}
    optimizers = {name: make_optimizer(name, model) for name, model in models.items()}
    losses = {name: [] for name in names}
    for turn in range(options.turns):
        torch.manual_seed(turn)
        batch = torch.randn(options.tokens, options.width).to(DEVICE, getattr(torch, options.dtype))
        facts = {}
        for name in names[turn % 3:] + names[:turn % 3]:
            facts[name], loss = iterate(models[name], optimizers[name], batch)
            losses[name].append(loss)
        report.say(turn=turn, **facts)
    optimizers["late"].synchronize()
    pairs = zip(models["torch"].parameters(), models["off"].parameters(), strict=True)
    report.say(losses=losses, most=max((a - b).detach().abs().max().item() for a, b in pairs),
               parameters=sum(p.numel() for p in models["torch"].parameters()))
    for name in names[1:]:
        optimizers[name].close()


if __name__ == "__main__":
    main()
