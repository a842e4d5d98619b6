"""On a system without a compiler a job goes on without the operator that DeepSpeed compiles in init_distributed, and a
start that waits for another one's compiler says so. Tests deepspeed/compiling.py."""

import contextlib
import io
import os
import pathlib
import tempfile
import threading
import time
import unittest
from unittest import mock

import support

support.need("torch")
from torch.utils.file_baton import FileBaton  # noqa: E402
from zf_runtime.deepspeed import compiling, messages  # noqa: E402


def fails():
    raise RuntimeError("Error building extension")


class WithoutCompiler(unittest.TestCase):
    def build(self, build, path: str):
        """Returns what the operator is with this PATH, and what was said."""
        messages.say_once.cache_clear()
        said = io.StringIO()
        with mock.patch.dict(os.environ, PATH=path), contextlib.redirect_stderr(said):
            return compiling.without_compiler(build)(), said.getvalue()

    def test_there_is_no_operator_and_that_is_said(self):
        operator, said = self.build(fails, "/nonexistent")
        self.assertIsNone(operator)
        self.assertIn("no c++ in PATH, so DeepSpeed's deepspeed_shm_comm is not compiled (RuntimeError)", said)

    def test_an_operator_that_is_there_is_taken(self):
        self.assertEqual(self.build(lambda: "operator", "/nonexistent"), ("operator", ""))

    def test_with_a_compiler_the_failure_is_the_jobs(self):
        with mock.patch("shutil.which", return_value="/usr/bin/it"), self.assertRaisesRegex(RuntimeError, "building"):
            self.build(fails, "/usr/bin")


class WaitingForACompiler(unittest.TestCase):
    def wait(self, patience_s: float, until=lambda said: True) -> tuple[pathlib.Path, str]:
        """Returns the lock that was waited for until it went, and what was said. The lock goes after 0.3 s, but not
        before until(said), however long that takes."""
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(said), \
                mock.patch.object(compiling, "_PATIENCE_S", patience_s):
            lock = pathlib.Path(folder, "lock")
            lock.touch()

            def end():
                time.sleep(0.3)
                deadline = time.monotonic() + 20
                while not until(said.getvalue()) and time.monotonic() < deadline:
                    time.sleep(0.01)
                lock.unlink()

            threading.Thread(target=end).start()
            compiling.naming_the_lock(FileBaton.wait)(FileBaton(str(lock)))
        return lock, said.getvalue()

    def test_a_lock_that_stays_is_named(self):
        lock, said = self.wait(0.05, bool)
        self.assertIn(f"still waiting for the process that compiles in {lock.parent}", said)
        self.assertIn(f"remove {lock}", said)

    def test_a_compiler_that_ends_is_nothing_to_tell(self):
        self.assertEqual(self.wait(60)[1], "")
