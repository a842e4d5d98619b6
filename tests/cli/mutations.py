"""Changes what a command reads: its bytes, or the values of its JSON, which stays JSON."""

import copy
import json
import random
import re

# What drives a terminal, fakes a line or the end of a script, or is no text. The tests look for "INJECTED".
ODD_TEXTS = ("", "\0", "\x1b[2J", "\x9b2J", "\x7f", "\u061c", "\u202e", "\u2028", "\u2066", "\ufeff", "\ud800",
             "\nINJECTED", "\rINJECTED", "</script>INJECTED", '"', "%s{}", "../..", "x" * 20_000, "-1", "0-3", "99999")
ODD_BYTES = (*(text.encode(errors="surrogatepass") for text in ODD_TEXTS),
             b"\xff\xfe", b"{" * 50, b"1e999", b"4294967296", b"null")
ODD_NUMBERS = (0, 1, -1, -7, 0.5, 1e-300, 1e300, 5000, 2**31, 2**32, 2**63, 2**64, 10**30)
ODD_VALUES = (*ODD_NUMBERS, *ODD_TEXTS, None, True, False, [], {}, [[]], [0], {"": 0})


class _Twin(str):
    """A key that a dictionary holds beside an equal one: JSON with a member twice."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Returns it changed. Three times of four JSON stays JSON."""
    if content.startswith(b"{") and chance.randrange(4):
        return mutated_json(content, chance)
    return mutated_bytes(content, chance)


def mutated_bytes(content: bytes, chance: random.Random) -> bytes:
    """Returns it with some bytes changed, removed or repeated, or with odd ones or other numbers."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 8))):
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + chance.randrange(1, 60))
        how = chance.randrange(5)
        numbers = list(re.finditer(rb"\d+", data))
        if how == 0:
            data[at:at] = chance.choice(ODD_BYTES)
        elif how == 1:
            del data[at:end]
        elif how == 2:
            data[at:at] = data[at:end]
        elif how == 3 or not numbers:
            data[at : at + 1] = bytes([chance.randrange(256)])
        else:
            found = chance.choice(numbers)
            data[found.start() : found.end()] = chance.choice((b"0", b"1", b"-7", b"99999999999999999999", b"0.5"))
    return bytes(data)


def mutated_word(text: str, chance: random.Random) -> str:
    """Returns a changed argument or value of a variable, which holds no NUL."""
    return mutated_bytes(text.encode(), chance).replace(b"\0", b"").decode(errors="surrogateescape")


def mutated_variables(variables: dict[str, str], chance: random.Random | None) -> dict[str, str]:
    """Returns them with one changed value; without a chance, as they are."""
    if chance is None:
        return variables
    name = chance.choice(sorted(variables))
    return variables | {name: mutated_word(variables[name], chance)}


def mutated_json(content: bytes, chance: random.Random) -> bytes:
    """Returns JSON with some values changed, dropped, doubled, renamed or copied elsewhere."""
    root = [json.loads(content)]
    for _ in range(chance.choice((1, 1, 1, 3))):
        places = _places(root)
        holder, key = chance.choice(places)
        how = chance.randrange(10)
        if how == 0 and holder is not root:
            del holder[key]
        elif how == 1 and isinstance(holder, dict):
            holder[_Twin(key)] = chance.choice((holder[key], *ODD_VALUES))
        elif how == 1:
            holder.append(holder[key])
        elif how == 2 and isinstance(holder, dict):
            holder[chance.choice(ODD_TEXTS)] = holder.pop(key)
        elif how == 3:
            source, name = chance.choice(places)
            holder[key] = copy.deepcopy(source[name])
        elif how == 4:
            holder[key] = chance.choice(ODD_VALUES)
        else:
            holder[key] = _like(holder[key], chance)
    return json.dumps(root[0], ensure_ascii=chance.random() < 0.5).encode(errors="surrogatepass")


def _places(value) -> list[tuple]:
    """Returns each member and element in a value, at any depth: what holds it, and its key there."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in ((value, key), *_places(value[key]))]


def _like(value, chance: random.Random):
    """Returns another value of the same type, often one that is as good, and the same container."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        near = (value + 1, value * 2, value * 1.25, value / 2)
        return chance.choice((chance.choice(near), chance.choice(ODD_NUMBERS)))
    if isinstance(value, str):
        at = chance.randrange(len(value) + 1)
        return value[:at] + chance.choice(ODD_TEXTS) + value[at:]
    return value
