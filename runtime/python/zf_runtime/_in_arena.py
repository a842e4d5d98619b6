"""OverlappedAdamW over the runtime's arena and its process."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterable
from typing import Any, Callable

import torch

from . import _formats, _planned, _refusals, _state
from ._cuda import HostRegistration
from ._flat_group import FlatGroup, check_settings, check_supported, flat_groups
from ._frames import is_running
from ._saving import hooks_on
from .errors import ZfError, ZfWorkerDied
from .optimizer import OverlappedAdamW
from .runtime import Runtime


class InArena(OverlappedAdamW):
    """OverlappedAdamW where it is late, or has parameters on a GPU: masters and moments lie in the runtime's memory."""

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, fused: bool | None = None,
                 plan: str | os.PathLike[str] | None = None, rank: int | None = None, overlap: bool | None = None,
                 alias: bool = True, module: torch.nn.Module | None = None,
                 runtime_options: dict[str, Any] | None = None, state: str | None = None, seed: int = 0):
        state = _planned.state_format(state, plan)
        check_supported({"amsgrad": amsgrad, "maximize": maximize}, 0)
        _formats.check(state)
        self._runtime: Runtime | None = None
        self._groups: list[FlatGroup] = []
        self._handed_over = False  # a submission may be under way, and is not counted and published yet
        self._under_way: list[FlatGroup] = []  # what it steps
        self._buffer = 0
        self._hooks: list[Any] = []
        late = overlap is None or bool(overlap)
        self._registration: HostRegistration | None = None
        self._options = _with_ours(runtime_options or {}, plan=plan, rank=rank)
        self._overlap = late
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                    "amsgrad": False, "maximize": False}
        if state != "fp32":  # fp32 leaves the param_groups as torch's
            defaults.update(state_format=state, seed=seed)
        check_settings(defaults)
        torch.optim.Optimizer.__init__(self, params, defaults)
        self._open()
        try:
            self._hooks = hooks_on(module, self) if module is not None else []
        except BaseException:
            self.close()
            raise
        lacks_module = module is None and hasattr(torch.nn.Module, "register_state_dict_pre_hook")  # torch 2.0
        if late and (overlap is None or lacks_module):
            _say_once(overlap is None, lacks_module)

    @property
    def runtime(self) -> Runtime:
        """The runtime underneath, for its stats. Raises ZfError after close(), and in a forked child."""
        if self._runtime is None:
            raise ZfError("the optimizer is closed")
        self._check_process()
        return self._runtime

    @property
    def overlap(self) -> bool:
        """Whether parameters are one step late. It cannot change."""
        return self._overlap

    @property
    def memory_note(self) -> str:
        """Why memory is not placed or pinned as it should be; "" if it is."""
        notes = [self.runtime.stats().memory_note, self._registration.note if self._registration else ""]
        return "; ".join(note for note in notes if note)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None, *, grad_scale: float = 1.0) -> float | None:
        """Hands over the gradients; see the class for when the parameters follow. Returns closure()'s loss.

        grad_scale multiplies every gradient as it is read (unscale, clip). A killed optimizer is restarted and
        finishes the step. After ZfWorkerDied (the restarts are used up) parameters and moments stay readable, but may
        be half old and half new."""
        runtime, loss = self.runtime, None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        _refusals.check_lists(self._groups, self.param_groups)
        for group in self._groups:
            group.send_settings(runtime)
        if not self._overlap:
            self.synchronize()  # a step that was interrupted still reads the only buffer
        # If there are two, the step before last read this one, and is done: copies run beside the optimizer.
        active = [group for group in self._groups if group.write_grads(self._buffer)]
        written = self._finish()  # the parameters are read out before the next step may change them
        _refusals.check_state(self._groups, self.state)
        for group in self._groups:
            group.read_params(written.get(group.index))
        if active:
            self._submit(active, grad_scale)
        if not self._overlap:
            self.synchronize()
        return loss

    def synchronize(self) -> None:
        """Waits for the running step and gives the parameters its values. Returns at once if no step is running.

        Whatever was interrupted before, by Ctrl-C or by a signal handler that raises: afterwards all that was handed
        over is done, counted and published."""
        self._finish()

    def _finish(self) -> dict[int, list[int]]:
        """Does so. Returns, by group, the numbers of the parameters that the program has written to, where it has just
        looked."""
        written: dict[int, list[int]] = {}
        if not self._handed_over:
            return written
        runtime = self.runtime
        for group in self._under_way:  # transfers of what is finished run beside the rest of the step
            written[group.index] = group.publish(lambda elements, index=group.index: runtime.progress(index, elements))
        runtime.wait()
        self._finish_transfers()
        for group in self._under_way:
            step = runtime.step(group.index)
            if step != group.step:  # an interrupt came before it could be counted
                _state.count(group, step, self.state)
        warnings_due = [(group.index, len(written[group.index])) for group in self._under_way if written[group.index]]
        self._handed_over = is_running(self._submit)  # in a signal handler: what is handed over then is waited for, too
        for index, lost in warnings_due:
            _warn_of_lost(index, lost)
        return written

    def _wait_to_save(self) -> None:
        """Waits on behalf of a model that is saved. In a forked child the step belongs to the parent."""
        if self._runtime is not None and not self._runtime.forked:
            self.synchronize()

    def state_dict(self) -> dict[str, Any]:
        """Returns torch.optim.AdamW's state, after synchronize(). Moments are views that the next step changes. What
        the program has written to parameters is in the masters."""
        if self._runtime is not None:
            self._settle()
        saved = _state.with_own_steps(super().state_dict())
        if self._runtime is not None:
            _state.add_low_bits(saved, self._groups, self.param_groups)
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes a state_dict of this class or of torch.optim.AdamW; its tensors are copied. The model may be loaded
        before or after. A state that the program has edited is replaced."""
        self._check_process()
        if self._runtime is not None:
            _refusals.check_lists(self._groups, self.param_groups)
            self.synchronize()
            for group in self._groups:
                group.read_params()
        self._given = state_dict
        hook = None
        if hasattr(self, "register_load_state_dict_pre_hook"):  # the last one sees what the program's own return
            hook = self.register_load_state_dict_pre_hook(_see_given)
        else:
            _see_given(self, state_dict)
        try:
            super().load_state_dict(state_dict)
        finally:
            del self._given
            if hook is not None:
                hook.remove()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """torch's load_state_dict() calls this before the program's hooks that follow it."""
        super().__setstate__(state)
        for group in self.param_groups:
            group.pop("state_format", None)  # an argument beats a checkpoint
            if "state_format" in self.defaults:
                group["state_format"] = self.defaults["state_format"]
                group.setdefault("seed", self.defaults["seed"])
        if self._runtime is not None:
            for group, settings in zip(self._groups, self.param_groups):
                group.settings = settings
            _state.take(self._given, self._groups, self.param_groups, self.state, self._runtime)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a param_group, as in torch. The runtime is closed and opened again with its state. A refused group
        changes nothing. If the runtime cannot be opened again, the optimizer is closed, without the group."""
        check_settings({**self.defaults, **param_group}, f" in param_group {len(self.param_groups)}")
        check_supported(param_group, len(self.param_groups))
        if self._runtime is None:
            super().add_param_group(param_group)
            return
        self._check_process()
        self._settle()
        saved = _state.saved(self._groups)
        super().add_param_group(param_group)
        try:
            flat_groups(self.param_groups)[-1].wanted()  # raises if unsupported
            self._end()
            self._open()
        except BaseException:
            self.param_groups.pop()
            if self._runtime is None:
                self._remove_hooks()
            raise
        _state.restore(saved, self._groups, self.state, self.runtime)

    def close(self) -> None:
        """Finishes the running step, publishes it, and ends the process. The second call does nothing.

        Raises ZfWorkerDied if the process had died; the parameters then keep the last published values. In a forked
        child the process and the step belong to the parent and are left alone."""
        try:
            self._end()
        finally:
            self._remove_hooks()

    def _remove_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _end(self) -> None:
        """Closes the runtime. The model's hooks stay, for one that is opened after it."""
        runtime = self._runtime
        if runtime is None:
            return
        if runtime.forked:
            self._runtime = None
            self._handed_over = False
            runtime.close()
            return
        try:
            with contextlib.suppress(ZfWorkerDied):  # runtime.close() reports it below
                self.synchronize()
        finally:
            self._runtime = None
            self._handed_over = False
            if self._registration is not None:
                self._registration.release()
            _state.own_moments(self._groups, self.state)
            for group in self._groups:
                group.detach()
            runtime.close()

    def __getstate__(self) -> Any:
        raise TypeError("an OverlappedAdamW holds a process and cannot be copied or pickled; use state_dict()")

    def _open(self) -> None:
        buffers = 2 if self._overlap else 1  # with one, it is read only while step() waits
        self._groups = flat_groups(self.param_groups, buffers)
        runtime = Runtime(groups=[group.wanted() for group in self._groups], **self._options)
        try:
            for group in self._groups:
                group.attach(runtime)
        except BaseException:
            for group in self._groups:
                group.detach()
            runtime.close()
            raise
        self._runtime, self._buffer = runtime, 0
        self._devices = {param.device for group in self._groups for param in group.params if param.is_cuda}
        if self._devices or torch.cuda.is_initialized():  # a program that is all CPU gets no CUDA context from us
            self._registration = HostRegistration(array for group in self._groups for array in group.flat)

    def _check_process(self) -> None:
        """Raises ZfError in a forked child. Call it before writing to the shared memory: it is the parent's."""
        if self._runtime is not None and self._runtime.forked:
            raise ZfError("a forked child cannot use the optimizer of its parent; make one here", "ZF_ERROR_FORKED")

    def _settle(self) -> None:
        """Waits for the running step, refuses what cannot be followed, and takes what was written to parameters."""
        written = self._finish()
        _refusals.check_lists(self._groups, self.param_groups)
        _refusals.check_state(self._groups, self.state)
        for group in self._groups:
            group.read_params(written.get(group.index))

    def _submit(self, active: list[FlatGroup], grad_scale: float) -> None:
        """Hands over the gradients of the present buffer, all groups in one submission."""
        self._finish_transfers()
        buffer = self._buffer
        counts = [(group, group.step + 1) for group in active]
        self._under_way = active
        # From here on an exception may come after the runtime has taken it, and before we know. So no ticket is relied
        # on: _finish() waits for all there is, and asks the runtime which steps it did.
        self._handed_over = True
        self._buffer = buffer ^ int(self._overlap)
        self.runtime.submit([group.index for group in active], buffer=buffer, grad_scale=grad_scale)
        for group, step in counts:
            _state.count(group, step, self.state)

    def _finish_transfers(self) -> None:
        """Waits for pinned copies, which are asynchronous: they must end before either side writes what they read."""
        for device in self._devices:
            torch.cuda.synchronize(device)


