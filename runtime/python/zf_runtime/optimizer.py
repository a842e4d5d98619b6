"""The interface of torch.optim.AdamW over the runtime."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from .runtime import Runtime


class OverlappedAdamW(torch.optim.Optimizer):
    """AdamW in a process of its own, on the CPUs that the plan keeps for it.

    params, lr, betas, eps, weight_decay, amsgrad, maximize: as in torch.optim.AdamW. The last two are taken where the
    step is in place, and else refused. foreach and fused are accepted, and change nothing.
    plan, rank: as in Runtime. runtime_options: more keywords for Runtime, such as max_restarts. alias is accepted, and
    changes nothing.

    With overlap=True the step is late: step() hands the gradients over and returns with the parameters of the step
    before. The optimizer works while the next forward and backward run, on weights that are one step old. synchronize()
    waits for the newest weights. Without overlap= it is late, too, and says so once in a warning.

    With overlap=False step() works as in torch: when it returns, the parameters are updated. If all parameters are on
    the CPU it is zf_runtime.AdamW then: it steps them where they are, without a process, and what follows here does not
    concern it; plan, rank, module and runtime_options are accepted, and change nothing. (With a torch older than AdamW
    needs, it has a process, too.)

    state, seed: as in AdamW, with the plan that is given here; of fp32 and bf16 parameters. The parameters of a
    param_group with split masters have one type. Their masters are in no tensor: state_dict() makes `low`.

    Each param_group is one runtime group. Its settings are read at each step, so lr schedulers work. Masters and
    moments are fp32 whatever the parameters are; bf16 and fp16 parameters get them rounded to nearest even.
    Either all parameters of a param_group have gradients, or none; with none the group skips the step.

    What a program writes to parameters counts, also through `.data`, and so does other storage that it gives them.
    (They are compared with what they were given. It takes a copy of parameters on the CPU, and 8 bytes for each 65,536
    elements on a GPU.) What it writes while a late step is running stays, and the step of that parameter is lost; a
    warning says so. Lists in param_groups, shapes, types, devices, and entries of `state` that were changed behind its
    back are refused with a ZfError that says what to do.

    `state` and state_dict() have the form of torch.optim.AdamW: step, exp_avg and exp_avg_sq for each parameter. The
    latter two are views of the shared memory: write to them in place, and only after synchronize(). What is written
    while a late step is running is partly overwritten, unseen. Half-precision parameters also have `master`.

    module: the model whose state_dict() is to wait for the running step, so that model and optimizer are of one step
    in a checkpoint, whichever is saved first. Its submodules wait, too. Without it, call synchronize() before you save
    the model. A copied or pickled model does not wait.

    Ctrl-C and signal handlers that raise may end step() and synchronize() anywhere. What was handed over is finished,
    counted and published by the next call of step(), synchronize() or state_dict().

    Use it as a context manager, or call close(). It is not thread-safe, like torch's optimizers.
    """

    def __init__(self, params: Iterable[Any], lr: Any = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, fused: bool | None = None,
                 plan: str | os.PathLike[str] | None = None, rank: int | None = None, overlap: bool | None = None,
                 alias: bool = True, module: torch.nn.Module | None = None,
                 runtime_options: dict[str, Any] | None = None, state: str | None = None, seed: int = 0):
        if isinstance(lr, dict):  # torch's constructors, which call the next one with their defaults
            super().__init__(params, lr)
            return
        given = [_listed(each) for each in params] if not isinstance(params, torch.Tensor) else params
        kind = _kind_of(given, overlap)
        self.__class__ = kind if type(self) is OverlappedAdamW else type(type(self).__name__, (type(self), kind), {})
        kind.__init__(self, given, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, foreach=foreach,
                      fused=fused, plan=plan, rank=rank, overlap=overlap, alias=alias, module=module,
                      runtime_options=runtime_options, state=state, seed=seed)

    @property
    def runtime(self) -> Runtime:
        """The runtime underneath, for its stats. Raises ZfError after close(), in a forked child, and where the step is
        in place."""
        raise NotImplementedError

    @property
    def overlap(self) -> bool:
        """Whether parameters are one step late. It cannot change."""
        raise NotImplementedError

    @property
    def memory_note(self) -> str:
        """Why memory is not placed or pinned as it should be; "" if it is."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Waits for the running step and gives the parameters its values. Returns at once if no step is running.

        Whatever was interrupted before, by Ctrl-C or by a signal handler that raises: afterwards all that was handed
        over is done, counted and published."""
        raise NotImplementedError

    def close(self) -> None:
        """Finishes the running step, publishes it, and ends the process. The second call does nothing."""
        raise NotImplementedError

    def __enter__(self) -> OverlappedAdamW:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except Exception:
            if kind is None:
                raise  # else the first exception is the one to read


def _listed(each: Any) -> Any:
    """Returns an element of params again, after a generator of parameters was turned into a list. What torch takes
    otherwise, or refuses, stays as it is."""
    if isinstance(each, dict) and isinstance(each.get("params"), Iterator):
        return {**each, "params": list(each["params"])}
    return each


def _tensors(each: Any) -> list[Any]:
    """Returns the tensors of an element of params: a tensor, a name and a tensor, or a param_group of such."""
    if isinstance(each, dict):
        params = each.get("params", ())
        return [params] if isinstance(params, torch.Tensor) else [one for some in params for one in _tensors(some)]
    return [each[1] if isinstance(each, tuple) else each]


def _can_step_in_place() -> bool:
    """Returns whether this torch is one that zf_runtime.AdamW needs."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 4)


def _kind_of(params: Any, overlap: bool | None) -> Any:
    """Returns the class that does what was asked for."""
    if overlap is not None and not overlap and _can_step_in_place():
        tensors = [tensor for each in params for tensor in _tensors(each)]
        if all(isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu" for tensor in tensors):
            from ._in_place import InPlace

            return InPlace
    from ._in_arena import InArena

    return InArena
