"""AdamW and Adam on the host's CPUs: on the tensors of the job itself, or in a process beside training."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Callable

import torch

from . import torch_version  # noqa: F401  it refuses a torch that has not what the modules below need

# isort: split

from ..binding import moved_threads
from ..errors import ZfBusy, ZfError
from ..native import planned, whole_file
from . import around_step
from .clips import Clips
from .in_place.engine import InPlaceEngine
from .overlap.kept import keep_name
from .saving import Save, Staging, absolute, released_on_failure, stager_of
from .tensors import clipping, formats
from .tensors.engine import Engine, Kept

if TYPE_CHECKING:
    from ..native.runtime import Runtime
    from .overlap.timeline import Span


class _OnHost(Clips):
    """What AdamW and Adam share: param_groups, state, closure and clipping. An engine does the steps."""

    _decoupled = False
    _mode = "off"  # as AdamW.overlap
    _options: dict[str, Any] | None = None  # keywords of Runtime; None: the step is in place
    _speculates = False
    _steps = 0  # calls of step()
    _save: Save | None = None  # the last one
    profile_hook_step = staticmethod(around_step.wrapped)  # torch's constructor wraps step() with it

    def _settle_groups(self, fused: bool | None, state: str = "fp32", seed: int = 0) -> None:
        """Puts into the param_groups what torch's constructor was not told."""
        if state != "fp32":  # fp32 leaves the param_groups as torch's
            self.defaults.update(state_format=state, seed=seed)
            for group in self.param_groups:
                group.update(state_format=state, seed=group.get("seed", seed))
        self.defaults.update(fused=fused, bias_correction=True)
        for group in self.param_groups:
            group.setdefault("bias_correction", True)
            if group.get("fused") is None:
                group["fused"] = fused

    @torch._disable_dynamo
    def step(self, closure: Callable[[], Any] | None = None, *, max_norm: float | None = None,
             grad_scale: float = 1.0) -> Any:
        """Steps all parameters that have a gradient. Returns closure()'s loss.

        Parameters, gradients and states are taken as they are now, also if the program has written or replaced them.

        Args:
            closure: Computes the loss again, and its gradients.
            max_norm: Clips the gradients to this norm, as clip_grad_norm of the constructor does for all steps. If the
                norm is not finite then, nothing is stepped, and no count grows.
            grad_scale: Multiplies every gradient. Both are applied in fp32 as a gradient is read: the gradients
                themselves stay as they are.

        Raises:
            ZfError: Before anything is stepped, if the optimizer is closed or a gradient is sparse.
        """
        engine = self._engine
        engine.check_open()
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        limit, factor = self._take_limit(max_norm)
        norm = engine.step(limit, grad_scale * factor)
        if norm is not None:
            self._grad_norm = norm
        self._steps += 1
        moved_threads.look(self._steps)
        return loss

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a param_group, as in torch. Raises ZfError if the optimizer is closed, or if the engine cannot step a
        parameter of it."""
        super().add_param_group(param_group)
        try:
            self._engine.check_group(self.param_groups[-1])
        except BaseException:
            self.param_groups.pop()
            raise
        self.param_groups[-1].setdefault("bias_correction", True)

    def state_dict(self) -> dict[str, Any]:
        """Returns what load_state_dict() takes, here and in torch.optim.AdamW. Waits for the step that is under
        way."""
        self._engine.settle()
        return self._engine.saved(super().state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes a state_dict of this class, of torch.optim.AdamW or Adam, or of DeepSpeedCPUAdam. States of 16-bit
        parameters stay fp32."""
        self._engine.begin_load()
        last = self.register_load_state_dict_pre_hook(self._engine.take)
        try:
            super().load_state_dict(state_dict)
        finally:
            last.remove()
            self._engine.end_load()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("bias_correction", True)
            group.pop("state_format", None)  # an argument beats a checkpoint
            if "state_format" in self.defaults:
                group["state_format"] = self.defaults["state_format"]
                group.setdefault("seed", self.defaults["seed"])
        if "_engine" not in self.__dict__:  # a copy
            self._engine = self._new_engine()
        self._engine.loaded()

    def __getstate__(self) -> dict[str, Any]:
        """Returns what copies and pickles are made of. It waits for the step that is under way."""
        self._engine.settle()
        return self._engine.copied({**super().__getstate__(), "_max_norm": self._max_norm, "_mode": self._mode,
                                    "_options": self._options, "_speculates": self._speculates})

    def __copy__(self) -> Any:
        """Returns what copy.copy() returns for torch's: another optimizer over the same state. Raises ZfError if the
        state is a process's, which steps it alone."""
        if self._options is not None:
            raise ZfError("copy.copy() of an optimizer with a process: two would step one state. Use the optimizer "
                          "itself, or copy.deepcopy() of it and its model")
        copied = self.__class__.__new__(self.__class__)
        copied.__setstate__(self.__getstate__())
        return copied

    def _new_engine(self) -> Engine:
        return InPlaceEngine(self, self._decoupled)


