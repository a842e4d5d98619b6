"""Steps a tensor of DeepSpeedCPUAdam where it is, through the local engine. The bits are those of DeepSpeed's own
operator: its factors are fp32, and so is each operation that makes them."""

from __future__ import annotations

import bisect
import ctypes
import functools
import itertools
import math
from array import array
from typing import Any, NamedTuple

import torch

from ..binding import moved_threads
from ..errors import ZfError
from ..native import abi, local_calls
from ..native.scalars import Scalars, fp32, need_finite
from ..optim.tensors.eligibility import TYPES

_F32 = 4  # bytes
_TYPES = abi.F32 << 32  # in the last word of zf_tensor
_MOST_COPIED = 64 << 20  # bytes of gradients that are copied and not stepped yet

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]  #: parameter, gradient and both moments
Places = tuple[int, int, int, int]  #: their addresses


def engine() -> str:
    """Returns with how many threads and which instructions the engine steps. Raises ZfError if it cannot be opened."""
    found = local_calls.engine().statistics()
    return f"{found.threads} thread{'' if found.threads == 1 else 's'}, {found.isa.decode()}"


def refusal(params: torch.Tensor, grads: torch.Tensor, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor) -> str:
    """Returns "" if the engine takes these tensors, or why DeepSpeed's own operator has to: "parameters that …".

    Raises ZfError for what that operator does not step either, or where it would touch memory that is not theirs."""
    tensors = params, grads, exp_avg, exp_avg_sq
    _need_what_deepspeed_steps(*tensors)
    for tensor in tensors:
        if type(tensor) is not torch.Tensor and type(tensor) is not torch.nn.Parameter:
            return f"parameters, gradients or moments of type {type(tensor).__name__}"
    _need_memory(tensors)
    if params.dtype is not torch.float32:
        return f"parameters of {_name(params)}"
    for tensor in (params, exp_avg, exp_avg_sq):
        if not tensor.is_contiguous():
            return ("parameters or moments with strides of their own: it steps a copy of those, and they stay as they "
                    "are. Use contiguous ones")
    if places_of(tensors) is None:
        return "parameters, gradients or moments at addresses that are no multiple of an element's size"
    return ""


def places_of(tensors: Tensors) -> Places | None:
    """Returns where fp32 tensors are, or None if one has no memory, or lies at an odd place."""
    p, g, m, v = places = tuple(map(torch.Tensor.data_ptr, tensors))
    return places if p and g and m and v and not (p | g | m | v) % _F32 else None


def _need_what_deepspeed_steps(params: torch.Tensor, grads: torch.Tensor, exp_avg: torch.Tensor,
                               exp_avg_sq: torch.Tensor) -> None:
    """Raises ZfError unless these lengths, types and places go together."""
    elements = params.numel()
    if not grads.numel() == exp_avg.numel() == exp_avg_sq.numel() == elements:
        raise ZfError(f"a parameter of {elements} elements has a gradient of {grads.numel()} and moments of "
                      f"{exp_avg.numel()} and {exp_avg_sq.numel()}: it was replaced through .data; set its gradient to "
                      "None and remove its state, optimizer.state.pop(parameter)")
    if params.dtype not in TYPES:
        raise ZfError(f"a parameter is of {_name(params)}: DeepSpeedCPUAdam steps float32, bfloat16 and float16")
    if grads.dtype is not params.dtype:
        raise ZfError(f"a parameter of {_name(params)} has a gradient of {_name(grads)}: give it one of its own type")
    if exp_avg.dtype is not exp_avg_sq.dtype or exp_avg.dtype not in (torch.float32, params.dtype):
        raise ZfError(f"a parameter of {_name(params)} has moments of {_name(exp_avg)} and {_name(exp_avg_sq)}: both "
                      "must be float32, or both of the parameter's type")
    for tensor in (params, grads, exp_avg, exp_avg_sq):
        if not tensor.is_cpu or tensor.layout is not torch.strided:
            raise ZfError("a parameter, its gradient or its moments are sparse, or not on the CPU: DeepSpeedCPUAdam "
                          "steps dense ones on the CPU")


def _need_memory(tensors: Tensors) -> None:
    if any(tensor.data_ptr() == 0 for tensor in tensors):
        raise ZfError(f"a parameter of {tensors[0].numel()} elements, its gradient or its moments have no memory: "
                      "their storage was freed. Give it memory again before the step")


