"""Which local rank this process is, by all that may know it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, SupportsIndex

from ..native import checks
from ..native.environment import launched_ranks, local_rank
from . import ray


class Who(NamedTuple):
    """What is known of this process; None: it is not known."""

    rank: int | None
    ranks: int | None
    source: str  # of the rank: "rank=", "LOCAL_RANK", "Ray Train"; empty: it is not known


def as_number(name: str, value: SupportsIndex | None) -> int | None:
    """Returns an argument of bind() as an int. Raises RuntimeError if it is none, such as a variable's text."""
    try:
        return None if value is None else checks.number(name, value)
    except TypeError as error:
        raise RuntimeError(str(error)) from None


def who(rank: int | None, ranks: int | None, variables: Mapping[str, str]) -> Who:
    """Returns what is known by the arguments of bind(), else by the launcher's variables, else by Ray Train. If
    one of these gives the same rank as the argument, it says of how many. `variables` are those that are about this
    process: see ray.own_variables(). Raises RuntimeError if a variable is malformed or contradicts another, unless
    rank= is given."""
    source = "" if rank is None else "rank="
    try:
        known = _by_launcher(variables)
        if known is None and (train := ray.train_rank()) is not None:
            known = Who(*train, "Ray Train")
    except RuntimeError:
        if rank is None:
            raise
        known = None
    if known is not None and rank in (None, known.rank):
        rank, source = (known.rank, known.source) if rank is None else (rank, source)
        ranks = known.ranks if ranks is None else ranks
    if rank is not None and rank < 0:
        raise RuntimeError(f"rank={rank}: local ranks count from 0")
    if ranks is not None and ranks < 1:
        raise RuntimeError(f"ranks={ranks}: there is at least one")
    if rank is not None and ranks is not None and rank >= ranks:
        raise RuntimeError(f"rank {rank} ({source}) is not below the number of ranks here, which is {ranks}: correct "
                           "rank= or ranks=")
    return Who(rank, ranks, source)


def _by_launcher(variables: Mapping[str, str]) -> Who | None:
    rank = local_rank(variables)
    if rank is None:
        return None
    count = launched_ranks(variables)
    return Who(rank.value, None if count is None else count.value, rank.variable)
