"""Maps a torch param_group to a runtime group: its parameters lie one after the other in flat arrays."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, Callable

import torch

from . import _abi, _formats
from ._published import Published, bits, found, kind, published_of
from .errors import ZfError
from .group import Group
from .runtime import Runtime

_HALVES = {torch.bfloat16: "bf16", torch.float16: "f16"}
_ALIGN = 32  # elements: every parameter begins at a cache line, also in the 16-bit copy (zf_group.ranges)


def check_supported(settings: dict[str, Any], index: int) -> None:
    """Refuses settings that this optimizer cannot obey, rather than ignoring them."""
    for name in ("amsgrad", "maximize"):
        if settings.get(name):
            raise ZfError(f"param_group {index} has {name}=True, which the runtime does not do; use "
                          f"torch.optim.AdamW for it, or leave {name} out")


def check_settings(settings: dict[str, Any], place: str = "") -> None:
    """Raises ValueError, in the words of torch.optim.AdamW, for settings that it refuses. `place`, such as
    " in param_group 1", is added. It checks given settings only, and not what a scheduler later makes of them,
    as in torch."""
    names = {"lr": "learning rate", "eps": "epsilon value", "weight_decay": "weight_decay value"}
    for key, name in names.items():
        if not 0 <= float(settings[key]) < math.inf:
            raise ValueError(f"Invalid {name}: {settings[key]}{place}; it must be 0 or more, and finite")
    if len(settings["betas"]) != 2:
        raise ValueError(f"Invalid betas: {settings['betas']}{place}; there are two")
    for number, beta in enumerate(settings["betas"]):
        if not 0 <= float(beta) < 1:
            raise ValueError(f"Invalid beta parameter at index {number}: {beta}{place}; it must be 0 or more, and "
                             "less than 1")


def flat_groups(param_groups: Sequence[dict[str, Any]], grad_buffers: int = 2) -> list[FlatGroup]:
    """Returns a group for each param_group. Their elements are numbered through, frozen ones included, as those of a
    step in place."""
    groups, first_element = [], 0
    for index, settings in enumerate(param_groups):
        groups.append(FlatGroup(index, settings, grad_buffers, first_element))
        first_element += sum(param.numel() for param in settings["params"])
    return groups


def _is_split(settings: dict[str, Any], index: int, dtypes: set[torch.dtype]) -> bool:
    """Returns whether the masters of such parameters are split. Raises ZfError if the state format does not go together
    with them."""
    name = _formats.name_of(settings)
    if name == "fp32":
        return False
    if torch.float16 in dtypes:
        raise ZfError(f"param_group {index} holds fp16 parameters, which have no state {name!r}: use state=\"fp32\"")
    if not name.endswith("split") or torch.bfloat16 not in dtypes:
        return False
    if len(dtypes) > 1:
        raise ZfError(f"param_group {index} holds bf16 parameters beside others, which state={name!r} cannot take "
                      "together: give each type a param_group of its own")
    return True


class FlatGroup:
    """A param_group. Its layout is fixed when the runtime is opened; its settings are read at each step.

    While no step is running, a parameter holds what its result holds, unless the program has written to it. The
    parameter is the truth then: read_params() takes what was written."""

    def __init__(self, index: int, settings: dict[str, Any], grad_buffers: int = 2, first_element: int = 0):
        """grad_buffers: as in Group. first_element: the number of the first parameter's first element."""
        self.index = index
        self.settings = settings
        self.given = list(settings["params"])
        self.params = [param for param in self.given if param.requires_grad]
        self.frozen = [number for number, param in enumerate(self.given) if not param.requires_grad]
        self.kinds = [kind(param) for param in self.params]
        self.step = 0  # the number of the last step that was counted
        self.own: list[dict[str, Any]] = []  # step, moments and masters by parameter, which nobody else has
        self.entries: list[dict[str, Any]] = []  # tensors over the same memory, for torch's state
        self.shown: list[dict[str, Any]] = []  # the entries if they are shown; else empty
        self.masters: list[torch.Tensor] = []  # views; none of split masters
        self.low: dict[int, torch.Tensor] = {}  # low bits that were loaded, of parameters that are not yet read
        self._runtime: Runtime | None = None
        self._sent: Group | None = None
        self._published: list[Published] = []
        for param in self.params:
            if not param.is_floating_point() or param.is_complex():
                raise ZfError(f"param_group {index} holds a parameter of {param.dtype}; it must be a real float")
            if hasattr(param, "_local_tensor"):
                raise ZfError(f"param_group {index} holds a DTensor, as of FSDP2 or tensor parallelism: use "
                              "zf_runtime.AdamW, which steps its local shard")
        self.offsets, self.numbers, end, number = [], [], 0, first_element
        for param in self.given:
            if param.requires_grad:
                self.offsets.append(end)
                self.numbers.append(number)
                end += math.ceil(param.numel() / _ALIGN) * _ALIGN
            number += param.numel()
        dtypes = {param.dtype for param in self.params}
        half = _HALVES.get(next(iter(dtypes))) if len(dtypes) == 1 else None
        self.is_split = _is_split(settings, index, dtypes)
        name = _formats.name_of(settings)
        if name.endswith("split") and not self.is_split:
            name = "bf16" if name.startswith("bf16") else "fp32"
        self._shape = Group(elements=end, grad_type=half or "f32", copy_type=half, grad_buffers=grad_buffers,
                            state_format=name, ranges=self._ranges() if name.startswith("bf16") else ())

    def _ranges(self) -> tuple[tuple[int, int], ...]:
        """Returns how the elements of the flat arrays are numbered: a range where a parameter does not follow on from
        the one before, as behind padding."""
        found: list[tuple[int, int]] = []
        for offset, number, param in zip(self.offsets, self.numbers, self.params):
            if param.numel() and (not found or number - found[-1][1] != offset - found[-1][0]):
                found.append((offset, number))
        return tuple(found)

    def wanted(self) -> Group:
        """Returns the present settings."""
        s = self.settings
        check_supported(s, self.index)
        return dataclasses.replace(self._shape, lr=float(s["lr"]), betas=(float(s["betas"][0]), float(s["betas"][1])),
                                   eps=float(s["eps"]), weight_decay=float(s["weight_decay"]),
                                   seed=int(s.get("seed", 0)) % 2**64)

    def attach(self, runtime: Runtime) -> None:
        """Takes the views and copies the parameters' values into them. Parameters keep their own memory: a program may
        swap it and swap it back, as for an EMA."""
        grads = (_abi.GRADS_0, _abi.GRADS_1)[:self._shape.grad_buffers]
        masters = () if self.is_split else (_abi.PARAMS,)
        flat = {array: runtime.tensor(self.index, array)
                for array in (*masters, _abi.MOMENT_1, _abi.MOMENT_2, *grads)}
        self._runtime = runtime
        self.flat = list(flat.values())
        self.masters = [] if self.is_split else self._split(flat[_abi.PARAMS])
        self.exp_avgs, self.exp_avg_sqs = (self._split(flat[array]) for array in (_abi.MOMENT_1, _abi.MOMENT_2))
        self.grads = [self._split(flat[array]) for array in grads]
        self.count = torch.tensor(0.0)  # the step that torch's state shows
        self.own = [{"step": self.count, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}
                    for exp_avg, exp_avg_sq in zip(self.exp_avgs, self.exp_avg_sqs)]
        for param, own, master in zip(self.params, self.own, self.masters):
            if param.dtype != torch.float32:
                own["master"] = master
        if _formats.has_bf16_moments(self.settings):
            for number, own in zip(self.numbers, self.own):
                own["first_element"] = number
        self.renew_entries()
        self._results = self.masters
        if self._shape.copy_type is not None:  # the optimizer has rounded it already, and it has half the bytes
            copy = runtime.tensor(self.index, _abi.COPY)
            self.flat.append(copy)
            self._results = self._split(copy)
        self._sent = runtime.groups[self.index]
        self._published = [published_of(param) for param in self.params]
        for param, initial in zip(self.params, self._results if self.is_split else self.masters):
            initial.copy_(param.detach())
        self.read_params()

    def renew_entries(self) -> None:
        """Makes new tensors for torch's state, which is to be shown anew."""
        step = self.count.detach()
        self.entries = [{name: step if name == "step" else value.detach() if isinstance(value, torch.Tensor) else value
                         for name, value in own.items()} for own in self.own]
        self.shown = []

    def _split(self, flat: torch.Tensor) -> list[torch.Tensor]:
        return [flat[offset:offset + param.numel()].view(param.shape)
                for offset, param in zip(self.offsets, self.params)]

    def master(self, number: int) -> torch.Tensor:
        """Returns the master of a parameter: a view, or a copy if the masters are split. Then no step may run."""
        return self._state_range("zf_read_state", number) if self.is_split else self.masters[number]

    def set_master(self, number: int, value: torch.Tensor) -> None:
        """Writes the master of a parameter. No step may run."""
        if self.is_split:
            self._state_range("zf_write_state", number, value)
        else:
            self.masters[number].copy_(value)

    def _state_range(self, function: str, number: int, value: torch.Tensor | None = None) -> torch.Tensor:
        assert self._runtime is not None
        shape = self.params[number].shape
        if value is None:
            values = torch.empty(shape, dtype=torch.float32, device="cpu")
        else:
            values = value.to("cpu", torch.float32).reshape(shape).contiguous()
        self._runtime._state_range(function, self.index, _abi.PARAMS, self.offsets[number], values.numel(),
                                   values.data_ptr())
        return values

    def written(self, numbers: Iterable[int]) -> list[int]:
        """Returns which of these parameters the program has written to since they were published or read."""
        asked = list(numbers)
        answers = found([self._published[number].differs(self.params[number]) for number in asked])
        return [number for number, differs in zip(asked, answers) if differs]

    def forget_published(self) -> None:
        """Makes the next read_params() compare parameters with masters, after these were written."""
        for published in self._published:
            published.forget()

    @torch.no_grad()
    def read_params(self, numbers: Sequence[int] | None = None) -> None:
        """Takes what the program has written to parameters, such as a loaded checkpoint or a write through `.data`.
        Where a 16-bit parameter is its rounded master, the master stays. numbers: what written() has just returned;
        None: it looks by itself. Call it only while no step of the group is running."""
        for number in self.written(range(len(self.params))) if numbers is None else numbers:
            param = self.params[number].detach()
            low = self.low.pop(number, None)
            if low is not None:  # before the parameter is looked at: they are the low bits of its value
                value = param.cpu()
                self.set_master(number, _formats.master_of(value, low) if param.dtype is torch.bfloat16 else value)
            if self.is_split:
                value, copy = param.to("cpu"), self._results[number]
                is_rounded = bits(self.master(number).to(value.dtype)) == bits(value)  # which differs in ties
                copy.copy_(torch.where(is_rounded, copy, value))
                self._published[number].note(param)
                continue
            master = self.masters[number]
            if param.dtype == master.dtype:
                master.copy_(param)
            else:
                value = param.to(master.device)
                is_rounded = bits(master.to(value.dtype)) == bits(value)
                master.copy_(torch.where(is_rounded, master, value.to(master.dtype)))
                if self._results is not self.masters:
                    self._results[number].copy_(value)
            self._published[number].note(param)

    @torch.no_grad()
    def write_grads(self, buffer: int) -> bool:
        """Copies the gradients into buffer 0 or 1. Returns False if there are none; the group then skips this step."""
        missing = [number for number, param in enumerate(self.params) if param.grad is None]
        if len(missing) == len(self.params):
            return False
        if missing:
            raise ZfError(f"param_group {self.index}: parameters {missing} of {len(self.params)} have no gradient, "
                          "and the others have; the runtime steps a group as a whole: give them a param_group of their "
                          "own, zero gradients, or requires_grad=False before the optimizer is made; zf_runtime.AdamW "
                          "skips them")
        for param, grad in zip(self.params, self.grads[buffer]):
            if param.grad.is_sparse:
                raise ZfError(f"param_group {self.index} has a sparse gradient; make it dense")
            grad.copy_(param.grad, non_blocking=True)
        return True

    @torch.no_grad()
    def publish(self, finished: Callable[[int], int]) -> list[int]:
        """Gives each parameter its value of the running step as soon as that is finished. Skips parameters that the
        program has written to meanwhile, and returns their numbers: what a program writes counts, as with torch.
        finished(n) waits for n elements of the group, and returns how many are finished.

        Where it was interrupted, it may be called again."""
        done = 0
        written = set(self.written(range(len(self.params))))
        for number, (param, result) in enumerate(zip(self.params, self._results)):
            end = self.offsets[number] + param.numel()
            if done < end:
                done = finished(end)
            if number not in written or self._holds_result(number):
                param.copy_(result, non_blocking=True)
                self._published[number].note(param)
                written.discard(number)
        return sorted(written)

    def _holds_result(self, number: int) -> bool:
        """Returns whether an interrupted publish() has given the parameter its value already."""
        if kind(self.params[number]) != self.kinds[number]:  # it is refused at the next step
            return False
        value = self.params[number].detach().to(self._results[number].device)
        same: bool = torch.equal(bits(value), bits(self._results[number].to(value.dtype)))
        return same

    def send_settings(self, runtime: Runtime) -> None:
        wanted = self.wanted()
        if wanted != self._sent:
            self._sent = None  # until it is known what the runtime has
            runtime.set_group(self.index, wanted)
            self._sent = wanted

    def detach(self) -> None:
        """Drops all views."""
        self._runtime = None
        self.low = {}
        self.flat, self.masters, self.exp_avgs, self.exp_avg_sqs, self.grads = [], [], [], [], []
        self._results, self._published, self.own, self.entries, self.shown = [], [], [], [], []
