"""Computes the factors of a step in double, as torch.optim.AdamW does. The engine takes them as fp32."""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any, NamedTuple

from ..errors import ZfError
from . import abi, checks
from .library import check, library

MODES = {"adam": abi.ADAM, "adamw": abi.ADAMW}


class Scalars(NamedTuple):
    """The members of zf_scalars in their order. zf_runtime.h has their meaning."""

    beta1: float
    one_minus_beta1: float
    beta2: float
    one_minus_beta2: float
    eps: float
    inv_sqrt_bias2: float
    step_size: float
    decay: float
    grad_scale: float
    mode: int
    seed: int
    step: int

    def __eq__(self, other: object) -> bool:
        """Returns whether all bits are the same, as the runtime compares them: 0.0 is not -0.0."""
        return isinstance(other, Scalars) and _bits(self) == _bits(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(_bits(self))


def _bits(members: tuple[Any, ...]) -> bytes:
    return struct.pack("9d3Q", *members)


def adam_scalars(step: int, *, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, mode: str = "adamw", bias_correction: bool = True, grad_scale: float = 1.0,
                 seed: int = 0) -> Scalars:
    """Returns the factors of a step for Runtime.submit(): calls zf_adam_scalars.

    step: its number, from 1. betas: 0 or more, less than 1. eps, weight_decay: 0 or more. mode: "adamw" subtracts
    weight decay from the parameter, "adam" adds it to the gradient (L2). grad_scale multiplies every gradient. seed:
    of the rounding of bf16 moments. Raises ZfError that names a setting out of its range."""
    if mode not in MODES:
        raise ValueError(f"mode is {mode!r}; it must be one of {', '.join(map(repr, MODES))}")
    settings = abi.sized(abi.Adam, mode=MODES[mode], lr=lr, beta1=betas[0], beta2=betas[1], eps=eps,
                         weight_decay=weight_decay, bias_correction=int(bias_correction))
    found = abi.Scalars()
    check(library().zf_adam_scalars(ctypes.byref(settings), checks.integer("step", step, checks.UINT64_MAX),
                                    ctypes.byref(found)))
    members = Scalars(*(getattr(found, name) for name in Scalars._fields))
    return members._replace(grad_scale=grad_scale, seed=checks.integer("seed", seed, checks.UINT64_MAX))


def scalars(group: dict[str, Any], count: float, decoupled: bool, grad_scale: float = 1.0) -> Scalars:
    """Returns the factors of the step that makes `count` from count - 1, with the bits of adam_scalars().

    group: a param_group. decoupled: AdamW's weight decay. grad_scale multiplies every gradient. The formulas are
    those of docs/arithmetic.md."""
    lr, (beta1, beta2) = float(group["lr"]), map(float, group["betas"])  # tensors are read now
    decay, scale = float(group["weight_decay"]), -grad_scale if group["maximize"] else grad_scale
    corrected = group.get("bias_correction", True)
    eps = float(group["eps"])
    if not math.isfinite(lr + beta1 + beta2 + decay + eps):
        need_finite(lr=lr, beta1=beta1, beta2=beta2, weight_decay=decay, eps=eps)
    bias1 = 1 - beta1 ** count if corrected else 1.0
    bias2 = 1 - beta2 ** count if corrected else 1.0
    if bias1 == 0 or bias2 <= 0:
        raise ZfError(f"a parameter's step is {count - 1:g}: Adam's bias correction needs counts from 0 on; "
                      "set state[parameter][\"step\"] to 0 or more")
    return Scalars(beta1, 1 - beta1, beta2, 1 - beta2, eps, bias2 ** -0.5, -lr / bias1,
                   -lr * decay if decoupled else decay, scale, abi.ADAMW if decoupled else abi.ADAM,
                   int(group.get("seed", 0)) % 2**64, int(count))


def need_finite(**settings: float) -> None:
    """Raises ZfError that names the first of a param_group's settings that is not finite."""
    for name, value in settings.items():
        if not math.isfinite(value):
            raise ZfError(f"a param_group has {name} {value}: set it to a finite number")


def fp32(value: float) -> float:
    """Returns the fp32 number that is nearest to a value. So a sum, product, quotient or square root of fp32 numbers is
    that of fp32 arithmetic, although Python computes in double."""
    return ctypes.c_float(value).value
