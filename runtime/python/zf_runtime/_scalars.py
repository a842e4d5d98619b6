"""Computes the factors of a step in double, as torch.optim.AdamW does. The engine takes them as fp32."""

from __future__ import annotations

from typing import Any

from . import _abi
from .errors import ZfError


def number(value: Any) -> float:
    """Returns a setting as a number. A setting may be a tensor, whose value is read now."""
    return float(value)


def scalars(group: dict[str, Any], count: float, decoupled: bool, grad_scale: float = 1.0) -> tuple[Any, ...]:
    """Returns the members of zf_scalars for the step that makes `count` from count - 1.

    group: a param_group. decoupled: AdamW's weight decay. grad_scale multiplies every gradient. The formulas are
    those of docs/kernel.md."""
    lr, (beta1, beta2) = number(group["lr"]), map(number, group["betas"])
    decay, scale = number(group["weight_decay"]), -grad_scale if group["maximize"] else grad_scale
    corrected = group.get("bias_correction", True)
    bias1 = 1 - beta1 ** count if corrected else 1.0
    bias2 = 1 - beta2 ** count if corrected else 1.0
    if bias1 == 0 or bias2 <= 0:
        raise ZfError(f"a parameter's step is {count - 1:g}: Adam's bias correction needs counts from 0 on; "
                      "set state[parameter][\"step\"] to one")
    return (beta1, 1 - beta1, beta2, 1 - beta2, number(group["eps"]), bias2 ** -0.5, -lr / bias1,
            -lr * decay if decoupled else decay, scale, _abi.ADAMW if decoupled else _abi.ADAM)
