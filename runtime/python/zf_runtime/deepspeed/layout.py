"""Checks that the layout of a ZeRO optimizer is known, and finds its partitions.

What an optimizer has decides, not DeepSpeed's version: partitions_of() refuses a layout that it does not know, and
DeepSpeedCPUAdam steps it in the training process (operator.py).
"""

from __future__ import annotations

from typing import Any

import torch

from . import fused
from .arena import Partition
from .operator import CpuAdamOperator

# Functions that read or write the state of a ZeRO optimizer from outside, by stage (2: stages 1 and 2).
READERS = {2: ("state_dict", "update_lp_params", "offload_states"),
           3: ("state_dict", "get_full_hp_param", "get_local_fp32_param", "offload_states")}
WRITERS = {2: ("load_state_dict", "refresh_fp32_params", "reload_states"),
           3: ("load_state_dict", "refresh_fp32_params", "set_full_hp_param", "set_local_hp_param", "reload_states")}
# Also writes: the engine calls it when it has loaded weights alone. A DeepSpeed without it has no such load.
RESTORER = "_restore_from_bit16_weights"


class Unsupported(Exception):
    """Why the native optimizer's process does not take this job. It is stepped in the training process."""


def stage_of(zero: Any) -> int:
    """Returns 3, or 2 for stages 1 and 2, which are one class."""
    return 3 if hasattr(zero, "fp32_partitioned_groups_flat") else 2


def is_superoffload(zero: Any) -> bool:
    """Returns whether DeepSpeed's own operator has to step, which alone can roll a step back."""
    return "superoffload" in type(zero).__module__


def cpu_adam_of(zero: Any) -> Any:
    """Returns the DeepSpeedCPUAdam of a ZeRO optimizer. Raises Unsupported if it has another optimizer, or if that was
    made before install()."""
    optimizer = getattr(zero, "optimizer", None)
    operator = getattr(optimizer, "ds_opt_adam", None)
    if operator is None:
        raise Unsupported(f"the optimizer is {type(optimizer).__name__}, not DeepSpeedCPUAdam: look at "
                          "offload_optimizer and at the optimizer's type in DeepSpeed's config")
    if not isinstance(operator, CpuAdamOperator):
        raise Unsupported("the optimizer was made before install()")
    return optimizer


def partitions_of(zero: Any, optimizer: Any, mode: str, state: str = "fp32") -> list[Partition]:
    """Returns the flat fp32 partitions that this rank steps on the CPU. Raises Unsupported with the reason."""
    if is_superoffload(zero):
        raise Unsupported("SuperOffload begins steps in backward by itself: give mode \"exact\" with speculate=True")
    if mode == "late" and getattr(zero, "zenflow", False):
        raise Unsupported("ZenFlow has its own order of steps, which cannot be made late: use its overlap_step")
    if not getattr(optimizer, "fp32_optimizer_states", True):
        raise Unsupported("the moments are in half precision, and the native optimizer has them in fp32")
    if any(group.get("amsgrad") for group in optimizer.param_groups):
        raise Unsupported("amsgrad is on, and the native optimizer does not have it")
    if getattr(zero, "swap_optimizer", False):
        raise Unsupported("the optimizer's state is on NVMe")
    check_names(zero, fused.NEEDED[stage_of(zero)])
    if stage_of(zero) == 3:
        params = zero.fp32_partitioned_groups_flat
        copies = [torch.float32 if flat is None else flat.dtype for flat in zero.fp16_partitioned_groups_flat]
    else:
        params = zero.single_partition_of_fp32_groups
        copies = [buffer.dtype for buffer in zero.param_buffer_of_bit16_for_cpu_offload_groups]
    if not params or len(params) != len(copies):
        raise Unsupported(f"{type(zero).__name__} has {len(params)} flat partitions and {len(copies)} copies of them")
    if state != "fp32":
        check_narrow(zero, copies, state)
    found, before = [], 0
    rank, ranks = _place_among_ranks()
    for index, (param, copy) in enumerate(zip(params, copies)):
        if param.device.type == "cpu" and param.numel() > 0:  # with a `ratio`, some sub-groups stay on the GPU
            check_partition(index, param, [param.grad], 1)
            found.append(Partition(param, copy, before * ranks + rank * param.numel()))
        before += param.numel()
    if not found:
        raise Unsupported("no partition is on the CPU")
    return found


def check_narrow(zero: Any, copies: list[torch.dtype], state: str) -> None:
    """Raises Unsupported if partitions with such copies cannot have a state format other than fp32."""
    if getattr(zero, "zenflow", False):
        raise Unsupported(f"ZenFlow's moments are fp32, and a state in {state} was asked for")
    if torch.float16 in copies:
        raise Unsupported(f"the weights are fp16, and a state in {state} is for bf16 and fp32")


def _place_among_ranks() -> tuple[int, int]:
    """Returns the number of this rank, and how many there are: no two of them may number elements alike."""
    if not torch.distributed.is_initialized():
        return 0, 1
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def check_names(zero: Any, needed: tuple[str, ...] = ()) -> None:
    """Raises Unsupported unless a ZeRO optimizer has these names, and all functions that must wait for the step."""
    for name in needed + READERS[stage_of(zero)] + WRITERS[stage_of(zero)]:
        if not hasattr(zero, name):
            raise Unsupported(f"{type(zero).__name__} has no {name}, so its layout is not known")


def check_partition(index: int, param: torch.Tensor, gradients: list[torch.Tensor], count: int) -> None:
    """Raises Unsupported unless a partition is a flat fp32 tensor on the CPU with `count` gradients like it."""
    if param.dtype != torch.float32:
        raise Unsupported(f"partition {index} is {param.dtype}, and the native optimizer has fp32 masters")
    if param.device.type != "cpu":
        raise Unsupported(f"partition {index} is on {param.device}")
    if param.dim() != 1 or not param.is_contiguous():
        raise Unsupported(f"partition {index} is not flat: its shape is {tuple(param.shape)}")
    alike = [each for each in gradients if torch.is_tensor(each) and each.shape == param.shape
             and each.dtype == torch.float32 and each.device == param.device]
    if len(alike) != count or len(gradients) != count:
        raise Unsupported(f"partition {index} has no fp32 gradient of its own shape")
