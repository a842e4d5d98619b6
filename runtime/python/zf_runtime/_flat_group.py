"""Maps a torch param_group to a runtime group: its parameters lie one after the other in flat arrays."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, Callable

import torch

from . import _abi
from ._published import Published, bits, found, kind, published_of
from .errors import ZfError
from .group import Group
from .runtime import Runtime

_HALVES = {torch.bfloat16: "bf16", torch.float16: "f16"}
_ALIGN = 16  # elements: every parameter begins at a cache line


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


class FlatGroup:
    """A param_group. Its layout is fixed when the runtime is opened; its settings are read at each step.

    While no step is running, a parameter holds what its result holds, unless the program has written to it. The
    parameter is the truth then: read_params() takes what was written."""

    def __init__(self, index: int, settings: dict[str, Any], grad_buffers: int = 2):
        """grad_buffers: as in Group."""
        self.index = index
        self.settings = settings
        self.given = list(settings["params"])
        self.params = [param for param in self.given if param.requires_grad]
        self.frozen = [number for number, param in enumerate(self.given) if not param.requires_grad]
        self.kinds = [kind(param) for param in self.params]
        self.step = 0  # the number of the last step that was counted
        self.own: list[dict[str, torch.Tensor]] = []  # step, moments and masters by parameter, which nobody else has
        self.entries: list[dict[str, torch.Tensor]] = []  # tensors over the same memory, for torch's state
        self.shown: list[dict[str, torch.Tensor]] = []  # the entries if they are shown; else empty
        self._sent: Group | None = None
        self._published: list[Published] = []
        for param in self.params:
            if not param.is_floating_point() or param.is_complex():
                raise ZfError(f"param_group {index} holds a parameter of {param.dtype}; it must be a real float")
            if hasattr(param, "_local_tensor"):
                raise ZfError(f"param_group {index} holds a DTensor, as of FSDP2 or tensor parallelism: use "
                              "zf_runtime.AdamW, which steps its local shard")
        self.offsets, end = [], 0
        for param in self.params:
            self.offsets.append(end)
            end += math.ceil(param.numel() / _ALIGN) * _ALIGN
        dtypes = {param.dtype for param in self.params}
        half = _HALVES.get(next(iter(dtypes))) if len(dtypes) == 1 else None
        self._shape = Group(elements=end, grad_type=half or "f32", copy_type=half, grad_buffers=grad_buffers)

    def wanted(self) -> Group:
        """Returns the present settings."""
        s = self.settings
        check_supported(s, self.index)
        return dataclasses.replace(self._shape, lr=float(s["lr"]), betas=(float(s["betas"][0]), float(s["betas"][1])),
                                   eps=float(s["eps"]), weight_decay=float(s["weight_decay"]))

    def attach(self, runtime: Runtime) -> None:
        """Takes the views and copies the parameters' values into them. Parameters keep their own memory: a program may
        swap it and swap it back, as for an EMA."""
        grads = (_abi.GRADS_0, _abi.GRADS_1)[:self._shape.grad_buffers]
        flat = {array: runtime.tensor(self.index, array)
                for array in (_abi.PARAMS, _abi.MOMENT_1, _abi.MOMENT_2, *grads)}
        self.flat = list(flat.values())
        self.masters, self.exp_avgs, self.exp_avg_sqs = (
            self._split(flat[array]) for array in (_abi.PARAMS, _abi.MOMENT_1, _abi.MOMENT_2))
        self.grads = [self._split(flat[array]) for array in grads]
        self.count = torch.tensor(0.0)  # the step that torch's state shows
        self.own = [{"step": self.count, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq}
                    for exp_avg, exp_avg_sq in zip(self.exp_avgs, self.exp_avg_sqs)]
        for param, own, master in zip(self.params, self.own, self.masters):
            if param.dtype != torch.float32:
                own["master"] = master
        self.renew_entries()
        self._results = self.masters
        if self._shape.copy_type is not None:  # the optimizer has rounded it already, and it has half the bytes
            copy = runtime.tensor(self.index, _abi.COPY)
            self.flat.append(copy)
            self._results = self._split(copy)
        self._sent = runtime.groups[self.index]
        self._published = [published_of(param) for param in self.params]
        for param, master in zip(self.params, self.masters):
            master.copy_(param.detach())
        self.read_params()

    def renew_entries(self) -> None:
        """Makes new tensors for torch's state, which is to be shown anew."""
        step = self.count.detach()
        self.entries = [{name: step if name == "step" else tensor.detach() for name, tensor in own.items()}
                        for own in self.own]
        self.shown = []

    def _split(self, flat: torch.Tensor) -> list[torch.Tensor]:
        return [flat[offset:offset + param.numel()].view(param.shape)
                for offset, param in zip(self.offsets, self.params)]

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
            param, master = self.params[number].detach(), self.masters[number]
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
        self.flat, self.masters, self.exp_avgs, self.exp_avg_sqs, self.grads = [], [], [], [], []
        self._results, self._published, self.own, self.entries, self.shown = [], [], [], [], []
