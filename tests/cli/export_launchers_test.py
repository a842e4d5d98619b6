"""zf-tune export: what needs a launcher that is not on every machine."""

import os
import pathlib
import re
import shlex
import subprocess

from permissions import need_program
from zf_cli import BINARY, CommandTest, clean_environment, parse_cpus


class Launchers(CommandTest):
    def setUp(self):
        super().setUp()
        self.need_two_cpus()

    def training(self, plan: dict) -> list[set[int]]:
        return [parse_cpus(rank["training"]["cpus"]) for rank in plan["ranks"]]

    def launch(self, words: list[str], **variables: str) -> str:
        path = f"{pathlib.Path(BINARY).parent}:{os.environ['PATH']}"
        done = subprocess.run(words, cwd=self.folder, env=clean_environment(PATH=path, **variables), text=True,
                              capture_output=True, timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_open_mpi_puts_each_rank_on_its_training_cpus(self):
        need_program("mpirun")
        plan = self.make_plan("--ranks", "2")
        self.run_tune("export", "--for", "mpirun", "-o", "ranks.txt")
        said = self.launch(["mpirun", "-n", "2", "--mca", "rmaps_rank_file_physical", "1", "--rankfile", "ranks.txt",
                            "sh", "-c", 'echo "$OMPI_COMM_WORLD_RANK $(grep Cpus_allowed_list /proc/self/status)"'],
                           OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        masks = {int(rank): parse_cpus(cpus) for rank, cpus in re.findall(r"(\d) Cpus_allowed_list:\s*(\S+)", said)}
        self.assertEqual([masks[0], masks[1]], self.training(plan))

    def test_torchrun_starts_each_rank_on_its_training_cpus(self):
        need_program("torchrun")
        plan = self.make_plan("--ranks", "2")
        torchrun, *rest = shlex.split(self.run_tune("export", "--for", "torchrun", "plan.json").stdout)
        # torch 1.13 under Python 3.11 fails without redirects: it looks for 0 and 3 among the members of a flag.
        said = self.launch([torchrun, "-r", "1", "-t", "1", "--log_dir", str(self.folder), *rest, "sh", "-c",
                            'echo "threads $OMP_NUM_THREADS";'
                            'echo "$ZF_RANK $(grep Cpus_allowed_list /proc/self/status)"'])
        threads = [rank["training"]["threads"] for rank in plan["ranks"]]
        self.assertCountEqual(map(int, re.findall(r"threads (\d+)", said)), threads)
        masks = {int(rank): parse_cpus(cpus) for rank, cpus in re.findall(r"(\d) Cpus_allowed_list:\s*(\S+)", said)}
        self.assertEqual([masks[0], masks[1]], self.training(plan))
