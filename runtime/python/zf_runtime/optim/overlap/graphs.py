"""Tells what was built since a step from what was built before it: graphs of autograd."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

_OF_LEAVES = "AccumulateGrad"


def now() -> int:
    """Returns a number that this thread's nodes from now on do not fall below, and those before do."""
    number: int = torch.autograd._get_sequence_nr()
    return number


def read_since(since: int, roots: Any) -> set[int]:
    """Returns the ids of leaves that nodes with this number or a higher one have read. roots: what backward() or grad()
    was given first: tensors or edges."""
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
