"""What each command does with a path to write that is no plain name: a folder, a device, a FIFO, a socket, a link, an
open file, or a name that another user took in a shared folder. All of them lie in the test's folder: a mistake must not
replace what this machine has."""

import json
import os
import pathlib
import socket
import stat
import subprocess
import sys
import unittest

from permissions import STRANGER
from record_test import TORCH, TRAIN
from zf_cli import BINARY, DONE, RUNTIME_ERROR, SOURCE, USAGE, CommandTest, clean_environment

SIMULATED = ("tune", "--simulate", SOURCE / "configs/machines/desktop-4p-4e.json", "--fresh", "--budget", "5s")
TRIAL = ("trial", "--metric", "([0-9]+)", "--trials", "1", "-p", "made.json")
JOB = ("--", "sh", "-c", 'if [ "$ZF_PLAN" ]; then echo 1 1 1; else echo 2 2 2; fi')
RECORD = ("--", sys.executable, "job/train.py", "8")

#: Each option of each command that names a file to write: {} is the path.
WRITERS = {
    "tune -o": (*SIMULATED, "-q", "-o", "{}"),
    "tune --report": (*SIMULATED, "-q", "-o", "tuned.json", "--report", "{}"),
    "plan -o": ("plan", "-q", "-o", "{}"),
    "trial -o": (*TRIAL, "-q", "-o", "{}", *JOB),
    "record -o": ("record", "-q", "-o", "{}", *RECORD),
    "explain --report": ("explain", "made.json", "--report", "{}"),
    "explain --samples": ("explain", "made.json", "--samples", "{}"),
    "export -o": ("export", "made.json", "-q", "--for", "env", "-o", "{}"),
    "publish --to": ("publish", "--plans", "plans", "--to", "{}"),
}
#: Files that commands keep beside that of -o: what has their name.
KEPT = {
    "x.json.samples.jsonl": (*SIMULATED, "-q", "-o", "x.json"),
    "x.json.trial.json": (*TRIAL, "-q", "-o", "x.json", *JOB),
}
BEGINS = {"samples": "candidate,split,", "report": "<!doctype html>", "record": "{", "export": "export "}


def kind_of(path: pathlib.Path) -> tuple:
    """Returns what would change if something took this place."""
    status = path.lstat()
    return stat.S_IFMT(status.st_mode), status.st_ino, os.readlink(path) if path.is_symlink() else ""


