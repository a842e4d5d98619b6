"""The step that AdamW and Adam share: on the tensors of the job itself, where they are, by the threads of torch."""

from __future__ import annotations

import math
import warnings
from typing import Any, Callable

import torch

from ...binding import moved_threads
from ...errors import ZfError
from ...native import local_calls
from ...native.scalars import scalars
from ..tensors import clipping, formats, others
from ..tensors.eligibility import refuse_device
from . import torch_fallback
from .clips import Clips
from .parts import Parts
from .tensor_list import TensorList

MOMENTS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "master")


class InPlace(Clips):
    """The step that AdamW and Adam share."""

    _decoupled = False
    _steps = 0  # calls of step()
    _is_closed = False

    def _set_up(self, foreach: bool | None, fused: bool | None, differentiable: bool) -> None:
        """Checks what torch checks with fused=True, which is not told to it: it would let GradScaler hand over scaled
        gradients."""
        if fused and differentiable:
            raise RuntimeError("`fused` does not support `differentiable`")
        if fused and foreach:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        self._forget()

    def _forget(self) -> None:
        self._list = TensorList()
        self._said: set[str] = set()

    def _settle(self, fused: bool | None, state: str = "fp32", seed: int = 0) -> None:
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

        Parameters, gradients and states are taken as they are now, whoever has written or replaced them. Raises ZfError
        before anything is stepped if a gradient is sparse.

        max_norm: clips the gradients to this norm, as clip_grad_norm of the constructor does for all steps. Then, if
        the norm is not finite, nothing is stepped, and no count grows. grad_scale multiplies every gradient. Both are
        applied in fp32 as a gradient is read: the gradients themselves stay as they are."""
        if self._is_closed:
            raise ZfError("the optimizer is closed")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        limit, factor = self._take_limit(max_norm)
        scale = grad_scale * factor
        if limit is not None:
            self._grad_norm = self._norm_now() * abs(scale)
            scale *= clipping.coefficient(self._grad_norm, limit)
        if math.isfinite(scale):
            self._step_all(scale)
        self._look_at_threads()
        return loss

    def _look_at_threads(self) -> None:
        self._steps += 1
        moved_threads.look(self._steps)

    def _step_all(self, grad_scale: float) -> None:
        others.settle(self, (param for group in self.param_groups for param in group["params"]))
        parts, own, roster = self._list.gather(self.param_groups, self.state)
        if own and self.defaults.get("state_format", "fp32") != "fp32":
            raise ZfError(f"state={self.defaults['state_format']!r}: torch must step a parameter of shape "
                          f"{list(roster.params[own[0][0]].shape)} ({own[0][1]}): use state=\"fp32\"")
        if own:
            self._say_of_torch([reason for _, reason in own], len(own) + len(parts.index))
        if parts.index:
            self._step_in_place(parts, grad_scale)  # first: what it refuses, it refuses before anything is stepped
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            for number, group in enumerate(self.param_groups if own else ()):
                params = [roster.params[index] for index, _ in own if roster.group_of[index] == number]
                if params:
                    torch_fallback.step(params, [self.state[param] for param in params], group,
                                        self._is_decoupled(group), grad_scale)

    def _step_in_place(self, parts: Parts, grad_scale: float) -> None:
        """Makes one call for all parameters. The engine raises their counts itself: an exception comes before it or
        after it."""
        kinds, words = parts.kinds(parts.counts_in(self._list.counts.values()))
        groups = [(self.param_groups[number], count + 1) for number, count in kinds]
        factors = [scalars(group, count, self._is_decoupled(group), grad_scale) for group, count in groups]
        raise_versions(parts.written)
        local_calls.engine().step(words, factors, parts.count, parts.total(), torch.get_num_threads(),
                             parts.range_words())

    def _is_decoupled(self, group: dict[str, Any]) -> bool:
        return bool(group.get("decoupled_weight_decay", self._decoupled))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a param_group, as in torch. Raises ZfError if one of its parameters is on a GPU."""
        super().add_param_group(param_group)
        try:
            for param in self.param_groups[-1]["params"]:
                refuse_device(param)
        except BaseException:
            self.param_groups.pop()
            raise

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes a state_dict of this class, of torch.optim.AdamW or Adam, or of DeepSpeedCPUAdam. States of 16-bit
        parameters stay fp32."""
        given: dict[str, Any] = {}
        last = self.register_load_state_dict_pre_hook(lambda _, state_dict: given.update(state_dict))
        self._given = given
        try:
            super().load_state_dict(state_dict)
        finally:
            last.remove()
            del self._given

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._set_formats()
        given = self.__dict__.get("_given")
        if given:
            self._keep_precision(given)
        self._forget()
        self._list.home(self.param_groups, self.state)

    def _set_formats(self) -> None:
        for group in self.param_groups:
            group.setdefault("bias_correction", True)
            group.pop("state_format", None)  # an argument beats a checkpoint
            if "state_format" in self.defaults:
                group["state_format"] = self.defaults["state_format"]
                group.setdefault("seed", self.defaults["seed"])

    def _keep_precision(self, given: dict[str, Any]) -> None:
        """Replaces what torch has cast to the type of a 16-bit parameter by what it was cast from."""
        for group, saved in zip(self.param_groups, given["param_groups"]):
            for param, key in zip(group["params"], saved["params"]):
                entry, before = self.state.get(param, {}), given["state"].get(key, {})
                for name in MOMENTS:
                    if torch_fallback.has_master(param, group) and isinstance(before.get(name), torch.Tensor):
                        entry[name] = before[name].to(dtype=torch.float32, device=param.device)
                entry.pop("low", None)  # torch has made numbers of these bits
                if (low := formats.usable_low(param, before)) is not None:
                    entry["low"] = low.to(device=param.device)
                if param.dtype not in torch_fallback.HALF:
                    entry.pop("master", None)

    def _say_of_torch(self, reasons: list[str], total: int) -> None:
        line = torch_fallback.message(type(self).__name__, reasons, total)
        if line not in self._said:
            self._said.add(line)
            warnings.warn(line, stacklevel=6)  # past the wrappers of torch around step()


def raise_versions(tensors: list[Any]) -> None:
    """Tells autograd that tensors change: a graph over their old values is refused."""
    try:
        torch.autograd.graph.increment_version(tensors)
    except (TypeError, RuntimeError):  # older torch takes one tensor
        for tensor in tensors:
            torch.autograd.graph.increment_version(tensor)
