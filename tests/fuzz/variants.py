"""Writes variants of JSON files for a fuzzer. Each differs from one of the files in a few values, names or lengths.

usage: variants.py COUNT FOLDER FILE...     (the same words and files give the same variants)

A fuzzer changes bytes, and rarely makes another file that can be parsed as far as this one.
"""

import copy
import json
import pathlib
import random
import re
import shutil
import struct
import sys
from collections.abc import Iterator

NUMBERS = ("0", "-0.0", "-1", "1e308", "5e-324", "1e400", "0.1", "0.30000000000000004", "1e22", "9007199254740993",
           "4294967296", "-9223372036854775809", "18446744073709551616", "9" * 400, "1E5", "01", ".5", "1e", "NaN")
TEXTS = ("", "x", "x" * 499, "x" * 501, "\t\n\"\\\x1b{}%", "é€😀", "0-", "8-2", "0-99999999", "0-7:2/4", "/", "..")
SEPARATORS = re.compile(r"([ ,:;()\[\]=/+-])")


def places(value: object, path: tuple = ()) -> Iterator[tuple]:
    """Yields the path of each value inside this one."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in children:
        yield (*path, name)
        yield from places(child, (*path, name))


class Number(str):
    """A number as it stands in the file: most of NUMBERS are none in Python, or another one."""


def number(draw: random.Random) -> Number:
    """Returns a number that may be in no range, or none at all."""
    way = draw.randrange(4)
    if way == 0:
        return Number(draw.choice(NUMBERS))
    if way == 1:
        return Number(repr(struct.unpack("<d", draw.randbytes(8))[0]))
    if way == 2:
        return Number(round(draw.uniform(-1e6, 1e6), draw.randrange(9)))
    return Number(draw.choice((-1, 1)) * draw.randrange(10 ** draw.randrange(1, 20)))


def text(draw: random.Random, old: str) -> str:
    """Returns another text: one of TEXTS, or the old one with a word changed, left out, repeated or moved."""
    words = SEPARATORS.split(old)
    at, other = draw.randrange(len(words)), draw.randrange(len(words))
    way = draw.randrange(6)
    if way == 0:
        return draw.choice(TEXTS)
    if way == 1:
        words[at] = draw.choice(("", "0", "2", "3", "-1", "64", "x", "1GiB", "18446744073709551616"))
    elif way == 2:
        del words[at]
    elif way == 3:
        words[at:at] = words[at:at + draw.randrange(1, 5)]
    elif way == 4:
        words[at], words[other] = words[other], words[at]
    else:
        words = words[:at]
    return "".join(words)


def other(draw: random.Random, old: object) -> object:
    """Returns a value in the place of this one."""
    if isinstance(old, str) and draw.random() < 0.8:
        return text(draw, old)
    if isinstance(old, list) and old and draw.random() < 0.6:
        many = [copy.deepcopy(old[0]) for _ in range(draw.choice((2, 300)))]
        return draw.choice((old[1:], many, [*old, None], old[::-1]))
    return draw.choice((number(draw), number(draw), draw.choice(TEXTS), None, True, [], {}, [number(draw)], {"a": 1}))


def variant(draw: random.Random, original: object) -> object:
    """Returns the original with one to three changes."""
    made = copy.deepcopy(original)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        *path, last = draw.choice(list(places(made)))
        inside = made
        for name in path:
            inside = inside[name]
        if isinstance(inside, dict) and draw.random() < 0.15:
            del inside[last]
        elif isinstance(inside, dict) and draw.random() < 0.1:
            inside[last + draw.choice(("_", "x" * 60))] = inside.pop(last)
        else:
            inside[last] = other(draw, inside[last])
        if not made:
            break
    return made


def written(value: object) -> str:
    """Returns the value as JSON, with each Number as it is."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}: {written(child)}" for name, child in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def main():
    count, folder, *files = sys.argv[1:]
    draw = random.Random(count)
    originals = [json.loads(pathlib.Path(file).read_text()) for file in sorted(files)]
    shutil.rmtree(folder, ignore_errors=True)
    pathlib.Path(folder).mkdir(parents=True)
    for at in range(int(count)):
        made = written(variant(draw, draw.choice(originals)))
        pathlib.Path(folder, f"variant-{at}").write_text(made)


if __name__ == "__main__":
    main()
