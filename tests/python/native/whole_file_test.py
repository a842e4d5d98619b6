"""Files that the package writes are whole, and replace nothing but a file. Needs no torch. Tests native/whole_file.py,
record/__init__.py.

What the machine refuses on the way is tested in tests/unit/os/atomic_file_test.cpp."""

import errno
import os
import pathlib
import resource
import socket
import stat
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import support

from zf_runtime.native import whole_file
from zf_runtime.optim.overlap.timeline import Span, write_for_perfetto
from zf_runtime.record import recording

STRANGER = 65534


def write_timeline(path):
    write_for_perfetto([Span("step", 1, 0, 0, 1000)], path)


class WholeFile(unittest.TestCase):
    """All paths are below the test's folder: a mistake must not replace what this machine has."""

    def setUp(self):
        made = tempfile.TemporaryDirectory(prefix="zf-python-")
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)
        self.file = self.folder / "file"

    def names(self) -> list[str]:
        return sorted(os.listdir(self.folder))

    def make_no_files(self) -> list[str]:
        """Makes what is no regular file. Returns the names."""
        (self.folder / "folder").mkdir()
        os.mkfifo(self.folder / "fifo")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(self.folder / "socket"))
        if os.geteuid() == 0:
            os.mknod(self.folder / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        for name in self.names():
            (self.folder / f"to-{name}").symlink_to(name)
        (self.folder / "loop").symlink_to("loop")
        (self.folder / "stdout").symlink_to("/proc/self/fd/1")
        return self.names()

    def test_what_is_no_regular_file_is_refused_and_stays(self):
        names = self.make_no_files()
        before = [(self.folder / name).lstat()[:2] for name in names]
        for name in names:
            path = self.folder / name
            with self.subTest(name=name), self.assertRaisesRegex(OSError, str(path)):
                write_timeline(path)
        self.assertEqual(self.names(), names)
        self.assertEqual([(self.folder / name).lstat()[:2] for name in names], before)

    def test_a_recording_that_cannot_be_written_is_refused_before_the_work(self):
        torch = mock.MagicMock(__version__="2.13")
        for name in self.make_no_files():
            with self.subTest(name=name), mock.patch.dict(sys.modules, torch=torch), self.assertRaises(OSError), \
                    recording(self.folder / name):
                self.fail("the job has begun")

    def test_a_plan_is_not_replaced(self):
        plan = self.folder / "plan.json"
        plan.write_text('{"made":[' + '"", ' * 2000 + '""],"schema":"zf-plan/2"}')
        with self.assertRaisesRegex(FileExistsError, "this is a plan"):
            write_timeline(plan)
        self.assertIn("zf-plan/2", plan.read_text())

    def test_a_folder_that_is_not_there_is_said_before_the_work(self):
        torch = mock.MagicMock(__version__="2.13")
        with mock.patch.dict(sys.modules, torch=torch), self.assertRaises(FileNotFoundError), \
                recording(self.folder / "none/w.json"):
            self.fail("the job has begun")

    def test_a_link_stays_and_its_target_is_replaced(self):
        (self.folder / "link").symlink_to("deep/file")
        (self.folder / "deep").mkdir()
        for text in ("new", "newer"):
            whole_file.write_whole(self.folder / "link", text)
            self.assertEqual((self.folder / "deep/file").read_text(), text)
        self.assertTrue((self.folder / "link").is_symlink())
        self.assertEqual(os.listdir(self.folder / "deep"), ["file"])

    def test_names_in_the_working_folder(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        for path in ("file", "./file", "../" + self.folder.name + "/file"):
            whole_file.write_whole(path, path)
            self.assertEqual(self.file.read_text(), path)
        self.assertEqual(self.names(), ["file"])

    def test_a_failed_write_leaves_the_old_file_and_nothing_else(self):
        def write(temporary):
            pathlib.Path(temporary).write_text("half")
            raise ZeroDivisionError

        self.file.write_text("old")
        with self.assertRaises(ZeroDivisionError):
            whole_file.write_whole_by(self.file, write)
        self.assertEqual((self.file.read_text(), self.names()), ("old", ["file"]))

    def test_a_disk_that_is_full_is_said_with_the_file(self):
        self.file.write_text("old")
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, limits)
        with self.assertRaisesRegex(OSError, f"make room, .* is unchanged: '{self.file}'") as caught:
            whole_file.write_whole(self.file, "new")
        self.assertEqual(caught.exception.errno, errno.EFBIG)
        self.assertEqual((self.file.read_text(), self.names()), ("old", ["file"]))

    def test_a_link_beside_it_is_not_followed(self):
        (self.folder / "precious").write_text("precious")
        (self.folder / ".file.tmp").symlink_to("precious")
        whole_file.write_whole(self.file, "new")
        self.assertEqual((self.folder / "precious").read_text(), "precious")
        self.assertEqual(self.names(), [".file.tmp", "file", "precious"])

    def test_writers_at_one_time_do_not_meet(self):
        """Not in the names beside their files, either, if these begin alike, or are one."""
        begun = "n" * 120

        def write(temporary):
            for name in (begun + "2", begun):
                whole_file.write_whole(self.folder / name, f"of {name}")
            pathlib.Path(temporary).write_text("last")

        whole_file.write_whole_by(self.folder / begun, write)
        self.assertEqual({name: (self.folder / name).read_text() for name in self.names()},
                         {begun: "last", begun + "2": f"of {begun}2"})

    def test_the_mode_of_the_file_is_kept_and_that_of_a_new_one_follows_the_umask(self):
        self.addCleanup(os.umask, os.umask(0o077))
        whole_file.write_whole(self.file, "new")
        self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), 0o600)
        for mode in (0o640, 0o444):
            self.file.chmod(mode)
            whole_file.write_whole(self.file, "newer")
            self.assertEqual(stat.S_IMODE(self.file.stat().st_mode), mode)

    @unittest.skipIf(os.geteuid() != 0, "only root can hide /proc")
    def test_it_needs_no_proc(self):
        program = f"from zf_runtime.native import whole_file\nwhole_file.write_whole({str(self.file)!r}, 'new')"
        hidden = "mount -t tmpfs none /proc || exit 77; exec \"$@\""
        ended = subprocess.run(["unshare", "-m", "sh", "-c", hidden, "sh", sys.executable, "-B", "-c", program],
                               capture_output=True, text=True, timeout=60, check=False,
                               env=os.environ | {"PYTHONPATH": str(support.PACKAGE)})
        if ended.returncode == 77 or ended.stderr.startswith("unshare:"):
            self.skipTest(ended.stderr)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual((self.file.read_text(), self.names()), ("new", ["file"]))

    @unittest.skipIf(os.geteuid() != 0, "only root can give files away")
    def test_a_shared_folder_gives_nothing_away(self):
        self.file.write_text("a stranger's")
        self.file.chmod(0o666)
        (self.folder / "link").symlink_to("file")
        for name in ("file", "link"):
            os.lchown(self.folder / name, STRANGER, STRANGER)
        whole_file.write_whole(self.file, "new")
        self.assertEqual(self.file.stat().st_uid, STRANGER)
        self.folder.chmod(0o1777)
        with self.assertRaisesRegex(OSError, "is a link that user 65534 made"):
            whole_file.write_whole(self.folder / "link", "new")
        whole_file.write_whole(self.file, "newer")
        self.assertEqual((self.file.stat().st_uid, stat.S_IMODE(self.file.stat().st_mode) & 0o022), (0, 0))


if __name__ == "__main__":
    unittest.main()
