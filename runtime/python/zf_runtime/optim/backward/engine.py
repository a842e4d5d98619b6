"""The engine that steps a parameter within backward, as soon as its gradient is whole, and frees the gradient."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import torch

from ...errors import ZfError
from ...native import planned
from ..in_place.engine import InPlaceEngine
from ..in_place.tensor_list import TensorList
from ..tensors import formats
from ..tensors.eligibility import is_sharded
from ..tensors.engine import ParamGroup, State

# Small gradients wait until they are so many bytes: a call takes 20 us, in which a core steps 30 KiB of gradients.
# Without that, an iteration of 150 linear layers 32 wide took 4.75 times as long as with "off", and not 1.56 times.
ENOUGH_BYTES = 256 * 1024
USE_OFF = "use overlap=\"off\""


class _Hook:
    """Is called when a parameter's gradient is whole. Copies of it do nothing."""

    def __init__(self, engine: BackwardEngine | None = None):
        self.engine = (lambda: None) if engine is None else weakref.ref(engine)

    @torch._disable_dynamo
    def __call__(self, param: torch.Tensor) -> None:
        if (engine := self.engine()) is not None:
            engine.take_gradient(param, self)

    def __reduce__(self) -> Any:
        return _Hook, ()


def _smallest(params: Iterable[torch.Tensor]) -> int:
    """Returns the id of the smallest parameter; 0 if there is none."""
    smallest = min(params, key=lambda each: each.nbytes, default=None)
    return 0 if smallest is None else id(smallest)


class _Batch:
    """Parameters that are stepped in one call, with the lists of the last time."""

    def __init__(self) -> None:
        self.list = TensorList()
        self.state: State = {}  # one dict, which TensorList knows again


