"""Steps a tensor of DeepSpeedCPUAdam where it is, through the local engine. The bits are those of DeepSpeed's own
operator: its factors are fp32, and so is each operation that makes them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from .. import _abi, _local
from .._scalars import fp32, need_finite
from ..errors import ZfError
from ._powers import Powers


def engine() -> str:
    """Returns with how many threads and which instructions the engine steps. Raises ZfError if it cannot be opened."""
    found = _local.engine().statistics()
    return f"{found.threads} thread{'' if found.threads == 1 else 's'}, {found.isa.decode()}"


def refusal(params: torch.Tensor, grads: torch.Tensor, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor) -> str:
    """Returns "" if the engine takes these tensors, or why DeepSpeed's own operator has to: "parameters that …".

    Raises ZfError where that operator would read or write memory that is not theirs."""
    kept = params, exp_avg, exp_avg_sq
    for tensor in (grads, *kept):
        if type(tensor) is not torch.Tensor and type(tensor) is not torch.nn.Parameter:
            return f"parameters, gradients or moments of type {type(tensor).__name__}"
    elements = params.numel()
    if not grads.numel() == exp_avg.numel() == exp_avg_sq.numel() == elements:
        raise ZfError(f"a parameter of {elements} elements has a gradient of {grads.numel()} and moments of "
                      f"{exp_avg.numel()} and {exp_avg_sq.numel()}: it was replaced through .data; set its gradient to "
                      "None and remove its state, optimizer.state.pop(parameter)")
    if params.dtype is not torch.float32:
        return f"parameters of {_name(params)}"
    if grads.dtype is not torch.float32:
        raise ZfError(f"an fp32 parameter has a gradient of {_name(grads)}: give it one of its own type")
    for tensor in (exp_avg, exp_avg_sq):
        if tensor.dtype is not torch.float32:
            return f"parameters with moments of {_name(tensor)}"
    if not (grads.is_cpu and params.is_cpu and exp_avg.is_cpu and exp_avg_sq.is_cpu):
        return "tensors that are not on the CPU"
    for tensor in kept:
        if not tensor.is_contiguous():
            return ("parameters or moments with strides of their own: it steps a copy of those, and they stay as they "
                    "are. Use contiguous ones")
    return ""


class Settings(NamedTuple):
    """What a call of the operator is told beside the betas."""

    lr: float
    eps: float
    weight_decay: float
    bias_correction: bool


def scalars(powers: Powers, adamw: bool, settings: Settings) -> _abi.Scalars:
    """Returns the factors of the step that has made these powers. DeepSpeed ignores a weight decay below 0."""
    need_finite(lr=settings.lr, beta1=powers.betas[0], beta2=powers.betas[1], eps=settings.eps,
                weight_decay=settings.weight_decay)
    (beta1, beta2), decay, rate = powers.betas, fp32(max(settings.weight_decay, 0.0)), fp32(settings.lr)
    bias1, bias2 = (fp32(1 - power) if settings.bias_correction else 1.0 for power in powers.values)
    if bias1 <= 0 or bias2 <= 0:
        raise ZfError(f"step {powers.step} with betas {beta1:g} and {beta2:g} has no bias correction: steps count from "
                      "1 on, and a beta is less than 1 in fp32")
    return _abi.Scalars(  # its members are fp32: they round
        beta1=beta1, one_minus_beta1=1 - beta1, beta2=beta2, one_minus_beta2=1 - beta2, eps=settings.eps,
        inv_sqrt_bias2=1 / fp32(math.sqrt(bias2)), step_size=-rate / bias1, decay=-rate * decay if adamw else decay,
        grad_scale=1.0, mode=_abi.ADAMW if adamw else _abi.ADAM)


def step(params: torch.Tensor, grads: torch.Tensor, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor,
         scalars: _abi.Scalars) -> None:
    """Steps tensors that refusal() has taken."""
    grads = grads.contiguous()  # as DeepSpeed's operator reads them
    tensor = _abi.Tensor(p=params.data_ptr(), g=grads.data_ptr(), state=(exp_avg.data_ptr(), exp_avg_sq.data_ptr()),
                         elements=params.numel(), grad_type=_abi.F32)
    _local.engine().step_one(tensor, scalars, torch.get_num_threads())


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
