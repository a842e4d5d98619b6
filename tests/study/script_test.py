"""scripts/study in a tree that has no build and cannot be built: --list and --compare need none."""

import shutil
import subprocess
import unittest

import study_case
from study_case import TORCH, StudyTest

from zf_cli import SOURCE, clean_environment


class Script(StudyTest):
    def setUp(self):
        super().setUp()
        (self.folder / "scripts").mkdir()
        for name in ("study", "lib.sh", "packages.sh", "packages.txt"):
            shutil.copy(SOURCE / "scripts" / name, self.folder / "scripts")
        for name in ("scripts/studies", "tests"):
            (self.folder / name).symlink_to(SOURCE / name)

    def study(self, *arguments: str) -> str:
        """Returns what it printed. Checks that it succeeded and made no file."""
        before = sorted(self.folder.iterdir())
        done = subprocess.run([self.folder / "scripts/study", "--no-install", *arguments], capture_output=True,
                              env=clean_environment(ZF_SOURCE_DIR=str(self.folder)), stdin=subprocess.DEVNULL,
                              text=True, timeout=50, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(self.folder.iterdir()), before)
        self.said = done.stderr
        return done.stdout

    def test_a_list_builds_nothing(self):
        listed = self.study("--list", "--only", "torch", "--minutes", "5")
        self.assertRegex(listed, "torch-1-small: (0 of at most 10 blocks done|not here: )")
        self.assertRegex(listed, r"about \d+ minutes left")
        self.assertRegex(self.said, "not all programs are built, so no block counts as done: no frameworks-env")

    def test_a_comparison_builds_nothing(self):
        self.results(study_case.block_of(TORCH, 0, unbound=study_case.facts(1, 1)))
        for words in (("--compare", str(self.folder / "results.jsonl")), (f"--compare={self.folder}/results.jsonl",)):
            self.assertEqual(self.study("--folder", str(self.folder), *words), "no conclusion differs\n")


if __name__ == "__main__":
    unittest.main()
