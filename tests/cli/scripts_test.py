"""What the scripts that build say while somebody waits."""

import os
import subprocess
import unittest

from zf_cli import SOURCE

LIBRARY = f"source {SOURCE}/scripts/lib.sh; "


def bash(command: str) -> subprocess.CompletedProcess:
    return subprocess.run(["bash", "-c", LIBRARY + command, "script"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=50, env=os.environ | {"TERM": "dumb"})


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

    def test_a_failed_apt_shows_its_reason(self):
        result = bash("""
            AS_ROOT=()
            known_names() { echo libhwloc-dev; }
            apt-get() { echo "E: no space left"; return 100; }
            env() { shift 2; "$@"; }
            install_packages "libhwloc-dev reads the machine" """)
        self.assertIn("E: no space left", result.stderr)