class Powers(NamedTuple):
    """The powers of beta after a call of DeepSpeed's operator. It has one pair for all tensors of an optimizer: a step
    after the last one multiplies them, the same step keeps them, and other betas or any other step calculate them
    anew."""

    first: int = 0  #: the step at which they were calculated; each step since has multiplied them
    step: int = 0
    betas: tuple[float, float] = (0.0, 0.0)  #: fp32
    values: tuple[float, float] = (1.0, 1.0)  #: fp32

    def after(self, step: int, betas: tuple[float, float]) -> Powers:
        """Returns the powers after a call for this step."""
        beta1, beta2 = fp32(betas[0]), fp32(betas[1])
        if self._anew(step, (beta1, beta2)):
            return Powers(step, step, (beta1, beta2), (_power(beta1, step), _power(beta2, step)))
        if step == self.step:
            return self._replace(betas=(beta1, beta2))
        power1, power2 = self.values
        return Powers(self.first, step, (beta1, beta2), (fp32(power1 * beta1), fp32(power2 * beta2)))

    def _anew(self, step: int, betas: tuple[float, float]) -> bool:
        """Returns whether DeepSpeed calculates the powers anew for this step. The betas are fp32."""
        if self.first == self.step == 0:  # the powers of step 0 are 1, whatever the betas are
            return step > 1
        return betas != self.betas or step not in (self.step, self.step + 1)


class Settings(NamedTuple):
    """What a call of the operator is told beside the betas."""

    lr: float
    eps: float
    weight_decay: float
    bias_correction: bool


def scalars(powers: Powers, adamw: bool, settings: Settings, grad_scale: float = 1.0) -> Scalars:
    """Returns the factors of the step that has made these powers. DeepSpeed ignores a weight decay below
    0."""
    need_finite(lr=settings.lr, beta1=powers.betas[0], beta2=powers.betas[1], eps=settings.eps,
                weight_decay=settings.weight_decay)
    (beta1, beta2), decay, rate = powers.betas, fp32(max(settings.weight_decay, 0.0)), fp32(settings.lr)
    bias1, bias2 = (fp32(1 - power) if settings.bias_correction else 1.0 for power in powers.values)
    if bias1 <= 0 or bias2 <= 0:
        raise ZfError(f"step {powers.step} with betas {beta1:g} and {beta2:g} has no bias correction: steps count from "
                      "1 on, and a beta is less than 1 in fp32")
    return Scalars(beta1, 1 - beta1, beta2, 1 - beta2, settings.eps, 1 / fp32(math.sqrt(bias2)), -rate / bias1,
                   -rate * decay if adamw else decay, grad_scale, abi.ADAMW if adamw else abi.ADAM, 0, powers.step)


def step(words: array[int], calls: list[Call], counter: ctypes.c_float) -> None:
    """Steps tensors that refusal() has taken, in one call. The counter grows by 1 then.

    words: zf_tensor structs as words. calls: what their scalars are, by index."""
    counters = array("Q", bytes(len(words)))  # a word for each struct, which has 8
    counters[0] = ctypes.addressof(counter)
    local_calls.engine().step(words, [call.scalars for call in calls], counters, sum(words[5::8]),
                              torch.get_num_threads(), array("Q"))
    moved_threads.look(calls[-1].powers.step)


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _power(beta: float, step: int) -> float:
    try:
        return fp32(beta ** step)
    except OverflowError:  # of a beta above 1
        return math.inf


class Call:
    """What the operator is told for a step. It is told the same for each tensor of a group."""

    def __init__(self, step: int, betas: tuple[float, float], adamw: bool, settings: Settings, powers: Powers):
        self.told = step, betas, settings
        self.powers = powers  #: after this call
        self._adamw = adamw

    @functools.cached_property
    def scalars(self) -> Scalars:
        return self.scaled(1.0)

    def scaled(self, grad_scale: float) -> Scalars:
        """Returns the factors of a step that multiplies each gradient."""
        return scalars(self.powers, self._adamw, self.told[2], grad_scale)


class Collected:
    """Tensors that the engine will step in one call."""

    def __init__(self) -> None:
        self.words = array("Q")  #: zf_tensor structs
        self.calls: list[Call] = []
        self.held: list[Any] = []  #: until they are stepped
        self.copied = 0  #: bytes of copies among these


