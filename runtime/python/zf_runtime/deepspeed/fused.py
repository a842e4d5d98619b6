"""Lets the step itself do what ZeRO does in passes of its own: unscale and clip the gradients, and round the result for
the GPU."""

from __future__ import annotations

import contextlib
import functools
import math
import types
from collections.abc import Iterator
from typing import Any, Callable

import torch

from .arena import FlatArena, Owed, Slot

#: What these functions use of a ZeRO optimizer, by stage (2: stages 1 and 2).
NEEDED = {2: ("unscale_and_clip_grads", "single_partition_of_fp32_groups",
              "param_buffer_of_bit16_for_cpu_offload_groups", "params_in_partition", "get_param_id",
              "_link_all_hp_params", "bit16_groups", "reset_cpu_buffers"),
          3: ("unscale_and_clip_grads", "fp32_partitioned_groups_flat", "fp16_partitioned_groups_flat", "fp16_groups",
              "get_param_id", "_reassign_or_swap_out_partitioned_parameters", "reset_cpu_buffers")}


class CopyOut:
    """Stands in for ZeRO's bit16 buffer of a partition. The optimizer has filled the tensor in its own pass, so ZeRO's
    copy from the master parameters does nothing."""

    def __init__(self, arena: FlatArena, slot: Slot):
        self._arena = arena
        self._master = slot.master
        self._tensor = slot.master if slot.result is None else slot.result

    @property
    def data(self) -> CopyOut:
        return self

    def copy_(self, source: torch.Tensor, *args: Any, **keywords: Any) -> CopyOut:
        if not self._arena.is_open or source.data_ptr() != self._master.data_ptr():
            self._tensor.copy_(source, *args, **keywords)
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tensor, name)

    @property
    def _is_published(self) -> bool:
        """Whether a thread copies it to the model: see publisher.py. What is stepped at once is copied here, too, since
        the step may be interrupted before that thread gets it."""
        return self._arena.is_beside and self._arena.is_open

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), keywords: Any = None) -> Any:
        if function is torch.Tensor.copy_ and isinstance(args[1], cls) and args[1]._is_published:
            return args[0]
        return function(*(arg._tensor if isinstance(arg, cls) else arg for arg in args), **(keywords or {}))


def fuse_stage_1_and_2(zero: Any, arena: FlatArena) -> Callable[[int], float]:
    """Fuses both in the optimizer of stages 1 and 2. Returns a function that says what ZeRO would multiply gradients
    with if it did not clip; it takes the number of a group."""
    buffers = zero.param_buffer_of_bit16_for_cpu_offload_groups
    indexes = {}
    for index, param in enumerate(zero.single_partition_of_fp32_groups):
        slot = arena.slot_of(param)
        if slot is not None:
            buffers[index] = CopyOut(arena, slot)
            indexes.update({grads.data_ptr(): (index, slot) for grads in slot.grads})
    original, norms = zero.unscale_and_clip_grads, [torch.zeros(())]  # the last one

    @functools.wraps(original)
    def unscale_and_clip_grads(grads: Any, total_norm: Any) -> None:
        norms[:] = [total_norm]
        index, slot = indexes.get(grads[0].data_ptr(), (None, None)) if len(grads) == 1 else (None, None)
        idle = None if slot is None else _idle(zero, zero.params_in_partition[index])
        _fuse_scale(arena, slot, idle, lambda probe: original([probe], total_norm), lambda: original(grads, total_norm))

    zero.unscale_and_clip_grads = unscale_and_clip_grads
    return lambda _: _scale_of(lambda probe: original([probe], torch.zeros_like(torch.as_tensor(norms[0]))))


def fuse_stage_3(zero: Any, arena: FlatArena) -> Callable[[int], float]:
    """Fuses both in the optimizer of stage 3. Its functions name a partition by its sub-group. Returns a function that
    says what ZeRO would multiply the gradients of a sub-group with if it did not clip."""
    partitions = zero.fp32_partitioned_groups_flat
    unscale = zero.unscale_and_clip_grads
    reassign = zero._reassign_or_swap_out_partitioned_parameters

    norms = [torch.zeros(())]  # the last one

    def unscale_probe(sub_group: int, total_norm: Any, probe: torch.Tensor) -> None:
        with _standing_in(partitions, sub_group, types.SimpleNamespace(grad=probe)):
            unscale(sub_group, total_norm)

    @functools.wraps(unscale)
    def unscale_and_clip_grads(sub_group: int, total_norm: Any) -> None:
        norms[:] = [total_norm]
        slot = arena.slot_of(partitions[sub_group])
        params = [param for param in zero.fp16_groups[sub_group] if has_part(zero, param)]
        idle = None if slot is None else _idle(zero, params)
        _fuse_scale(arena, slot, idle, functools.partial(unscale_probe, sub_group, total_norm),
                    lambda: unscale(sub_group, total_norm))

    def unclipped(sub_group: int) -> float:
        return _scale_of(functools.partial(unscale_probe, sub_group, torch.zeros_like(torch.as_tensor(norms[0]))))

    @functools.wraps(reassign)
    def reassign_or_swap_out(sub_group: int) -> None:
        slot = arena.slot_of(partitions[sub_group])
        if slot is None or slot.result is None:
            reassign(sub_group)
            return
        with _standing_in(partitions, sub_group, types.SimpleNamespace(data=slot.result)):
            reassign(sub_group)

    zero.unscale_and_clip_grads = unscale_and_clip_grads
    zero._reassign_or_swap_out_partitioned_parameters = reassign_or_swap_out
    return unclipped


