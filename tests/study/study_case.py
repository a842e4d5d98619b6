"""What the tests of the study (scripts/studies) share: its folder, and results without a machine."""

import pathlib
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
STUDIES = TESTS.parent / "scripts/studies"
sys.path[:0] = [str(STUDIES), str(STUDIES / "formats"), str(TESTS / "frameworks"), str(TESTS / "cli")]

import matrix
from results import Results

SETTINGS = {"machine": {"processor": "a processor", "cpus": [0, 1], "nodes": 1, "memory_gib": 8.0},
            "versions": {"PyTorch": "2.13.0", "zf-tune": "zf-tune 0.1.0"}, "variables": {"MALLOC_TRIM_THRESHOLD_": "1"},
            "passes": 2, "turn_s": 1.5, "others": 0.2}
ZERO_2 = matrix.Group("zero-2", 1, "small")
TORCH = matrix.Group("torch", 1, "small")


def facts(*turns: float, losses=("0x1.0p+1", "0x1.8p+0")) -> dict:
    """Returns what a block has of a way that took so many milliseconds in its turns."""
    return {"turns": list(turns), "start_s": 5.0, "threads": "training: 3 on 0-1",
            "pages": "training: 0.5 GiB on node 0", "losses": {"0": list(losses)}}


def block_of(group: matrix.Group, number: int, **arms: dict) -> dict:
    names = {name.replace("_", "-"): arm for name, arm in arms.items() if name != "bind"}
    if "bind" in arms:
        names[matrix.BIND] = arms["bind"]
    return {"group": vars(group), "block": number, "arms": names, "seconds": 60.0, "others": 0.05,
            "date": "2026-11-23T00:00:00+00:00"}


class StudyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="zf-study-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def results(self, *blocks: dict, settings=None, name="results.jsonl") -> Results:
        found = Results(self.folder / name, settings or SETTINGS)
        for block in blocks:
            found.add(block)
        return found
