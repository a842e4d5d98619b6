"""Views shared memory as NumPy arrays and torch tensors, without a copy."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from . import abi, checks
from .group import Group

if TYPE_CHECKING:
    import numpy
    import torch


def one_of_two(name: str, value: int) -> int:
    """Returns the number of a gradient buffer or a moment set. Raises ValueError if it is neither 0 nor 1."""
    number = checks.number(name, value)
    if number not in (0, 1):
        raise ValueError(f"{name} {number}: there are 0 and 1")
    return number


def grads_buffer(buffer: int) -> int:
    return one_of_two("gradient buffer", buffer)


def moments_kind(kind: int, moment_set: int) -> int:
    """Returns the kind of moment set 0 or 1 for that of set 0."""
    of_set_1 = {abi.MOMENT_1: abi.MOMENT_1_SET_1, abi.MOMENT_2: abi.MOMENT_2_SET_1}
    return of_set_1[kind] if one_of_two("moment set", moment_set) == 1 else kind


def element_type(group: Group, kind: int) -> str:
    """Returns the element type of an array of the group: "f32", "bf16" or "f16"."""
    if kind in (abi.GRADS_0, abi.GRADS_1):
        return group.grad_type
    if kind == abi.COPY:
        return group.copy_type or "f32"
    if kind in (abi.MOMENT_1, abi.MOMENT_2) and group.state_format.startswith("bf16"):
        return "bf16"
    return "f32"


def as_numpy(memory: ctypes.Array[ctypes.c_char], element: str, elements: int) -> numpy.ndarray:
    """Returns an array of shape (elements,): float32, float16, or uint16 for bf16, which NumPy does not have."""
    import numpy

    dtype = numpy.dtype({"f32": "f4", "f16": "f2", "bf16": "u2"}[element])
    if elements == 0:
        return numpy.empty(0, dtype)  # frombuffer refuses an empty buffer
    # NumPy's types do not know every buffer before Python 3.12.
    array: numpy.ndarray = numpy.frombuffer(memory, dtype, count=elements)  # type: ignore[call-overload]
    return array


def as_tensor(memory: ctypes.Array[ctypes.c_char], element: str, elements: int) -> torch.Tensor:
    """Returns a tensor of shape (elements,) on the CPU. torch keeps the memory object alive; NumPy is not needed."""
    import torch

    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[element]
    if elements == 0:
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype, count=elements)