_said: set[str] = set()


def _say_once(is_default: bool, lacks_module: bool) -> None:
    """Says in one line what a late optimizer does, once in a process."""
    parts = []
    if is_default:
        parts.append("overlap is not given, so training uses parameters that are one step old: give overlap=True, or "
                     "overlap=False to wait for each step")
    if lacks_module:
        parts.append("a model that is saved may lack the last step: give module=model, or call synchronize() before "
                     "you save it")
    text = "OverlappedAdamW: " + "; ".join(parts)
    if text not in _said:
        _said.add(text)
        warnings.warn(text, stacklevel=4)  # past both constructors


def _see_given(optimizer: Any, state_dict: dict[str, Any]) -> None:
    """Remembers what is loaded, after a check that it can be."""
    _state.check(state_dict, optimizer._groups, optimizer.param_groups)
    optimizer._given = state_dict


def _warn_of_lost(index: int, lost: int) -> None:
    parameters = "1 parameter was" if lost == 1 else f"{lost} parameters were"
    warnings.warn(f"param_group {index}: {parameters} written while the step was running: the written values stay, and "
                  "their step is lost. Call synchronize() before writing", stacklevel=5)


def _with_ours(options: dict[str, Any], **ours: Any) -> dict[str, Any]:
    """Returns the keywords for Runtime. Raises TypeError if `options` has one that the optimizer sets itself."""
    for name in ours:
        if name in options:
            raise TypeError(f"runtime_options has {name!r}, which is an argument of OverlappedAdamW: give it there")
    if "groups" in options:
        raise TypeError("runtime_options has 'groups'; each param_group is one: give them in params")
    return {**options, **ours}
