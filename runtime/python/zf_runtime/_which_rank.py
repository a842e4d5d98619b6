"""Which local rank this process is, by whoever knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from . import _ray
from ._environment import launched_ranks, local_rank


class Who(NamedTuple):
    """What is known of this process; None: it is not known."""

    rank: int | None
    ranks: int | None
    source: str  # of the rank: "rank=", "LOCAL_RANK", "Ray Train"; empty: it is not known


def who(rank: int | None, ranks: int | None, variables: Mapping[str, str]) -> Who:
    """Returns what is known by the arguments of bind(), else by the launcher's variables, else by Ray Train.
    `variables` are those that are about this process: see own(). Raises RuntimeError if a variable is malformed or
    contradicts another."""
    source = "" if rank is None else "rank="
    if rank is None:
        by_launcher = local_rank(variables)
        if by_launcher is not None:
            rank, source = by_launcher
            count = launched_ranks(variables)
            ranks = ranks if ranks is not None or count is None else count.value
    if rank is None:
        by_train = _ray.train_rank()
        if by_train is not None:
            rank, source = by_train[0], "Ray Train"
            ranks = by_train[1] if ranks is None else ranks
    if rank is not None and ranks is not None and not 0 <= rank < ranks:
        raise RuntimeError(f"rank {rank} of {ranks}: local ranks count from 0")
    return Who(rank, ranks, source)


def own(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that are about this process. A worker of Ray has those of whoever started Ray as well."""
    return _ray.without_inherited(variables) if _ray.is_worker() else dict(variables)
