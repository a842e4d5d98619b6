"""How AdamW(state=...) keeps moments and masters, and how states of one format become those of another."""

from __future__ import annotations

import functools
import itertools
import math
import warnings

import torch

from ...errors import ZfError
from ...native import abi
from .eligibility import is_sharded
from .engine import Entry, ParamGroup

NAMES = ("fp32", "bf16", "split", "bf16+split")
Ranges = tuple[tuple[int, int], ...]  # (position, number): from this element of a tensor on
MOMENTS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")


def check(name: str, **flags: bool) -> None:
    """Raises ZfError if there is no such format, or not together with one of the flags that are set."""
    if name not in NAMES:
        raise ZfError(f"state={name!r} is not a state format: use {', '.join(NAMES[:-1])} or {NAMES[-1]}")
    for flag, value in flags.items():
        if value and name != "fp32":
            raise ZfError(f"state={name!r} does not go together with {flag}=True: use state=\"fp32\"")


def name_of(group: ParamGroup) -> str:
    return str(group.get("state_format", "fp32"))


def has_bf16_moments(group: ParamGroup) -> bool:
    return name_of(group).startswith("bf16")


def is_split(param: torch.Tensor, group: ParamGroup) -> bool:
    """Returns whether a parameter is the high half of its master."""
    return name_of(group).endswith("split") and param.dtype is torch.bfloat16


def number_of(param: torch.Tensor, group: ParamGroup) -> int:
    """Returns zf_tensor.format of a parameter. Raises ZfError for fp16 parameters in another format than fp32."""
    if name_of(group) == "fp32":
        return 0
    if param.dtype is torch.float16:
        raise ZfError(f"state={name_of(group)!r}: a parameter of shape {list(param.shape)} is fp16, and only fp32 and "
                      "bf16 parameters have such a state: use state=\"fp32\"")
    return (abi.STATE_BF16 if has_bf16_moments(group) else 0) + (abi.STATE_SPLIT if is_split(param, group) else 0)


def low_bits(param: torch.Tensor, master: torch.Tensor) -> torch.Tensor:
    """Returns what a split master has besides its parameter. Where the parameter is not the rounded master, it wins:
    the bits are 0."""
    bits = master.to(torch.float32).view(torch.int32)
    return torch.where(_high(bits) == param.detach().view(torch.int16), bits, 0).to(torch.int16)


def high_half(master: torch.Tensor) -> torch.Tensor:
    """Returns the bf16 parameter of a split master, as the engine splits it."""
    return _high(master.view(torch.int32)).view(torch.bfloat16)


def _high(bits: torch.Tensor) -> torch.Tensor:
    return ((bits + 0x8000) >> 16).to(torch.int16)


def usable_low(param: torch.Tensor, entry: Entry) -> torch.Tensor | None:
    """Returns the low bits in an entry of a state, or None if it has none. torch's own load_state_dict() makes numbers
    of the parameter's type of them: then they are lost, and a warning says so."""
    low = entry.get("low")
    if low is None or param.dtype is not torch.bfloat16:
        return None
    if low.dtype is not torch.int16:
        warnings.warn(f"zf_runtime: the low halves of masters are {low.dtype} and not torch.int16, as torch's own "
                      "load_state_dict() leaves them, so the masters are the parameters: load the state_dict() of the "
                      "optimizer that had them", stacklevel=2)
        return None
    return low


def master_of(param: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    """Returns the fp32 master of a split one, as the engine joins it."""
    joined = ((param.detach().view(torch.int16).to(torch.int32) << 16) + low.to(torch.int32)).view(torch.float32)
    return torch.where(joined.isnan(), param.detach().to(torch.float32), joined)


def numbers(param: torch.Tensor, number: int) -> tuple[int, Ranges]:
    """Returns the number of the first element that is here, for a parameter that begins with this number, and
    the ranges behind it that do not follow on in the whole: those of a shard along another dimension than the
    first. Positions count in the shard."""
    if not is_sharded(param):
        return number, ()
    if any(getattr(placement, "split_factor", 1) != 1 for placement in param.placements):
        raise ZfError(f"a parameter of shape {list(param.shape)} is sharded twice along one dimension, the inner one "
                      "first (_StridedShard), and state=\"bf16\" cannot number its elements: use state=\"fp32\"")
    local = param._local_tensor
    runs = _runs(tuple(local.shape), tuple(param.shape), _shard_offsets(param))
    if local.shape != param.shape and not local.is_contiguous():  # elements are numbered as they lie in memory
        raise ZfError(f"a parameter of shape {list(param.shape)} has a shard of {list(local.shape)} with strides "
                      f"{list(local.stride())}, and state=\"bf16\" cannot number its elements: make it contiguous")
    return number + runs[0][1], tuple((position, number + first) for position, first in runs[1:])


def _shard_offsets(param: torch.Tensor) -> tuple[int, ...]:
    """Returns where the shard of a DTensor begins, in each dimension."""
    try:
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    except ImportError:  # torch 2.4
        from torch.distributed._tensor._utils import compute_local_shape_and_global_offset

    return tuple(compute_local_shape_and_global_offset(param.shape, param.device_mesh, param.placements)[1])


@functools.lru_cache(maxsize=1024)
def _runs(local: tuple[int, ...], whole: tuple[int, ...], offsets: tuple[int, ...]) -> Ranges:
    """Returns the position of each run of elements that follow each other both in a contiguous shard and in the whole,
    and the number of its first element there."""
    if 0 in local:
        return ((0, 0),)
    strides = [math.prod(whole[dim + 1:]) for dim in range(len(whole))]
    cut = next((dim for dim in reversed(range(len(whole))) if local[dim] != whole[dim]), 0)
    length = math.prod(local[cut:])
    begin = sum(offset * stride for offset, stride in zip(offsets, strides))
    outer = itertools.product(*(range(0, size * stride, stride) for size, stride in zip(local[:cut], strides)))
    return tuple((at * length, begin + sum(steps)) for at, steps in enumerate(outer))
