"""AdamW and Adam on the tensors of the job itself, where they are, by the threads of torch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from . import torch_version  # noqa: F401  it refuses a torch that has not what the modules below need

# isort: split

from ..errors import ZfError
from ..native import planned
from .in_place.engine import InPlace
from .tensors import clipping, formats

if TYPE_CHECKING:
    from ..native.runtime import Runtime
    from .overlap.timeline import Span


class AdamW(InPlace, torch.optim.AdamW):
    """torch.optim.AdamW on the host's CPUs: in place, or in a process of its own beside training.

    All arguments up to `fused` are those of torch.optim.AdamW. `foreach` and `fused` are accepted, and change nothing.

    overlap says when a step runs:

    - "off": when step() returns, the parameters are updated. Parameters on the CPU are stepped where they are, on the
      threads of torch, in one call: plain tensors, or DTensors as of FSDP2 and tensor parallelism. If one is on a GPU,
      masters and moments lie in memory that is shared with an optimizer process.
    - "exact": step() hands the gradients to the process and returns. Each parameter is waited for where the next
      forward first reads it. The training is the same, bit for bit.
    - "late": the parameters are one step old in each forward. That can cost quality.

    plan, rank, runtime_options: for a process, as in Runtime and more keywords for it. clip_grad_norm: step() clips to
    this norm; see step().

    **In place.** Storage may move, be shared and be written between steps, also through .data. (Only a gradient may not
    be the memory of another parameter: whether its old or its new value is read is not defined.) What the engine does
    not take (amsgrad, capturable, differentiable, float64, complex, unusual strides) is stepped in the same call by
    torch's own adam(), and a warning says how many parameters and why.

    **With a process.** Parameters step one by one: they may be frozen, unfrozen and lack gradients. What a program
    writes to parameters and `state` counts, also through .data: to `state` after synchronize(). amsgrad, capturable,
    differentiable and DTensors are refused. In mode exact a module's forward, state_dict(), parameters(),
    named_parameters() and load_state_dict() wait, once the first step has seen its forward. A list of parameters that a
    program keeps, as for an EMA of its own, and `model.fc.weight` do not: call synchronize() before you read those
    between step() and forward. A gradient of a parameter that nobody has waited for is refused. What is written to a
    parameter before its step is sent stays, and that step is lost; a warning says so. step() waits for parameters of no
    module whose forward was seen. Optimizer post-hooks find the
    step done, so they cost its hiding. Ctrl-C and signal handlers that raise may end a call anywhere: a step that was
    handed over is finished, counted and sent in any case.

    bf16 and fp16 parameters have fp32 moments and an fp32 `master` in their state. The parameter is the truth: where it
    is not the rounded master, it wins.

    state="bf16" keeps moments in bf16, rounded so that they stay right on average; the bits depend on the seed, the
    step and the element's number alone. "split" keeps of a bf16 parameter's master the 16 bits that the parameter
    lacks, as `low` in its state (with a process: in its state_dict()); "bf16+split" does both. Parameters are fp32 or
    bf16 then. Without state= it is what the plan of ZF_PLAN names, else "fp32". `seed` stands in the param_groups, and
    a parameter's first number as `first_element` in its state. A state of another format that is loaded is converted,
    to nearest.

    State dicts load in both directions with torch.optim.AdamW, and into DeepSpeedCPUAdam. Use it as a context manager,
    or call close(). Not thread-safe, like torch's."""

    _decoupled = True

    def __init__(self, params: Iterable[Any], lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None, state: str | None = None, seed: int = 0, overlap: str = "off",
                 clip_grad_norm: float | None = None, plan: str | os.PathLike[str] | None = None,
                 rank: int | None = None, runtime_options: dict[str, Any] | None = None):
        planned.check_overlap(overlap, plan)
        state = planned.state_format(state, plan)
        clipping.check_max_norm(clip_grad_norm)
        self._max_norm = clip_grad_norm
        self._set_up(foreach, fused, differentiable)
        settings = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
                    "maximize": maximize, "foreach": foreach, "capturable": capturable,
                    "differentiable": differentiable}
        if not isinstance(params, torch.Tensor):
            params = [_listed(each) for each in params]
        if overlap != "off" or _has_gpu(params):
            from .overlap.arena_adam import ArenaAdamW, options_for

            options = options_for(runtime_options or {}, plan, rank)
            mine = type(self)
            self.__class__ = ArenaAdamW if mine is AdamW else type(mine.__name__, (mine, ArenaAdamW), {})
            self._begin(params, settings, fused, overlap=overlap, state=state, seed=seed, options=options)
            return
        formats.check(state, amsgrad=amsgrad, capturable=capturable, differentiable=differentiable)
        super().__init__(params, **settings, fused=None)
        self._settle(fused, state, seed)

    @property
    def runtime(self) -> Runtime:
        """The runtime underneath, for its stats. Raises ZfError where the step is in place, after close(), and in a
        forked child."""
        raise ZfError("with overlap=\"off\" and parameters on the CPU the step is in place: there is no optimizer "
                      "process and no runtime")

    @property
    def overlap(self) -> Any:
        """"off", "late" or "exact"."""
        return "off"

    @property
    def memory_note(self) -> str:
        """Why memory is not placed or pinned as it should be; "" if it is."""
        return ""

    def timeline(self) -> list[Span]:
        """Returns what happened when in the last steps that ran beside training. See save_timeline()."""
        return []

    def save_timeline(self, path: str | os.PathLike[str]) -> None:
        """Writes timeline() to a file that Perfetto shows (https://ui.perfetto.dev)."""
        from .overlap.timeline import write_for_perfetto

        write_for_perfetto(self.timeline(), path)

    def synchronize(self) -> None:
        """Waits for the step that is under way and gives the parameters its values. Returns at once if there is none.

        Whatever was interrupted before, by Ctrl-C or by a signal handler that raises: afterwards all that was handed
        over is done, counted and in the parameters."""

    def close(self) -> None:
        """Finishes the step that is under way, gives the parameters its values, and ends the process, if there is one.
        The second call does nothing.

        Raises ZfWorkerDied if the process had died; the parameters then keep the last values that they got. In a forked
        child the process and the step belong to the parent and are left alone."""
        self._itself()._is_closed = True

    def __enter__(self) -> AdamW:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except Exception:
            if kind is None:
                raise  # else the first exception is the one to read


