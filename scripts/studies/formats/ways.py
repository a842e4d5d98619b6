"""The ways to train that are compared: each format of the state, and what each of them is held against."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Way:
    """One way to train."""

    state: str  # for zf_runtime.AdamW
    other_order: bool = False  # the sequences of each batch come in reverse order
    moments_to_nearest: bool = False  # after each step, both moments are rounded to the nearest bf16


WAYS = {
    "fp32": Way("fp32"),
    "fp32, other order": Way("fp32", other_order=True),
    "bf16": Way("bf16"),
    "split": Way("split"),
    "bf16+split": Way("bf16+split"),
    "moments to nearest": Way("fp32", moments_to_nearest=True),
}
REFERENCE, ORDER, CONTROL = "fp32", "fp32, other order", "moments to nearest"