class Written:
    """The memory that a step of these tensors writes."""

    def __init__(self, words: array[int]):
        self._of = _places(words)
        ranges = sorted((begin, begin + _F32 * elements) for field in (0, 2, 3)
                        for begin, elements in zip(words[field::8], words[5::8]))
        self._begins = [begin for begin, _ in ranges]
        self._ends = list(itertools.accumulate((end for _, end in ranges), max))  # the largest one so far

    def is_of(self, words: array[int]) -> bool:
        """Returns whether it is that of these tensors, too."""
        return self._of == _places(words)

    def overlaps(self, words: array[int]) -> bool:
        """Returns whether it overlaps a gradient."""
        for gradient, elements in zip(words[1::8], words[5::8]):
            at = bisect.bisect_left(self._begins, gradient + _F32 * elements)
            if at and self._ends[at - 1] > gradient:
                return True
        return False


def _places(words: array[int]) -> list[array[int]]:
    return [words[field::8] for field in (0, 2, 3, 5)]


class OptimizerState:
    """What DeepSpeed's operator would know of one optimizer. An interrupted call counts if its tensor is stepped."""

    def __init__(self, settings: tuple[Any, ...]):
        self.settings = settings  #: lr, beta1, beta2, eps, weight_decay, adamw_mode, should_log
        self.own_powers: Powers | None = Powers()  #: those of DeepSpeed's own operator; None if they are not known
        self._adamw = bool(settings[5])
        self._last = Call(0, (0.0, 0.0), self._adamw, Settings(0.0, 0.0, 0.0, False), Powers())
        self._in_place = self._last
        self._collected = Collected()
        self._written = Written(self._collected.words)
        self._stepped = ctypes.c_float()  # the engine counts here: no exception parts a step from its count

    @property
    def last(self) -> Call:
        """The last call that counts, of any optimizer."""
        if self._stepped.value:
            self._last = self._in_place
            self._stepped.value = 0
        return self._last

    @last.setter
    def last(self, call: Call) -> None:
        self._stepped.value = 0  # what the engine has stepped came before this call
        self._last = call

    def resume(self, powers: Powers) -> None:
        """Goes on behind a call of another process, which has made these powers."""
        self.last, self.own_powers = Call(powers.step, powers.betas, self._adamw, self._last.told[2], powers), None

    def next(self, step: int, betas: tuple[float, float], lr: float, eps: float, weight_decay: float,
             bias_correction: bool, last: Call | None = None) -> Call:
        """Returns the call that comes next, after this last one. It is that again for another tensor of the same
        group."""
        beta1, beta2 = betas
        betas = float(beta1), float(beta2)
        settings = float(lr), float(eps), float(weight_decay), bool(bias_correction)
        last = last or (self._collected.calls[-1] if self._collected.calls else self.last)
        if last.told == (step, betas, settings):
            return last
        return Call(step, betas, self._adamw, Settings(*settings), last.powers.after(step, betas))

    def collect(self, call: Call, tensors: Tensors, places: Places) -> None:
        """Takes tensors that refusal() has taken, and that are at these places: flush() steps them. It is called here
        if copies take much memory."""
        (p, g, m, v), collected = places, self._collected
        if not collected.calls or collected.calls[-1] is not call:
            call.scalars  # noqa: B018  raises here what is wrong with the settings
            collected.calls.append(call)
        collected.held.append(tensors)
        if not tensors[1].is_contiguous():  # DeepSpeed's operator copies it, too
            grads = tensors[1].contiguous()
            collected.held.append(grads)
            collected.copied += grads.nbytes
            g = grads.data_ptr()
        collected.words.extend((p, g, m, v, 0, tensors[0].numel(), 0, len(collected.calls) - 1 | _TYPES))
        if collected.copied > _MOST_COPIED:
            self.flush()

    def take(self, collected: Collected) -> None:
        """Takes all tensors of a step: flush() steps them."""
        self._collected = collected

    def flush(self) -> None:
        """Lets the local engine step what was collected, in one call: so an exception leaves all of it stepped or
        nothing. Where a gradient overlaps what a step writes, there is one call for each tensor."""
        collected, self._collected = self._collected, Collected()
        if collected.words:
            self._in_place = collected.calls[collected.words[-1] & 0xffffffff]  # an exception may leave one more
            if not self._written.is_of(collected.words):
                self._written = Written(collected.words)
            each = 8 if self._written.overlaps(collected.words) else len(collected.words)  # else in their order
            for begin in range(0, len(collected.words), each):
                step(collected.words[begin:begin + each], collected.calls, self._stepped)

    def drop(self) -> None:
        """Forgets what an interrupted step has left collected."""
        self._collected = Collected()
