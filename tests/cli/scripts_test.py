"""What the scripts that build say while the user waits."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from zf_cli import SOURCE

LIBRARY = f"source {SOURCE}/scripts/lib.sh; "
ENVIRONMENTS = f"source {SOURCE}/scripts/environments.sh; cd \"$(mktemp -d)\"; trap 'rm -rf \"$PWD\"' EXIT; "


def bash(command: str) -> subprocess.CompletedProcess:
    return subprocess.run(["bash", "-c", LIBRARY + command, "script"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=50, check=False, env=os.environ | {"TERM": "dumb"})


class Scripts(unittest.TestCase):
    def test_apt_and_the_build_say_every_15_seconds_how_far_they_are(self):
        result = bash("""
            { echo "Unpacking libhwloc-dev ..."; sleep 16; } | apt_progress "apt-get install" &
            { sleep 15.5; echo "[60/240] Building CXX object a.cpp.o"; } | progress "building in build" &
            wait""")
        self.assertRegex(result.stderr, r"script: apt-get install \(15 s\): Unpacking libhwloc-dev \.\.\.\n")
        self.assertRegex(result.stderr, r"script: building in build: 60 of 240 \(1[56] s, about 4[5-8] s left\)\n")

    def test_the_time_left_is_that_of_the_steps_before(self):
        self.assertEqual(bash("time_left 30 60 240").stdout, ", about 90 s left")
        self.assertEqual(bash("time_left 4 60 240; time_left 30 0 240").stdout, "")

    def test_there_is_no_estimate_before_a_tenth_of_the_steps_is_done(self):
        """The first step of a build is often the longest: 49 s for 1 of 65 is no sign of 3136 s more."""
        self.assertEqual(bash("time_left 49 1 65; time_left 49 9 12; time_left 49 23 240").stdout, "")
        self.assertEqual(bash("time_left 49 10 65; time_left 48 24 240").stdout,
                         ", about 269 s left, about 432 s left")

    def test_a_failed_apt_shows_its_reason(self):
        result = bash("""
            AS_ROOT=()
            known_names() { echo libhwloc-dev; }
            apt-get() { echo "E: no space left"; return 100; }
            env() { shift 2; "$@"; }
            install_packages "libhwloc-dev reads the machine" """)
        self.assertIn("E: no space left", result.stderr)

    def test_an_environment_that_is_half_made_or_has_other_pins_is_made_anew(self):
        result = bash(ENVIRONMENTS + """
            is_there() { has_environment env "$(environment_stamp env pins </dev/null)" && echo yes || echo no; }
            mkdir env; echo "ruff==1" >pins; is_there
            mark_whole env "$(environment_stamp env pins </dev/null)"; is_there
            echo "ruff==2" >pins; is_there""")
        self.assertEqual(result.stdout.split(), ["no", "yes", "no"], result.stderr)

    def test_without_a_package_index_the_reason_is_said(self):
        result = bash(ENVIRONMENTS + """
            mkdir -p env/bin
            printf '#!/bin/sh\necho "no route to host"; exit 1' >env/bin/python
            chmod +x env/bin/python
            cannot_make() { echo "$1"; cat env.log; exit 77; }
            pip_install env "ruff and mypy" ruff""")
        self.assertEqual(result.returncode, 77, result.stderr)
        self.assertEqual(result.stdout.splitlines(), [
            "pip cannot install ruff and mypy (no package index in reach?): env.log", "no route to host"])


# A project as scripts/test expects it: each room has a target, and its tests have its label.
TINY_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(tiny LANGUAGES NONE)
enable_testing()
add_custom_target(test-homes COMMAND ${CMAKE_COMMAND} -E touch homes_are_built)
add_custom_target(test-plan COMMAND ${CMAKE_COMMAND} -E touch plan_is_built)
add_custom_target(test-bare)
add_custom_target(test-fuzz)
add_test(NAME Split.KeepsHomes COMMAND ${CMAKE_COMMAND} -E true)
add_test(NAME Shares.AreEqual COMMAND ${CMAKE_COMMAND} -E true)
add_test(NAME Split.OfPlans COMMAND ${CMAKE_COMMAND} -E true)
add_test(NAME bare.builds COMMAND sh -c [[test -z "$ZF_TEST_LONG"]])
add_test(NAME fuzz.hours COMMAND sh -c [[test -n "$ZF_TEST_LONG"]])
set_tests_properties(Split.KeepsHomes Shares.AreEqual PROPERTIES LABELS homes)
set_tests_properties(Split.OfPlans PROPERTIES LABELS plan)
set_tests_properties(bare.builds PROPERTIES LABELS "bare;heavy")
set_tests_properties(fuzz.hours PROPERTIES LABELS "fuzz;long")
file(WRITE ${CMAKE_BINARY_DIR}/tested_rooms.txt "homes\nplan\nbare\nfuzz\n")
"""


