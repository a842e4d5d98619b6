"""scripts/study, once and short: two ways of a real PyTorch job and what is written of them. Seen: 35 s."""

import json
import os
import subprocess
import sys
import unittest

import study_case
from study_case import StudyTest

import frameworks_case
from zf_cli import clean_environment

WORDS = ["--only", "torch", "--blocks", "1", "--passes", "2", "--turn-s", "0.5", "--plans", "none", "--minutes", "5",
         "--others", "100"]


class Run(StudyTest):
    def study(self, *more: str) -> subprocess.CompletedProcess:
        """Its OpenMP threads do not spin: beside other tests they would take the CPUs from each other for minutes."""
        kept = {name: value for name, value in os.environ.items() if name.startswith("ZF_")} | {"GOMP_SPINCOUNT": "0"}
        return subprocess.run([sys.executable, "-B", str(study_case.STUDIES / "study.py"), *WORDS, "--folder",
                               str(self.folder), *more], env=clean_environment(**kept), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=250, check=False)

    def test_a_short_study_measures_and_concludes_and_goes_on(self):
        frameworks_case.need_environment()
        done = self.study()
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in (self.folder / "results.jsonl").read_text().splitlines()]
        block, = (line for line in lines if "block" in line)
        self.assertEqual(sorted(block["arms"]), ["ours-in-place", "ours-late", "plan", "unbound", "unbound-fused"])
        losses = {arm: facts["losses"]["0"] for arm, facts in block["arms"].items()}
        for arm, facts in block["arms"].items():
            with self.subTest(arm=arm):
                self.assertEqual(len(facts["turns"]), 2)
                self.assertEqual(len(facts["losses"]["0"]), 8)
                # A step in place has no process of its own.
                self.assertEqual("zf-optimizer" in facts["threads"], arm == "ours-late", facts)
        self.assertEqual(losses["plan"], losses["unbound"])
        self.assertNotEqual(losses["ours-late"], losses["unbound"])
        text, details = ((self.folder / name).read_text() for name in ("study.md", "details.md"))
        self.assertIn("nothing can be said yet", text)
        self.assertRegex(text, r"\| [0-9.]+ ms, [0-9.]+, one block: nothing is said \|")
        self.assertIn("zf-optimizer: ", details)
        again = self.study()
        self.assertEqual(again.returncode, 0, again.stderr)
        lines = (self.folder / "results.jsonl").read_text().splitlines()
        self.assertEqual(sum("block" in json.loads(line) for line in lines), 1, "it measured again what was there")


if __name__ == "__main__":
    unittest.main()
