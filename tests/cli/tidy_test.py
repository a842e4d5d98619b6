"""scripts/tidy.py looks again only at what may have changed what clang-tidy says. clang-tidy is a script here."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from zf_cli import SOURCE

# Finds the word BAD in a source and in headers beside it, and writes down the sources that it read.
CLANG_TIDY = """#!/bin/sh
[ "$1" != --version ] || { echo "$VERSION"; exit; }
for file; do case $file in *.cpp) break ;; esac; done
grep -ho "source_[a-z]*" "$file" >>"$READ"
! grep -n BAD "$file" "$HEADERS"/*.hpp
"""


class Tidy(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        program = self.folder / "bin/clang-tidy"
        program.parent.mkdir()
        program.write_text(CLANG_TIDY)
        program.chmod(0o755)
        self.version = "1"
        self.clone = self.make_clone("clone")

    def make_clone(self, name: str) -> pathlib.Path:
        """Returns a checkout. Its one.cpp includes upper.hpp, which includes lower.hpp; two.cpp includes nothing."""
        clone = self.folder / name
        files = {"tuner/one.cpp": '#include "upper.hpp"\nint source_one;\n', "tuner/two.cpp": "int source_two;\n",
                 "tuner/upper.hpp": '#include "lower.hpp"\n', "tuner/lower.hpp": "\n", ".clang-tidy": "Checks: one\n"}
        for path, text in files.items():
            (clone / path).parent.mkdir(parents=True, exist_ok=True)
            (clone / path).write_text(text)
        (clone / "scripts").mkdir()
        for script in ("known_clean.py", "tidy.py"):
            shutil.copy(SOURCE / "scripts" / script, clone / "scripts")
        (clone / "build").mkdir()
        (clone / "build/compile_commands.json").write_text(json.dumps(
            [{"file": str(clone / f"tuner/{name}.cpp"), "command": f"c++ -I{clone}/tuner -c it.cpp"}
             for name in ("one", "two")]))
        return clone

    def read(self, *options: str) -> tuple[int, set[str]]:
        """Runs the script. Returns its exit code, and the sources that clang-tidy read."""
        log = self.folder / "read"
        log.write_text("")
        environment = os.environ | {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "READ": str(log),
                                    "HEADERS": str(self.clone / "tuner"), "VERSION": self.version,
                                    "XDG_CACHE_HOME": str(self.folder / "cache")}
        command = [sys.executable, str(self.clone / "scripts/tidy.py"), *options, str(self.clone / "build")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50,
                              check=False)
        self.assertNotIn("Traceback", done.stderr)
        return done.returncode, {line.removeprefix("source_") for line in log.read_text().split()}

    def test_a_clean_source_is_not_read_again_in_another_clone_either(self):
        self.assertEqual(self.read(), (0, {"one", "two"}))
        self.assertEqual(self.read(), (0, set()))
        self.clone = self.make_clone("other")
        self.assertEqual(self.read(), (0, set()))

    def test_what_it_includes_however_deeply_counts(self):
        self.read()
        (self.clone / "tuner/lower.hpp").write_text("BAD\n")
        self.assertEqual(self.read(), (1, {"one"}))
        self.assertEqual(self.read(), (1, {"one"}))  # a finding is not remembered

    def test_the_source_counts(self):
        self.read()
        (self.clone / "tuner/two.cpp").write_text("int source_two;  // BAD\n")
        self.assertEqual(self.read(), (1, {"two"}))

    def test_the_rules_the_flags_the_options_and_the_version_count(self):
        self.read()
        self.assertEqual(self.read("--no-analyzer"), (0, {"one", "two"}))
        (self.clone / "tuner/.clang-tidy").write_text("Checks: two\n")
        self.assertEqual(self.read(), (0, {"one", "two"}))
        commands = self.clone / "build/compile_commands.json"
        commands.write_text(commands.read_text().replace("c++ ", "c++ -DTWO ", 1))
        self.assertEqual(self.read(), (0, {"one"}))
        self.version = "2"
        self.assertEqual(self.read(), (0, {"one", "two"}))
