"""ZeRO's partitions outlive the trainer: under the real DeepSpeed and launchers, a rank of two is killed, all are
started again, and what they have at the end are the bits of a run that was not killed.

What was seen: DeepSpeed 0.19.8, PyTorch 2.13.0, gloo, DeepSpeed's accelerator for CPUs. Tests deepspeed/keeping.py,
optim/overlap/ranks.py."""

import json
import os
import pathlib
import random
import unittest

from frameworks_case import FrameworkTest, free_port, job
from zf_cli import LIBRARY, SOURCE

# From step 19 on powers of beta that were calculated anew would have other bits.
CASES = [{"stage": 2, "dtype": "bf16", "accumulation": 2, "overflow": 3, "steps": 24, "dies": [0, 21, 0.02]},
         {"stage": 3, "mode": "exact", "speculate": True, "sub_groups": True, "accumulation": 2}]
MORE = [{"stage": 3, "dtype": "fp16", "sub_groups": True, "dies": [0, 4, "behind meet"]},
        {"stage": 2, "mode": "exact", "dtype": "bf16", "groups": 2, "dies": [1, 4, "behind prepare"]},
        {"stage": 1}, {"stage": 2, "dtype": "fp16", "overflow": 5}, {"stage": 3}, {"stage": 3, "dtype": "bf16"},
        {"stage": 1, "mode": "exact"}, {"stage": 2, "mode": "exact", "speculate": True, "overflow": 4},
        {"stage": 3, "mode": "exact", "dtype": "bf16"}, {"stage": 3, "mode": "exact", "dtype": "fp16", "clip": 0.0},
        {"stage": 2, "mode": "exact", "speculate": True, "clip": 1e9}]

# Places in a step, and seconds behind one: see the job.
PLACES = ["before prepare", "behind prepare", "behind meet", "behind go"]
WHEN = [0, 0.01, 0.02, 0.05, 0.1, *PLACES]


class Kept(FrameworkTest):
    def setUp(self):
        super().setUp()
        self.make_plan("--ranks", "2", "--mode", "overlap")
        self.keep_folder = f"/dev/shm/zf-kept-test-{os.getpid()}"

    def train(self, cases: list[dict], *launcher: str):
        """Runs the cases under a launcher that starts killed ranks again. Looks at what they say."""
        cases = [{"dies": [random.randrange(2), random.choice((1, 4, 9)), random.choice(WHEN)]} | case
                 for case in cases]
        (self.folder / "cases.json").write_text(json.dumps(cases))
        _, *script = job("kept_zero", str(self.folder))
        said = self.launch(*launcher, *script, timeout=3000,
                           **{"ZF_PLAN": str(self.folder / "plan.json"), "PYTHONPATH": str(SOURCE / "runtime/python"),
                              "ZF_RUNTIME_LIBRARY": LIBRARY, "ZF_KEEP_FOLDER": self.keep_folder,
                              "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})
        for number, case in enumerate(cases):
            with self.subTest(**case):
                mine = [each for each in said if each.get("case") == number]
                begins = [each["begins"] for each in mine if "begins" in each]
                ends = [each for each in mine if "kept" in each]
                print(case, begins)
                self.assertEqual((begins[:2], len(begins), len(ends)), ([0, 0], 4, 2), self.output)
                self.assertTrue(begins[2] == begins[3] != 0, begins)
                for end in ends:
                    self.assertEqual(end["kept"], end["calm"])
        self.assertFalse(os.path.exists(self.keep_folder))

    def torchrun(self, cases: list[dict]):
        self.train(cases, "torchrun", "--standalone", "--nproc-per-node", "2", "--monitor-interval", "0.1",
                   "--max-restarts", str(len(cases) + 2))

    def test_a_killed_rank_changes_no_bit(self):
        """Seen: a late step of stage 2, then stage 3 in mode exact, at one of the places in a step."""
        late, exact = CASES
        self.torchrun([late, exact | {"dies": [1, 4, random.choice(PLACES)]}])

    def test_a_loop_around_the_launcher_of_deepspeed_starts_ranks_again(self):
        """That launcher has no restart, and ends the other ranks. Also seen: a checkpoint that is loaded counts."""
        script = pathlib.Path(self.folder, "batch.sh")
        script.write_text("for life in 1 2 3; do \"$@\" && exit; done; exit 1\n")
        self.train([{"stage": 2, "loads": True, "dies": [0, 5, 0.01]}], "bash", str(script), "deepspeed",
                   "--num_gpus", "2", "--master_port", free_port())

    def test_130_killed_ranks_change_no_bit(self):
        """The short form has 2."""
        self.torchrun((CASES + MORE) * 10)


if __name__ == "__main__":
    unittest.main()
