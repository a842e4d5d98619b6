"""What the tests of the Slurm kit share: running a script beside a Slurm, and reading what ranks said. See lab.py."""

import fcntl
import json
import os
import unittest

import guest
from lab import CGROUPS, Lab, kit_conf, need_isolation, need_slurm
from zf_cli import parse_cpus

# Two ranks on one node, the job's alone.
RANKS = "srun -N1 -n2 --exclusive --cpu-bind=none"
SHOW_RANK = "sh -c 'echo ran as:$ZF_RANK'"


class SlurmTest(unittest.TestCase):
    def setUp(self):
        need_slurm()

    def here(self, script: str, timeout_s=120, **lab) -> str:
        """What a script wrote beside a Slurm on this machine. One at a time, also of several checkouts: each Slurm has
        the same control groups."""
        need_isolation()
        groups = os.open(CGROUPS, os.O_RDONLY)
        try:
            fcntl.flock(groups, fcntl.LOCK_EX)
            ran = Lab(**{"conf": kit_conf()} | lab).run_here(script, timeout_s)
        finally:
            os.close(groups)
        return self.finished(ran)

    def finished(self, result) -> str:
        self.assertEqual(result.returncode, 0, f"\n{result.stdout}\n{result.stderr}")
        self.assertNotIn("error", result.stderr, f"\n{result.stdout}")
        return result.stdout

    def in_guest(self, script: str, shape: str, timeout_s=300, **lab) -> str:
        """The same in a guest of this shape, with cgroup v2."""
        guest.need()
        return self.finished(Lab(**{"conf": kit_conf()} | lab).run_in_guest(script, shape=shape, timeout_s=timeout_s))

    def assert_each_rank_in_its_place(self, reports: list[dict], nodes: dict[int, set[int]]) -> list[set[int]]:
        """Two ranks on CPUs of their own, each pool thread on one, every page on a node of the rank's. Their CPUs."""
        self.assertEqual(sorted(report["rank"] for report in reports), [0, 1])
        taken = []
        for report in sorted(reports, key=lambda report: report["rank"]):
            training = parse_cpus(report["training"])
            optimizer = parse_cpus(report["optimizer"])
            threads = [parse_cpus(cpus) for cpus in report["threads"]]
            pinned = [cpus for cpus in threads if len(cpus) == 1]
            self.assertEqual(set().union(*pinned), optimizer, f"a pool thread on each: {report}")
            self.assertLessEqual(set().union(*threads), optimizer)
            taken.append(training | optimizer)
            its_nodes = {node for node, cpus in nodes.items() if cpus & taken[-1]}
            training_nodes = {node for node, cpus in nodes.items() if cpus & training}
            self.assertTrue(report["arena_nodes"] and report["own_nodes"], report)
            self.assertLessEqual(parse_cpus(report["arena_nodes"]), its_nodes, report)
            self.assertLessEqual(parse_cpus(report["own_nodes"]), training_nodes, report)
            self.assertEqual(report["note"], "")
        self.assertFalse(taken[0] & taken[1], "two ranks on one CPU")
        return taken


def reports_in(said: str) -> list[dict]:
    return [json.loads(line) for line in said.splitlines() if line.startswith('{"rank"')]
