"""Tells graphs of autograd that were built since a step from those that were built before it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

_OF_LEAVES = "AccumulateGrad"


def now() -> int:
    """Returns the number of the next node. Each thread numbers its nodes of autograd in the order in which it makes
    them."""
    number: int = torch.autograd._get_sequence_nr()
    return number


def read_since(since: int, roots: Any) -> set[int]:
    """Returns the ids of leaves that were read by nodes with this number or a higher one. roots: the tensors or edges
    that backward() or grad() was given first."""
    found = set()
    open_nodes = list(_nodes_of(roots))
    seen = set(open_nodes)
    while open_nodes:
        node = open_nodes.pop()
        is_new = node._sequence_nr() >= since
        for below, _ in node.next_functions:
            if below is None:
                continue
            if is_new and type(below).__name__ == _OF_LEAVES:
                found.add(id(below.variable))
            if below not in seen:
                seen.add(below)
                open_nodes.append(below)
    return found


def _nodes_of(roots: Any) -> Iterator[Any]:
    for root in roots if isinstance(roots, (list, tuple)) and not hasattr(roots, "node") else [roots]:
        with contextlib.suppress(RuntimeError):  # wrapped by vmap() or grad()
            node = root.grad_fn if isinstance(root, torch.Tensor) else getattr(root, "node", None)
            if node is not None:
                yield node
