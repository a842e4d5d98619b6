"""What can break the files of scripts/release from one day to the next, tried with this build: it needs no zig.

A wheel of this build installs into an empty environment and works there. files_test.py tries the real ones."""

import base64
import csv
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

from steps import STEP

SOURCE = pathlib.Path(os.environ["ZF_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["ZF_TUNE_BINARY"]).parents[1]
PORTABLE = SOURCE / "scripts/portable"
VERSION = re.search(r"project\(zf-tune VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
# glibc's headers for 2.28 have these inline, with other symbols behind them; the last is of GCC's C++ library.
NOT_NEEDED = {"stat", "lstat", "fstat", "fstatat", "mknod", "mknodat", "__libc_single_threaded"}
EPOCH = 1_700_000_000
SHIPPED = ("bin/zf-tune", "bin/zf-optimizer", "lib/libzf_runtime.so")


def run(*command, **variables: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ | variables, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = tempfile.TemporaryDirectory(prefix="zf-wheel-")
        cls.addClassCleanup(made.cleanup)
        cls.folder = pathlib.Path(made.name)
        cmake = re.search(r"CMAKE_COMMAND:INTERNAL=(.*)", (BUILD / "CMakeCache.txt").read_text())[1]
        cls.tree = cls.folder / "tree"
        run(cmake, "--install", BUILD, "--prefix", cls.tree)
        cls.wheel = cls.make("first")

    @classmethod
    def make(cls, folder: str) -> pathlib.Path:
        said = run("/usr/bin/python3", "-B", PORTABLE / "wheel.py", cls.tree, "linux_" + platform.machine(),
                   cls.folder / folder, SOURCE_DATE_EPOCH=str(EPOCH))
        return pathlib.Path(said.strip())

    def test_one_tree_gives_one_wheel(self):
        self.assertEqual(self.wheel.read_bytes(), self.make("second").read_bytes())
        with zipfile.ZipFile(self.wheel) as archive:
            self.assertEqual({info.date_time for info in archive.infolist()}, {time.gmtime(EPOCH)[:6]})

    def test_it_holds_what_its_record_says_and_all_that_is_installed(self):
        with zipfile.ZipFile(self.wheel) as archive:
            names = archive.namelist()
            info = f"zf_tune-{VERSION}.dist-info"
            record = csv.reader(io.StringIO(archive.read(f"{info}/RECORD").decode()))
            for name, digest, _ in record:
                if digest:
                    content = hashlib.sha256(archive.read(name)).digest()
                    self.assertEqual(digest, "sha256=" + base64.urlsafe_b64encode(content).rstrip(b"=").decode(), name)
            self.assertIn(f"\nVersion: {VERSION}\n", archive.read(f"{info}/METADATA").decode())
            self.assertIn(f"\nTag: py3-none-linux_{platform.machine()}\n", archive.read(f"{info}/WHEEL").decode())
        self.assertEqual(len(names), len(set(names)))
        data = f"zf_tune-{VERSION}.data/data"
        for path in ("bin/zf-tune", "bin/zf-optimizer", "include/zf_runtime.h", "share/zf-tune/plan.schema.json",
                     "share/zf-tune/slurm/prolog", "share/man/man1/zf-tune.1.gz", "share/fish/vendor_completions.d/"
                     "zf-tune.fish", "share/bash-completion/completions/zf-tune", "share/zsh/site-functions/_zf-tune"):
            self.assertIn(f"{data}/{path}", names)
        self.assertTrue(any(name.startswith(f"{data}/share/zf-tune/workloads/") for name in names))

    def test_it_installs_and_its_optimizer_takes_a_step(self):
        run("/usr/bin/python3", "-m", "venv", self.folder / "env")
        bin_folder = self.folder / "env/bin"
        run(bin_folder / "pip", "install", "--quiet", "--no-index", "--no-compile", self.wheel)
        self.assertEqual(run(bin_folder / "zf-tune", "--version"), f"zf-tune {VERSION}\n")
        run(bin_folder / "zf-tune", "plan", "--quiet", "--params", "1M", "-o", self.folder / "plan.json")
        (self.folder / "step.py").write_text(STEP)
        variables = {"PYTHONPATH": "", "ZF_PLAN": str(self.folder / "plan.json")}
        self.assertEqual(run(bin_folder / "python", self.folder / "step.py", **variables), f"{VERSION}\n")

    def test_the_sbom_has_a_licence_and_a_checksum_for_each_file(self):
        said = [run("/usr/bin/python3", "-B", PORTABLE / "sbom.py", self.wheel.parent, SOURCE_DATE_EPOCH=str(EPOCH))
                for _ in range(2)]
        self.assertEqual(said[0], said[1])
        document = json.loads(said[0])
        (file,) = document["files"]
        self.assertEqual(file["checksums"][1]["checksumValue"], hashlib.sha256(self.wheel.read_bytes()).hexdigest())
        for part in [*document["packages"], file]:
            self.assertNotEqual(part["licenseConcluded"], "NOASSERTION")


def symbols(path: pathlib.Path, kind: str) -> list[tuple[str, tuple[int, ...]]]:
    """Returns names and versions of glibc's symbols that this file needs (kind "undefined") or has ("defined")."""
    found = re.findall(r" (\w+)@+GLIBC_([\d.]+)$", run("nm", "-D", f"--{kind}-only", path), re.MULTILINE)
    return [(name, tuple(map(int, version.split(".")))) for name, version in found]


class OldGlibc(unittest.TestCase):
    """The portable build is against glibc 2.28. What this build needs is there, or newer_glibc.c has it."""

    def test_nothing_needs_a_function_that_glibc_2_28_lacks(self):
        oldest = tuple(map(int, re.search(r"ZF_GLIBC=(\S+)", (PORTABLE / "common.sh").read_text())[1].split(".")))
        # glibc keeps the symbols of its older releases, so its own list says since when it has a function.
        old = set()
        for library in ("libc.so.6", "libm.so.6", "ld-linux-*.so.*"):
            (path,) = pathlib.Path("/lib").glob(f"*-linux-gnu/{library}")
            old |= {name for name, version in symbols(path, "defined") if version <= oldest}
        self.assertGreater(len(old), 2000)
        source = (PORTABLE / "newer_glibc.c").read_text()
        ours = set(re.findall(r"(?m)^(?!static)\w[\w\s*]*?\b(\w+)\([^;]*\) \{", source))
        self.assertIn("gettid", ours)
        for path in SHIPPED:
            with self.subTest(path):
                missing = {name for name, version in symbols(BUILD / path, "undefined") if version > oldest}
                self.assertEqual(missing - old - ours - NOT_NEEDED, set(), "newer_glibc.c lacks these")


class WrongArchitecture(unittest.TestCase):
    def test_one_line_names_it_and_nothing_is_built_or_removed(self):
        for script in ("release", "wheel", "portable/programs", "portable/libraries"):
            with self.subTest(script):
                done = subprocess.run([SOURCE / "scripts" / script, "sparc"], capture_output=True, text=True,
                                      timeout=60, check=False)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertEqual(done.stderr, f"{pathlib.Path(script).name}: 'sparc' is no architecture to build for; "
                                 "give x86_64 or aarch64\n")


if __name__ == "__main__":
    sys.exit(unittest.main())
