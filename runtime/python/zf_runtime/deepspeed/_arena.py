"""Keeps ZeRO's flat fp32 partitions in an arena of the runtime, and steps them there."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Callable, Sequence

import torch

from .. import _abi
from .._cuda import HostRegistration
from ..errors import ZfWorkerDied
from ..group import Group
from ..runtime import Runtime

COPY_TYPES = {torch.bfloat16: "bf16", torch.float16: "f16"}


@dataclasses.dataclass
class Partition:
    """A flat fp32 partition of this rank, as ZeRO made it."""

    param: torch.Tensor  #: fp32, on the CPU, one dimension; `grad` is its gradient, of the same shape
    copy_dtype: torch.dtype  #: the element type that ZeRO copies the result to
    adamw: bool


class Slot:
    """A partition that lies in the arena: a group of the runtime."""

    def __init__(self, index: int, runtime: Runtime, partition: Partition):
        self.index = index
        self.param = partition.param
        self.master = runtime.tensor(index, _abi.PARAMS)
        self.moments = (runtime.tensor(index, _abi.MOMENT_1), runtime.tensor(index, _abi.MOMENT_2))
        self.grads = (runtime.tensor(index, _abi.GRADS_0), runtime.tensor(index, _abi.GRADS_1))
        has_copy = runtime.groups[index].copy_type is not None
        self.copy = runtime.tensor(index, _abi.COPY) if has_copy else None  #: the last result, in ZeRO's element type
        self.grad_scale = 1.0  #: of the next step
        self.sent = runtime.groups[index]

    @property
    def arrays(self) -> list[torch.Tensor]:
        return [self.master, *self.moments, *self.grads, *([] if self.copy is None else [self.copy])]

    def take_grad_scale(self) -> float:
        scale, self.grad_scale = self.grad_scale, 1.0
        return scale


class BiasPowers:
    """Follows DeepSpeed's rule for the powers of beta. Its operator has one pair for all partitions of an optimizer: a
    step after the last one multiplies them, the same step keeps them, and other betas or any other step calculate
    them anew."""

    def __init__(self) -> None:
        self._step = 0
        self._betas: tuple[float, float] | None = None

    def anew(self, step: int, betas: tuple[float, float]) -> bool:
        """Returns whether DeepSpeed calculates the powers anew for this step."""
        same = self._betas in (None, betas)
        result = not same or step not in (self._step, self._step + 1)
        self._step, self._betas = step, betas
        return result


class FlatArena:
    """The partitions of one ZeRO optimizer in the arena of one Runtime.

    With late=False a step is done when step() returns. With late=True step() only notes it: submit() hands over all
    that were noted, and wait(), which the next step() calls, ends them.

    It is not thread-safe, like the optimizer above it.
    """

    def __init__(self, partitions: Sequence[Partition], late: bool, options: dict[str, Any]):
        groups = [Group(elements=partition.param.numel(), mode="adamw" if partition.adamw else "adam",
                        copy_type=COPY_TYPES.get(partition.copy_dtype)) for partition in partitions]
        self.late = late
        self.runtime = Runtime(groups=groups, **options)
        self.slots = [Slot(index, self.runtime, partition) for index, partition in enumerate(partitions)]
        self._at = {slot.master.data_ptr(): slot for slot in self.slots}
        self._powers = BiasPowers()
        self._noted: list[tuple[Slot, int, float]] = []  # slot, step, grad_scale
        self._ticket = 0  # of what was submitted last; 0: all is done
        self._buffer = 0  # that the next gradients are written to
        self._registration: HostRegistration | None = None

    def take(self, slot: Slot, unpin: Callable[[torch.Tensor], None]) -> None:
        """Moves a partition and its gradient into the arena. Calls unpin(tensor) for each, between the copy and the
        moment that it lies elsewhere."""
        param = slot.param
        with torch.no_grad():
            slot.master.copy_(param)
            slot.grads[0].copy_(param.grad)
        unpin(param)
        unpin(param.grad)
        param.data = slot.master
        param.grad = slot.grads[0]

    def register(self) -> str:
        """Pins the arena for CUDA. Returns why memory stays pageable; "" if it is pinned."""
        self._registration = HostRegistration(array for slot in self.slots for array in slot.arrays)
        return self._registration.note

    def slot_of(self, params: torch.Tensor) -> Slot | None:
        """Returns the slot whose master parameters these are; None if they lie elsewhere."""
        return self._at.get(params.data_ptr())

    def step(self, slot: Slot, step: int, grads: torch.Tensor, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor,
             **settings: Any) -> None:
        """Does step number `step` of a partition, or notes it (late). Moments and gradients that lie elsewhere, as after
        a checkpoint was loaded, are copied into the arena; the moments' tensors are views of it from then on."""
        self.wait()
        wanted = dataclasses.replace(slot.sent, **settings)
        if wanted != slot.sent:
            self.runtime.set_group(slot.index, wanted)
            slot.sent = wanted
        for mine, given in zip(slot.moments, (exp_avg, exp_avg_sq)):
            if given.data_ptr() != mine.data_ptr():
                mine.copy_(given.reshape(-1))
                given.data = mine
        if grads.data_ptr() != slot.grads[self._buffer].data_ptr():
            slot.grads[self._buffer].copy_(grads.reshape(-1))
        if self._powers.anew(step, wanted.betas):
            self.runtime.set_step(slot.index, step - 1)
        if self.late:
            self._noted.append((slot, step, slot.take_grad_scale()))
        else:
            self.runtime.wait(self.runtime.submit([slot.index], grad_scale=slot.take_grad_scale(), step=step))

    def submit(self) -> None:
        """Hands over the steps that were noted. The gradients of the next ones go to the other buffer."""
        if not self._noted:
            return
        alike: dict[tuple[int, float], list[int]] = {}
        for slot, step, grad_scale in self._noted:
            alike.setdefault((step, grad_scale), []).append(slot.index)
        for (step, grad_scale), indexes in alike.items():
            self._ticket = self.runtime.submit(indexes, buffer=self._buffer, grad_scale=grad_scale, step=step)
        self._noted.clear()
        self._buffer ^= 1
        for slot in self.slots:
            slot.param.grad = slot.grads[self._buffer]

    def wait(self) -> None:
        """Waits until all that was submitted is done."""
        if self._ticket:
            self.runtime.wait(self._ticket)
            self._ticket = 0

    def close(self) -> None:
        """Finishes what was submitted and ends the process. The tensors stay readable. The second call does nothing."""
        if self.runtime.closed:
            return
        self._at.clear()  # from now on DeepSpeed's own operator steps
        try:
            with contextlib.suppress(ZfWorkerDied):  # runtime.close() reports it
                self.wait()
        finally:
            if self._registration is not None:
                self._registration.release()
            self.runtime.close()
