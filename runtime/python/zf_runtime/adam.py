"""AdamW and Adam on the tensors of the job itself, where they are, by the threads of torch."""

from __future__ import annotations

import math
import os
import warnings
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Callable

import torch

from . import _clipping, _formats, _local, _moved_threads, _planned, _torch_own
from ._parts import Parts
from ._scalars import scalars
from ._tensor_list import TensorList
from ._why_not import refuse_device
from .errors import ZfError

if TYPE_CHECKING:
    from ._timeline import Span
    from .runtime import Runtime

# With 2.3.1, the only cases that failed were those of torch.compile and of torch's own fused=True on the CPU, which is
# new in 2.4.
if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 4):
    raise ImportError(f"zf_runtime.AdamW and Adam need torch 2.4 or newer, and this is torch {torch.__version__}")

MOMENTS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "master")


class _InPlace(torch.optim.Optimizer):
    """The step that AdamW and Adam share."""

    _decoupled = False
    _max_norm: float | None = None  # clip_grad_norm of the constructor
    _coefficient: float | None = None  # of clip_grad_norm_(), for the next step of these gradients
    _clipped: Callable[[], torch.Tensor | None] = staticmethod(lambda: None)  # one of them, held weakly
    _grad_norm: float | None = None
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
            scale *= _clipping.coefficient(self._grad_norm, limit)
        if math.isfinite(scale):
            self._step_all(scale)
        self._look_at_threads()
        return loss

    def clip_grad_norm_(self, parameters: Any = None, max_norm: float | None = None, norm_type: float = 2.0,
                        error_if_nonfinite: bool = False, foreach: bool | None = None) -> Any:
        """Stands in for torch.nn.utils.clip_grad_norm_() and for accelerate's method of that name. Returns the norm of
        this optimizer's gradients. The next step() clips them to max_norm; None: to clip_grad_norm of the constructor.

        It does not unscale gradients of a loss scaler, as accelerate's method does for fp16: do that before. It is
        forgotten with the gradients: whoever gives the parameters other ones afterwards calls it again.
        `parameters` and foreach change nothing. Raises ZfError for another norm than the second."""
        if float(norm_type) != 2.0:
            raise ZfError(f"norm_type is {norm_type}; this optimizer takes the norm of type 2")
        if not isinstance(max_norm, (int, float, type(None))):
            max_norm = float(max_norm)
        itself = self._itself()
        if itself is not self:
            return itself.clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
        limit = self._max_norm if max_norm is None else max_norm
        _clipping.check_max_norm(limit)
        self._coefficient = None
        gradient = self._a_gradient()
        if gradient is not None:
            self._clipped = weakref.ref(gradient)
        norm = self._norm_now()
        if error_if_nonfinite and not math.isfinite(norm):
            raise RuntimeError(f"the norm of the gradients is {norm}")
        self._grad_norm = norm
        self._coefficient = 1.0 if limit is None else _clipping.coefficient(norm, limit)
        return torch.tensor(norm)

    @property
    def grad_norm(self) -> float | None:
        """The norm of all gradients at the last step() or clip_grad_norm_() that took it, before clipping; None:
        nobody did."""
        norm: float | None = self._itself()._grad_norm
        return norm

    def _itself(self) -> Any:
        """Returns this optimizer. Lightning's and Fabric's wrappers are of subclasses of its class: they find what it
        has, and would keep what a method sets."""
        wrapped = self.__dict__.get("_optimizer")
        return wrapped._itself() if isinstance(wrapped, _InPlace) else self

    def _take_limit(self, max_norm: float | None) -> tuple[float | None, float]:
        """Returns to which norm this step clips (None: none is taken), and a factor for it: that of clip_grad_norm_(),
        which is for one step."""
        _clipping.check_max_norm(max_norm)
        factor, self._coefficient = self._coefficient, None
        if self._clipped() is not self._a_gradient():
            factor = None  # its gradients were dropped, without a step
        if max_norm is not None or factor is None:
            return (self._max_norm if max_norm is None else max_norm), 1.0
        return None, factor

    def _a_gradient(self) -> torch.Tensor | None:
        return next((param.grad for group in self.param_groups for param in group["params"] if param.grad is not None),
                    None)

    @torch._disable_dynamo
    def zero_grad(self, set_to_none: bool = True) -> None:
        """As in torch. It forgets clip_grad_norm_(), too."""
        self._itself()._coefficient = None
        super().zero_grad(set_to_none)

    def _look_at_threads(self) -> None:
        self._steps += 1
        _moved_threads.look(self._steps)

    def _norm_now(self) -> float:
        return _clipping.norm_in_place(param for group in self.param_groups for param in group["params"])

    def _step_all(self, grad_scale: float) -> None:
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
                    _torch_own.step(params, [self.state[param] for param in params], group, self._is_decoupled(group),
                                    grad_scale)

    def _step_in_place(self, parts: Parts, grad_scale: float) -> None:
        """Makes one call for all parameters. The engine raises their counts itself: an exception comes before it or
        after it."""
        kinds, words = parts.kinds(parts.counts_in(self._list.counts.values()))
        groups = [(self.param_groups[number], count + 1) for number, count in kinds]
        factors = [scalars(group, count, self._is_decoupled(group), grad_scale) for group, count in groups]
        _raise_versions(parts.written)
        _local.engine().step(words, factors, parts.count, parts.total(), torch.get_num_threads(),
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
                    if _torch_own.has_master(param, group) and isinstance(before.get(name), torch.Tensor):
                        entry[name] = before[name].to(dtype=torch.float32, device=param.device)
                if isinstance(before.get("low"), torch.Tensor):  # torch has made numbers of these bits
                    entry["low"] = before["low"].to(device=param.device)
                if param.dtype not in _torch_own.HALF:
                    entry.pop("master", None)
                    entry.pop("low", None)

    def _say_of_torch(self, reasons: list[str], total: int) -> None:
        line = _torch_own.message(type(self).__name__, reasons, total)
        if line not in self._said:
            self._said.add(line)
            warnings.warn(line, stacklevel=6)  # past the wrappers of torch around step()


class AdamW(_InPlace, torch.optim.AdamW):
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
        _planned.check_overlap(overlap, plan)
        state = _planned.state_format(state, plan)
        _clipping.check_max_norm(clip_grad_norm)
        self._max_norm = clip_grad_norm
        self._set_up(foreach, fused, differentiable)
        settings = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
                    "maximize": maximize, "foreach": foreach, "capturable": capturable,
                    "differentiable": differentiable}
        if not isinstance(params, torch.Tensor):
            params = [_listed(each) for each in params]
        if overlap != "off" or _has_gpu(params):
            from ._arena_adam import ArenaAdamW, options_for

            options = options_for(runtime_options or {}, plan, rank)
            mine = type(self)
            self.__class__ = ArenaAdamW if mine is AdamW else type(mine.__name__, (mine, ArenaAdamW), {})
            self._begin(params, settings, fused, overlap=overlap, state=state, seed=seed, options=options)
            return
        _formats.check(state, amsgrad=amsgrad, capturable=capturable, differentiable=differentiable)
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
        from ._timeline import write_for_perfetto

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


class Adam(_InPlace, torch.optim.Adam):
    """torch.optim.Adam, stepped in place: weight decay is added to the gradient. See AdamW. Parameters are on the
    CPU."""

    def __init__(self, params: Iterable[Any], lr: Any = 1e-3, betas: tuple[Any, Any] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None, maximize: bool = False,
                 capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
                 state: str | None = None, seed: int = 0, clip_grad_norm: float | None = None,
                 **decoupled_weight_decay: bool):
        state = _planned.state_format(state)
        _formats.check(state, amsgrad=amsgrad, capturable=capturable, differentiable=differentiable)
        _clipping.check_max_norm(clip_grad_norm)
        self._max_norm = clip_grad_norm
        self._set_up(foreach, fused, differentiable)
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=None, **decoupled_weight_decay)
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


def _raise_versions(tensors: list[Any]) -> None:
    """Tells autograd that tensors change: a graph over their old values is refused."""
    try:
        torch.autograd.graph.increment_version(tensors)
    except (TypeError, RuntimeError):  # older torch takes one tensor
        for tensor in tensors:
            torch.autograd.graph.increment_version(tensor)
