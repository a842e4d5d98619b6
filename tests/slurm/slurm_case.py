"""What the tests of the Slurm kit share: running a script beside a Slurm, and reading what ranks said. See lab.py."""

import json
import unittest

from lab import Lab, kit_conf, need_cgroup_v1, need_slurm
from zf_cli import parse_cpus

# Two ranks on one node, the job's alone.
RANKS = "srun -N1 -n2 --exclusive --cpu-bind=none"
SHOW_RANK = "sh -c 'echo ran as:$ZF_RANK'"


class SlurmTest(unittest.TestCase):
    def setUp(self):
        need_slurm()

    def here(self, script: str, **lab) -> str:
        """What a script wrote beside a Slurm on this machine."""
        need_cgroup_v1()
        return self.finished(Lab(**{"conf": kit_conf()} | lab).run_here(script))

    def finished(self, result) -> str:
        self.assertEqual(result.returncode, 0, f"\n{result.stdout}\n{result.stderr}")
        self.assertNotIn("error", result.stderr, f"\n{result.stdout}")
        return result.stdout

    def assert_each_rank_in_its_place(self, reports: list[dict], nodes: dict[int, set[int]], allowed: set[int]):
        """Two ranks, each on one node: disjoint, all of `allowed` in use, every page on the rank's own node."""
        self.assertEqual(sorted(report["rank"] for report in reports), [0, 1])
        taken: set[int] = set()
        for report in sorted(reports, key=lambda report: report["rank"]):
            training = parse_cpus(report["training"])
            pool = [parse_cpus(cpus) for cpus in report["pool"]]
            self.assertTrue(all(len(cpus) == 1 for cpus in pool), f"a pool thread that may move: {report}")
            cpus = training.union(*pool)
            self.assertFalse(taken & cpus, "two ranks on one CPU")
            taken |= cpus
            (node,) = (node for node, its_cpus in nodes.items() if cpus <= its_cpus)
            self.assertEqual((report["arena_nodes"], report["own_nodes"]), (str(node), str(node)), report)
            self.assertEqual(report["note"], "")
        self.assertLessEqual(taken, allowed)
        return taken


def reports_in(said: str) -> list[dict]:
    return [json.loads(line) for line in said.splitlines() if line.startswith('{"rank"')]
