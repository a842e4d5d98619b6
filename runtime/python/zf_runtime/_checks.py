"""Integers on their way to C: ctypes itself cuts off, without a word, what its types do not hold."""

from __future__ import annotations

import operator
from typing import SupportsIndex

INT32_MAX = 2**31 - 1
UINT64_MAX = 2**64 - 1


def number(name: str, value: SupportsIndex) -> int:
    """`value` as an int. TypeError: it is none."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; it must be an integer") from None


def integer(name: str, value: SupportsIndex, highest: int, otherwise: str = "") -> int:
    """`value` as an int of 0 to `highest`. ValueError: it is outside; TypeError: it is none. `otherwise` is what else
    may be given, for the text."""
    result = number(name, value)
    if not 0 <= result <= highest:
        raise ValueError(f"{name} is {result}; it must be 0 to {highest}{otherwise}")
    return result


def option(name: str, value: SupportsIndex | None, highest: int, default: int) -> int:
    """The same, where None is Python's way to ask for the default, and `default` is the C ABI's."""
    return default if value is None else integer(name, value, highest, ", or None for the default")


def index(name: str, value: SupportsIndex, count: int) -> int:
    """`value` as an index of one of `count` things, of which there is one at least. IndexError: it is of none; a list
    would count negative ones from its end."""
    result = number(name, value)
    if not 0 <= result < count:
        raise IndexError(f"{name} {result}: there are 0 to {count - 1}")
    return result
