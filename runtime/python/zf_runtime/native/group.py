"""A group of parameters, and its arrays as NumPy and torch see them, without a copy."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import TYPE_CHECKING

from . import abi, checks

if TYPE_CHECKING:
    import numpy
    import torch

ELEMENT_TYPES = {None: abi.NONE, "f32": abi.F32, "bf16": abi.BF16, "f16": abi.F16}
CHUNK_GRAIN = 2048  # elements
PIECE_BYTES = 2 << 20  # at least
PIECES = 32  # at most
STATE_FORMATS = {"fp32": abi.STATE_FP32, "bf16": abi.STATE_BF16, "split": abi.STATE_SPLIT,
                 "bf16+split": abi.STATE_BF16_SPLIT}


@dataclasses.dataclass(frozen=True)
class Group:
    """Parameters that are stepped together.

    elements: number of parameters; may be 0.
    grad_type: "f32", "bf16" or "f16".
    copy_type: None, "bf16" or "f16": a copy of the new parameters, rounded to nearest even.
    stale: a copy of the new parameters in fp32.
    moment_sets: 1, or 2 as in DeepSpeed's ZenFlow: a step of gradient buffer b then uses and updates moment set b.
    grad_buffers: 2, or 1 for a program that waits for each step before it writes the next gradients: this saves the
    memory of the other.
    state_format: "fp32", "bf16" (of the moments), "split" or "bf16+split" (docs/arithmetic.md). With split masters
    copy_type is "bf16", copy() is the parameters, and there is no params(): see Runtime.read_state().
    first_element: the number of the first element, for the rounding of bf16 moments; no two elements of a model may
    have the same number.
    ranges: (position, number) pairs: from this element of the group on, they are numbered from this number, up to the
    next pair. Positions ascend and are multiples of 32. Without pairs, and before the first, they are numbered from
    first_element.
    speculative: Runtime.speculate() may be called, at 2.25 bytes a parameter; only with state_format "fp32".
    """

    elements: int
    grad_type: str = "f32"
    copy_type: str | None = None
    stale: bool = False
    moment_sets: int = 1
    grad_buffers: int = 2
    state_format: str = "fp32"
    first_element: int = 0
    ranges: tuple[tuple[int, int], ...] = ()
    speculative: bool = False

    def __post_init__(self) -> None:
        for field, known in (("grad_type", ELEMENT_TYPES), ("copy_type", ELEMENT_TYPES),
                             ("state_format", STATE_FORMATS)):
            if getattr(self, field) not in known or (field == "grad_type" and self.grad_type is None):
                names = ", ".join(repr(name) for name in known if name or field == "copy_type")
                raise ValueError(f"{field} is {getattr(self, field)!r}; it must be one of {names}")
        for field in ("elements", "first_element"):
            checks.integer(field, getattr(self, field), checks.UINT64_MAX)
        for field in ("moment_sets", "grad_buffers"):
            if checks.number(field, getattr(self, field)) not in (1, 2):
                raise ValueError(f"{field} is {getattr(self, field)}; it must be 1 or 2")
        for pair in self.ranges:
            for name, value in zip(("position", "number"), pair, strict=True):
                checks.integer(f"the {name} of a range", value, checks.UINT64_MAX)

    @property
    def result_bytes(self) -> int:
        """The size of what a step gives the model."""
        return self.elements * (2 if self.copy_type else 4)

    def chunk_elements(self, chunk_bytes: int) -> int:
        """Returns how many elements a chunk of so many bytes has."""
        return max(1, chunk_bytes // (2 if self.copy_type else 4) // CHUNK_GRAIN) * CHUNK_GRAIN

    def as_abi(self) -> abi.Group:
        """Returns the struct of the C ABI."""
        ranges = [abi.Range(0, *pair) for pair in self.ranges]
        return abi.sized(
            abi.Group, elements=int(self.elements), grad_type=ELEMENT_TYPES[self.grad_type],
            copy_type=ELEMENT_TYPES[self.copy_type], stale=int(self.stale),
            moment_sets=0 if self.moment_sets == 1 else 2, grad_buffers=0 if self.grad_buffers == 2 else 1,
            state_format=STATE_FORMATS[self.state_format], speculative=int(self.speculative),
            first_element=int(self.first_element),
            ranges=(abi.Range * len(ranges))(*ranges) if ranges else None, range_count=len(ranges))


def piece_bytes(result_bytes: int) -> int:
    """Returns the size in bytes of the pieces in which a large result is stepped and waited for."""
    return max(PIECE_BYTES, result_bytes // PIECES)


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
