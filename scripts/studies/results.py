"""The results file of the study: one line of JSON per block, so that an interrupted study goes on from what is there.

A block is {"settings": digest, "group": {"job", "ranks", "size"}, "block": n, "arms": {arm: facts}, "others": share,
"seconds": s, ...}. "others" is the share of the CPUs that other programs used in its turns. The facts of an arm are
{"turns": [ms], "start_s": s, "losses": {...}, "threads": "...", "pages": "..."}, or {"failed": why}. A plan is
{"settings": digest, "plan": {...}, "seconds": s}. The first line of each settings describes them. Lines of other
settings (another machine, another version, another program) stay in the file and do not count."""

import dataclasses
import hashlib
import json
import pathlib

from matrix import Group


def digest_of(settings: dict) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


class Results:
    def __init__(self, path: pathlib.Path, settings: dict):
        self.path, self.settings, self.digest = path, settings, digest_of(settings)
        self.lines = [line for line in read_lines(path) if line.get("settings") == self.digest]

    def add(self, line: dict):
        """Appends a line at once. Describes the settings before their first one."""
        if "described" not in line and not any("described" in each for each in self.lines):
            self.add({"described": self.settings})
        line = {"settings": self.digest} | line
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as file:
            file.seek(0)
            text = file.read()
            if text and not text.endswith(b"\n"):
                file.write(b"\n")  # ends a line that was cut off
            file.write(json.dumps(line).encode() + b"\n")
        self.lines.append(line)

    def counts(self, block: dict) -> bool:
        """Returns whether a block counts: not if other programs used too much of the CPUs in it."""
        return block["others"] <= self.settings["others"]

    def all_blocks(self, group: Group) -> list[dict]:
        return [line for line in self.lines if line.get("group") == dataclasses.asdict(group)]

    def blocks(self, group: Group) -> list[dict]:
        """Returns the blocks that count."""
        return [block for block in self.all_blocks(group) if self.counts(block)]

    def groups(self) -> list[Group]:
        """Returns the groups with a block that counts, in the order in which they were run first."""
        tried = dict.fromkeys(Group(**line["group"]) for line in self.lines if "group" in line)
        return [group for group in tried if self.blocks(group)]

    def plan(self, group: Group, arm: str) -> dict | None:
        """Returns what was said of the plan of this way when it was made."""
        return next((line["plan"] for line in self.lines
                     if "plan" in line and line["plan"]["group"] == group.name() and line["plan"]["arm"] == arm), None)

    def seconds(self) -> float:
        """Returns how long all of it took, over all starts."""
        return sum(line.get("seconds", 0.0) for line in self.lines)


def read_lines(path: pathlib.Path) -> list[dict]:
    """Returns what the file has. Leaves out a line that was cut off, and what a study has not written."""
    if not path.is_file():
        return []
    found = []
    for line in path.read_text(errors="replace").splitlines():
        try:
            found.append(json.loads(line))
        except (json.JSONDecodeError, RecursionError):
            continue
    return [line for line in found if isinstance(line, dict) and "settings" in line]


def latest(path: pathlib.Path) -> Results | None:
    """Returns the results of the settings that were written last, without adding to them."""
    lines = read_lines(path)
    if not lines:
        return None
    described = next((line["described"] for line in lines
                      if "described" in line and line["settings"] == lines[-1]["settings"]), None)
    return Results(path, described) if described is not None else None


def next_block(results: Results, groups: list[Group], blocks: int) -> tuple[Group, int] | None:
    """Returns the group that has the fewest blocks that count, the first of those that are equal, and how many it was
    given; None if all have so many. So all groups advance together, and an interrupted round is completed first."""
    counts = [(len(results.blocks(group)), number) for number, group in enumerate(groups)]
    count, number = min(counts)
    return (groups[number], len(results.all_blocks(groups[number]))) if count < blocks else None


def seconds_of_block(results: Results, group: Group, guess: float) -> float:
    """Returns how long the next block of this group will take: as long as its last one, else the guess."""
    done = results.all_blocks(group)
    return done[-1]["seconds"] if done else guess
