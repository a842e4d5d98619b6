"""Remembers what a parameter held when it was last published or read, so that every write of the program is found.

A write through `.data` does not raise a tensor's version, and optimizers, EMA and clipping do just that. So the
values themselves are compared: on the CPU with a copy, bit by bit; elsewhere by a digest that stays on the device."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Protocol

import torch

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
BLOCK = 1 << 16  # elements that one number of a digest stands for
_AT_ONCE = 256  # blocks: a product of 128 MiB


Kind = tuple[torch.Size, torch.dtype, torch.device]


def kind(param: torch.Tensor) -> Kind:
    """Returns what cannot change while an optimizer has a parameter."""
    return param.shape, param.dtype, param.device


class Published(Protocol):
    """What a parameter held. Until note() is called, any value differs from it."""

    def note(self, param: torch.Tensor) -> None:
        """Remembers the present value."""

    def forget(self) -> None:
        """Makes the present value a written one."""

    def differs(self, param: torch.Tensor) -> torch.Tensor | bool:
        """Returns whether a single bit differs from what was noted, or the shape, type or device. The answer may lie on
        the parameter's device."""


class Copy:
    """Compares with a copy, exactly. It takes as much memory as the parameter."""

    def __init__(self) -> None:
        self._copy: torch.Tensor | None = None

    def note(self, param: torch.Tensor) -> None:
        if self._copy is None or kind(self._copy) != kind(param):
            self._copy = param.detach().clone(memory_format=torch.preserve_format)
        else:
            self._copy.copy_(param.detach())

    def forget(self) -> None:
        self._copy = None

    def differs(self, param: torch.Tensor) -> bool:
        return self._copy is None or kind(self._copy) != kind(param) or not torch.equal(bits(param), bits(self._copy))


class Digest:
    """Compares digests of fixed blocks. It takes 8 bytes for each 65,536 elements."""

    def __init__(self) -> None:
        self._digest: torch.Tensor | None = None
        self._kind: Kind | None = None

    def note(self, param: torch.Tensor) -> None:
        self._digest, self._kind = digest(param), kind(param)

    def forget(self) -> None:
        self._digest = None

    def differs(self, param: torch.Tensor) -> torch.Tensor | bool:
        if self._digest is None or self._kind != kind(param):
            return True
        return (digest(param) != self._digest).any()


def published_of(param: torch.Tensor) -> Published:
    """Returns what remembers a parameter's value. (The type may be replaced: tests have no GPU.)"""
    return Copy() if param.device.type == "cpu" else Digest()


def found(answers: Sequence[torch.Tensor | bool]) -> list[bool]:
    """Returns the answers of differs(), after one wait for the device."""
    on_device = [answer for answer in answers if isinstance(answer, torch.Tensor)]
    by_device: dict[torch.device, list[torch.Tensor]] = {}
    for answer in on_device:
        by_device.setdefault(answer.device, []).append(answer)
    lists = {device: iter(torch.stack(some).tolist()) for device, some in by_device.items()}
    return [next(lists[answer.device]) if isinstance(answer, torch.Tensor) else answer for answer in answers]


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the same memory as integers: NaN equals itself, and -0 differs from 0."""
    return tensor.detach().view(_BITS[tensor.element_size()])


def digest(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a number for each block of elements: the sum of their bits, each times the odd weight of its position,
    modulo 2^64. So a change of one element always shows, and any other is missed once in 2^63 times or so."""
    flat, factors = bits(tensor).reshape(-1), weights(tensor.device)
    whole = flat.numel() // BLOCK * BLOCK
    sums = [(flat[begin:min(begin + _AT_ONCE * BLOCK, whole)].view(-1, BLOCK) * factors).sum(1)
            for begin in range(0, whole, _AT_ONCE * BLOCK)]
    if whole < flat.numel():
        sums.append((flat[whole:] * factors[:flat.numel() - whole]).sum(0, keepdim=True))
    return torch.cat(sums) if sums else torch.zeros(0, dtype=torch.int64, device=tensor.device)


@functools.cache
def weights(device: torch.device) -> torch.Tensor:
    """Returns the odd weights of the positions of a block: always the same ones."""
    generator = torch.Generator().manual_seed(0x7A66)
    drawn = torch.randint(-2**63, 2**63 - 1, (BLOCK,), dtype=torch.int64, generator=generator)
    return (drawn | 1).to(device)
