"""Stands in for DeepSpeed's compiled CPU Adam operator."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable

import torch

from .. import _abi
from ..errors import ZfError
from . import _local_step
from ._messages import say_once
from ._powers import Powers

if TYPE_CHECKING:
    from ._arena import FlatArena, Slot


class _Created:
    """What is known of an optimizer that create_adam() has made."""

    def __init__(self, settings: tuple[Any, ...]):
        self.settings = settings  #: lr, beta1, beta2, eps, weight_decay, adamw_mode, should_log
        self.adamw = bool(settings[5])
        self.powers = Powers()  #: after all calls, whoever stepped
        self.own_powers = Powers()  #: as DeepSpeed's own operator has them
        self.call: Any = None  #: step, betas and settings of the last call
        self.scalars: _abi.Scalars | None = None  #: of the last call, if a step in place has asked for them


class CpuAdamOperator:
    """What DeepSpeedCPUAdam calls in the place of its compiled operator. Each optimizer has one.

    The native optimizer steps a partition that lies in `arena`. The local engine steps other tensors where they are, if
    they are fp32 and contiguous. DeepSpeed's own operator steps the rest, and everything after use_own(). `load`
    compiles and loads that operator at the first such call. So a job that never makes such a call needs no compiler.

    The powers of beta follow from all calls in their order, whoever steps, as they do in DeepSpeed."""

    def __init__(self, load: Callable[[], Any]):
        self.arena: FlatArena | None = None
        self._load = load
        self._compiled: Any = None
        self._created: dict[int, _Created] = {}
        self._uses_own = False
        self._is_open = False  # the local engine

    def create_adam(self, optimizer_id: int, *settings: Any) -> int:
        self._created[optimizer_id] = _Created(settings)
        if self._compiled is not None:
            self._compiled.create_adam(optimizer_id, *settings)
        return 0

    def destroy_adam(self, optimizer_id: int) -> int:
        self._created.pop(optimizer_id, None)
        if self._compiled is not None:
            self._compiled.destroy_adam(optimizer_id)
        return 0

    def adam_update(self, optimizer_id: int, step: int, lr: float, beta1: float, beta2: float, eps: float,
                    weight_decay: float, bias_correction: bool, params: torch.Tensor, grads: torch.Tensor,
                    exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor) -> int:
        known = self._created.get(optimizer_id)
        if known is None:
            raise ZfError(f"there is no DeepSpeedCPUAdam number {optimizer_id}: it was destroyed, or never made")
        settings = _local_step.Settings(float(lr), float(eps), float(weight_decay), bool(bias_correction))
        step, betas = int(step), (float(beta1), float(beta2))
        before, call = known.powers, (step, betas, settings)
        if call != known.call:  # else it is another tensor of the same group
            known.powers, known.call, known.scalars = before.after(step, betas), call, None
        if params.numel() == 0:  # a rank without a part of this group
            return 0
        slot = self._slot_of(params)
        if slot is not None and self.arena is not None:
            self.arena.step(slot, step, grads, (exp_avg, exp_avg_sq), betas=betas, **settings._asdict())
        elif self._takes(params, grads, exp_avg, exp_avg_sq):
            if known.scalars is None:
                known.scalars = _local_step.scalars(known.powers, known.adamw, settings)
            _local_step.step(params, grads, exp_avg, exp_avg_sq, known.scalars)
        else:
            self._bring_up(optimizer_id, known, before)
            self.own.adam_update(optimizer_id, step, lr, beta1, beta2, eps, weight_decay, bias_correction, params,
                                 grads, exp_avg, exp_avg_sq)
            known.own_powers = known.powers
        return 0

    def use_own(self) -> None:
        """Lets DeepSpeed's own operator step everything that does not lie in the arena."""
        self._uses_own = True

    @property
    def own(self) -> Any:
        """DeepSpeed's own operator, compiled and loaded. Raises ZfError if that cannot be."""
        if self._compiled is None:
            try:
                compiled = self._load()
            except Exception as error:
                first = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
                raise ZfError(f"DeepSpeed's own operator is needed here, and it cannot be compiled: {first}. Install "
                              "g++ and ninja; docs/deepspeed.md names what is stepped without them") from error
            for optimizer_id, known in self._created.items():
                compiled.create_adam(optimizer_id, *known.settings)
            self._compiled = compiled
        return self._compiled

    def __getattr__(self, name: str) -> Any:
        """Gives everything else that DeepSpeed's operator has, such as adam_rollback. From then on that operator steps,
        too."""
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self.own, name)
        self.use_own()
        return found

    def _slot_of(self, params: torch.Tensor) -> Slot | None:
        return None if self.arena is None else self.arena.slot_of(params)

    def _takes(self, *tensors: torch.Tensor) -> bool:
        """Returns whether the local engine steps these tensors. Says in one line who steps, once."""
        if self._uses_own:
            return False
        reason = _local_step.refusal(*tensors)
        if reason:
            say_once(f"DeepSpeed's own operator steps {reason}")
            return False
        if not self._is_open:
            try:
                say_once(f"DeepSpeedCPUAdam steps in place: {_local_step.engine()}")
            except ZfError as error:  # no library, or a plan that is broken
                say_once(f"{error}. DeepSpeed's own operator steps")
                self.use_own()
                return False
            self._is_open = True
        return True

    def _bring_up(self, optimizer_id: int, known: _Created, powers: Powers) -> None:
        """Gives DeepSpeed's own operator the powers of beta that it would have if it had made all steps."""
        nothing = torch.empty(0)

        def call(step: int, betas: tuple[float, float]) -> None:
            self.own.adam_update(optimizer_id, step, 0.0, *betas, 0.0, 0.0, False, nothing, nothing, nothing, nothing)

        its = known.own_powers
        if powers == its:
            return
        if powers._replace(step=its.step, values=its.values) != its or its.step > powers.step:
            call(0, (2.0, 2.0))  # betas that nobody has, so that the next powers are calculated anew
            its = Powers(step=powers.first - 1)
        for step in range(its.step + 1, powers.step + 1):
            call(step, powers.betas)
        known.own_powers = powers


def deferred(builder: Any) -> type:
    """Returns a class that takes the place of an operator's builder: load() returns a CpuAdamOperator and compiles
    nothing yet."""

    class DeferredBuilder(builder):  # type: ignore[misc]
        def load(self, *args: Any, **keywords: Any) -> CpuAdamOperator:
            return CpuAdamOperator(lambda: builder.load(self, *args, **keywords))

    return DeferredBuilder


def with_own(step: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a step of DeepSpeedCPUAdam's for SuperOffload, which goes to DeepSpeed's own operator: only that can roll
    it back."""

    @functools.wraps(step)
    def step_with_own(optimizer: Any, *args: Any, **keywords: Any) -> Any:
        if isinstance(optimizer.ds_opt_adam, CpuAdamOperator):
            optimizer.ds_opt_adam.use_own()
        return step(optimizer, *args, **keywords)

    return step_with_own
