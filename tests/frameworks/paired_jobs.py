"""Runs pairs of jobs and keeps their results: what pairs.py and step_pairs.py share."""

import contextlib
import json
import pathlib

from turns import Runner, order_of_turns


def run_pair(commands: dict[str, list[str]], variables: dict[str, str], passes: int,
             seconds: float | None = None) -> dict[str, list[float]]:
    """Starts the commands, in the given order, and runs them in turns. Returns the milliseconds of each one's turns."""
    with contextlib.ExitStack() as stack:
        runners = {}
        for side, words in commands.items():
            runners[side] = Runner(words, variables)
            stack.callback(runners[side].end)
        found = {side: [] for side in commands}
        for side in order_of_turns(list(commands), passes):
            found[side].append(runners[side].turn(seconds=seconds))
    return found


def in_order_of(pair: int, commands: dict[str, list[str]]) -> dict[str, list[str]]:
    """Returns the commands of a pair in the order in which they start: another one comes first in the next pair."""
    return dict(sorted(commands.items(), reverse=pair % 2 == 0))


def read_results(path: pathlib.Path) -> list[dict]:
    """Returns the pairs that a file has so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def add_result(path: pathlib.Path, result: dict):
    with path.open("a") as file:
        file.write(json.dumps(result) + "\n")
