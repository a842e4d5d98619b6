"""A group of parameters with its own settings."""

from __future__ import annotations

import dataclasses

from . import abi, checks

ELEMENT_TYPES = {None: abi.NONE, "f32": abi.F32, "bf16": abi.BF16, "f16": abi.F16}
MODES = {"adam": abi.ADAM, "adamw": abi.ADAMW}
STATE_FORMATS = {"fp32": abi.STATE_FP32, "bf16": abi.STATE_BF16, "split": abi.STATE_SPLIT,
                 "bf16+split": abi.STATE_BF16_SPLIT}


@dataclasses.dataclass(frozen=True)
class Group:
    """Parameters that are stepped with the same settings.

    elements: number of parameters; may be 0. It cannot change later, nor can grad_type, copy_type, stale, moment_sets,
    grad_buffers, state_format and first_element.
    lr, betas, eps, weight_decay: finite, rounded to fp32; 0 <= beta < 1; eps and weight_decay >= 0.
    mode: "adamw" subtracts weight decay from the parameter, "adam" adds it to the gradient (L2).
    grad_type: "f32", "bf16" or "f16".
    copy_type: None, "bf16" or "f16": a copy of the new parameters, rounded to nearest even.
    stale: a copy of the new parameters in fp32.
    moment_sets: 1, or 2 as in DeepSpeed's ZenFlow: a step of gradient buffer b then uses and updates moment set b.
    grad_buffers: 2, or 1 for a program that waits for each step before it writes the next gradients: this saves the
    memory of the other.
    state_format: "fp32", "bf16" (of the moments), "split" or "bf16+split" (docs/arithmetic.md). With split masters
    copy_type is "bf16", copy() is the parameters, and there is no params(): see Runtime.read_state().
    seed, first_element: of the rounding of bf16 moments; no two elements of a model may have the same number.
    ranges: (position, number) pairs: from this element of the group on, they are numbered from this number, up to the
    next pair. Positions ascend and are multiples of 32. Without pairs, and before the first, they are numbered from
    first_element. set_group() does not look at them.
    """

    elements: int
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    mode: str = "adamw"
    bias_correction: bool = True
    grad_type: str = "f32"
    copy_type: str | None = None
    stale: bool = False
    moment_sets: int = 1
    grad_buffers: int = 2
    state_format: str = "fp32"
    seed: int = 0
    first_element: int = 0
    ranges: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        for field, known in (("mode", MODES), ("grad_type", ELEMENT_TYPES), ("copy_type", ELEMENT_TYPES),
                             ("state_format", STATE_FORMATS)):
            if getattr(self, field) not in known or (field == "grad_type" and self.grad_type is None):
                names = ", ".join(repr(name) for name in known if name or field == "copy_type")
                raise ValueError(f"{field} is {getattr(self, field)!r}; it must be one of {names}")
        for field in ("elements", "seed", "first_element"):
            checks.integer(field, getattr(self, field), checks.UINT64_MAX)
        for field in ("moment_sets", "grad_buffers"):
            if checks.number(field, getattr(self, field)) not in (1, 2):
                raise ValueError(f"{field} is {getattr(self, field)}; it must be 1 or 2")
        for pair in self.ranges:
            for name, value in zip(("position", "number"), pair, strict=True):
                checks.integer(f"the {name} of a range", value, checks.UINT64_MAX)

    def as_abi(self) -> abi.Group:
        """Returns the struct of the C ABI. Where 0 means the default, it has 0, so that older libraries take it too."""
        ranges = [abi.Range(0, *pair) for pair in self.ranges]
        return abi.sized(
            abi.Group, mode=MODES[self.mode], elements=int(self.elements), lr=self.lr, beta1=self.betas[0],
            beta2=self.betas[1], eps=self.eps, weight_decay=self.weight_decay,
            bias_correction=int(self.bias_correction), grad_type=ELEMENT_TYPES[self.grad_type],
            copy_type=ELEMENT_TYPES[self.copy_type], stale=int(self.stale),
            moment_sets=0 if self.moment_sets == 1 else 2, grad_buffers=0 if self.grad_buffers == 2 else 1,
            state_format=STATE_FORMATS[self.state_format], seed=int(self.seed), first_element=int(self.first_element),
            ranges=(abi.Range * len(ranges))(*ranges) if ranges else None, range_count=len(ranges))
