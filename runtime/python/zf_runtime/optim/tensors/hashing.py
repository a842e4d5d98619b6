"""Digests of tensors, by which every write of the program to a parameter or gradient is found.

A write through `.data` does not raise a tensor's version, and neither do GradScaler and others. So the values
themselves are compared, by numbers that depend on each bit and its position. On the CPU the library makes one number
(zf_local_read); elsewhere torch makes one for each block of elements, and they stay on the device."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
BLOCK = 1 << 16  # elements that one number of a digest stands for
_AT_ONCE = 256  # blocks: a product of 128 MiB

Kind = tuple[torch.Size, torch.dtype, torch.device]


def kind(param: torch.Tensor) -> Kind:
    """Returns shape, type and device. A digest covers only the values."""
    return param.shape, param.dtype, param.device


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the same memory as integers: NaN equals itself, and -0 differs from 0."""
    return tensor.detach().view(_BITS[tensor.element_size()])


def by_torch(tensor: torch.Tensor) -> torch.Tensor:
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
    generator = torch.Generator("cpu").manual_seed(0x7A66)
    drawn = torch.randint(-2**63, 2**63 - 1, (BLOCK,), dtype=torch.int64, generator=generator, device="cpu")
    return (drawn | 1).to(device)


def differing(pairs: Sequence[tuple[Any, Any]]) -> list[bool]:
    """Returns for each pair of digests whether they differ, after one wait for each device. None differs from all."""
    return on_host([_differ(now, then) for now, then in pairs])


def on_host(values: Sequence[Any]) -> list[Any]:
    """Returns values that may be tensors on devices as Python has them, after one wait for each device."""
    by_device: dict[torch.device, list[torch.Tensor]] = {}
    for value in values:
        if isinstance(value, torch.Tensor):
            by_device.setdefault(value.device, []).append(value)
    lists = {device: iter(torch.stack(some).tolist()) for device, some in by_device.items()}
    return [next(lists[value.device]) if isinstance(value, torch.Tensor) else value for value in values]


def _differ(now: Any, then: Any) -> torch.Tensor | bool:
    if isinstance(now, torch.Tensor) and isinstance(then, torch.Tensor):
        return now.shape != then.shape or now.device != then.device or (now != then).any()
    return now is None or now != then