class AdamW(_OnHost, torch.optim.AdamW):
    """torch.optim.AdamW on the host's CPUs: in place, or in a process of its own beside training.

    In place, it steps the tensors of the job where they are, on the threads of torch, in one call. These are plain
    tensors, or DTensors as of FSDP2 and tensor parallelism. Storage may move, be shared and be written between steps,
    also through ``.data``. Torch's own adam() steps in the same call what the engine does not take, and a warning says
    how many parameters and why.

    With a process, masters and moments lie in memory that is shared with it. Parameters step one by one: they may be
    frozen, be unfrozen and lack gradients. A program may write to parameters at any time; it may write to ``state``
    after synchronize(). With a step post-hook, mode exact waits before it calls the hook, so nothing is hidden.
    Ctrl-C may end a call anywhere: a step that was handed over is finished, counted and sent in any case. amsgrad,
    capturable, differentiable and parameters that share memory are refused, and DTensors in all modes except exact.

    bf16 and fp16 parameters have fp32 moments and an fp32 ``master`` in their state. Where an element of the parameter
    is not the rounded master, the parameter wins.

    State dicts load in both directions with torch.optim.AdamW, and into DeepSpeedCPUAdam. Use it as a context manager,
    or call close(). It is not thread-safe, like torch's. docs/torch.md has the details.

    Args:
        params: Parameters or param_groups, as for torch.optim.AdamW.
        lr: Learning rate.
        betas: Coefficients of the two moments.
        eps: Is added to the denominator.
        weight_decay: Is multiplied by lr and subtracted from the parameter.
        amsgrad: As in torch; in place only.
        maximize: Steps along the gradient instead of against it.
        foreach: Is accepted, and changes nothing.
        capturable: As in torch; in place only.
        differentiable: As in torch; in place only.
        fused: Is accepted, and changes nothing.
        state: Format of the state. "fp32", or "bf16" for moments in bf16, which are rounded at random so that they stay
            right on average. "split" keeps only the 16 bits of a bf16 parameter's master that the parameter lacks, as
            ``low``. "bf16+split" does both. The last three take fp32 and bf16 parameters. Default: what the plan of
            ZF_PLAN names, else "fp32". A state of another format that is loaded is converted, to nearest.
        seed: Seed of that rounding. The bits depend on the seed, the step and the element's number alone.
        overlap: When a step runs. "off": when step() returns, the parameters are updated. "exact": step() hands the
            gradients to the process and returns, and each parameter is waited for where the program first uses it. The
            training is the same, bit for bit. "late": the parameters are one step old in each forward, which can cost
            quality. A step is in place if all parameters are on the CPU and this is "off", or "exact" without
            runtime_options and without a plan that has a pool of its own; else it has a process. "backward": backward()
            steps each parameter in place as soon as its gradient is whole, and frees the gradient; step() steps what is
            left. The bits are those of "off". Clipping, accumulation and loss scaling are refused.
        clip_grad_norm: Norm to which step() clips the gradients. None: it clips nothing.
        speculate: With overlap="exact" and a process: a parameter's step begins in backward, as soon as its gradient
            has come, as if nothing were clipped. If step() finds that wrong, it takes the step back and does it again:
            the bits are the same. It costs 2.25 bytes a parameter of the host's memory.
        keep: A name, with overlap="off" or "exact"; None: that of ZF_KEEP, if it is set. The step has a process. If the
            program ends without close(), masters and moments are kept for runtime_options["keep_s"] seconds (600),
            and the next AdamW of the same user, name and parameters goes on from the last step, bit for bit: it gives
            the parameters their values, and `kept` says what was found. All ranks come back at one step.
            docs/recovery.md has a loop.
        plan: Path of the plan for the process. None: that of ZF_PLAN.
        rank: Rank in the plan. None: that of the launcher.
        runtime_options: More keywords of Runtime for the process.
    """

    _decoupled = True

    def __init__(self, params: Iterable[Any], lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None, state: str | None = None, seed: int = 0, overlap: str = "off",
                 clip_grad_norm: float | None = None, speculate: bool = False, keep: str | None = None,
                 plan: str | os.PathLike[str] | None = None, rank: int | None = None,
                 runtime_options: dict[str, Any] | None = None):
        planned.check_overlap(overlap, plan)
        state = planned.state_format(state, plan)
        clipping.check_max_norm(clip_grad_norm)
        _check_fused(fused, foreach, differentiable)
        self._max_norm = clip_grad_norm
        self._mode, self._speculates = overlap, speculate
        if speculate and (overlap != "exact" or state != "fp32"):
            raise ZfError(f"speculate=True needs overlap=\"exact\" and state=\"fp32\"; here they are {overlap!r} and "
                          f"{state!r}")
        if not isinstance(params, torch.Tensor):
            params = [_listed(each) for each in params]
        name = keep_name(keep, overlap)
        if name is not None or overlap == "late" or (overlap != "backward" and _has_gpu(params)) or (
                overlap == "exact" and (runtime_options is not None or planned.has_own_pool(plan))):
            from .overlap.arena import options_for

            self._options = options_for(runtime_options or {}, plan, rank, name)
            formats.check(state)
        else:
            formats.check(state, amsgrad=amsgrad, capturable=capturable, differentiable=differentiable)
        if overlap == "exact" and self._options is None:
            planned.say("overlap=\"exact\" with parameters on the CPU: the step would share their CPUs with forward, "
                        "and waiting is as fast, so it steps in place. For the optimizer process make a plan with "
                        "--mode exact, or give runtime_options=")
        self._engine = self._new_engine()
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                         maximize=maximize, foreach=foreach, capturable=capturable, differentiable=differentiable,
                         fused=None)
        self._settle_groups(fused, state, seed)
        self._engine.open()

    def _new_engine(self) -> Engine:
        if self._mode == "backward":
            from .backward.engine import BackwardEngine

            return BackwardEngine(self, self._decoupled)
        if self._options is None:
            return super()._new_engine()
        from .overlap.engine import OverlapEngine

        return OverlapEngine(self, self._mode, self._options, wants_norm=self._max_norm is not None,
                             speculates=self._speculates)

    @property
    def runtime(self) -> Runtime:
        """The runtime underneath, for its stats. Raises ZfError where the step is in place, after close(), and in a
        forked child."""
        return self._engine.runtime

    @property
    def overlap(self) -> str:
        """"off", "late", "exact" or "backward"."""
        mode: str = self._itself()._mode
        return mode

    @property
    def kept(self) -> Kept | None:
        """What was found of a program that had ended, with keep=: how many steps it had done, and its note. None: the
        optimizer began anew. It stays as it was when the optimizer was made."""
        return self._engine.kept

    @property
    def note(self) -> bytes:
        """What the program needs besides to go on after the next step, such as its place in the data; with keep=. It
        counts together with that step, and `kept` has it then. At most runtime_options["note_bytes"] bytes (65,536).
        Set it before each step()."""
        return self._engine.note

    @note.setter
    def note(self, note: bytes) -> None:
        room = self._engine.note_bytes
        try:
            note = bytes(memoryview(note))
        except TypeError:
            raise ZfError(f"the note is a {type(note).__name__}, and must be bytes: use pickle.dumps()") from None
        if len(note) > room:
            raise ZfError(f"the note has {len(note)} bytes, and there is room for {room}: "
                          + ("raise note_bytes of runtime_options=" if room else "it needs keep="))
        self._engine.note = note

    @property
    def memory_note(self) -> str:
        """Why memory is not placed or pinned as it should be; "" if it is."""
        return self._engine.memory_note

    def timeline(self) -> list[Span]:
        """Returns what happened when in the last steps that ran beside training. See save_timeline()."""
        return self._engine.timeline()

    def save_timeline(self, path: str | os.PathLike[str]) -> None:
        """Writes timeline() to a file that Perfetto shows (https://ui.perfetto.dev)."""
        from .overlap.timeline import write_for_perfetto

        write_for_perfetto(self.timeline(), path)

    def save_async(self, path: str | os.PathLike[str], **more: Any) -> Save:
        """Begins to write a file beside training, with the state of now, between two steps, and returns. A step that is
        under way counts: call it behind step(), and nothing waits. torch.load() gives state_dict(), or if there is
        `more`, a dict of it and of `optimizer`; modules in it become their state_dict(). Copies of masters, moments and
        parameters are made by the process, all else is copied at once; in place that is all. A copy takes up to 12
        bytes a parameter, which are kept. wait() of what is returned waits for the file. close() does, too. What
        next writes masters or moments waits for the copy; call synchronize() before you write to those of `state` in
        place.

        Raises ZfBusy if the last save is not done, what that has failed with if its wait() was not called, and ZfError
        if there is no room."""
        optimizer = self._itself()
        if optimizer._save is not None:
            if not optimizer._save.done():
                raise ZfBusy(f"the save to {optimizer._save.path} is not done: call its wait() first")
            optimizer._save.wait()
        whole_file.need_target(path)
        path = absolute(path)
        save = optimizer._save = Save(optimizer._stage(more), path)
        return save

    def stager(self) -> Any:
        """Returns an async_stager for torch.distributed.checkpoint.async_save(), which copies as save_async() does.
        Raises ZfError with a torch that has none (before 2.9)."""
        return stager_of(self._itself()._engine.hold)

    def _stage(self, more: dict[str, Any]) -> Staging:
        held = self._engine.hold()
        with released_on_failure(held):
            with torch._C.DisableTorchFunction():  # state_dict() of a module reads no values
                more = {key: value.state_dict() if isinstance(value, torch.nn.Module) else value
                        for key, value in more.items()}
                own = self._engine.saved(torch.optim.Optimizer.state_dict(self))
            return Staging(held, {"optimizer": own, **more} if more else own)

    def synchronize(self) -> None:
        """Waits for the step that is under way and gives the parameters its values. Returns at once if there is none.

        Whatever was interrupted before, by Ctrl-C or by a signal handler that raises: afterwards all that was handed
        over is done, counted and in the parameters."""
        self._engine.synchronize()

    def close(self) -> None:
        """Finishes the step that is under way, gives the parameters its values, and ends the process, if there is one.
        The second call does nothing.

        Raises ZfWorkerDied if the process had died, and ZfTimeout if it stands still, as one that is stopped: it is
        killed after runtime_options["close_timeout"] seconds (10). The parameters then keep the last values that they
        got. Ctrl-C while it waits leaves the optimizer open. In a forked child the process and the step belong to the
        parent and are left alone."""
        optimizer = self._itself()
        optimizer._engine.begin_close()
        try:
            if optimizer._save is not None:
                optimizer._save.wait()
        except Exception:
            optimizer._engine.close()
            raise
        optimizer._engine.close()
        optimizer._save = None

    def __enter__(self) -> AdamW:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and (self._options or {}).get("keep") is not None:
            return  # the next program goes on
        try:
            self.close()
        except Exception:
            if kind is None:
                raise  # else the first exception is the one to read


class Adam(_OnHost, torch.optim.Adam):
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
        _check_fused(fused, foreach, differentiable)
        if os.environ.get("ZF_KEEP"):
            raise ZfError("ZF_KEEP is set, and Adam steps in place: the memory is the job's own, and ends with it. Use "
                          "AdamW, or unset ZF_KEEP")
        self._max_norm = clip_grad_norm
        self._engine = InPlaceEngine(self, self._decoupled)
        more = {"decoupled_weight_decay": True} if decoupled_weight_decay else {}  # older torch does not have it
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=None, **more)
        self._settle_groups(fused, state, seed)


def _check_fused(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """Checks what torch checks with fused=True, which is not told to it: it would let GradScaler hand over scaled
    gradients."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


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
