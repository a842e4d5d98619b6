"""Brings all ranks back at the same step. Each rank keeps memory of its own.

Each rank prepares a step, waits until all ranks have prepared it, and then lets it go. So if a step went in one rank,
all others have prepared it. When new ranks open what is kept, they tell each other the numbers of their steps. A step
that went in some rank then goes in all ranks; a step that went in none is dropped."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ...errors import ZfError, ZfStateError
from ...native.environment import launched_ranks

_TO_BEGIN_ANEW = "free what is left with `zf-tune kept --drop`, and go on from a checkpoint"


class Found(NamedTuple):
    """What a rank has found."""

    gone: int = 0  #: the last step that went; 0: none did, or nothing is kept
    prepared: int = 0  #: the step that is prepared and did not go; 0: none
    refusal: str = ""  #: why this rank cannot open what is kept


class Ranks:
    """The ranks of the job. All make this object, and call its methods, in the same order."""

    def __init__(self) -> None:
        # A group of its own: a thread uses it beside training.
        self._group = torch.distributed.new_group(backend="gloo", timeout=timeout_of_program())
        self.rank, self.count = torch.distributed.get_rank(), torch.distributed.get_world_size()

    def agree(self, found: Found) -> bool:
        """Returns whether this rank's prepared step goes. Raises ZfStateError if the ranks cannot be at one step."""
        every: list[Any] = [None] * self.count
        torch.distributed.all_gather_object(every, found, group=self._group)
        return goes(every, self.rank)

    def meet(self, step: int, *, skips: bool = False) -> None:
        """Waits until all ranks have prepared a step, or all skip it. Raises ZfError in all ranks if they differ."""
        numbers = torch.tensor([step, -step, int(skips), -int(skips)], device="cpu")
        torch.distributed.all_reduce(numbers, torch.distributed.ReduceOp.MAX, group=self._group)
        most, least, is_skipped, is_taken = numbers.tolist()
        if most != -least:
            raise ZfError(f"with keep= all ranks take the same steps, and here one takes step {-least} while another "
                          f"takes step {most}: call step() with gradients in all ranks")
        if is_skipped and is_taken == 0:
            raise ZfError(f"with keep= all ranks take the same steps, and here step {step} is skipped by "
                          f"{'this rank' if skips else 'another rank'}, which has no gradients or a norm that is not "
                          "finite: call step() in all ranks, with gradients that are averaged over them")


def goes(every: Sequence[Found], rank: int) -> bool:
    """Returns whether the prepared step of a rank goes. Raises ZfStateError if the ranks cannot be at one step."""
    refused = [(number, found.refusal) for number, found in enumerate(every) if found.refusal]
    if refused:
        raise ZfStateError(f"rank {refused[0][0]} cannot go on: {refused[0][1]}", "ZF_ERROR_STATE")
    last = max(found.gone for found in every)
    for number, found in enumerate(every):
        if found.gone != last and (found.gone, found.prepared) != (last - 1, last):
            how = (f"is at step {found.gone}" if found.gone else
                   "has nothing that was kept: it has closed it at the job's end, or its node or its keeper is lost")
            raise ZfStateError(f"rank {number} {how}, and others are at step {last}: {_TO_BEGIN_ANEW}",
                               "ZF_ERROR_STATE")
    return every[rank].gone != last


def of_this_job(keep: str) -> Ranks | None:
    """Returns the ranks of the job; None if there is one. Raises ZfError if they cannot reach each other yet."""
    distributed = torch.distributed if torch.distributed.is_available() else None
    if distributed is not None and distributed.is_initialized():
        return Ranks() if distributed.get_world_size() > 1 else None
    count = _launched_count()
    if count > 1:
        raise ZfError(f"keep={keep!r} with {count} ranks, which agree on their step: call "
                      "torch.distributed.init_process_group() before the optimizer is made")
    return None


def timeout_of_program() -> datetime.timedelta | None:
    """Returns how long the program lets a collective wait, on its accelerator if it has one; None if this PyTorch does
    not say it: its own is used then."""
    with contextlib.suppress(AttributeError, RuntimeError, ValueError):
        world = torch.distributed.group.WORLD
        device = min(world._device_types, key=lambda each: each.type == "cpu")  # that another backend may not have
        found = world._get_backend(device).options._timeout
        return found if isinstance(found, datetime.timedelta) else None
    return None


def _launched_count() -> int:
    here = launched_ranks()
    world = os.environ.get("WORLD_SIZE", "").strip()
    return max(here.value if here else 1, int(world) if world.isdigit() else 1)
