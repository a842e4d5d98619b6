"""What pairs.py compares, as data."""

import dataclasses
from typing import Optional

from frameworks_case import TUNE, job
from turns import MALLOC
from zf_cli import SOURCE

PLAN = "PLAN"  # stands for the plan's path in a command
OURS = {"PYTHONPATH": str(SOURCE / "runtime/python"), "ZF_RUNTIME_LIBRARY": str(SOURCE / "build/lib/libzf_runtime.so")}


@dataclasses.dataclass(frozen=True)
class Together:
    """Sides in one process, or in each of some ranks, that sides.py has by this name."""

    bars: tuple[Optional[float], Optional[float]]  # ours ÷ the other side, at most, in the regime above and below
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    ranks: int = 1
    plan: tuple[str, ...] = ()  # what makes ZF_PLAN


@dataclasses.dataclass(frozen=True)
class Apart:
    """Sides that are a process each. The reference comes first. Their size is part of the command, after --blocks."""

    sides: dict[str, list[str]]
    bar: float
    variables: dict[str, str] = dataclasses.field(default_factory=lambda: dict(MALLOC))
    plan: tuple[str, ...] = ()
    has_step: bool = False  # the job says how long its optimizer's step took


def under_exec(bar: float, name: str, *options: str) -> Apart:
    """A job of 9.4M parameters under exec, with a plan for one rank that has the whole node, and the same plain."""
    words = job(name, *options, "--width", "768", "--tokens", "32", "--steps", "1000000", "--blocks", "2")
    return Apart({"plain": words, "exec": [str(TUNE), "exec", "--plan", PLAN, "--", *words]}, bar,
                 plan=("--ranks", "1"), has_step=name == "deepspeed_job")


def fused_or_ours() -> Apart:
    """The iteration of a torch job of 27M parameters that has all CPUs. No plan: ours has a thread on each, too."""
    words = job("torch_adamw", "--width", "512", "--tokens", "128", "--steps", "1000000", "--blocks", "13")
    return Apart({"torch": [*words, "--fused"], "ours": [*words, "--ours"]}, 1.02,
                 MALLOC | OURS | {"ZF_TUNE": "off"})


COMPARISONS = {
    # step() of zf_runtime.AdamW ÷ that of torch's own, on tensors of the same kind
    "loop": Together((0.92, 0.98)),
    "passive": Together((0.80, 0.80), {"OMP_WAIT_POLICY": "passive"}),
    "iteration": Together((1.01, 1.01)),
    "large": Together((1.0, 1.0)),
    "many": Together((0.80, 0.80)),
    "tiny": Together((0.30, 0.30)),
    "one-each": Together((1.0, 1.0)),
    "half": Together((0.70, 0.70)),
    "half-plain": Together((None, None)),
    "fsdp": Together((0.93, 0.93), {"OMP_NUM_THREADS": "1"}, ranks=2),
    "fsdp-foreach": Together((0.40, 0.40), {"OMP_NUM_THREADS": "1"}, ranks=2),
    "processes": fused_or_ours(),
    # DeepSpeedCPUAdam by hand in place ÷ torch's fused one. With ZF_TUNE=off, install() does nothing.
    **{name: Together((None, None), {"ZF_TUNE": "on"}) for name in ("deepspeed", "deepspeed-gpt", "deepspeed-tiny")},
    # a step in backward ÷ torch's fused one after it
    "backward": Together((None, None)),
    # formats of the state
    "formats": Together((None, None), MALLOC | {"ZF_TUNE": "on"},
                        plan=("--params", "200M", "--framework", "deepspeed-offload")),
    "peers": Together((None, None)),
    # the job under exec ÷ the same job plain
    "exec-torch": under_exec(1.05, "torch_adamw"),
    "exec-zero-2": under_exec(1.03, "deepspeed_job", "--stage", "2"),
    "exec-zero-3": under_exec(1.03, "deepspeed_job", "--stage", "3"),
    "exec-zenflow": under_exec(1.03, "deepspeed_job", "--zenflow"),
    "exec-zenflow-overlap": under_exec(1.05, "deepspeed_job", "--zenflow", "--overlap", "--fit_threads"),
}
