"""Trains one model in one way, and prints its losses as one line of JSON.

usage: train.py WAY SEED [STEPS]      WAY: a key of WAYS"""

import json
import sys

import gpt
import language
import torch
import zf_runtime
from ways import WAYS, Way

LEARNING_RATE, BETAS, EPS, WEIGHT_DECAY = 3e-4, (0.9, 0.999), 1e-8, 0.1
STEPS, BATCH, HELD_OUT = 2000, 8, 64
LAST, EVERY = 200, 10  # the result: the mean of the held-out losses after each EVERY of the LAST steps
PICTURED = 50  # steps between two losses of the picture
HELD_OUT_SEED = 1


def optimizer_of(way: Way, model: torch.nn.Module, seed: int) -> zf_runtime.AdamW:
    """Returns the optimizer of this way for the model."""
    return zf_runtime.AdamW(model.parameters(), lr=LEARNING_RATE, betas=BETAS, eps=EPS, weight_decay=WEIGHT_DECAY,
                            state=way.state, seed=seed)


def round_moments(optimizer: torch.optim.Optimizer) -> None:
    """Rounds both moments of all parameters to the nearest bf16."""
    for state in optimizer.state.values():
        for name in ("exp_avg", "exp_avg_sq"):
            state[name].copy_(state[name].bfloat16())


def held_out_loss(model: gpt.Gpt, text: torch.Tensor) -> float:
    """Returns the mean loss on text that is not trained on."""
    with torch.no_grad():
        return float(model.loss(text))


def train(name: str, seed: int, steps: int = STEPS) -> dict:
    """Returns the way, the seed, the losses for the picture as (step, loss), and the result. The same seed means the
    same first parameters and the same text in all ways."""
    way = WAYS[name]
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = gpt.Gpt()
    optimizer = optimizer_of(way, model, seed)
    text = language.sequences(BATCH * steps, gpt.CONTEXT + 1, seed=1000 + seed).unflatten(0, (steps, BATCH))
    held_out = language.sequences(HELD_OUT, gpt.CONTEXT + 1, HELD_OUT_SEED)
    pictured, last = [], []
    for step in range(1, steps + 1):
        batch = text[step - 1]
        loss = model.loss(batch.flip(0) if way.other_order else batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if way.moments_to_nearest:
            round_moments(optimizer)
        if step % PICTURED == 0:
            pictured.append((step, held_out_loss(model, held_out)))
        if step > steps - LAST and step % EVERY == 0:
            last.append(held_out_loss(model, held_out))
    return {"way": name, "seed": seed, "steps": steps, "losses": pictured, "result": sum(last) / len(last)}


if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1], int(sys.argv[2]), *map(int, sys.argv[3:]))))
