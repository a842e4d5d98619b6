"""On a system without a compiler a job goes on without the operator that DeepSpeed compiles in init_distributed."""

import contextlib
import io
import os
import unittest
from unittest import mock

import support

support.need("torch")
from zf_runtime.deepspeed import messages, shm  # noqa: E402


def fails():
    raise RuntimeError("Error building extension")


class WithoutCompiler(unittest.TestCase):
    def build(self, build, path: str):
        """Returns what the operator is with this PATH, and what was said."""
        messages.say_once.cache_clear()
        said = io.StringIO()
        with mock.patch.dict(os.environ, PATH=path), contextlib.redirect_stderr(said):
            return shm.without_compiler(build)(), said.getvalue()

    def test_there_is_no_operator_and_that_is_said(self):
        operator, said = self.build(fails, "/nonexistent")
        self.assertIsNone(operator)
        self.assertIn("no c++ in PATH, so DeepSpeed's deepspeed_shm_comm is not compiled (RuntimeError)", said)

    def test_an_operator_that_is_there_is_taken(self):
        self.assertEqual(self.build(lambda: "operator", "/nonexistent"), ("operator", ""))

    def test_with_a_compiler_the_failure_is_the_jobs(self):
        with mock.patch("shutil.which", return_value="/usr/bin/it"), self.assertRaisesRegex(RuntimeError, "building"):
            self.build(fails, "/usr/bin")
