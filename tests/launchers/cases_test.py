"""The cases of cases.json, as Python programs ask the library. Tests binding/which_rank.py, native/environment.py."""

import json
import os
import pathlib
import re
import sys
import unittest
import unittest.mock

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "runtime/python"))

from zf_runtime.binding import which_rank  # noqa: E402
from zf_runtime.native import environment  # noqa: E402

CASES = json.loads((SOURCE / "tests/launchers/cases.json").read_text())


def only(variables: dict[str, str]):
    return unittest.mock.patch.dict(os.environ, variables, clear=True)


class Cases(unittest.TestCase):
    def test_give_rank_count_and_source(self):
        for case in CASES["cases"]:
            with self.subTest(case["name"]), only(case["environment"]):
                if "error" in case:
                    with self.assertRaisesRegex(RuntimeError, re.escape(case["error"])):
                        environment.launched_ranks()
                    continue
                rank = (case["rank"], case["source"]) if "rank" in case else None
                count = (case["count"], case["count_source"]) if "count" in case else None
                self.assertEqual(environment.local_rank(), rank)
                self.assertEqual(environment.launched_ranks(), count)


class Bind(unittest.TestCase):
    def test_takes_rank_and_count_of_each_launcher_and_the_arguments_before_them(self):
        for case in CASES["cases"]:
            with self.subTest(case["name"]):
                if "error" in case:
                    with self.assertRaisesRegex(RuntimeError, re.escape(case["error"])):
                        which_rank.who(None, None, case["environment"])
                    continue
                who = which_rank.who(None, None, case["environment"])
                self.assertEqual((who.rank, who.ranks, who.source),
                                 (case.get("rank"), case.get("count"), case.get("source", "")))
                asked = which_rank.who(11, 12, case["environment"])
                self.assertEqual((asked.rank, asked.ranks, asked.source), (11, 12, "rank="))

    def test_refuses_a_rank_that_is_not_below_the_count(self):
        for rank, words in ((-1, "rank=-1: local ranks count from 0"), (2, "rank 2 .* is not below")):
            with self.subTest(rank), self.assertRaisesRegex(RuntimeError, words):
                which_rank.who(rank, 2, {})


class RankAndCount(unittest.TestCase):
    """local_rank_and_count(): who writes the file of zf_runtime.record.recording(), and how many ranks it is for."""

    def test_follow_the_cases(self):
        for case in CASES["cases"]:
            if "count" in case:
                with self.subTest(case["name"]), only(case["environment"]):
                    self.assertEqual(environment.local_rank_and_count(), (case["rank"], case["count"]))
            elif "rank" not in case and "error" not in case:
                with self.subTest(case["name"]), only(case["environment"]):
                    self.assertEqual(environment.local_rank_and_count(), (0, 1))

    def test_a_process_of_its_own_is_the_only_rank(self):
        for variables in ({"SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_NTASKS_PER_NODE": "8"},
                          {"ZF_RANK": "0", "ZF_RANK_FROM": ""}, {"ZF_RANK": "0"}):
            with self.subTest(variables), only(variables):
                self.assertEqual(environment.local_rank_and_count(), (0, 1))

    def test_of_a_rank_by_hand_are_counted_by_the_launcher_around_it(self):
        torchrun = {"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4"}
        for variables in ({"ZF_RANK": "1"}, {"ZF_RANK": "1", "ZF_RANK_FROM": "LOCAL_RANK=3"}):
            with self.subTest(variables), only(torchrun | variables):
                self.assertEqual(environment.local_rank_and_count(), (1, 4))

    def test_of_an_unknown_number_are_refused(self):
        for variables, reason in (
                ({"PALS_LOCAL_RANKID": "0"}, "PALS_LOCAL_RANKID=0 is set, but nothing says how many ranks"),
                ({"LOCAL_RANK": "0"}, "LOCAL_RANK=0 is set, but nothing says"),
                ({"SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "8"}, "SLURM_LOCALID=1 is set"),
                ({"SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "8", "SLURM_NODEID": "1"}, "SLURM_LOCALID=1"),
                ({"ZF_RANK": "1"}, "ZF_RANK=1 is set, but nothing says"),
                ({"ZF_RANK": "1", "SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_NODEID": "0"},
                 "ZF_RANK=1 is set")):
            refused = self.assertRaisesRegex(RuntimeError, re.escape(reason))
            with self.subTest(variables), only(variables), refused:
                environment.local_rank_and_count()


if __name__ == "__main__":
    unittest.main()
