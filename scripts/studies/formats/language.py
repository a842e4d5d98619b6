"""Makes text of an invented language: as many tokens as wanted, the same for the same seed, with nothing to download.

A token depends on the class of the last one and on the one before. Within a class, tokens are as frequent as words are
(Zipf), so that most rows of the embedding get a gradient rarely. One token in five repeats what stood eight back. A
model that knows all this still cannot tell the next token: the loss has a floor far above zero."""

import torch

VOCABULARY = 512
CLASSES = 32
FOLLOWERS = 4  # classes that may follow a class, after each of two kinds of tokens
REPEATED, BACK = 0.2, 8
GRAMMAR_SEED = 20261126  # one grammar for all runs


def _grammar() -> tuple[torch.Tensor, torch.Tensor]:
    """Returns which classes follow (kind of the token before last, class of the last), and how likely each is."""
    dice = torch.Generator().manual_seed(GRAMMAR_SEED)
    followers = torch.randint(CLASSES, (2, CLASSES, FOLLOWERS), generator=dice)
    weights = torch.rand(2, CLASSES, FOLLOWERS, generator=dice) ** 2 + 0.05
    return followers, weights / weights.sum(-1, keepdim=True)


def sequences(count: int, length: int, seed: int) -> torch.Tensor:
    """Returns `count` sequences of `length` tokens, int64."""
    dice = torch.Generator().manual_seed(seed)
    followers, weights = _grammar()
    words = VOCABULARY // CLASSES
    frequent = 1.0 / torch.arange(1, words + 1, dtype=torch.float64)
    text = torch.empty(count, length + BACK, dtype=torch.int64)
    text[:, :BACK] = torch.randint(VOCABULARY, (count, BACK), generator=dice)
    rows = torch.arange(count)
    for at in range(BACK, length + BACK):
        kind, last = text[:, at - 2] % 2, text[:, at - 1] // words
        chosen = torch.multinomial(weights[kind, last], 1, generator=dice)[:, 0]
        word = torch.multinomial(frequent, count, replacement=True, generator=dice)
        new = followers[kind, last][rows, chosen] * words + word
        text[:, at] = torch.where(torch.rand(count, generator=dice) < REPEATED, text[:, at - BACK], new)
    return text[:, BACK:]
