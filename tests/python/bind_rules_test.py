"""Rules of zf_runtime.bind() on values: what tells commands apart, and numbers of threads."""

import itertools
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

import support

from zf_runtime.binding import other_ranks, thread_counts


class Commands(unittest.TestCase):
    def test_of_python_are_told_apart_by_what_runs_whatever_options_precede_it(self):
        for words, runs in ((["-B", "-c", "a; b"], ["-c", "a; b"]), (["-uBc", "a\nb", "0"], ["-c", "a\nb"]),
                            (["-ca"], ["-c", "a"]), (["-W", "ignore", "-X", "dev", "-m", "job", "x"], ["-m", "job"]),
                            (["-Wignore", "-u", "train.py", "--lr", "2"], ["train.py", "--lr"]), ([], []),
                            (["-I", "-"], ["-"]), (["-u"], [])):
            with self.subTest(words):
                self.assertEqual(other_ranks.what_runs(["/usr/bin/python3", *words]), ["/usr/bin/python3", *runs])
        self.assertEqual(other_ranks.what_runs(["sh", "-c", "a", "b"]), ["sh", "-c", "a"])

    def test_of_two_processes_with_other_code_are_two(self):
        commands = []
        for code in ("import time; time.sleep(50)", "import time; time.sleep(50); a"):
            process = subprocess.Popen([sys.executable, "-B", "-c", code])
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            commands.append(self.command(process.pid))
        self.assertNotEqual(*commands)

    def command(self, pid: int) -> list[str]:
        """Returns the command of a process that was just started. Popen returns before the kernel has its new words."""
        end = time.monotonic() + 20
        while not any(other_ranks._command(pid)[1:]):
            self.assertLess(time.monotonic(), end, "a process without a command line")
            time.sleep(0.001)
        return other_ranks._command(pid)


class Counts(unittest.TestCase):
    def test_of_threads_follow_the_rule_of_exec(self):
        """Both are asked about all settings of two variables, alone and under torchrun."""
        path = support.plan()
        planned = json.loads(pathlib.Path(path).read_text())["ranks"][0]["home"]["threads"]
        values = (None, "", "1", "7", "4,2")
        for openmp, mkl, run in itertools.product(values, values, (None, "job")):
            variables = {name: value for name, value in (("OMP_NUM_THREADS", openmp), ("MKL_NUM_THREADS", mkl),
                                                         ("TORCHELASTIC_RUN_ID", run)) if value is not None}
            clean = {name: value for name, value in os.environ.items() if name not in thread_counts.VARIABLES}
            said = subprocess.run([support.TUNE, "exec", "--plan", path, "--rank", "0", "--", "env"], timeout=60,
                                  env=clean | variables, capture_output=True, text=True, check=True).stdout
            by_exec = dict(line.split("=", 1) for line in said.splitlines()
                           if line.startswith(thread_counts.VARIABLES))
            ours = thread_counts.counts_for(planned, "", variables, thread_counts.launchers_own(variables, None))
            with self.subTest(variables):
                self.assertEqual(variables | ours.set, by_exec | ({"TORCHELASTIC_RUN_ID": run} if run else {}))

    def test_of_an_outer_exec_are_nobodys_wish(self):
        counts = thread_counts.counts_for(8, "2", {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "3"}, None)
        self.assertEqual(counts.set, {"OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "3"})

    def test_of_ray_are_nobodys_wish(self):
        counts = thread_counts.counts_for(8, "", {"OMP_NUM_THREADS": "1"}, ("Ray", "1"))
        self.assertEqual(counts.set, dict.fromkeys(thread_counts.VARIABLES, "8"))
        self.assertIn("OMP_NUM_THREADS=1 is taken to be Ray's", counts.note)
        users = thread_counts.counts_for(8, "", {"OMP_NUM_THREADS": "3"}, ("Ray", "1"))
        self.assertEqual(users.set["MKL_NUM_THREADS"], "3")


if __name__ == "__main__":
    unittest.main()
