"""Finds all addresses at which this process has the same file mapped."""

from __future__ import annotations

import pathlib

_MAPS = pathlib.Path("/proc/self/maps")


def ranges_of(address: int) -> list[range]:
    """Returns the ranges of addresses that hold the file mapped at an address. Where they cannot be read, the range is
    that of all addresses."""
    try:
        lines = [line.split(maxsplit=5) for line in _MAPS.read_text().splitlines()]
    except OSError:
        return [range(1 << 64)]
    maps = [(range(*(int(end, 16) for end in fields[0].split("-"))), fields[3:5]) for fields in lines]
    files = [file for each, file in maps if address in each]
    return [each for each, file in maps if file in files]
