"""A GPT that is small enough to be trained in a minute on one core: two blocks, each norm before what it is for."""

import torch
from language import VOCABULARY
from torch import nn
from torch.nn import functional

WIDTH, HEADS, BLOCKS, CONTEXT = 64, 2, 2, 64
# The head begins so many times as large as usual. The first gradients are then far larger than later ones, and second
# moments must get smaller to follow. Without it the control did not fail: 0.09 % with one seed.
LOUD = 16


class Block(nn.Module):
    """One block: attention, then a network of one hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_network = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.heads, self.joined = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.hidden, self.out = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Takes and returns (sequences, tokens, WIDTH)."""
        heads = self.heads(self.before_attention(x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).flatten(-2))
        return x + self.out(functional.gelu(self.hidden(self.before_network(x))))


class Gpt(nn.Module):
    """The whole model. Its parameters are bf16, as in jobs with CPU offload."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.last_norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        for embedding in (self.tokens, self.places):
            nn.init.normal_(embedding.weight, std=0.02)
        with torch.no_grad():
            self.head.weight *= LOUD
        self.bfloat16()

    def loss(self, text: torch.Tensor) -> torch.Tensor:
        """Returns the mean cross entropy of each next token of (sequences, CONTEXT + 1) tokens, in nats, fp32."""
        x = self.tokens(text[:, :-1]) + self.places.weight
        logits = self.head(self.last_norm(self.blocks(x)))
        return functional.cross_entropy(logits.float().flatten(0, 1), text[:, 1:].flatten())
