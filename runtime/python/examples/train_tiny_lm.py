#!/usr/bin/env python3
"""Trains a small language model on a text, four times from the same start:

  torch        torch.optim.AdamW
  waiting      zf_runtime.AdamW: the same steps, in place
  exact        AdamW(overlap="exact"): an optimizer process works beside the next forward; the losses must be the same
  late         AdamW(overlap="late"): it works beside the next forward and backward, and weights are one step old

and compares losses and step times. With --kill-at N a fifth run, exact, loses its optimizer process to kill -9 in the
middle of step N, must see it started again, and must have the same losses, too.

  zf-tune plan -o plan.json
  zf-tune exec --plan plan.json -- python3 train_tiny_lm.py --steps 100
"""

from __future__ import annotations

import argparse
import os
import pathlib
import signal
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
warnings.filterwarnings("ignore", message=".*(the plan is for mode|parameters on the CPU)")  # this compares all modes

import torch  # noqa: E402
from torch import nn  # noqa: E402

try:
    from zf_runtime import AdamW, Group, Runtime, ZfError
except ImportError:  # not installed: beside this file in the source tree
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    from zf_runtime import AdamW, Group, Runtime, ZfError

LETTERS = 256  # bytes


class TinyGpt(nn.Module):
    """A causal transformer over bytes; 0.43 million parameters by default."""

    def __init__(self, width: int = 128, layers: int = 2, heads: int = 4, context: int = 64):
        super().__init__()
        self.letters = nn.Embedding(LETTERS, width)
        self.places = nn.Parameter(0.02 * torch.randn(context, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True,
                                       norm_first=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        mask = torch.full((context, context), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """(batch, context) bytes -> (batch, context, LETTERS) logits of the next ones."""
        hidden = self.letters(text) + self.places
        for block in self.blocks:
            hidden = block(hidden, self.mask)
        return self.norm(hidden) @ self.letters.weight.t()


def batches(text: torch.Tensor, steps: int, batch: int,
            context: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Returns pieces of the text, the same in every run."""
    generator = torch.Generator().manual_seed(2)
    for _ in range(steps):
        starts = torch.randint(len(text) - context - 1, (batch,), generator=generator)
        pieces = torch.stack([text[start:start + context + 1] for start in starts.tolist()])
        yield pieces[:, :-1], pieces[:, 1:]


def make_model() -> TinyGpt:
    torch.manual_seed(1)
    model = TinyGpt()
    nn.init.normal_(model.letters.weight, std=0.02)
    return model


def groups_of(model: nn.Module) -> list[dict[str, Any]]:
    """Returns param_groups with weight decay for matrices only, as usual."""
    parameters = list(model.parameters())
    return [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0}]


def train(name: str, model: nn.Module, optimizer: torch.optim.Optimizer, text: torch.Tensor, args: argparse.Namespace,
          kill_at: int = 0) -> list[float]:
    """Trains and returns the losses, one for each step."""
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 20))
    losses: list[float] = []
    step_ms, optimizer_ms = [], []
    for inputs, targets in batches(text, args.steps, args.batch, len(model.places)):
        began = time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        ready = time.perf_counter()
        optimizer.step()
        done = time.perf_counter()
        if len(losses) + 1 == kill_at:
            os.kill(optimizer.runtime.stats().worker_pid, signal.SIGKILL)
        schedule.step()
        losses.append(loss.item())
        step_ms.append((done - began) * 1e3)
        optimizer_ms.append((done - ready) * 1e3)
    print(f"{name:11} loss {losses[0]:.4f} -> {losses[-1]:.4f}   step {statistics.median(step_ms):7.2f} ms, of it "
          f"optimizer.step() {statistics.median(optimizer_ms):6.2f} ms (medians of {len(losses)})", flush=True)
    return losses


def check_runtime(plan: str | None) -> None:
    """Raises ZfError before any training if the library, the plan or the optimizer process is missing."""
    Runtime(plan, groups=[Group(elements=1)]).close()


def train_ours(name: str, text: torch.Tensor, args: argparse.Namespace, overlap: str,
               kill_at: int = 0) -> tuple[list[float], int]:
    """Trains and returns the losses, and how often the optimizer process was restarted."""
    model = make_model()
    with AdamW(groups_of(model), lr=args.lr, plan=args.plan, overlap=overlap, runtime_options={}) as optimizer:
        losses = train(name, model, optimizer, text, args, kill_at)
        optimizer.synchronize()  # the last step may be the one that was killed
        return losses, optimizer.runtime.stats().restarts if overlap != "off" else 0


def largest_difference(losses: list[float], others: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(losses, others))


def killed_run(text: torch.Tensor, args: argparse.Namespace, undisturbed: list[float]) -> bool:
    """Returns whether the optimizer was killed and restarted, and the losses equal those of the undisturbed run."""
    losses, restarts = train_ours("killed", text, args, overlap="exact", kill_at=args.kill_at)
    difference = largest_difference(losses, undisturbed)
    if restarts == 0:
        print(f"kill -9 at step {args.kill_at}, but the optimizer was never started again: this run shows nothing")
        return False
    print(f"kill -9 of the optimizer at step {args.kill_at}, {restarts} restart{'s' if restarts > 1 else ''}; "
          f"maximum difference to the undisturbed run: {difference:.3g}")
    return difference == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", help="plan.json of zf-tune; default: ZF_PLAN, which zf-tune exec sets")
    parser.add_argument("--text", default="/usr/share/common-licenses/GPL-3", help="any file; default: %(default)s")
    parser.add_argument("--steps", type=int, default=100, help="of each run; default: %(default)s")
    parser.add_argument("--batch", type=int, default=8, help="pieces of text in a step; default: %(default)s")
    parser.add_argument("--lr", type=float, default=1e-3, help="default: %(default)s")
    parser.add_argument("--kill-at", type=int, default=0, metavar="N", help="kill the optimizer in step N of one run")
    args = parser.parse_args()
    if not 0 <= args.kill_at <= args.steps:
        parser.exit(2, f"{parser.prog}: --kill-at {args.kill_at}: there are steps 1 to {args.steps} (--steps)\n")

    check_runtime(args.plan)
    torch.set_num_threads(1)  # so that sums are the same in all runs: a process with an optimizer beside has fewer CPUs
    text = torch.tensor(list(pathlib.Path(args.text).read_bytes()), dtype=torch.long)
    model = make_model()
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(text)} bytes of text, "
          f"{torch.get_num_threads()} torch thread")
    torchs = train("torch", model, torch.optim.AdamW(groups_of(model), lr=args.lr), text, args)
    waiting, exact, late = (train_ours(name, text, args, overlap)[0] for name, overlap in
                            (("waiting", "off"), ("exact", "exact"), ("late", "late")))
    for name, losses, others in (("torch and waiting", torchs, waiting), ("waiting and exact", waiting, exact),
                                 ("waiting and late", waiting, late)):
        print(f"maximum difference of the losses, {name}: {largest_difference(losses, others):.3g}")
    if waiting != exact:
        return 1
    return 0 if args.kill_at == 0 or killed_run(text, args, waiting) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ZfError, OSError) as error:
        sys.exit(f"{sys.argv[0]}: {error}")
