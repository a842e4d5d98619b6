"""DTensors in an optimizer process: what this rank has of a parameter, of its gradient and of its state."""

from __future__ import annotations

from typing import Any

import torch

from ...errors import ZfError
from ..tensors import formats
from ..tensors.eligibility import is_sharded, local_of

USE_OFF = "use overlap=\"off\", which steps its local shard in place"


def refuse(param: torch.Tensor, mode: str) -> None:
    """Raises ZfError for a DTensor, or a flat parameter of FSDP1, that a process cannot step."""
    if getattr(param, "_is_flat_param", False):
        raise ZfError("a parameter is a flat one of FullyShardedDataParallel: shard with fully_shard(), or give it "
                      "use_orig_params=True and use overlap=\"off\"")
    if not is_sharded(param):
        return
    local = local_of(param)
    if local.device.type != "cpu":
        raise ZfError(f"a parameter of shape {list(param.shape)} is a DTensor on {local.device}, and a process steps "
                      "those on the CPU alone: use torch.optim.AdamW, or CPUOffloadPolicy of fully_shard()")
    if mode != "exact" or type(local) is not torch.Tensor:
        raise ZfError(f"a parameter of shape {list(param.shape)} is a DTensor of {type(local).__name__}: a process "
                      f"steps those of plain tensors, with overlap=\"exact\" alone; {USE_OFF}")


def gradient_here(param: torch.Tensor) -> torch.Tensor | None:
    """Returns what this rank has of the gradient of a parameter. Raises ZfError if it is sharded otherwise than the
    parameter, as those of norms in tensor parallelism are: it would have to be summed over ranks."""
    gradient = param.grad
    if is_sharded(param) and gradient is not None and not (
            is_sharded(gradient) and gradient.placements == param.placements):
        raise ZfError(f"the gradient of a parameter of shape {list(param.shape)} is sharded otherwise than the "
                      f"parameter, as in tensor parallelism: {USE_OFF}")
    local: torch.Tensor | None = local_of(gradient)
    return local


def first_here(param: torch.Tensor, number: int | None) -> int:
    """Returns the number of the first element that is here, for a parameter that begins with this number; 0 if its
    elements have none. Raises ZfError if the numbers that are here do not follow on."""
    if number is None:
        return 0
    first, ranges = formats.numbers(param, number)
    if ranges:
        raise ZfError(f"a parameter of shape {list(param.shape)} is sharded along another dimension than the first: "
                      "with state=\"bf16\" use overlap=\"off\"")
    return first


def placed_as(param: torch.Tensor, local: torch.Tensor) -> torch.Tensor:
    """Returns a tensor over the same memory that is sharded as a parameter is."""
    if not is_sharded(param):
        return local.detach()
    placed: torch.Tensor = type(param).from_local(local.detach(), param.device_mesh, param.placements, run_check=False,
                                                  shape=param.shape, stride=param.stride())
    return placed


def set_apart(tensor: Any) -> None:
    """Gives a tensor memory of its own."""
    if is_sharded(tensor):
        tensor._local_tensor = tensor._local_tensor.clone()
    else:
        tensor.data = tensor.detach().clone()


def gathers(kind: type) -> bool:
    """Returns whether modules of a type are sharded by fully_shard() (FSDP2)."""
    return hasattr(kind, "_get_fsdp_state")


def gathered_by(module: Any) -> list[tuple[str, torch.Tensor]]:
    """Returns the sharded parameters that such a module gathers before its forward, with their names. It may share
    them with other modules."""
    state = module._get_fsdp_state()
    groups = state._fsdp_param_groups if hasattr(state, "_fsdp_param_groups") else [state._fsdp_param_group]
    return [(each._module_info.param_name, each.sharded_param)
            for group in groups if group is not None for each in group.fsdp_params]
