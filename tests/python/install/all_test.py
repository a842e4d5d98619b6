"""pip install . puts everything into a virtual environment, where the parts find each other. Needs a package index.
Its short form is beside_test.py."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest
import venv

import support


class InstallAll(unittest.TestCase):
    def test_into_a_virtual_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            environment, source = pathlib.Path(folder, "env"), pathlib.Path(folder, "source")
            shutil.copytree(support.SOURCE, source, symlinks=True, ignore=shutil.ignore_patterns("build*", ".git"))
            venv.create(environment, with_pip=True)
            clean = support.without_paths(environment)
            installed = subprocess.run([environment / "bin/pip", "install", "--quiet", "."], cwd=source, env=clean,
                                       capture_output=True, text=True, timeout=1500, check=False)
            if "No matching distribution" in installed.stderr:
                self.skipTest("no package index can be reached")
            self.assertEqual(installed.returncode, 0, installed.stderr)
            self.assertEqual(support.strangers(environment), [])
            self.assertTrue(list(environment.glob("lib/python*/site-packages/zf_runtime/py.typed")))


if __name__ == "__main__":
    unittest.main()
