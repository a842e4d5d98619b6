"""What an optimizer with a process has while it is open, and how that ends."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ...errors import ZfError, ZfTimeout, ZfWorkerDied
from ..tensors import clipping
from ..tensors.eligibility import is_sharded, local_of
from ..tensors.engine import ParamGroup
from ..tensors.streams import Device, device_of
from ..tensors.threads import end_from_outside
from .arena import Arena, Place
from .gates import Order
from .gradients import Collected, Gradients
from .reads import Memory, Reads
from .refusals import refuse, refuse_shared
from .speculation import Speculation
from .timeline import Timeline
from .turn import Overlap, Share

Wanted = Sequence[tuple[torch.Tensor, ParamGroup, int]]  # see first_numbers()


class Opened:
    """What an open optimizer has."""

    def __init__(self, wanted: Wanted, mode: str, options: dict[str, Any], devices: dict[torch.device, Device],
                 timeline: Timeline, *, speculates: bool = False):
        for param, _, _ in wanted:
            refuse(param, mode)
        refuse_shared([param for param, _, _ in wanted])
        self.is_sharded = any(is_sharded(param) for param, _, _ in wanted)
        buffers = 2 if mode == "late" else 1
        self.arena = Arena(wanted, buffers, options, speculates=speculates)
        for place in self.arena.places:
            devices.setdefault(place.kind[2], device_of(place.kind[2]))
        self.overlap = Overlap(self.arena, devices, timeline)
        self.gradients = Gradients(devices, early=mode == "exact")
        self.speculation: Speculation | None = None
        if any(place.shape.speculative for place in self.arena.places):
            self.speculation = Speculation(self.arena, self.overlap)
            self.gradients.before_copy = self._before_copy
        self.buffer = 0  # for the gradients of the next step
        self.sequence: list[list[torch.Tensor]] = []  # the parameters of each share
        self._known = 0  # how many parameters were ordered

    def _before_copy(self, places: Sequence[Place]) -> None:
        if self.speculation is not None and any(map(self.speculation.has, places)):
            self.speculation.take_back()  # for that the gradients are needed

    @functools.cached_property
    def state_memory(self) -> Memory:
        """Where masters and moments lie."""
        return Memory(self.arena.places, has_params=False)

    @property
    def is_here(self) -> bool:
        """Whether this is the process that opened it."""
        return self.overlap.follower.owner == os.getpid()

    def norm(self, places: Sequence[Place], collected: Collected) -> float:
        """Returns the norm of the gradients of these places. That of DTensors is torch's, over all ranks."""
        if self.is_sharded:
            return clipping.norm_in_place(place.param for place in places)
        return clipping.total(collected.squares)

    def thin(self) -> None:
        """Gives memory back, so that there is room for a successor. If none comes, this one can go on."""
        self.gradients.forget()
        turn = self.overlap.follower.turn
        for share in () if turn is None else turn.shares:
            share.event.synchronize()  # a GPU reads the arena until then
        self.arena.thin()

    def await_process(self) -> None:
        """Waits while the process is stopped, so that close() need not. Takes back what is begun of a step."""
        if self.speculation is not None:
            self.speculation.take_back()
        self.arena.runtime.await_running()

    def close(self, keeps: bool = True) -> dict[torch.Tensor, torch.Tensor]:
        """Ends thread, process and arena, after the step that is under way. See Arena.release(). Raises what
        Runtime.close() raises."""
        self.arena.runtime.end_waits()
        try:
            self.overlap.publish()
            self.overlap.follower.end()
            if self.speculation is not None:
                with contextlib.suppress(ZfWorkerDied, ZfTimeout):  # Runtime.close() raises it
                    self.speculation.end()
            self.gradients.close()
            return self.arena.release(keeps)
        finally:
            self.arena.close()

    def shares_of(self, places: Sequence[Place], order: Iterable[torch.Tensor]) -> list[Share]:
        """Returns the shares of a step of these places. order: parameters in the order of forward, as far as that is
        known; parameters that are not in it come first."""
        order = list(order)
        if not self.sequence or len(order) != self._known:
            self._known = len(order)
            first = {id(param): number for number, param in enumerate(order)}
            ordered = sorted(self.arena.places, key=lambda place: first.get(id(place.param), -1))
            self.sequence = [[place.param for place in some] for some in _cut(ordered)]
        active = {id(place.param): place for place in places}
        found = [[active[id(param)] for param in some if id(param) in active] for some in self.sequence]
        return [Share(some) for some in found if some]

    def first_share(self) -> float:
        """Returns the part of the parameters that the first share holds: nothing hides its step."""
        sizes = [sum(local_of(param).numel() for param in some) for some in self.sequence]
        return sizes[0] / sum(sizes) if sizes else 0.0


def _cut(places: Sequence[Place]) -> list[list[Place]]:
    """Returns the places in pieces of one device each, some 32 in all; a large one by itself."""
    least = max(1 << 20, sum(place.local.nbytes for place in places) // 32)
    pieces: list[list[Place]] = []
    size = least
    for place in places:
        if size >= least or pieces[-1][0].kind[2] != place.kind[2] or place.is_large:
            pieces.append([])
            size = 0
        pieces[-1].append(place)
        size += max(place.local.nbytes, place.is_large * least)
    return pieces


def unhook(order: Order | None, arrivals: dict[torch.Tensor, Any], reads: Reads[Place]) -> None:
    """Removes our hooks from the model, and our mode from the stack."""
    reads.end()
    if order is not None:
        order.close()
    for hook in arrivals.values():
        hook.remove()
    arrivals.clear()


def end(opened: Opened, order: Order | None, arrivals: dict[torch.Tensor, Any], reads: Reads[Place]) -> None:
    """Finalizer: closes an optimizer that was collected without close()."""
    if not opened.is_here:
        return
    unhook(order, arrivals, reads)
    if opened.arena.steps.keeps:
        return  # it is left when the process ends

    def close() -> None:
        with contextlib.suppress(ZfError):
            opened.close()

    end_from_outside(close)
