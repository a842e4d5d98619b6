"""A small GPT: the model of the study. Its words are random numbers, the same in every run."""

import torch
from model import Block

VOCABULARY = 4096
HEADS = 4


class Attention(torch.nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.inputs = torch.nn.Linear(width, 3 * width)
        self.output = torch.nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        heads = self.inputs(self.norm(x)).view(batch, tokens, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        return x + self.output(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Gpt(torch.nn.Module):
    """A decoder with 12 * width ** 2 parameters in each layer."""

    def __init__(self, width: int, layers: int, tokens: int):
        super().__init__()
        self.words = torch.nn.Embedding(VOCABULARY, width)
        self.places = torch.nn.Embedding(tokens, width)
        self.layers = torch.nn.Sequential(*(torch.nn.Sequential(Attention(width), Block(width))
                                            for _ in range(layers)))
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, words):
        places = self.places(torch.arange(words.shape[1]))
        return self.head(self.norm(self.layers(self.words(words) + places)))


def make_gpt(options) -> Gpt:
    torch.manual_seed(1)
    return Gpt(options.width, options.blocks, options.tokens)


def next_batch(options, step: int, rank: int) -> torch.Tensor:
    """Returns one text, of one word more than the model reads."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randint(VOCABULARY, (1, options.tokens + 1), generator=generator)


def loss_of(model, text) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
