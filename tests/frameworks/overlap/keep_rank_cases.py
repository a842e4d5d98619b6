"""Ranks that come back after a death come back at one step, or say why they cannot."""

import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

from case import support
from zf_runtime import ZfStateError
from zf_runtime.optim.overlap.ranks import Found, goes

JOB = pathlib.Path(__file__).resolve().parents[1] / "jobs/kept_ranks.py"
FOLDER = f"/dev/shm/zf-keep-rank-cases-{os.getpid()}"


class OneStep(unittest.TestCase):
    def test_a_step_that_went_anywhere_goes_everywhere(self):
        behind, ahead = Found(gone=6, prepared=7), Found(gone=7)
        for every, wanted in (((behind, ahead), [True, False]), ((ahead, Found(7, 8)), [False, False]),
                              ((behind, behind), [False, False]), ((Found(), Found()), [False, False]),
                              ((Found(0, 1), Found(1)), [True, False]), ((behind, ahead, behind), [True, False, True])):
            with self.subTest(every=every):
                self.assertEqual([goes(every, rank) for rank in range(len(every))], wanted)

    def test_ranks_that_cannot_come_to_one_step_say_why(self):
        for other, why in ((Found(), "rank 1 has nothing that was kept, since its node or its keeper is lost"),
                           (Found(5, 6), "rank 1 is at step 5, and others are at step 7"),
                           (Found(6), "rank 1 is at step 6, and others are at step 7"),
                           (Found(refusal="of another release"), "rank 1 cannot go on: of another release")):
            for rank in (0, 1):
                with self.subTest(other=other, rank=rank), self.assertRaisesRegex(ZfStateError, why):
                    goes((Found(7), other), rank)


@unittest.skipUnless(os.environ.get("ZF_TEST_LONG"), "set ZF_TEST_LONG: two starts of torchrun")
class TwoRanks(unittest.TestCase):
    def run_job(self, *dies):
        """Returns the digest of a job's results, and what it has said."""
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder, "digest")
            # Else torch's gloo finds the addresses of the dead.
            ran = subprocess.run(
                [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",
                 "--monitor-interval", "0.1", "--max-restarts", "10", str(JOB), str(output), *dies],
                capture_output=True, text=True, timeout=200, check=False,
                env={**os.environ, "ZF_KEEP_FOLDER": FOLDER, "ZF_PLAN": support.plan("--ranks", "2"),
                     "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})
            self.assertEqual(ran.returncode, 0, ran.stderr[-2000:])
            return output.read_text(), ran.stdout

    def test_a_rank_of_two_that_dies_changes_no_bit(self):
        wanted, _ = self.run_job()
        step = random.Random().randrange(1, 20)
        got, said = self.run_job(f"{random.randrange(2)}:{step}")
        self.assertEqual(got, wanted)
        for rank in (0, 1):
            self.assertRegex(said, rf"rank {rank} begins behind step ({step}|{step + 1})\b")
        self.assertFalse(os.path.exists(FOLDER))


if __name__ == "__main__":
    unittest.main()
