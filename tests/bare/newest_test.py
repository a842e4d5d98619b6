"""The wheel with the newest CPython, that of Debian sid, without torch; newest_adamw_test.py has torch, too."""

import shutil

from newest import NewestTest
from steps import STEP
from wheels import SOURCE


class Newest(NewestTest):
    def test_the_wheel_with_the_newest_cpython(self):
        self.install_build("sid")
        (self.root / "try/step.py").write_text(STEP)
        self.inside("ZF_PLAN=plan.json env/bin/python step.py")
        tests = self.root / "try/tests/python/optim"
        tests.mkdir(parents=True)
        for name in ("optim/latch_test.py", "helpers/support.py"):
            shutil.copy(SOURCE / "tests/python" / name, tests)
        self.inside("cd tests/python/optim && ../../../env/bin/python -m unittest latch_test")
