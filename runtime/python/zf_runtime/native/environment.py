"""Reads what the user and launchers say in environment variables: those of this process, unless others are given."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import NamedTuple

from .library import check, library

_LONGEST_NAME = 64


class EnvNumber(NamedTuple):
    """The number in a variable, and the name of the variable."""

    value: int
    variable: str


def switched_off(variables: Mapping[str, str] = os.environ) -> bool:
    """Returns true if ZF_TUNE is off, 0, no or false. Then no wrapper, hook or plan has any effect."""
    return variables.get("ZF_TUNE", "") in ("off", "0", "no", "false")


def local_rank_and_count(variables: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Returns the local rank of this process, and how many ranks this node has: 0 and 1 if no launcher has started it.
    If ZF_RANK was set by hand, the launcher around it says how many. Raises RuntimeError if nothing says it."""
    rank = local_rank(variables)
    if rank is None:
        return 0, 1
    count = launched_ranks(variables)
    if count is None and rank.variable == "ZF_RANK":
        count = launched_ranks({name: value for name, value in variables.items() if name != "ZF_RANK"})
    if count is not None and rank.value < count.value:
        return rank.value, count.value
    # Slurm does not always count its tasks, and zf-tune exec sets ZF_RANK=0 for a process on its own.
    if rank.value == 0 and rank.variable in ("SLURM_LOCALID", "ZF_RANK"):
        return 0, 1
    raise RuntimeError(f"{rank.variable}={rank.value} is set, but nothing says how many ranks this node has: set "
                       "LOCAL_RANK and LOCAL_WORLD_SIZE for each rank, as torchrun does")


def local_rank(variables: Mapping[str, str] = os.environ) -> EnvNumber | None:
    """Returns the local rank of this process; None if nothing says it. Raises RuntimeError if the value is not a whole
    number of 0 or more. runtime/launchers/local_rank.hpp has the rules."""
    return _number("zf_find_rank", variables)


def launched_ranks(variables: Mapping[str, str] = os.environ) -> EnvNumber | None:
    """Returns how many ranks the launcher that set local_rank() has started on this node; None if it does not say, if
    no launcher set a rank, or if ZF_RANK was set by hand. Raises RuntimeError if a variable is malformed, or if
    the rank is not below the count."""
    return _number("zf_find_ranks", variables)


def _number(function: str, variables: Mapping[str, str]) -> EnvNumber | None:
    words = [os.fsencode(f"{name}={value}") for name, value in variables.items()]
    number, variable = ctypes.c_int32(), ctypes.create_string_buffer(_LONGEST_NAME)
    check(getattr(library(), function)((ctypes.c_char_p * (len(words) + 1))(*words), ctypes.byref(number), variable,
                                       _LONGEST_NAME))
    return EnvNumber(number.value, variable.value.decode()) if number.value >= 0 else None
