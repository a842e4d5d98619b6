"""Hands pinned memory over between DeepSpeed, which pins tensors one by one, and the arena."""

from __future__ import annotations

from typing import Any

import torch

from .arena import FlatArena


def zeros_like(param: torch.Tensor, zero: Any) -> torch.Tensor:
    """Returns the gradient that ZeRO had made for a partition."""
    from deepspeed.accelerator import get_accelerator

    zeros = torch.zeros(param.shape, dtype=param.dtype)
    pinned = getattr(zero, "cpu_offload_pin_memory", False) or getattr(zero, "offload_optimizer_pin_memory", False)
    return get_accelerator().pin_memory(zeros) if pinned else zeros


def unpin(tensor: torch.Tensor) -> None:
    """Frees the memory that DeepSpeed pinned for a tensor, which is given other memory next. (DeepSpeed frees by the
    address that it wrote down, so this must be forgotten: the address may belong to another tensor later.)"""
    from deepspeed.accelerator import get_accelerator

    if hasattr(tensor, "ds_pin_base"):
        get_accelerator().unpin_memory(tensor)
        del tensor.ds_pin_base


def pin(arena: FlatArena) -> str:
    """Pins the arena for CUDA, after torch has given back what it had pinned. Returns why memory stays pageable; "" if
    it is pinned."""
    empty_cache = getattr(torch._C, "_host_emptyCache", None)
    if empty_cache is not None:
        empty_cache()
    return arena.register()
