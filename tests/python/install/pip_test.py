"""pip installs the package alone, and nothing is compiled. Needs a package index."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import venv

import support

_PROGRAM = """import sys, zf_runtime
from zf_runtime.native import library
with zf_runtime.Runtime(sys.argv[1], groups=[zf_runtime.Group(5)]) as runtime:
    runtime.wait(runtime.submit(zf_runtime.adam_scalars(1)))
print(library.library()._name)
print(zf_runtime.__file__)
"""


class Install(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.environment = pathlib.Path(folder.name, "env").resolve()
        self.source = pathlib.Path(folder.name, "source").resolve()
        shutil.copytree(support.PACKAGE, self.source / "runtime/python")
        for name in ("pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"):
            shutil.copy(support.SOURCE / name, self.source)
        self.build = pathlib.Path(os.environ["ZF_RUNTIME_LIBRARY"]).parents[1]
        (self.source / "build").symlink_to(self.build)
        venv.create(self.environment, with_pip=True)

    def install(self, *how: str) -> list[str]:
        """Installs the package so, and does a step elsewhere. Returns which library and which package it used."""
        clean = support.without_paths(self.environment)
        installed = subprocess.run([self.environment / "bin/pip", "install", "--quiet", "--retries", "1", *how],
                                   cwd=self.source, env=clean, capture_output=True, text=True, timeout=250, check=False)
        if "No matching distribution" in installed.stderr:
            self.skipTest("no package index can be reached")
        self.assertEqual(installed.returncode, 0, installed.stderr)
        ran = subprocess.run([self.environment / "bin/python", "-B", "-c", _PROGRAM, support.plan()],
                             capture_output=True, text=True, timeout=60, check=False, cwd="/", env=clean)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout.splitlines()

    def test_from_the_tree_it_uses_the_build_of_the_tree(self):
        self.assertEqual(self.install("-e", "."), [str(self.source / "build/lib/libzf_runtime.so.0"),
                                                   str(self.source / "runtime/python/zf_runtime/__init__.py")])

    def test_a_copy_of_the_package_alone(self):
        lib = self.environment / "lib"
        shutil.copy(self.build / "lib/libzf_runtime.so.0", lib)
        shutil.copy(self.build / "bin/zf-optimizer", self.environment / "bin")
        library, package = self.install("--config-settings", "wheel.cmake=false", ".")
        self.assertEqual(library, str(lib / "libzf_runtime.so.0"))
        self.assertTrue(pathlib.Path(package).is_relative_to(lib), package)
        self.assertTrue(pathlib.Path(package).with_name("py.typed").exists())


if __name__ == "__main__":
    unittest.main()
