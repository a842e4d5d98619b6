"""What a debootstrap that fails leaves behind on this machine."""

import os
import pathlib
import tempfile
import unittest
from unittest import mock

import chroot

# Fails as one without a network does: after it has mounted a file system in the folder.
FAILS = """#!/bin/sh
mkdir -p "$3/proc" && mount -t tmpfs tmpfs "$3/proc" && echo mounted
exit 1
"""


class Debootstrap(unittest.TestCase):
    def test_a_failed_one_leaves_nothing_mounted(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        program = pathlib.Path(folder, "debootstrap")
        program.write_text(FAILS)
        program.chmod(0o755)
        path = f"{folder}:{os.environ['PATH']}"
        with (mock.patch.dict(os.environ, PATH=path), mock.patch.object(chroot, "index_of", return_value=b""),
              mock.patch.object(chroot, "MINIMAL", pathlib.Path(folder, "bare"))):
            with self.assertRaises(unittest.SkipTest) as skipped, chroot.minimal("sid"):
                pass
            if "mounted" not in str(skipped.exception):
                raise skipped.exception
        self.assertNotIn(folder, pathlib.Path("/proc/self/mounts").read_text())
