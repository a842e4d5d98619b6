"""The engine that steps the tensors of the job itself, where they are, by the threads of torch."""

from __future__ import annotations

import math

import torch

from ...errors import ZfError
from ...native import local_calls
from ...native.scalars import scalars
from ..tensors import clipping, formats, others
from ..tensors.eligibility import refuse_device
from ..tensors.engine import Engine, ParamGroup, State, StateDict
from . import torch_fallback
from .parts import Parts
from .tensor_list import Roster, TensorList

MOMENTS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "master")


class InPlaceEngine(Engine):
    """Steps in place. It keeps where everything was at the last step."""

    def __init__(self, optimizer: torch.optim.Optimizer, decoupled: bool):
        """decoupled: how weight decay acts in a param_group that does not say it."""
        super().__init__(optimizer)
        self._decoupled = decoupled
        self._list = TensorList()

    def step(self, limit: float | None, scale: float) -> float | None:
        norm = None
        if limit is not None:
            norm = self.norm() * abs(scale)
            scale *= clipping.coefficient(norm, limit)
        if math.isfinite(scale):
            self._step_all(scale)
        return norm

    def norm(self) -> float:
        # Norms in hooks of backward, where gradients are hot, took 1.014 of an iteration of a GPT of 23M parameters.
        return clipping.norm_in_place(param for group in self._optimizer.param_groups for param in group["params"])

    def _step_all(self, grad_scale: float) -> None:
        self._step_those(self._list, self._optimizer.param_groups, self._optimizer.state, grad_scale)

    def _step_those(self, tensors: TensorList, groups: list[ParamGroup], state: State, grad_scale: float) -> None:
        """Steps all parameters of these param_groups that have a gradient. tensors: follows them from step to step."""
        defaults = self._optimizer.defaults
        others.settle(self, (param for group in groups for param in group["params"]))
        parts, own, roster = tensors.gather(groups, state)
        if own and defaults.get("state_format", "fp32") != "fp32":
            raise ZfError(f"state={defaults['state_format']!r}: torch must step a parameter of shape "
                          f"{list(roster.params[own[0][0]].shape)} ({own[0][1]}): use state=\"fp32\"")
        if own:
            total, reasons = len(own) + len(parts.index), [reason for _, reason in own]
            self._say(torch_fallback.message(type(self._optimizer).__name__, reasons, total),
                      stacklevel=8)  # past the wrappers of torch around step()
        if parts.index:
            # First: what it refuses, it refuses before anything is stepped.
            self._step_in_place(parts, tensors, groups, grad_scale)
        if own:
            self._step_by_torch(own, roster, groups, state, grad_scale)

    def _step_by_torch(self, own: list[tuple[int, str]], roster: Roster, groups: list[ParamGroup], state: State,
                       grad_scale: float) -> None:
        """Steps what the engine does not take, each with its reason in `own`."""
        with torch.set_grad_enabled(self._optimizer.defaults["differentiable"]):
            for number, group in enumerate(groups):
                params = [roster.params[index] for index, _ in own if roster.group_of[index] == number]
                if params:
                    torch_fallback.step(params, [state[param] for param in params], group, self._is_decoupled(group),
                                        grad_scale)

    def _step_in_place(self, parts: Parts, tensors: TensorList, param_groups: list[ParamGroup],
                       grad_scale: float) -> None:
        """Makes one call for all parameters. The engine raises their counts itself: an exception comes before it or
        after it."""
        kinds, words = parts.kinds(parts.counts_in(tensors.counts.values()))
        groups = [(param_groups[number], count + 1) for number, count in kinds]
        factors = [scalars(group, count, self._is_decoupled(group), grad_scale) for group, count in groups]
        others.raise_versions(parts.written)
        local_calls.engine().step(words, factors, parts.count, parts.total(), torch.get_num_threads(),
                                  parts.range_words())

    def _is_decoupled(self, group: ParamGroup) -> bool:
        return bool(group.get("decoupled_weight_decay", self._decoupled))

    def check_group(self, group: ParamGroup) -> None:
        self.check_open()
        for param in group["params"]:
            refuse_device(param)

    def loaded(self) -> None:
        optimizer = self._optimizer
        if self._given:
            self._keep_precision(self._given)
        self._list = TensorList()
        self._said = set()
        self._list.home(optimizer.param_groups, optimizer.state)

    def _keep_precision(self, given: StateDict) -> None:
        """Replaces what torch has cast to the type of a 16-bit parameter by what it was cast from."""
        for group, saved in zip(self._optimizer.param_groups, given["param_groups"]):
            for param, key in zip(group["params"], saved["params"]):
                entry, before = self._optimizer.state.get(param, {}), given["state"].get(key, {})
                for name in MOMENTS:
                    if torch_fallback.has_master(param, group) and isinstance(before.get(name), torch.Tensor):
                        entry[name] = before[name].to(dtype=torch.float32, device=param.device)
                entry.pop("low", None)  # torch has made numbers of these bits
                if (low := formats.usable_low(param, before)) is not None:
                    entry["low"] = low.to(device=param.device)
                if param.dtype not in torch_fallback.HALF:
                    entry.pop("master", None)
