"""What cmake --install puts into a virtual environment, with the package beside it: the parts find each other there,
and need nothing of the build."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import venv

import support


class InstallBeside(unittest.TestCase):
    def test_the_parts_find_each_other(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = pathlib.Path(folder).resolve() / "env"
            venv.create(environment)
            subprocess.run([os.environ["ZF_CMAKE"], "--install", os.environ["ZF_BUILD"], "--prefix", environment],
                           check=True, stdout=subprocess.DEVNULL, timeout=60)
            packages, = environment.glob("lib/python*/site-packages")
            shutil.copytree(support.PACKAGE / "zf_runtime", packages / "zf_runtime")
            self.assertEqual(support.strangers(environment), [])


if __name__ == "__main__":
    unittest.main()
