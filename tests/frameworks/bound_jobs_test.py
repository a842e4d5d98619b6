"""Real jobs are watched while they train: their threads are not moved, and nothing is said that is not so.

Seen in half an hour (2 CPUs, 2026-11-27): DeepSpeed's 10,641 steps, and 3,112 times two workers of a data loader that
began and ended: no alarm. 3,601 looks at 9 and 10 threads took 2.4 and 2.9 s of CPU time, 0.15 % of one CPU."""

import json
import os
import subprocess
import unittest

from frameworks_case import FrameworkTest, framework_environment, free_port, job, lines_of
from zf_cli import BINARY, DONE, SOURCE

SECONDS = int(os.environ.get("ZF_WATCH_SECONDS", "10"))


class BoundJobs(FrameworkTest):
    def watch(self, rank: int, *options: str):
        environment = framework_environment(PYTHONPATH=str(SOURCE / "runtime/python"), ZF_TUNE_BINARY=BINARY,
                                            MASTER_PORT=free_port(), BOUND_RANK=str(rank),
                                            ZF_CLAIMS=str(self.folder / "claims"))
        words = job("bound_job", "--seconds", str(SECONDS + 4), *options)
        process = subprocess.Popen(words, cwd=self.folder, text=True, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "bound\n")
        before = os.times()
        result = self.run_tune("verify", "--pid", str(process.pid), "--watch", f"{SECONDS}s", "--format", "json",
                               timeout=SECONDS + 60)
        after = os.times()
        said = lines_of(process.stdout.read())
        self.assert_exit(result, DONE)
        watched = json.loads(result.stdout)["watched"]
        self.assertEqual(watched["moved"], [])
        self.assertGreater(watched["seconds"], SECONDS - 1)
        self.assertEqual(said[-1]["ended"]["moved"], [])
        self.assertGreater(said[-1]["ended"]["steps"], 20)
        used = (after.children_user + after.children_system) - (before.children_user + before.children_system)
        self.assertLess(used / watched["seconds"], 0.05, "share of one CPU")

    def test_torch_with_data_loaders_gives_no_alarm(self):
        self.watch(0)

    def test_deepspeed_gives_no_alarm(self):
        self.watch(1, "--deepspeed")


if __name__ == "__main__":
    unittest.main()
