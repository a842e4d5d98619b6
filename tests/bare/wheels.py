"""Makes a wheel of this build, and says with which CPython a test runs a wheel."""

import os
import pathlib
import platform
import re
import subprocess

SOURCE = pathlib.Path(os.environ["ZF_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["ZF_TUNE_BINARY"]).parents[1]
PORTABLE = SOURCE / "scripts/portable"
EPOCH = 1_700_000_000

# The wheel claims these versions and no others (pyproject.toml). newest_test.py runs it with sid's, files_test.py with
# those of all these releases, and wheel_test.py with the oldest and with the others, where they are installed.
DEBIAN_PYTHONS = {"bullseye": "3.9", "bookworm": "3.11", "trixie": "3.13", "sid": "3.14"}
OTHER_PYTHONS = ("3.10", "3.12")


def run(*command, **variables: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ | variables, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def install_build(tree: pathlib.Path) -> None:
    """Installs this build below a folder."""
    cmake = re.search(r"CMAKE_COMMAND:INTERNAL=(.*)", (BUILD / "CMakeCache.txt").read_text())[1]
    run(cmake, "--install", BUILD, "--prefix", tree)


def make_wheel(tree: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Makes a wheel of an installed tree in a folder. Returns its path."""
    said = run("/usr/bin/python3", "-B", PORTABLE / "wheel.py", tree, "linux_" + platform.machine(), folder,
               SOURCE_DATE_EPOCH=str(EPOCH))
    return pathlib.Path(said.strip())
