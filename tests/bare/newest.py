"""A wheel of this build in a system with what is newest. What fails there may be new in CPython, Debian or torch.

So scripts/test --long alone runs these tests: a change to this project must not wait for the others' next release.
"""

import pathlib
import shutil
import tempfile

from files import FilesTest
from wheels import SOURCE, install_build, make_wheel

LIBRARIES = ("libhwloc15", "libnuma1", "libtbb12", "libstdc++6")  # this build's


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