class OneRoom(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        shutil.copytree(SOURCE / "scripts", cls.folder / "scripts", ignore=shutil.ignore_patterns("slurm"))
        (cls.folder / "CMakeLists.txt").write_text(TINY_PROJECT)
        subprocess.run(["/usr/bin/env", "cmake", "-G", "Ninja", "-S", cls.folder, "-B", cls.folder / "build"],
                       check=True, capture_output=True, timeout=50)

    def scripts_test(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([self.folder / "scripts/test", *arguments], capture_output=True, text=True, timeout=50,
                              check=False)

    def test_its_tests_alone_are_built_and_run(self):
        result = self.scripts_test("homes")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("out of 2\n", result.stdout)
        self.assertIn("Shares.AreEqual", result.stdout)
        self.assertTrue((self.folder / "build/homes_are_built").exists())
        self.assertFalse((self.folder / "build/plan_is_built").exists())

    def test_a_name_selects_among_them(self):
        result = self.scripts_test("homes", "-k", "Split")
        self.assertIn("Split.KeepsHomes", result.stdout)
        self.assertIn("out of 1\n", result.stdout)

    def test_a_name_that_no_test_has_is_an_error(self):
        result = self.scripts_test("homes", "-k", "Splitt")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("No tests were found", result.stdout + result.stderr)
        self.assertIn("-k needs the name of a test", self.scripts_test("homes", "-k").stderr)

    def test_a_room_without_tests_is_answered_with_those_that_have_some(self):
        result = self.scripts_test("hmes")
        self.assertEqual(result.returncode, 1)
        self.assertIn("there are no tests of 'hmes'; rooms and folders with tests: homes plan bare fuzz\n",
                      result.stderr)

    def test_a_second_room_is_refused(self):
        for words in (("homes", "plan"), ("homes", "Split"), ("-V", "homes", "plan")):
            result = self.scripts_test(*words)
            self.assertEqual(result.returncode, 1)
            self.assertEqual(result.stderr, f"test: {words[-1]}: one ROOM; for a test's name give -k NAME\n")

    def test_since_runs_what_the_change_reaches(self):
        rules = self.folder / "scripts/reached.py"
        self.addCleanup(rules.write_text, rules.read_text())
        for said, tests in (("bare\nplan\n", 2), ("plan.period\nsmoke\n", 0)):
            with self.subTest(said):
                rules.write_text(f"import sys; assert sys.argv[1:] == ['main']; print({said!r}, end='')")
                result = self.scripts_test("--no-install", "--since", "main")
                self.assertIn(f"out of {tests}\n" if tests else "No tests were found", result.stdout + result.stderr)
        rules.write_text("")
        self.assertIn("nothing has changed since main\n", self.scripts_test("--since", "main").stderr)
        self.assertIn("leave out one of the two", self.scripts_test("--since", "main", "homes").stderr)
        rules.write_text("import sys; sys.exit(128)")
        self.assertIn("main: not a commit", self.scripts_test("--since", "main").stderr)

    def test_tests_that_only_all_or_long_runs_are_said_to_be_so(self):
        for words, option in ((("bare",), "--all"), (("-k", "builds", "bare"), "--all"), (("fuzz",), "--long"),
                              (("--all", "fuzz"), "--long")):
            with self.subTest(words=words):
                result = self.scripts_test("--no-install", *words)
                self.assertEqual(result.returncode, 1)
                self.assertIn(f"all of these tests run under {option} only: scripts/test {option} {words[-1]}\n",
                              result.stderr)
        self.assertIn("out of 1\n", self.scripts_test("bare", "--all").stdout)

    def test_long_alone_tells_its_tests_so(self):
        """What is a warning elsewhere is a failure there."""
        self.assertEqual(self.scripts_test("fuzz", "--long").returncode, 0)
        self.assertEqual(self.scripts_test("bare", "--all").returncode, 0)
        self.assertNotEqual(self.scripts_test("bare", "--long").returncode, 0)

    def test_our_options_stand_in_any_order_among_those_of_ctest(self):
        for words in (("homes", "-V", "-k", "Split"), ("-V", "homes", "-k", "Split"), ("-k", "Split", "-V", "homes"),
                      ("homes", "-R", "Split", "--all"), ("homes", "--no-install", "--", "-R", "Split")):
            with self.subTest(words=words):
                result = self.scripts_test(*words)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("out of 1\n", result.stdout)