class Targets(CommandTest):
    def setUp(self):
        super().setUp()
        self.need_two_cpus()
        made = self.make_plan(name="made.json")
        self.write_files({f"job/{name}": text for name, text in (TORCH | {"train.py": TRAIN}).items()} | {
            f"plans/{made['machine']['fingerprint']}.json": json.dumps(made)})
        self.place = self.folder / "place"
        self.place.mkdir(0o755)
        self.folder.chmod(0o755)

    def run_into(self, words, path, stdout=subprocess.PIPE):
        return subprocess.run([BINARY, *(str(word).replace("{}", str(path)) for word in words)], cwd=self.folder,
                              env=clean_environment(), stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                              text=True, timeout=50, check=False)

    def make_targets(self) -> list[str]:
        """Makes what is no regular file. Returns the names."""
        (self.place / "folder").mkdir()
        os.mkfifo(self.place / "fifo")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(self.place / "socket"))
        names = ["folder", "fifo", "socket"]
        try:
            os.mknod(self.place / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
            names.append("device")
        except PermissionError:
            pass  # only root makes devices, and not everywhere
        for name in list(names):
            (self.place / f"to-{name}").symlink_to(name)
        (self.place / "loop").symlink_to("loop")
        (self.place / "stderr").symlink_to("/proc/self/fd/2")
        return sorted(path.name for path in self.place.iterdir())

    def assert_is_result(self, writer: str, text: str):
        begin = next((begin for part, begin in BEGINS.items() if part in writer), '{\n  "schema": "zf-plan/')
        self.assertTrue(text.lower().startswith(begin.lower()), text[:100])
        if begin.startswith("{"):
            json.loads(text)

    def test_what_is_no_regular_file_is_refused_and_stays(self):
        names = self.make_targets()
        before = {name: kind_of(self.place / name) for name in names}
        for writer, words in WRITERS.items():
            for name in names:
                with self.subTest(writer=writer, name=name):
                    result = self.run_into(words, f"place/{name}")
                    self.assert_refused(result, RUNTIME_ERROR if "publish" in writer else USAGE, f"place/{name}")
        self.assertEqual({path.name: kind_of(path) for path in self.place.iterdir()}, before)

    def test_a_dash_and_names_of_stdout_are_stdout(self):
        """It has the result alone, whatever is said beside it, and no file is written but those that are named."""
        link = self.place / "stdout"
        link.symlink_to("/proc/self/fd/1")  # as /dev/stdout is one
        before = kind_of(link)
        for writer, words in WRITERS.items():
            for name in ("-", link):
                with self.subTest(writer=writer, name=name):
                    with open(self.folder / "out", "w") as out:
                        result = self.run_into([word for word in words if word != "-q"], name, out)
                    self.assert_exit(result, DONE)
                    self.assert_is_result(writer, (self.folder / "out").read_text())
                    self.assertEqual(kind_of(link), before)
        self.assertEqual({path.name for path in self.folder.iterdir()},
                         {"made.json", "tuned.json", "tuned.json.old", "tuned.json.samples.jsonl", "job", "plans",
                          "place", "out"})

    def test_a_link_to_a_file_stays_and_the_file_is_replaced(self):
        for writer, words in WRITERS.items():
            if "publish" in writer:
                continue  # tests/unit/os/publish_test.cpp: it replaces the link
            for old in ("", None):
                with self.subTest(writer=writer, old=old):
                    target, link = self.folder / "target", self.place / "link"
                    link.symlink_to(target)
                    if old is not None:
                        target.write_text(old)
                    self.assert_exit(self.run_into(words, "place/link"), DONE)
                    self.assertTrue(link.is_symlink())
                    self.assert_is_result(writer, target.read_text())
                    for path in (link, target):
                        path.unlink()

    def test_the_former_plan_of_a_link_is_kept_beside_its_target(self):
        (self.place / "link").symlink_to(self.folder / "target")
        (self.folder / "target").write_text("precious")
        result = self.run_into(("plan", "-o", "place/link"), "")
        self.assert_exit(result, DONE)
        self.assertEqual((self.folder / "target.old").read_text(), "precious")
        self.assertFalse((self.folder / "target.old").is_symlink())
        self.assertEqual(os.listdir(self.place), ["link"])

    def test_two_results_for_one_file_are_refused(self):
        (self.place / "link").symlink_to("../made.json")
        for words in (("tune", "-o", "-", "--report", "-"), ("explain", "made.json", "--report", "place/link"),
                      ("tune", "-o", "x.json", "--report", "place/../x.json")):
            with self.subTest(words=words):
                self.assert_refused(self.run_into(words, ""), USAGE, "--report")

    def test_what_is_kept_beside_a_plan_replaces_no_device(self):
        for name, words in KEPT.items():
            for make in (os.mkfifo, os.mkdir):
                with self.subTest(name=name, make=make):
                    make(self.folder / name)
                    before = kind_of(self.folder / name)
                    self.assert_refused(self.run_into(words, ""), USAGE, name)
                    self.assertEqual(kind_of(self.folder / name), before)
                    (os.rmdir if make is os.mkdir else os.unlink)(self.folder / name)

    def test_the_class_is_remembered_in_a_file_alone(self):
        names = self.make_targets()
        before = {name: kind_of(self.place / name) for name in names}
        words = (*WRITERS["publish --to"], "--remember")
        for name in names:
            with self.subTest(name=name):
                result = self.run_into((*words, f"place/{name}"), "published.json")
                self.assert_exit(result, DONE)
                self.assertIn("the node's class is not remembered", result.stderr)
        self.assert_refused(self.run_into((*words, "-"), "published.json"), USAGE, "--remember -")
        self.assertEqual({path.name: kind_of(path) for path in self.place.iterdir()}, before)

    def need_root(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give files away")

    def test_another_users_link_in_a_shared_folder_is_refused(self):
        self.need_root()
        (self.folder / "precious").write_text("")
        link = self.place / "link"
        link.symlink_to("../precious")
        os.lchown(link, STRANGER, STRANGER)
        self.place.chmod(0o1777)
        for writer, words in WRITERS.items():
            with self.subTest(writer=writer):
                result = self.run_into(words, "place/link")
                self.assert_refused(result, RUNTIME_ERROR if "publish" in writer else USAGE, "is a link that user")
        self.assertEqual((self.folder / "precious").read_text(), "")

    def test_a_name_that_another_user_took_in_a_sticky_folder_gives_nothing_away(self):
        self.need_root()
        self.place.chmod(0o1777)
        for writer, words in WRITERS.items():
            with self.subTest(writer=writer):
                taken = self.place / "name"
                taken.write_text("")
                os.chmod(taken, 0o666)
                os.chown(taken, STRANGER, STRANGER)
                result = self.run_into(words, "place/name")
                if "publish" in writer:
                    self.assert_refused(result, RUNTIME_ERROR, "others may write in it")
                    continue
                self.assert_exit(result, DONE)
                status = taken.stat()
                self.assertEqual((status.st_uid, status.st_gid, status.st_mode & 0o022), (0, os.getegid(), 0))
                for path in self.place.iterdir():
                    path.unlink()

    def test_a_name_that_cannot_be_replaced_in_a_sticky_folder_is_refused_before_the_work(self):
        self.need_root()
        self.place.chmod(0o1777)
        (self.place / "name").write_text("root's")
        for writer in ("tune -o", "plan -o", "export -o"):
            with self.subTest(writer=writer):
                words = [str(word).replace("{}", "place/name") for word in WRITERS[writer]]
                result = subprocess.run([BINARY, *words], cwd=self.folder, env=clean_environment(), user=STRANGER,
                                        group=STRANGER, extra_groups=[], stdin=subprocess.DEVNULL, capture_output=True,
                                        text=True, timeout=50, check=False)
                self.assert_refused(result, USAGE, "only user 0 may replace it")
        self.assertEqual((self.place / "name").read_text(), "root's")


def load_tests(loader, _tests, _pattern):
    """Leaves out the tests of record_test, which this file imports from."""
    return loader.loadTestsFromTestCase(Targets)


if __name__ == "__main__":
    unittest.main()
