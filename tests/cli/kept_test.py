#!/usr/bin/python3
"""zf-tune kept: lists what is kept of trainers that have ended, and frees it."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from zf_cli import BINARY, DONE, PACKAGE, RUNTIME_ERROR, USAGE, clean_environment, wait_until

FOLDER = f"/dev/shm/zf-kept-test-{os.getpid()}"
# ZF_TUNE=off needs no plan, and any rank will do.
TRAINER = """
import sys, time
from zf_runtime import Group, Runtime, adam_scalars
runtime = Runtime(rank=int(sys.argv[2]), groups=[Group(elements=1000)], keep=sys.argv[1], keep_s=600)
for step in range(1, 4):
    runtime.wait(runtime.submit(adam_scalars(step, lr=1e-3)))
print("open", flush=True)
time.sleep(60)
"""


class Kept(unittest.TestCase):
    def setUp(self):
        self.addCleanup(self.assert_nothing_left)

    def environment(self):
        return clean_environment(ZF_KEEP_FOLDER=FOLDER, ZF_TUNE="off", **PACKAGE)

    def tune(self, *words, code=DONE):
        done = subprocess.run([BINARY, "kept", *words], env=self.environment(), capture_output=True, text=True,
                              timeout=30, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == DONE else done.stderr

    def assert_nothing_left(self):
        self.assertEqual(self.tune(), f"nothing is kept in {FOLDER}\n")
        self.assertEqual(json.loads(self.tune("--format", "json")), [])
        self.assertFalse(os.path.exists(FOLDER))

    def trainer(self, name, rank):
        process = subprocess.Popen([sys.executable, "-c", TRAINER, name, str(rank)], env=self.environment(),
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), "open\n")
        return process

    def doctor(self, **variables):
        """Returns what doctor finds of what is kept."""
        said = subprocess.run([BINARY, "doctor", "--format", "json"], env=self.environment() | variables, text=True,
                              stdout=subprocess.PIPE, timeout=30, check=True).stdout
        return [found for found in json.loads(said)["findings"] if found["check"] == "kept"]

    def kill(self, process):
        process.send_signal(signal.SIGKILL)
        process.wait()

    def test_what_is_kept_is_listed_and_freed(self):
        first, second = self.trainer("run7", 0), self.trainer("run7", 1)
        try:
            lines = self.tune().splitlines()
            self.assertRegex(lines[0], rf"^run7, rank 0: step 3, \d+ bytes, in use by process {first.pid}$")
            self.assertIn("run7, rank 0 is in use by process", self.tune("--drop", "run7", code=RUNTIME_ERROR))
            self.assertEqual([found for found in self.doctor() if "run7" in found["what"]], [])
        finally:
            self.kill(first)
            self.kill(second)
        wait_until(lambda: all(one["trainer_pid"] is None for one in json.loads(self.tune("--format", "json"))))
        found = json.loads(self.tune("--format", "json"))
        self.assertEqual([(one["name"], one["rank"], one["step"]) for one in found], [("run7", 0, 3), ("run7", 1, 3)])
        self.assertTrue(all(500 <= one["left_s"] <= 600 and one["memory_bytes"] > 16000 for one in found), found)
        self.assertRegex(self.tune(), r"run7, rank 1: step 3, \d+ bytes, [56]\d\d s left\n$")
        said, = (found for found in self.doctor() if "run7" in found["what"])
        self.assertRegex(said["what"], r"^run7 is kept of a trainer that has ended: \d+ bytes of memory, for another "
                                       r"[56]\d\d s$")
        self.assertIn("zf-tune kept --drop run7", said["remedy"])
        self.assertIn("nothing is kept as \"run8\"", self.tune("--drop", "run8", code=USAGE))
        self.assertEqual(self.tune("--drop", "run7"), "")

    def test_what_a_dead_keeper_left_is_freed(self):
        process = self.trainer("run7", 0)
        keeper = json.loads(self.tune("--format", "json"))[0]["keeper_pid"]
        os.kill(keeper, signal.SIGKILL)
        self.kill(process)
        self.assertEqual(self.tune(), f"nothing is kept in {FOLDER}\n")
        self.assertEqual([path.name for path in pathlib.Path(FOLDER).iterdir()], ["run7.0"])
        self.tune("--drop", "run7")

    def test_doctor_names_a_folder_in_which_nothing_can_be_kept(self):
        self.assertEqual(self.doctor(), [])
        self.assertEqual(self.doctor(ZF_KEEP="a", ZF_KEEP_FOLDER=FOLDER + "/"), [])
        for folder, why in (("/nowhere/kept", "cannot make the folder /nowhere/kept: No such file or directory"),
                            (BINARY, "is no folder"), ("/", "it must be yours alone")):
            self.assertEqual(self.doctor(ZF_KEEP_FOLDER=folder), [])
            said = self.doctor(ZF_KEEP="a", ZF_KEEP_FOLDER=folder)[0]
            self.assertEqual(said["severity"], "severe")
            self.assertIn(why, said["what"])

    @contextlib.contextmanager
    def silent_keepers(self, folder):
        with contextlib.ExitStack() as stack:
            for rank in range(8):  # one after the other would take 40 s
                keeper = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
                keeper.bind(f"{folder}/run7.{rank}")
                keeper.listen()
            yield

    def test_doctor_asks_all_keepers_at_once(self):
        with tempfile.TemporaryDirectory() as folder, self.silent_keepers(folder):
            said = self.doctor(ZF_KEEP_FOLDER=folder)
            self.assertEqual([found["what"].split(" does not")[0] for found in said],
                             [f"the process that keeps run7, rank {rank}" for rank in range(8)])

    def test_keepers_that_do_not_answer_hide_no_others(self):
        trainer = self.trainer("run8", 0)
        with self.silent_keepers(FOLDER):
            done = subprocess.run([BINARY, "kept"], env=self.environment(), capture_output=True, text=True, timeout=30,
                                  check=False)
        self.assertRegex(done.stdout, rf"^run8, rank 0: step 3, \d+ bytes, in use by process {trainer.pid}\n$")
        self.assertEqual(done.returncode, RUNTIME_ERROR)
        self.assertIn("no answer from what keeps run7, rank 0; run7, rank 1;", " ".join(done.stderr.split()))
        self.kill(trainer)
        self.tune("--drop", "run7")
        self.tune("--drop", "run8")

    def test_a_folder_that_is_open_to_others_is_not_called_empty(self):
        trainer = self.trainer("run7", 0)
        os.chmod(FOLDER, 0o755)
        self.assertIn("has mode 755; it must be yours alone", self.tune(code=USAGE))
        os.chmod(FOLDER, 0o700)
        self.kill(trainer)
        self.tune("--drop", "run7")

    def test_a_keeper_that_dies_while_it_is_asked_has_died(self):
        os.mkdir(FOLDER, 0o700)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as keeper:
            keeper.bind(f"{FOLDER}/run7.0")
            keeper.listen()

            def die():
                with keeper.accept()[0]:
                    keeper.close()

            thread = threading.Thread(target=die)
            thread.start()
            self.assertEqual(self.tune(), f"nothing is kept in {FOLDER}\n")
            thread.join()
        self.tune("--drop", "run7")


if __name__ == "__main__":
    unittest.main(verbosity=2)
