"""Prints where the time of .ci/run went: its parts, and the rooms and folders of the tests.

usage: part_times.py PARTS FOLDER CTEST

PARTS has a line for each part: its name, seconds, and the seconds of CPUs in user and in system mode, with tabs. FOLDER
is the build folder that CTEST ran last. The time of a test is how long it ran, beside others or alone.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys

LONGEST_ROOMS = 12


def times_of(log: str) -> dict[str, float]:
    """Returns the seconds of each test, by its name, from ctest's LastTest.log."""
    found, name = {}, ""
    for line in log.splitlines():
        if start := re.fullmatch(r"\d+/\d+ Testing: (.*)", line):
            name = start[1]
        elif end := re.fullmatch(r"Test time = +([\d.]+) sec", line):
            found[name] = float(end[1])
    return found


def rooms_of(shown: str) -> dict[str, str]:
    """Returns the room or folder of each test, by its name, from `ctest --show-only=json-v1`."""
    rooms = {}
    for test in json.loads(shown)["tests"]:
        labels = [label for each in test.get("properties", []) if each["name"] == "LABELS" for label in each["value"]]
        rooms[test["name"]] = next((label for label in labels if "." not in label and label not in ("heavy", "long")),
                                   "others")
    return rooms


def table(parts: str, times: dict[str, float], rooms: dict[str, str]) -> list[str]:
    """Returns the lines of the table; of the rooms, those that take longest."""
    lines = [f"{'part':22} {'s':>6} {'CPU s':>6}"]
    for line in parts.splitlines():
        name, wall, user, system = line.split("\t")
        lines.append(f"{name:22} {float(wall):6.0f} {float(user) + float(system):6.0f}")
    by_room: dict[str, list[float]] = collections.defaultdict(list)
    for name, seconds in times.items():
        by_room[rooms.get(name, "others")].append(seconds)
    longest = sorted(by_room.items(), key=lambda room: -sum(room[1]))
    lines += ["", f"{'tests of':22} {'s':>6} {'tests':>6}  longest"]
    for room, each in longest[:LONGEST_ROOMS]:
        slowest = max((name for name in times if rooms.get(name, "others") == room), key=lambda name: times[name])
        lines.append(f"{room:22} {sum(each):6.0f} {len(each):6}  {slowest} {times[slowest]:.0f} s")
    rest = [seconds for _, each in longest[LONGEST_ROOMS:] for seconds in each]
    return lines + ([f"{'all others':22} {sum(rest):6.0f} {len(rest):6}"] if rest else [])


def main() -> None:
    parts, folder, ctest = sys.argv[1:]
    # The log first: ctest empties it, also to show tests only.
    log = pathlib.Path(folder, "Testing/Temporary/LastTest.log").read_text(errors="replace")
    shown = subprocess.run([ctest, "--test-dir", folder, "--show-only=json-v1"], capture_output=True, text=True,
                           check=True).stdout
    print(*table(pathlib.Path(parts).read_text(), times_of(log), rooms_of(shown)), sep="\n")


if __name__ == "__main__":
    main()
