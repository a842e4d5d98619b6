"""A wheel of this build in a system with what is newest. What fails there may be new in CPython, Debian or torch.

So a failure is a warning: a skipped test with the exception as its reason. Under scripts/test --long it is a failure.
"""

import functools
import os
import pathlib
import re
import shutil
import tempfile
import unittest

from files import FilesTest
from wheels import SOURCE, install_build, make_wheel

LIBRARIES = ("libhwloc15", "libnuma1", "libtbb12", "libstdc++6")  # this build's


def warns(test):
    """Makes a failure of a test a warning, unless scripts/test --long runs it."""
    @functools.wraps(test)
    def tried(self):
        try:
            test(self)
        except unittest.SkipTest:
            raise
        except Exception as error:
            if os.environ.get("ZF_TEST_LONG"):
                raise
            print(error)
            raise unittest.SkipTest(f"warning: {test.__name__.removeprefix('test_')}: {reason(error)}") from None
    return tried


def reason(error: Exception) -> str:
    """Returns the last line that names an exception, or the last one."""
    lines = (str(error).strip() or repr(error)).splitlines()
    return ([line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line)] or lines)[-1]


class NewestTest(FilesTest):
    def install_build(self, suite: str, *packages: str) -> None:
        """Installs a wheel of this build into /try/env, and makes a plan."""
        self.system(suite, "python3-venv", *LIBRARIES, *packages)
        self.inside("apt-get update && apt-get dist-upgrade --yes", 900)  # the system may be one of a former run
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        install_build(folder / "tree")
        self.install(suite, make_wheel(folder / "tree", folder))
        self.inside("env/bin/zf-tune plan --quiet --params 1M -o plan.json")

    def assert_adamw_trains(self, jobs: int) -> None:
        """Runs the example of AdamW: off, exact and late."""
        shutil.copy(SOURCE / "runtime/python/examples/train_tiny_lm.py", self.root / "try")
        print(self.inside("env/bin/python -c 'import sys, torch; print(sys.version, torch.__version__)'"))
        for _ in range(jobs):
            said = self.inside("env/bin/zf-tune exec -- env/bin/python train_tiny_lm.py --steps 20", 900)
            for name in ("torch", "waiting", "exact", "late"):
                self.assertRegex(said, rf"(?m)^{name} +loss ")
        print(said)
