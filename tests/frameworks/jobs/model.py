"""The model that the jobs train, and what they train it on."""

import argparse
import itertools

import torch


def arguments(**defaults) -> argparse.Namespace:
    """Reads the options that all jobs have. --local_rank is what DeepSpeed's launcher adds."""
    parser = argparse.ArgumentParser()
    for name, value in ({"steps": 6, "width": 256, "blocks": 2, "tokens": 16, "gpt": False} | defaults).items():
        if isinstance(value, bool):
            parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction, default=value)
        else:
            parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--local_rank", type=int, default=None)
    return parser.parse_args()


class Block(torch.nn.Module):
    """The part of a transformer's layer that holds two thirds of its parameters: 8 * width ** 2."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def make_model(options) -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(*(Block(options.width) for _ in range(options.blocks)))


def make_batch(options) -> torch.Tensor:
    return torch.randn(options.tokens, options.width)


def loss_of(model, batch) -> torch.Tensor:
    return (model(batch) - 1).square().mean()


def training_of(options, rank: int):
    """Returns the model, and a function that computes the loss of its next batch. --gpt: a GPT, on a new text for each
    step and rank; else the blocks, on the same batch."""
    if not options.gpt:
        model, batch = make_model(options), make_batch(options)
        return model, lambda wrapped: loss_of(wrapped, batch)
    import gpt

    steps = itertools.count()
    return gpt.make_gpt(options), lambda wrapped: gpt.loss_of(wrapped, gpt.next_batch(options, next(steps), rank))
