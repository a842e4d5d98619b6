"""Reads and prints lists of CPUs or nodes: "0,4-11"."""

from __future__ import annotations

from collections.abc import Iterable


def parse(text: str) -> frozenset[int]:
    """Returns the numbers of a list. Raises ValueError if it is malformed."""
    numbers: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        low, _, high = part.partition("-")
        numbers.update(range(int(low), int(high or low) + 1))
    return frozenset(numbers)


def text_of(numbers: Iterable[int]) -> str:
    """Returns the canonical list: parse(text_of(x)) == x."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def in_words(cpus: Iterable[int]) -> str:
    """Returns "CPU 3" or "CPUs 0,4-11"."""
    numbers = list(cpus)
    return f"CPU{'' if len(numbers) == 1 else 's'} {text_of(numbers)}" if numbers else "no CPU"
