"""pip installs the package from the tree, and the installed one works. Nothing is downloaded."""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

for _needed in ("pip", "setuptools", "wheel"):
    if importlib.util.find_spec(_needed) is None:  # not imported: pip and setuptools replace parts of Python
        raise unittest.SkipTest(f"no {_needed} (Debian: python3-pip)")


class Install(unittest.TestCase):
    def test_from_the_tree(self):
        with tempfile.TemporaryDirectory() as folder:
            source, target = pathlib.Path(folder, "source"), pathlib.Path(folder, "target")
            shutil.copytree(support.PACKAGE, source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
            installed = subprocess.run(
                [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation", "--no-deps",
                 "--target", target, source], capture_output=True, text=True, timeout=250, check=False)
            self.assertEqual(installed.returncode, 0, installed.stderr)
            program = ("import sys, zf_runtime\n"
                       "with zf_runtime.Runtime(sys.argv[1], groups=[zf_runtime.Group(5)]) as runtime:\n"
                       "    runtime.wait(runtime.submit())\nprint(zf_runtime.__file__)")
            ran = subprocess.run([sys.executable, "-B", "-c", program, support.plan()], capture_output=True, text=True,
                                 timeout=60, check=False, cwd=folder, env=os.environ | {"PYTHONPATH": str(target)})
            self.assertEqual(ran.returncode, 0, ran.stderr)
            self.assertEqual(pathlib.Path(ran.stdout.strip()).parent, target / "zf_runtime")
            self.assertTrue((target / "zf_runtime/py.typed").exists())


if __name__ == "__main__":
    unittest.main()
