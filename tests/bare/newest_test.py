"""The short form of newest_adamw_test.py: Debian sid, without torch."""

import os
import shutil
import unittest
from unittest import mock

from newest import NewestTest, warns
from steps import STEP
from wheels import SOURCE


class Newest(NewestTest):
    @warns
    def test_the_wheel_with_the_newest_cpython(self):
        self.install_build("sid")
        (self.root / "try/step.py").write_text(STEP)
        self.inside("ZF_PLAN=plan.json env/bin/python step.py")
        tests = self.root / "try/tests/python/optim"
        tests.mkdir(parents=True)
        for name in ("optim/latch_test.py", "helpers/support.py"):
            shutil.copy(SOURCE / "tests/python" / name, tests)
        self.inside("cd tests/python/optim && ../../../env/bin/python -m unittest latch_test")


class Warn(unittest.TestCase):
    def test_a_failure_is_a_warning_and_under_long_a_failure(self):
        def test_it(_):
            raise AssertionError("1 != 0\nRuntimeError: release unlocked lock\n\nFAILED (errors=1)\n")

        with mock.patch.dict(os.environ, ZF_TEST_LONG=""), \
                self.assertRaisesRegex(unittest.SkipTest, "^warning: it: RuntimeError: release unlocked lock$"):
            warns(test_it)(self)
        with mock.patch.dict(os.environ, ZF_TEST_LONG="1"), self.assertRaises(AssertionError):
            warns(test_it)(self)
