"""Stands in for DeepSpeed's compiled CPU Adam operator."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Callable, TypeVar, cast

import torch

from ..errors import ZfError
from ..optim.tensors.eligibility import guards
from ..optim.tensors.engine import ParamGroup
from . import local_step, steady
from .messages import say_once

if TYPE_CHECKING:
    from .arena import FlatArena


# How the names of all functions of DeepSpeed's operator begin that ours does not have.
OWN_FUNCTIONS = ("adam_", "zenflow_adam_")

_LOOKS = 8  # for steady tensors, of an optimizer where they are others again and again

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _without_dynamo(function: _Function) -> _Function:
    """Keeps torch.compile out of a function. torch 1 has no dynamo."""
    return cast(_Function, getattr(torch, "_disable_dynamo", lambda same: same)(function))


class CpuAdamOperator:
    """What DeepSpeedCPUAdam calls in the place of its compiled operator. Each optimizer has one.

    The native optimizer steps a partition that lies in `arena`. The local engine steps other tensors where they are, if
    they are fp32 and contiguous. DeepSpeed's own operator steps the rest, and everything after use_own(). `load`
    compiles and loads that operator at the first such call. So a job that never makes such a call needs no compiler.

    The powers of beta follow from all calls in their order, of any optimizer, as they do in DeepSpeed."""

    def __init__(self, load: Callable[[], Any], keep: str | None = None):
        self._keep = keep  # the name that all it steps is kept under
        self.arena: FlatArena | None = None
        self.introduction = "DeepSpeedCPUAdam steps in place"
        self._load = load
        self._compiled: Any = None
        self._states: dict[int, local_step.OptimizerState] = {}
        self._steady: dict[int, steady.Steady] = {}  # optimizers that may do their next step at once
        self._looks: dict[int, int] = {}  # how often each was looked at for that
        self._uses_own = False
        self._is_open = False  # the local engine
        self._taken: dict[torch.Size, Callable[..., bool]] = {}  # what finds tensors of these shapes to be as before
        self._engine_error = ""
        self._collecting: int | None = None  # the optimizer that is in its step() now

    def create_adam(self, optimizer_id: int, *settings: Any) -> int:
        self._states[optimizer_id] = local_step.OptimizerState(settings)
        self._looks[optimizer_id] = 0
        if self._compiled is not None:
            self._compiled.create_adam(optimizer_id, *settings)
        return 0

    def destroy_adam(self, optimizer_id: int) -> int:
        for known in (self._states, self._steady, self._looks):
            known.pop(optimizer_id, None)
        if self._compiled is not None:
            self._compiled.destroy_adam(optimizer_id)
        return 0

    @_without_dynamo
    def adam_update(self, optimizer_id: int, step: int, lr: float, beta1: float, beta2: float, eps: float,
                    weight_decay: float, bias_correction: bool, params: torch.Tensor, grads: torch.Tensor,
                    exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor) -> int:
        state = self._states.get(optimizer_id)
        if state is None:
            raise ZfError(f"there is no DeepSpeedCPUAdam number {optimizer_id}: it was destroyed, or never made")
        step, tensors = _whole(step), (params, grads, exp_avg, exp_avg_sq)
        if self._collecting != optimizer_id:
            state.drop()
        call = state.next(step, (beta1, beta2), lr, eps, weight_decay, bias_correction)
        is_empty = params.numel() == 0  # a rank without a part of this group
        slot = None if self.arena is None or is_empty else self.arena.slot_of(params)
        outside = slot is None and not is_empty
        if outside and self._keep is not None:
            raise ZfError(f"keep={self._keep!r}, and a DeepSpeedCPUAdam outside ZeRO's partitions steps in place: that "
                          "memory is the job's own, and ends with it. Leave keep out")
        places = self._places(tensors) if outside else None
        if places is not None:
            state.collect(call, tensors, places)
            if self._collecting != optimizer_id:
                state.flush()
            return 0
        state.flush()
        if self.arena is not None and slot is not None:
            self.arena.step(slot, call.scaled(slot.take_grad_scale()), grads, (exp_avg, exp_avg_sq))
        elif outside:
            self._bring_up(optimizer_id, state)
            self.own.adam_update(optimizer_id, step, lr, beta1, beta2, eps, weight_decay, bias_correction, *tensors)
        state.last = call
        if outside:
            state.own_powers = call.powers
        return 0

    def expected(self, optimizer_id: int, steps: Iterable[tuple[int, ParamGroup]]) -> Iterator[local_step.Call]:
        """Returns the calls that come next, in this order: numbers of steps, and their param_groups."""
        state, call = self._states[optimizer_id], None
        for step, group in steps:
            call = state.next(_whole(step), group["betas"], group["lr"], group["eps"], group["weight_decay"],
                              group["bias_correction"], call)
            yield call

    def powers(self, optimizer_id: int) -> local_step.Powers:
        """Returns the powers of beta after the last call."""
        return self._states[optimizer_id].last.powers

    def resume(self, optimizer_id: int, powers: Iterable[Any]) -> None:
        """Goes on behind the call that has made these powers."""
        self._states[optimizer_id].resume(local_step.Powers(*powers))

    def together(self, optimizer_id: int, step: Callable[[], Any]) -> Any:
        """Calls the step of an optimizer. The local engine steps in one call at its end what it can. An exception in it
        leaves what DeepSpeed's operator would leave; one in that call leaves all of it stepped or nothing."""
        state = self._states.get(optimizer_id)
        if state is None:
            return step()
        outer = self._collecting
        try:
            if outer == optimizer_id:  # a step in a step, as of a signal handler
                state.flush()
            else:
                state.drop()
            self._collecting = optimizer_id
            try:
                return step()
            finally:
                self._collecting = outer
                state.flush()
        finally:
            self._collecting = outer  # also if an exception came ahead of the same line above

    def at_once(self, optimizer: Any) -> bool:
        """Does a step of an optimizer, if its tensors are of the kinds that the last one found. If not, it returns
        False, and has done nothing."""
        state, tensors = self._states.get(optimizer.opt_id), self._steady.get(optimizer.opt_id)
        if (state is None or tensors is None or self._uses_own or not self._is_open or self.arena is not None
                or self._collecting is not None or "adam_update" in self.__dict__):
            return False
        numbers: list[int] = []
        collected = tensors.collected(optimizer, numbers)
        if collected is None:
            del self._steady[optimizer.opt_id]
            return False
        state.drop()
        try:
            groups = [group for group in optimizer.param_groups if group["params"]]
            collected.calls = list(self.expected(optimizer.opt_id, zip(numbers, groups)))
            for call in collected.calls:
                call.scalars  # noqa: B018  raises here what is wrong with the settings
        except Exception:  # the loop raises it, behind the parameters before
            return False

        def count_and_take() -> None:
            steady.count(optimizer)
            state.take(collected)

        self.together(optimizer.opt_id, count_and_take)
        return True

    def look(self, optimizer: Any) -> None:
        """Looks whether at_once() can do the next step, after one that it has not done."""
        number = optimizer.opt_id
        if self._is_open and self.arena is None and self._looks.get(number, _LOOKS) < _LOOKS:
            self._looks[number] += 1
            self._steady.pop(number, None)
            if (tensors := steady.found(optimizer)) is not None:
                self._steady[number] = tensors

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
                reason = f" ({self._engine_error})" if self._engine_error else ""
                raise ZfError(f"DeepSpeed's own operator is needed here{reason}, and it cannot be compiled: {first}. "
                              "Install g++ and ninja; docs/deepspeed.md names what is stepped without them") from error
            for optimizer_id, state in self._states.items():
                compiled.create_adam(optimizer_id, *state.settings)
            self._compiled = compiled
        return self._compiled

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Returns a function that calls the one of DeepSpeed's operator that has this name, such as adam_rollback. From
        its first call on that operator steps, too."""
        if not name.startswith(OWN_FUNCTIONS):
            raise AttributeError(f"DeepSpeed's CPU Adam operator has no {name} that zf_runtime knows")

        def call_own(*args: Any, **keywords: Any) -> Any:
            function = getattr(self.own, name)
            self.use_own()
            return function(*args, **keywords)

        return call_own

    def _places(self, tensors: local_step.Tensors) -> local_step.Places | None:
        """Returns where these tensors are if the local engine steps them, else None. Says in one line who steps,
        once."""
        if self._uses_own:
            return None
        shape = tensors[0].shape
        taken = self._taken.get(shape)
        if taken is None or not taken(*tensors) or (places := local_step.places_of(tensors)) is None:
            if reason := local_step.refusal(*tensors):
                say_once(f"DeepSpeed's own operator steps {reason}")
                return None
            self._taken.update((shape, check) for check in guards(tensors))
            places = local_step.places_of(tensors)
        return places if self._is_open or self._open_engine() else None

    def _open_engine(self) -> bool:
        """Opens the local engine, and returns whether it can be opened. If not, DeepSpeed's own operator steps."""
        try:
            say_once(f"{self.introduction}: {local_step.engine()}")
        except ZfError as error:  # no library, or a plan that is broken
            self._engine_error = str(error)
            say_once(f"{error}. DeepSpeed's own operator steps")
            self.use_own()
            return False
        self._is_open = True
        return True

    def _bring_up(self, optimizer_id: int, state: local_step.OptimizerState) -> None:
        """Gives DeepSpeed's own operator the powers of beta that it would have if it had made all steps. They are not
        known until the step that follows is done: an exception lets the next call calculate them anew."""
        nothing = torch.empty(0)

        def call(step: int, betas: tuple[float, float]) -> None:
            self.own.adam_update(optimizer_id, step, 0.0, *betas, 0.0, 0.0, False, nothing, nothing, nothing, nothing)

        its, powers = state.own_powers, state.last.powers
        state.own_powers = None
        if its == powers:
            return
        if its is None or its.step > powers.step or powers._replace(step=its.step, values=its.values) != its:
            call(0, (2.0, 2.0))  # betas that no job has, so that the next powers are calculated anew
            its = local_step.Powers(step=powers.first - 1)
        for step in range(its.step + 1, powers.step + 1):
            call(step, powers.betas)


