"""Asks where tensors are."""

from __future__ import annotations

import contextlib
import functools
from array import array
from collections.abc import Sequence

import torch

from ...native import local_calls

FEW = 16  # with fewer tensors, data_ptr() for each is as fast


def pointers(tensors: Sequence[torch.Tensor]) -> array[int]:
    """Returns the addresses of plain tensors."""
    function = _where_is() if len(tensors) >= FEW else None
    if function is None:
        return array("Q", map(torch.Tensor.data_ptr, tensors))
    return local_calls.engine().call_each(function, list(tensors))


@functools.cache
def _where_is() -> int | None:
    """Returns the address of the C function that torch.compile's code asks where a tensor is, or None if this torch has
    none. It takes 17 ns, and data_ptr() 80 (torch 2.13, AMD EPYC)."""
    found = None
    with contextlib.suppress(AttributeError):
        found = torch._C._dynamo.guards._torchinductor_pyobject_tensor_data_ptr
    probe = torch.empty(1, device="cpu")
    works = isinstance(found, int) and local_calls.engine().call_each(found, [probe])[0] == probe.data_ptr()
    return found if works else None
