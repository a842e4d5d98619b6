"""scripts/fuzz --pack: the archives of inputs, which the build unpacks with CMake."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from zf_cli import SOURCE

INPUTS = {"01d7": b"", "-x": b"\x00\xff\r\n", "torchrun": b"LOCAL_RANK=3\n", "Zed": b"Z" * 3000}


class Archives(unittest.TestCase):
    def setUp(self):
        if shutil.which("xz") is None:
            self.skipTest("no xz (Debian: xz-utils)")
        # A tmpfs lists files by when they were made, most others by their names' digests.
        folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def inputs(self, name: str, order=tuple(INPUTS), mode=0o644, seconds=1_700_000_000) -> pathlib.Path:
        """Makes a folder of these inputs, which are so old."""
        made = self.folder / name
        made.mkdir()
        for file in order:
            (made / file).write_bytes(INPUTS[file])
            (made / file).chmod(mode)
            os.utime(made / file, (seconds, seconds))
        return made

    def pack(self, folder: pathlib.Path, archive: str) -> subprocess.CompletedProcess:
        return subprocess.run([SOURCE / "scripts/fuzz", "--pack", folder, archive], cwd=self.folder,
                              capture_output=True, text=True, timeout=50, check=False)

    def test_the_same_inputs_give_the_same_archive(self):
        for folder, archive in ((self.inputs("one"), "1.tar.xz"),
                                (self.inputs("two", tuple(reversed(INPUTS)), 0o600, 1_000_000_000), "2.tar.xz")):
            packed = self.pack(folder, archive)
            self.assertEqual((packed.returncode, packed.stderr), (0, ""))
        self.assertEqual((self.folder / "1.tar.xz").read_bytes(), (self.folder / "2.tar.xz").read_bytes())

    def test_cmake_unpacks_what_was_packed(self):
        self.assertEqual(self.pack(self.inputs("packed"), "a.tar.xz").returncode, 0)
        unpacked = self.folder / "unpacked"
        unpacked.mkdir()
        subprocess.run([os.environ["ZF_CMAKE"], "-E", "tar", "xf", self.folder / "a.tar.xz"], cwd=unpacked,
                       timeout=50, check=True)
        self.assertEqual({file.name: file.read_bytes() for file in unpacked.iterdir()}, INPUTS)

    def test_a_folder_without_inputs_is_refused(self):
        (self.folder / "empty").mkdir()
        packed = self.pack(self.folder / "empty", "a.tar.xz")
        self.assertEqual(packed.returncode, 1)
        self.assertIn("has no files", packed.stderr)
        self.assertFalse((self.folder / "a.tar.xz").exists())


if __name__ == "__main__":
    unittest.main()
