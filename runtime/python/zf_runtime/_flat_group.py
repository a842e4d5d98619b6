"""Maps a torch param_group to a runtime group: its parameters lie one after the other in flat arrays."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any, Callable

import torch

from . import _abi
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
    """A param_group. Its layout is fixed when the runtime is opened; its settings are read at each step."""

    def __init__(self, index: int, settings: dict[str, Any], grad_buffers: int = 2):
        """grad_buffers: as in Group."""
        self.index = index
        self.settings = settings
        self.params = [param for param in settings["params"] if param.requires_grad]
        self.step = 0  # how often this group was submitted
        self.announce_step = False  # the runtime does not know `step` yet
        self._sent: Group | None = None
        self._versions: list[int] = []
        self.aliased: list[bool] = [False] * len(self.params)
        for param in self.params:
            if not param.is_floating_point() or param.is_complex():
                raise ZfError(f"param_group {index} holds a parameter of {param.dtype}; it must be a real float")
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

    def attach(self, runtime: Runtime, alias: bool) -> None:
        """Takes the views and copies the parameters' values into them. With `alias`, CPU fp32 parameters then live in
        the shared memory."""
        grads = (_abi.GRADS_0, _abi.GRADS_1)[:self._shape.grad_buffers]
        flat = {kind: runtime.tensor(self.index, kind)
                for kind in (_abi.PARAMS, _abi.MOMENT_1, _abi.MOMENT_2, *grads)}
        self.flat = list(flat.values())
        self.masters, self.exp_avgs, self.exp_avg_sqs = (
            self._split(flat[kind]) for kind in (_abi.PARAMS, _abi.MOMENT_1, _abi.MOMENT_2))
        self.grads = [self._split(flat[kind]) for kind in grads]
        self._results = self.masters
        if self._shape.copy_type is not None:  # the optimizer has rounded it already, and it has half the bytes
            copy = runtime.tensor(self.index, _abi.COPY)
            self.flat.append(copy)
            self._results = self._split(copy)
        self._sent = runtime.groups[self.index]
        self._versions = [-1] * len(self.params)
        self.read_params()
        if alias:
            for number, param in enumerate(self.params):
                if param.device.type == "cpu" and param.dtype == torch.float32 and param.is_contiguous():
                    param.data = self.masters[number]
                    self.aliased[number] = True

    def _split(self, flat: torch.Tensor) -> list[torch.Tensor]:
        return [flat[offset:offset + param.numel()].view(param.shape)
                for offset, param in zip(self.offsets, self.params)]

    @torch.no_grad()
    def read_params(self) -> None:
        """Copies what was written to parameters since publish(), such as a loaded checkpoint. Call it only while no
        step of the group is running."""
        for number, param in enumerate(self.params):
            if not self.aliased[number] and param._version != self._versions[number]:
                self.masters[number].copy_(param)
                self._versions[number] = param._version

    @torch.no_grad()
    def write_grads(self, buffer: int) -> bool:
        """Copies the gradients into buffer 0 or 1. Returns False if there are none; the group then skips this step."""
        missing = [number for number, param in enumerate(self.params) if param.grad is None]
        if len(missing) == len(self.params):
            return False
        if missing:
            raise ZfError(f"param_group {self.index}: parameters {missing} of {len(self.params)} have no gradient, "
                          "and the others have; the runtime steps a group as a whole: give them a param_group of their "
                          "own, zero gradients, or requires_grad=False before the optimizer is made")
        for param, grad in zip(self.params, self.grads[buffer]):
            if param.grad.is_sparse:
                raise ZfError(f"param_group {self.index} has a sparse gradient; make it dense")
            grad.copy_(param.grad, non_blocking=True)
        return True

    @torch.no_grad()
    def publish(self, finished: Callable[[int], int]) -> None:
        """Gives each parameter its value of the running step as soon as that is finished. Skips parameters that the
        program has written to meanwhile: what a program writes counts, as with torch. finished(n) waits for n
        elements of the group, and returns how many are finished."""
        lost = done = 0
        for number, (param, result) in enumerate(zip(self.params, self._results)):
            end = self.offsets[number] + param.numel()
            if done < end:
                done = finished(end)
            if self.aliased[number]:
                # Another process wrote the values. This tells autograd, which then refuses a graph that saved old ones.
                param.detach().view(-1)[:0].zero_()
            elif param._version == self._versions[number]:
                param.copy_(result, non_blocking=True)
                self._versions[number] = param._version
            else:
                lost += 1
        if lost != 0:
            parameters = "1 parameter was" if lost == 1 else f"{lost} parameters were"
            warnings.warn(f"param_group {self.index}: {parameters} written while the step was running: the written "
                          "values stay, and their step is lost. Call synchronize() before writing",
                          stacklevel=4)

    def send_settings(self, runtime: Runtime) -> None:
        wanted = self.wanted()
        if wanted != self._sent:
            runtime.set_group(self.index, wanted)
            self._sent = wanted

    def detach(self) -> None:
        """Gives aliased parameters memory of their own again, and drops all views."""
        for number, param in enumerate(self.params):
            if self.aliased[number]:
                param.data = param.data.clone()
                self.aliased[number] = False
        self.flat, self.masters, self.exp_avgs, self.exp_avg_sqs, self.grads = [], [], [], [], []
        self._results = []
