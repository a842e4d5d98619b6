"""Lets DeepSpeed's ZeRO-Offload and DeepSpeedCPUAdam step with the native optimizer. Neither DeepSpeed nor its config
is edited.

    import zf_runtime.deepspeed

    zf_runtime.deepspeed.install()               # before deepspeed.initialize
    engine, *_ = deepspeed.initialize(...)       # as always

or, with the script as it is:

    python -m zf_runtime.deepspeed train.py ...

It takes ZeRO stages 1, 2 and 3 with offload_optimizer on the CPU, and ZenFlow with and without overlap_step. Where
there are no such partitions, or none that it knows, DeepSpeedCPUAdam steps in place: in the training process, without
plan and compiler. Whatever it does not take goes on with DeepSpeed's own operator. One line on stderr says who steps,
and why. docs/deepspeed.md has the table of what to use when.
"""

from __future__ import annotations

import functools
import inspect
import os
from typing import TYPE_CHECKING, Any, Callable

from ..errors import ZfError
from ..native import planned
from ..native.environment import switched_off
from ..native.runtime import OPTIONS

if TYPE_CHECKING:
    from .seams import Seam

__all__ = ["install", "uninstall"]

_MODES = ("wait", "exact", "late")
_STATES = ("fp32", "bf16")
_undo: list[Callable[[], bool]] = []  #: each returns whether it is done, or must wait for an engine to end


def install(mode: str = "wait", *, plan: str | os.PathLike[str] | None = None, rank: int | None = None,
            state: str | None = None, speculate: bool = False, keep: str | None = None,
            **runtime_options: Any) -> None:
    """Makes DeepSpeed engines and DeepSpeedCPUAdams that are made from now on use the native optimizer.

    mode: "wait": engine.step() returns when the step is done. The losses are those of DeepSpeedCPUAdam, bit for bit,
    if the length of each partition is a multiple of 16; in place, that of each parameter. "exact": the same bits, but
    engine.step() returns when norm, overflow and clipping are decided. The step runs beside the next forward, and each
    parameter is waited for just before it is used. "late": the step runs beside the next forward and backward, on
    weights that are one step old. A step in place always waits. ZenFlow with overlap_step has its own order of things
    in all modes.
    plan, rank, runtime_options: as in zf_runtime.Runtime. Those are "keep_s" and "note_bytes", too.
    state: "fp32", or "bf16": moments of partitions in bf16, rounded so that they stay right on average; the losses are
    then no longer DeepSpeed's bits. None: what the plan names.
    speculate: with mode "exact": steps begin in backward, as soon as their gradients are there, as if nothing were
    clipped. What is clipped then, or skipped, is taken back and done again, with the same bits. It takes 2.25 bytes a
    parameter. SuperOffload is replaced by it.
    keep: a name, with mode "wait" or "exact"; None: that of ZF_KEEP, if it is set. If the program ends without
    engine.destroy(), the partitions are kept for keep_s seconds (600). The next engine of the same user, name, model
    and ranks goes on from the last step: deepspeed.initialize() returns with weights, moments, counters, loss scaler
    and scheduler as they were behind it. engine.kept is then (step, note), else None. step is engine.global_steps. Set
    engine.note to what the program needs besides, before engine.step(): at most note_bytes bytes (65,536).

    A second call replaces the settings of the first. Does nothing if ZF_TUNE is off, 0, no or false in the environment.
    Raises ZfError if DeepSpeed cannot be imported."""
    _check_settings(mode, state, speculate)
    for name in (each for each in runtime_options if each not in OPTIONS):
        raise TypeError(f"install() has no option {name!r}; it has {', '.join([*_named_settings(), *OPTIONS])}")
    uninstall()
    _let_engines_have_kept()
    if switched_off():
        return
    keep = _keep_name(keep, mode, runtime_options)
    try:
        from deepspeed.ops.adam import cpu_adam
        from deepspeed.runtime.zero import stage3, stage_1_and_2  # noqa: F401  seams.py needs them
    except ImportError as error:
        raise ZfError(f"DeepSpeed cannot be imported: {error}") from None
    from .operator import hook
    from .seams import SEAMS, WHEN, Asked, find

    options = {"plan": plan, "rank": rank, **runtime_options, **({} if keep is None else {"keep": keep})}
    asked = Asked(mode, _state_format(state, plan), speculate, keep, options)
    wanted = [seam for seam in SEAMS if WHEN[seam.when](asked)]
    missing = [seam for seam in wanted if not seam.is_there]
    needed = [seam.path for seam in missing if seam.is_needed]
    if needed:
        _not_where_expected(needed[0], keep)
        return
    if hasattr(cpu_adam, "DeepSpeedCPUAdam"):
        hook(cpu_adam.DeepSpeedCPUAdam)
    lacking = {seam.part for seam in missing if seam.part}
    for seam in wanted:
        if seam not in missing and seam.part not in lacking:
            owner = find(seam.owner)
            own = vars(owner).get(seam.name)
            setattr(owner, seam.name, seam.ours(getattr(owner, seam.name), asked))
            _undo.append(functools.partial(_give_back, seam, owner, own))


