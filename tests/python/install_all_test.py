"""pip install . puts everything into a virtual environment, where the parts find each other. Needs a package index."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import venv

import support

PROGRAM = """import os, sys, zf_runtime
from zf_runtime import _library
with zf_runtime.Runtime(sys.argv[1], groups=[zf_runtime.Group(5)]) as runtime:
    runtime.wait(runtime.submit())
    print(os.readlink(f"/proc/{runtime.stats().worker_pid}/exe"))
print(_library.library()._name)
print(zf_runtime.__file__)
"""


class InstallAll(unittest.TestCase):
    def test_into_a_virtual_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            environment, source = pathlib.Path(folder, "env"), pathlib.Path(folder, "source")
            shutil.copytree(support.SOURCE, source, symlinks=True, ignore=shutil.ignore_patterns("build*", ".git"))
            venv.create(environment, with_pip=True)
            clean = {name: value for name, value in os.environ.items() if not name.startswith("ZF_")}
            clean["PATH"] = f"{environment}/bin:{clean['PATH']}"
            installed = subprocess.run([environment / "bin/pip", "install", "--quiet", "."], cwd=source, env=clean,
                                       capture_output=True, text=True, timeout=1500, check=False)
            if "No matching distribution" in installed.stderr:
                self.skipTest("no package index can be reached")
            self.assertEqual(installed.returncode, 0, installed.stderr)
            plan = pathlib.Path(folder, "plan.json")
            subprocess.run([environment / "bin/zf-tune", "plan", "-q", "-o", plan], check=True, env=clean, timeout=60)
            ran = subprocess.run([environment / "bin/python", "-c", PROGRAM, plan], capture_output=True, text=True,
                                 timeout=60, check=False, cwd=folder, env=clean)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            for path in ran.stdout.split():
                self.assertTrue(pathlib.Path(path).is_relative_to(environment), ran.stdout)


if __name__ == "__main__":
    unittest.main()