class Adam(InPlace, torch.optim.Adam):
    """torch.optim.Adam, stepped in place: weight decay is added to the gradient. See AdamW. Parameters are on the
    CPU."""

    def __init__(self, params: Iterable[Any], lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
                 capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
                 state: str | None = None, seed: int = 0, clip_grad_norm: float | None = None,
                 decoupled_weight_decay: bool = False):
        state = planned.state_format(state)
        formats.check(state, amsgrad=amsgrad, capturable=capturable, differentiable=differentiable)
        clipping.check_max_norm(clip_grad_norm)
        self._max_norm = clip_grad_norm
        self._set_up(foreach, fused, differentiable)
        more = {"decoupled_weight_decay": True} if decoupled_weight_decay else {}  # older torch does not have it
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=None, **more)
        self._settle(fused, state, seed)


def _listed(each: Any) -> Any:
    """Returns an element of params again, after a generator of parameters was turned into a list. What torch takes
    otherwise, or refuses, stays as it is."""
    if isinstance(each, dict) and isinstance(each.get("params"), Iterator):
        return {**each, "params": list(each["params"])}
    return each


def _has_gpu(params: Any) -> bool:
    """Returns whether a parameter is on a GPU."""
    return any(isinstance(tensor, torch.Tensor) and tensor.device.type == "cuda" for each in params
               for tensor in _tensors(each))


def _tensors(each: Any) -> list[Any]:
    """Returns the tensors of an element of params: a tensor, a name and a tensor, or a param_group of such."""
    if isinstance(each, dict):
        params = each.get("params", ())
        return [params] if isinstance(params, torch.Tensor) else [one for some in params for one in _tensors(some)]
    return [each[1] if isinstance(each, tuple) else each]