def _give_back(seam: Seam, owner: Any, own: Any) -> bool:
    """Gives back what a module or class had; None: it was that of a base class."""
    if seam.is_used():
        return False
    if own is None:
        delattr(owner, seam.name)
    else:
        setattr(owner, seam.name, own)
    return True


def _let_engines_have_kept() -> None:
    """Lets each engine have `kept`, so that a program that asks for it also runs without keep, and with ZF_TUNE off."""
    try:
        from deepspeed.runtime.engine import DeepSpeedEngine
    except ImportError:
        return
    DeepSpeedEngine.kept = None


def _check_settings(mode: str, state: str | None, speculate: bool) -> None:
    if state not in (None, *_STATES):
        raise ValueError(f"state is {state!r}; DeepSpeed's partitions can have {' or '.join(map(repr, _STATES))}")
    if mode not in _MODES:
        raise ValueError(f"mode is {mode!r}; it must be one of {', '.join(map(repr, _MODES))}")
    if speculate and mode != "exact":
        raise ValueError(f"speculate=True needs mode \"exact\", and mode is {mode!r}")


def _named_settings() -> list[str]:
    return [name for name in inspect.signature(install).parameters if name != "runtime_options"]


def _not_where_expected(missing: str, keep: str | None) -> None:
    from .messages import say

    if keep is not None:
        raise ZfError(f"keep={keep!r}, and this DeepSpeed has no {missing}: leave keep out")
    say(f"this DeepSpeed has no {missing}. DeepSpeed's own optimizer is used")


def _keep_name(keep: str | None, mode: str, options: dict[str, Any]) -> str | None:
    """Returns the name to keep partitions under: that of the argument, else of ZF_KEEP."""
    name = os.environ.get("ZF_KEEP") or None if keep is None else keep
    if name is not None and mode == "late":
        raise ZfError(f"keep={name!r} with mode \"late\", which gives the model parameters that are one step older "
                      "than what is kept: use mode \"exact\" or \"wait\"")
    if name is None and not options.keys().isdisjoint(("keep_s", "note_bytes")):
        raise ValueError("keep_s or note_bytes is given without keep")
    return name


def _state_format(given: str | None, plan: str | os.PathLike[str] | None) -> str:
    """Returns the state format of partitions: what is given, else the plan's if partitions can have it."""
    from .messages import say

    name = planned.state_format(given, plan)
    if name in _STATES:
        return name
    say(f"the plan names the state format {name}, and DeepSpeed's partitions have fp32 or bf16: fp32 is used")
    return "fp32"


def uninstall() -> None:
    """Makes engines and optimizers that are made from now on use DeepSpeed's own. Those that exist keep theirs."""
    _undo[:] = [undo for undo in _undo[::-1] if not undo()][::-1]
