"""What can break the files of scripts/release from one day to the next, tried with this build: it needs no zig.

A wheel of this build installs into an empty environment and works there. files_test.py tries the real ones."""

import base64
import csv
import email
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

from steps import STEP
from wheels import BUILD, DEBIAN_PYTHONS, EPOCH, OTHER_PYTHONS, PORTABLE, SOURCE, install_build, make_wheel, run

VERSION = re.search(r"project\(zf-tune VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
# glibc's headers for 2.28 have these inline, with other symbols behind them; the last is of GCC's C++ library.
NOT_NEEDED = {"stat", "lstat", "fstat", "fstatat", "mknod", "mknodat", "__libc_single_threaded"}
SHIPPED = ("bin/zf-tune", "bin/zf-optimizer", "lib/libzf_runtime.so")


def python_of(version: str) -> str:
    """Returns the path of this CPython in PATH or among pyenv's. Skips if there is none."""
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    found = [*pyenv.glob(f"versions/{version}.*/bin/python{version}"), shutil.which(f"python{version}")]
    if not found[0]:
        raise unittest.SkipTest(f"no python{version} here")
    return str(found[0])


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = tempfile.TemporaryDirectory(prefix="zf-wheel-")
        cls.addClassCleanup(made.cleanup)
        cls.folder = pathlib.Path(made.name)
        cls.tree = cls.folder / "tree"
        install_build(cls.tree)
        cls.wheel = make_wheel(cls.tree, cls.folder / "first")

    def test_one_tree_gives_one_wheel(self):
        self.assertEqual(self.wheel.read_bytes(), make_wheel(self.tree, self.folder / "second").read_bytes())
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

    def test_it_claims_the_pythons_that_a_test_runs_and_no_others(self):
        with zipfile.ZipFile(self.wheel) as archive:
            metadata = email.message_from_bytes(archive.read(f"zf_tune-{VERSION}.dist-info/METADATA"))
        run_by_tests = sorted({*DEBIAN_PYTHONS.values(), *OTHER_PYTHONS}, key=lambda name: int(name.split(".")[1]))
        claimed = [line.removeprefix("Programming Language :: Python :: ") for line in metadata.get_all("Classifier")
                   if line.startswith("Programming Language :: Python :: 3.")]
        self.assertEqual(claimed, run_by_tests)
        oldest, newest = (int(name.split(".")[1]) for name in (claimed[0], claimed[-1]))
        self.assertEqual(metadata["Requires-Python"], f">=3.{oldest},<3.{newest + 1}")

    def assert_installs_and_steps(self, python: str) -> None:
        environment = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        run(python, "-m", "venv", environment)
        bin_folder = environment / "bin"
        run(bin_folder / "pip", "install", "--quiet", "--no-index", "--no-compile", self.wheel)
        self.assertEqual(run(bin_folder / "zf-tune", "--version"), f"zf-tune {VERSION}\n")
        run(bin_folder / "zf-tune", "plan", "--quiet", "--params", "1M", "-o", environment / "plan.json")
        (environment / "step.py").write_text(STEP)
        variables = {"PYTHONPATH": "", "ZF_PLAN": str(environment / "plan.json")}
        self.assertEqual(run(bin_folder / "python", environment / "step.py", **variables), f"{VERSION}\n")

    def test_it_installs_and_its_optimizer_takes_a_step(self):
        self.assert_installs_and_steps("/usr/bin/python3")

    def test_it_installs_and_steps_with_the_oldest_python(self):
        self.assert_installs_and_steps(python_of(DEBIAN_PYTHONS["bullseye"]))

    def test_it_installs_and_steps_with_python_3_10(self):
        self.assert_installs_and_steps(python_of("3.10"))

    def test_it_installs_and_steps_with_python_3_12(self):
        self.assert_installs_and_steps(python_of("3.12"))

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


class Abi(unittest.TestCase):
    def test_a_library_that_dlclose_would_unload_is_refused(self):
        for flags, status in (((), 1), (("-Wl,-z,nodelete",), 0)):
            with self.subTest(flags), tempfile.TemporaryDirectory() as folder:
                run("cc", "-shared", "-nostdlib", *flags, "-x", "c", "/dev/null", "-o", f"{folder}/libzf_runtime.so.0")
                done = subprocess.run([PORTABLE / "abi", folder], capture_output=True, text=True, timeout=60,
                                      check=False)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertEqual("NODELETE" in done.stderr, status == 1, done.stderr)


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
