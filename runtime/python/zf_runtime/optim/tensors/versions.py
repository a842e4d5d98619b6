"""Tells autograd that tensors change."""

from __future__ import annotations

import torch


def raise_versions(tensors: list[torch.Tensor]) -> None:
    """Tells autograd that tensors change: a graph over their old values is refused."""
    try:
        torch.autograd.graph.increment_version(tensors)
    except (TypeError, RuntimeError):  # older torch takes one tensor
        for tensor in tensors:
            torch.autograd.graph.increment_version(tensor)
