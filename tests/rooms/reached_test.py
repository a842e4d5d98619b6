#!/usr/bin/python3
"""What scripts/test --since runs: each label that a rule names has tests, and a change reaches those of its users."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "scripts"))

import reached  # noqa: E402  the path must be known first

BUILD = pathlib.Path(os.environ.get("ZF_TUNE_BINARY", SOURCE / "build/bin/zf-tune")).parents[1]


def tested() -> set[str]:
    """Returns the labels that tests have: rooms and folders, and folder.FILE of each file of Python tests."""
    files = {f"{path.parent.name}.{path.name.removesuffix('_test.py')}" for path in SOURCE.glob("tests/*/*_test.py")}
    return files | set((BUILD / "tested_rooms.txt").read_text().split())


class Reached(unittest.TestCase):
    def test_a_room_reaches_itself_and_those_above_it_and_no_other(self):
        labels = reached.labels_of(["tuner/homes/split.cpp"])
        self.assertLessEqual({"homes", "planning", "search", "cli", "rooms", "smoke"}, labels)
        self.assertFalse(labels & {"base", "os", "engine", "abi", "python", "frameworks.deepspeed"}, labels)

    def test_a_module_of_the_python_package_reaches_the_frameworks_that_use_it(self):
        self.assertEqual(reached.labels_of(["runtime/python/zf_runtime/optim/overlap/turn.py"]) & {
            "python", "frameworks.overlap", "frameworks.deepspeed", "frameworks.record", "homes"},
            {"python", "frameworks.overlap", "frameworks.deepspeed"})
        self.assertLessEqual({"frameworks.overlap", "frameworks.kept"},
                             reached.labels_of(["runtime/python/zf_runtime/optim/saving.py"]))

    def test_each_file_of_tests_of_frameworks_is_reached_by_a_source(self):
        sources = [*SOURCE.glob("runtime/**/*.cpp"), *SOURCE.glob("tuner/**/*.cpp"), *SOURCE.glob("runtime/**/*.py")]
        labels = set().union(*(reached.reached_from(str(path.relative_to(SOURCE))) for path in sources))
        self.assertEqual({label for label in tested() if label.startswith("frameworks.")} - labels, set())

    def test_a_test_reaches_itself_and_a_helper_its_folder(self):
        self.assertEqual(reached.labels_of(["tests/cli/tune_test.py"]), {"cli.tune", "smoke"})
        self.assertEqual(reached.labels_of(["tests/cli/zf_cli.py"]), {"cli", "smoke"})
        self.assertEqual(reached.labels_of(["tests/unit/homes/split_test.cpp"]), {"homes", "smoke"})

    def test_a_page_reaches_no_room_and_an_unknown_file_reaches_all(self):
        self.assertFalse(reached.labels_of(["docs/launch.md"]) & {"cli", "abi"})
        for path in ("CMakeLists.txt", "tests/cli/CMakeLists.txt", "no/such/file"):
            self.assertEqual(reached.labels_of(["docs/launch.md", path]), {"all"})
        self.assertEqual(reached.labels_of([]), set())

    @unittest.skipUnless(shutil.which("git"), "git is not installed")
    def test_every_file_reaches_labels_that_tests_have(self):
        files = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z"], capture_output=True, text=True, check=False)
        if files.returncode != 0:
            self.skipTest("this is no checkout of git")
        known = tested() | {"smoke", "all", "exports"}  # the last is a room that others test
        for path in files.stdout.split("\0")[:-1]:
            labels = reached.labels_of([path])
            self.assertLessEqual(labels, known, path)
            self.assertTrue(labels, path)

    @unittest.skipUnless(shutil.which("git"), "git is not installed")
    def test_what_git_does_not_know_yet_is_a_change_too(self):
        with tempfile.TemporaryDirectory() as folder:
            def git(*words):
                subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a", *words], check=True,
                               capture_output=True)
            git("init")
            for name in ("kept", "edited", "moved"):
                pathlib.Path(folder, name).write_text(name)
            git("add", "-A")
            git("commit", "-m", "all")
            pathlib.Path(folder, "edited").write_text("anew")
            pathlib.Path(folder, "new").write_text("")
            git("mv", "moved", "there")
            self.assertEqual(reached.changed_since("HEAD", folder), ["edited", "moved", "new", "there"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
