"""Tests where the package finds the library when no variable names it, and its error when it does not find it. Tests
native/library.py."""

import _ctypes
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

import support


class Library(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def ask(self, package):
        """Loads the library from a copy of the package, without ZF_RUNTIME_LIBRARY."""
        shutil.copytree(support.PACKAGE / "zf_runtime", package / "zf_runtime")
        environment = {name: value for name, value in os.environ.items() if name != "ZF_RUNTIME_LIBRARY"}
        return subprocess.run([sys.executable, "-B", "-c",
                               "import zf_runtime.native.library\nprint(zf_runtime.native.library.library()._name)"],
                              env=environment | {"PYTHONPATH": str(package)}, capture_output=True, text=True,
                              timeout=60, check=False)

    def test_that_of_the_source_tree_is_found(self):
        """The package lies in a source tree, as with pip install -e."""
        library = self.folder / "build/lib/libzf_runtime.so.0"
        library.parent.mkdir(parents=True)
        library.symlink_to(os.environ["ZF_RUNTIME_LIBRARY"])
        (self.folder / "CMakeLists.txt").touch()
        asked = self.ask(self.folder / "runtime/python")
        self.assertEqual((asked.stdout, asked.stderr), (f"{library}\n", ""))

    def open_elsewhere(self, folder: pathlib.Path, **variables: str) -> None:
        """Imports the package, changes the folder, as Hydra does before main(), and opens a runtime."""
        program = textwrap.dedent(f"""
            import os
            import zf_runtime
            os.chdir({str(self.folder)!r})
            zf_runtime.Runtime({support.plan()!r}, groups=[zf_runtime.Group(8)]).close()
            """)
        environment = {name: value for name, value in os.environ.items() if name != "ZF_OPTIMIZER"}
        environment |= {"PYTHONPATH": str(support.PACKAGE)} | variables
        asked = subprocess.run([sys.executable, "-B", "-c", program], cwd=folder, env=environment,
                               capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((asked.returncode, asked.stderr), (0, ""))

    def test_a_relative_one_finds_its_optimizer_after_a_change_of_folder(self):
        library = pathlib.Path(os.environ["ZF_RUNTIME_LIBRARY"]).resolve()
        self.open_elsewhere(library.parent, ZF_RUNTIME_LIBRARY="./" + library.name)

    def test_a_relative_optimizer_is_that_of_the_folder_of_the_import(self):
        library = pathlib.Path(os.environ["ZF_RUNTIME_LIBRARY"]).resolve()
        (self.folder / "zf-optimizer").write_text("#!/bin/sh\necho another program >&2\nexit 1\n")
        (self.folder / "zf-optimizer").chmod(0o755)
        self.open_elsewhere(library.parent.parent / "bin", ZF_OPTIMIZER="./zf-optimizer",
                            ZF_RUNTIME_LIBRARY=str(library))

    def test_it_stays_when_it_is_closed(self):
        """Threads of an open handle run its code."""
        path = os.environ["ZF_RUNTIME_LIBRARY"]
        closed = ctypes.CDLL(path)
        _ctypes.dlclose(closed._handle)
        ctypes.CDLL(path, mode=os.RTLD_NOLOAD)  # raises OSError if it is gone

    def test_none_says_what_to_do(self):
        asked = self.ask(self.folder)
        if asked.returncode == 0:
            self.skipTest(f"this system has one: {asked.stdout.strip()}")
        last = asked.stderr.splitlines()[-1]
        for remedy in ("ZF_RUNTIME_LIBRARY=/path/to/libzf_runtime.so", "pip install -e .",
                       "cmake --install build"):
            self.assertIn(remedy, last)


if __name__ == "__main__":
    unittest.main()
