"""How far two steps are from each other, for tests that compare one with torch's."""

import torch

LR, ELEMENTS = 1e-3, 1_000_000


def ulps_between(got, wanted):
    """Returns the largest distance in units in the last place of max(|p|, lr)."""
    size = wanted.abs().clamp(min=LR)
    unit = torch.ldexp(torch.ones_like(size), torch.frexp(size).exponent - 24)
    return ((got.double() - wanted.double()).abs() / unit.double()).max().item()