class BackwardEngine(InPlaceEngine):
    """Steps in place from hooks of the parameters. What has a gradient at step() is stepped there.

    A turn goes from the first gradient of a backward to step(). Small parameters wait for each other, and the last
    ones for step(). The smallest one with a gradient always does: if its gradient has changed by then, the program
    clips, scales or reduces gradients after backward, which cannot reach those that are stepped."""

    def __init__(self, optimizer: torch.optim.Optimizer, decoupled: bool):
        super().__init__(optimizer, decoupled)
        self._hook = _Hook(self)
        self._batches: dict[tuple[int, ...], _Batch] = {}  # by the ids of their parameters
        self._places: dict[int, tuple[int, int, int]] = {}  # by id: param_group, place in it, number of first element
        self._turn: dict[int, torch.Tensor] = {}  # parameters with a gradient in this turn, by id
        self._waiting: list[tuple[torch.Tensor, Any, int]] = []  # with their gradients and versions; -1: not known
        self._waiting_bytes = 0
        self._settings: list[tuple[Any, ...]] = []  # of the param_groups when the turn began
        self._witness = 0  # id of the smallest parameter that has gradients
        self._witnessed: tuple[Any, ...] = ()  # its gradient, and a copy: GradScaler and gloo raise no version
        self._has_looked = False  # for DistributedDataParallel
        self._is_off = False  # steps all in step()

    def take_gradient(self, param: torch.Tensor, hook: _Hook) -> None:
        """Steps a parameter with its gradient, now or with others. Raises ZfError if that would not be its step."""
        grad = param.grad
        if self._is_off or grad is None or grad.layout is not torch.strided or self._place(param) is None:
            return  # to step()
        if torch.is_grad_enabled():
            raise ZfError("overlap=\"backward\": backward(create_graph=True) would go through parameters that are "
                          f"stepped meanwhile: get these gradients by torch.autograd.grad(), or {USE_OFF}")
        if id(param) in self._turn:
            raise ZfError(f"overlap=\"backward\": a parameter of shape {list(param.shape)} got a second gradient "
                          "before step(), and is stepped with the first one: call step() after each backward(); "
                          f"checkpoint with use_reentrant=False; to accumulate gradients {USE_OFF}")
        if not self._turn and not self._begin_turn():
            return
        self._turn[id(param)] = param
        is_last = next(reversed(param._post_accumulate_grad_hooks.values())) is hook
        self._waiting.append((param, grad, grad._version if is_last else -1))
        if id(param) != self._witness:
            self._waiting_bytes += grad.nbytes
        elif is_last:
            self._witnessed = grad, grad.clone()
        if is_last and self._waiting_bytes >= ENOUGH_BYTES:  # a hook behind ours shall find the gradient, too
            self._step_waiting()

    def _begin_turn(self) -> bool:
        """Returns whether backward shall step. The reducer of a DistributedDataParallel takes gradients only after all
        hooks of a parameter, and nothing tells a parameter that it has one."""
        looks, self._has_looked = not self._has_looked, True
        if looks and torch.distributed.is_available() and torch.distributed.is_initialized() and any(
                issubclass(type(each), torch.nn.parallel.DistributedDataParallel) for each in gc.get_objects()):
            planned.say("overlap=\"backward\": DistributedDataParallel reduces gradients after the hooks, and keeps "
                        "all of them: the parameters are stepped in step(), as with overlap=\"off\"")
            self._is_off = True
            return False
        self._settings = self._settings_now()
        return True

    def _settings_now(self) -> list[tuple[Any, ...]]:
        return [(float(group["lr"]), float(group["weight_decay"]), *map(float, group["betas"]))
                for group in self._optimizer.param_groups]

    def _step_waiting(self) -> None:
        """Steps what waits except the smallest parameter, and frees the gradients."""
        now = [param for param, *_ in self._waiting if id(param) != self._witness and param.grad is not None]
        self._waiting = [entry for entry in self._waiting if id(entry[0]) == self._witness]
        self._waiting_bytes = 0
        try:
            self._step_batch(now)
        finally:
            for param in now:
                param.grad = None

    def _step_batch(self, params: Sequence[torch.Tensor]) -> None:
        optimizer = self._optimizer
        places = {id(param): self._place(param) for param in params}
        params = sorted((param for param in params if places[id(param)]), key=lambda param: places[id(param)] or ())
        if len(self._batches) > 4 * len(self._places):  # each backward has other ones
            self._batches.clear()
        batch = self._batches.setdefault(tuple(map(id, params)), _Batch())
        batch.state.clear()
        by_group: dict[int, list[torch.Tensor]] = {}
        for param in params:
            number, _, first = places[id(param)] or (0, 0, 0)
            by_group.setdefault(number, []).append(param)
            batch.state[param] = state = optimizer.state[param]
            if formats.has_bf16_moments(optimizer.param_groups[number]):
                state.setdefault("first_element", first)
        groups = [{**optimizer.param_groups[number], "params": these} for number, these in by_group.items()]
        self._step_those(batch.list, groups, batch.state, 1.0)

    def _place(self, param: torch.Tensor) -> tuple[int, int, int] | None:
        """Returns where a parameter is in the param_groups; None: it is not there any more."""
        groups = self._optimizer.param_groups
        for _ in range(2):
            found = self._places.get(id(param))
            if found is not None and found[0] < len(groups):
                params = groups[found[0]]["params"]
                if found[1] < len(params) and params[found[1]] is param:
                    return found
            self._look_for_all()
        return None

    def _look_for_all(self) -> None:
        """Notes where all parameters are, and which is the smallest."""
        found = [(each, number, at) for number, group in enumerate(self._optimizer.param_groups)
                 for at, each in enumerate(group["params"])]
        firsts = accumulate((each.numel() for each, *_ in found), initial=0)
        self._places = {id(each): (number, at, first) for (each, number, at), first in zip(found, firsts)}
        trained = [each for each, *_ in found if each.requires_grad]
        self._witness = _smallest(trained)

    def step(self, limit: float | None, scale: float) -> float | None:
        if self._is_off:
            return super().step(limit, scale)
        if limit is not None or scale != 1:
            raise ZfError("overlap=\"backward\" can neither clip nor scale gradients, since backward has stepped them: "
                          f"{USE_OFF}")
        self._check_turn()
        seen = self._turn
        if seen and self._witness not in seen:  # it got no gradient, so it tells nothing: another one does from now on
            self._witness = _smallest(seen.values())
        self._end_turn()
        left = [param for group in self._optimizer.param_groups for param in group["params"] if param.grad is not None]
        if left:
            self._step_all(1.0)
            self._put_hooks([param for param in left if id(param) not in seen])
        for param in left:
            param.grad = None
        return None

    def _check_turn(self) -> None:
        """Raises ZfError if the program has changed between backward and step() what backward has used."""
        waiting = {id(param) for param, *_ in self._waiting}
        changed = any(version >= 0 and (param.grad is not grad or version != grad._version)
                      for param, grad, version in self._waiting) or (
            bool(self._witnessed) and not torch.allclose(*self._witnessed, rtol=0, atol=0, equal_nan=True))
        late = any(param.grad is not None for key, param in self._turn.items() if key not in waiting)
        other = bool(self._turn) and self._settings_now() != self._settings
        if changed or late or other:
            self._end_turn()
        if changed or late:
            raise ZfError("overlap=\"backward\": gradients were written or dropped between backward and step(), as by "
                          "clip_grad_norm_(), GradScaler or a reduction over ranks, and backward has stepped most "
                          f"parameters before that: {USE_OFF}")
        if other:
            raise ZfError("overlap=\"backward\": lr, betas or weight_decay were set between backward and step(), and "
                          "backward has stepped most parameters with the old ones: set them before backward, or after "
                          "step()")

    def _end_turn(self) -> None:
        self._turn, self._waiting, self._waiting_bytes, self._witnessed = {}, [], 0, ()

    def drop_gradients(self) -> None:
        if stepped := len(self._turn) - len(self._waiting):
            verb = "parameters are" if stepped > 1 else "parameter is"
            planned.say(f"overlap=\"backward\": zero_grad() came before step(), and {stepped} {verb} stepped since the "
                        f"last one, and stay so. To drop gradients without a step {USE_OFF}")
        self._end_turn()

    def norm(self) -> float:
        raise ZfError(f"overlap=\"backward\" frees each gradient in backward, so there is no norm of all: {USE_OFF}")

    def check_group(self, group: ParamGroup) -> None:
        super().check_group(group)
        if self._optimizer._max_norm is not None or group["differentiable"]:
            raise ZfError(f"overlap=\"backward\" has neither clip_grad_norm= nor differentiable=True: {USE_OFF}")
        if len(set(map(id, group["params"]))) < len(group["params"]):
            raise ZfError(f"overlap=\"backward\": a parameter is listed twice: list it once, or {USE_OFF}")
        if any(map(is_sharded, group["params"])):
            raise ZfError(f"overlap=\"backward\" steps no DTensors: {USE_OFF}")
        if any(getattr(each, "_is_flat_param", False) for each in group["params"]):
            raise ZfError("overlap=\"backward\" steps no parameters of FSDP1, which reduces gradients after the hooks: "
                          f"{USE_OFF}")
        self._put_hooks(group["params"])

    def _put_hooks(self, params: Sequence[Any]) -> None:
        """Gives parameters the hook, in the place of that of an optimizer before this one. Frozen ones get it after
        their first step."""
        for param in params:
            if param.requires_grad:
                self._remove_hook(param)
                param.register_post_accumulate_grad_hook(self._hook)

    @staticmethod
    def _remove_hook(param: torch.Tensor) -> None:
        hooks = param._post_accumulate_grad_hooks or {}
        for key in [key for key, hook in hooks.items() if isinstance(hook, _Hook)]:
            del hooks[key]

    def loaded(self) -> None:
        super().loaded()
        self._batches.clear()
        self._end_turn()
        for group in self._optimizer.param_groups:
            self._put_hooks(group["params"])

    def close(self) -> None:
        super().close()
        for group in self._optimizer.param_groups:
            for param in group["params"]:
                if any(hook is self._hook for hook in (param._post_accumulate_grad_hooks or {}).values()):
                    self._remove_hook(param)