def _whole(step: Any) -> int:
    """Returns the number of a step, which may come as a tensor. Raises ZfError if it is none."""
    if type(step) is int and step >= 0:
        return step
    try:
        number = int(step)
    except (ValueError, OverflowError):  # nan, infinite
        number = -1
    if number < 0 or number != step:
        raise ZfError(f"the number of a step is {step}: set state[parameter][\"step\"] to a whole number, 0 or more")
    return number


def deferred(builder: Any, keep: str | None = None) -> type:
    """Returns a class that takes the place of an operator's builder: load() returns a CpuAdamOperator and compiles
    nothing yet."""

    class DeferredBuilder(builder):  # type: ignore[misc]
        def load(self, *args: Any, **keywords: Any) -> CpuAdamOperator:
            return CpuAdamOperator(lambda: builder.load(self, *args, **keywords), keep)

    return DeferredBuilder


def hook(cls: Any) -> None:
    """Hooks the step of an optimizer's class as torch does when the first one is made. So it stays hooked when our step
    is taken away."""
    if not getattr(cls.step, "hooked", False):
        cls.step = torch.optim.Optimizer.profile_hook_step(cls.step)
        cls.step.hooked = True


def with_one_call(step: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a step of DeepSpeedCPUAdam's in which the local engine is called once. Torch's hooks are behind it.
    step: hooked."""
    inner = step.__wrapped__  # type: ignore[attr-defined]
    is_known = steady.is_known(inner)

    @_without_dynamo
    @functools.wraps(inner)
    def step_with_one_call(optimizer: Any, *args: Any, **keywords: Any) -> Any:
        whole = functools.partial(inner, optimizer, *args, **keywords)
        operator = optimizer.ds_opt_adam
        if not isinstance(operator, CpuAdamOperator):
            return whole()
        if is_known and args in ((), (None,)) and not keywords and operator.at_once(optimizer):
            return None
        done = operator.together(optimizer.opt_id, whole)
        if is_known:
            operator.look(optimizer)
        return done

    hooked: Any = torch.optim.Optimizer.profile_hook_step(step_with_one_call)
    hooked.hooked = True
    return cast(Callable[..., Any], hooked)


def with_own(step: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a step of DeepSpeedCPUAdam's for SuperOffload, which goes to DeepSpeed's own operator: only that can roll
    it back."""

    @functools.wraps(step)
    def step_with_own(optimizer: Any, *args: Any, **keywords: Any) -> Any:
        if isinstance(optimizer.ds_opt_adam, CpuAdamOperator):
            optimizer.ds_opt_adam.use_own()
        return step(optimizer, *args, **keywords)

    return step_with_own