@contextlib.contextmanager
def _standing_in(items: list[Any], index: int, stand_in: Any) -> Iterator[None]:
    original, items[index] = items[index], stand_in
    try:
        yield
    finally:
        items[index] = original


def _idle(zero: Any, params: Any) -> list[tuple[int, int]] | None:
    """Returns where in a partition's gradient the parameters lie that have no new gradient: (begin, length). None if
    that cannot be known. ZeRO notes the norm of each gradient that comes in until its step ends."""
    norms, positions = getattr(zero, "norm_for_param_grads", None), getattr(zero, "grad_position", None)
    if norms is None or positions is None:
        return None
    ids = [zero.get_param_id(param) for param in params]
    if any(id not in positions for id in ids):
        return None
    return [tuple(positions[id][-2:]) for id in ids if id not in norms]


def has_part(zero: Any, param: torch.Tensor) -> bool:
    """Returns whether this rank's partition of a parameter in stage 3 has elements of it. Otherwise it is padding, and
    ZeRO puts no gradient there."""
    rank: int = zero._get_param_partition_rank(param)
    return bool(param.partition_numel() * rank < param.ds_numel)


def settler(zero: Any, arena: FlatArena) -> Callable[[], None]:
    """Returns a function that waits for the step that is under way, and then multiplies what an earlier step did not
    multiply in place. Afterwards, all gradients in the arena are what ZeRO's own would be."""
    if hasattr(zero, "fp32_partitioned_groups_flat"):
        partitions, groups = zero.fp32_partitioned_groups_flat, zero.fp16_groups
    else:
        partitions, groups = zero.single_partition_of_fp32_groups, zero.params_in_partition
    found = ((arena.slot_of(partition), params) for partition, params in zip(partitions, groups))
    slots = [(slot, params) for slot, params in found if slot is not None]

    def settle() -> None:
        arena.wait()
        for slot, params in slots:
            grads = slot.param.grad
            if grads is not None and grads.data_ptr() in slot.owed:
                _settle(slot, _idle(zero, params))

    return settle


def settler_after_overflow(zero: Any, settle: Callable[[], None]) -> Callable[[], None]:
    """Returns a function that pays what an earlier step owes if this one has overflowed. ZeRO calls reset_cpu_buffers()
    at the end of each step. After an overflow it scales nothing, and forgets which gradients are new."""
    return lambda: settle() if getattr(zero, "overflow", False) else None


def _settle(slot: Slot, idle: list[tuple[int, int]] | None) -> None:
    """Multiplies the gradients that no backward has replaced with the factor of the step that they were for. An
    exception, as of a signal handler, comes before all of it or after."""
    grads = slot.param.grad
    owed = slot.owed.get(grads.data_ptr())
    if owed is None or owed.paid:
        return
    parts = [grads[begin:begin + length] for begin, length in ([(0, grads.numel())] if idle is None else idle)]
    torch._foreach_mul_([*parts, owed.unpaid], [*(owed.factor for _ in parts), 0.0])  # one call


def _fuse_scale(arena: FlatArena, slot: Slot | None, idle: list[tuple[int, int]] | None,
                unscale_probe: Callable[[torch.Tensor], None], unscale: Callable[[], None]) -> None:
    """Asks ZeRO what it multiplies a gradient of 1 with, and lets the next step multiply with it instead of ZeRO.

    ZeRO multiplies in place, and a parameter that gets no gradient keeps what is there: its gradient of an earlier
    step, multiplied once per step. Where there is such a parameter, this is done as ZeRO does it. It is also done so if
    the factor is not finite, which the runtime refuses."""
    if slot is None or not arena.is_open:
        unscale()
        return
    if idle == []:
        _settle(slot, idle)
        scale = _scale_of(unscale_probe)
        if math.isfinite(scale):
            owed = Owed(scale)
            slot.owed[slot.param.grad.data_ptr()] = owed
            slot.grad_scale = scale
            return
    if arena.speculation is not None:
        arena.speculation.refuse()
    _settle(slot, idle)
    unscale()


def _scale_of(unscale: Callable[[torch.Tensor], None]) -> float:
    probe = torch.ones(1)
    unscale(probe)
    return float(probe.item())
