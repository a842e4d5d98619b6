"""Checks integers and paths on their way to C. ctypes itself silently truncates what its types cannot hold."""

from __future__ import annotations

import operator
import os
from typing import SupportsIndex

INT32_MAX = 2**31 - 1
UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1


def number(name: str, value: SupportsIndex) -> int:
    """Returns `value` as an int. Raises TypeError if it is not an integer."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; it must be an integer") from None


def integer(name: str, value: SupportsIndex, highest: int, otherwise: str = "", least: int = 0) -> int:
    """Returns `value` as an int from `least` to `highest`. Raises ValueError if it is outside, and TypeError if it is
    not an integer. `otherwise` names other allowed values for the text."""
    result = number(name, value)
    if not least <= result <= highest:
        raise ValueError(f"{name} is {result}; it must be {least} to {highest}{otherwise}")
    return result


def option(name: str, value: SupportsIndex | None, highest: int, default: int, least: int = 0) -> int:
    """Returns an integer in the same way, or `default`, the default of the C ABI, for None."""
    return default if value is None else integer(name, value, highest, ", or None for the default", least)


def index(name: str, value: SupportsIndex, count: int) -> int:
    """Returns `value` as an index from 0 to `count` - 1; `count` is at least 1. Raises IndexError if it is outside,
    also if it is negative."""
    result = number(name, value)
    if not 0 <= result < count:
        raise IndexError(f"{name} {result}: there are 0 to {count - 1}")
    return result


def path(value: str | os.PathLike[str]) -> bytes:
    """Returns a path as C has it. Raises ValueError if it has a zero byte: C's name would end there."""
    encoded = os.fsencode(value)
    if b"\0" in encoded:
        raise ValueError(f"the path {value!r} has a zero byte")
    return encoded
