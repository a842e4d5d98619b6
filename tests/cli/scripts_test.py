"""What the scripts that build say while somebody waits."""

import os
import subprocess
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
