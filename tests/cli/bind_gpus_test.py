"""zf_runtime.bind() without a plan, on a node with GPUs: each process gets the home of its GPU in a plan for all of
them, so ranks that know nothing of each other agree. The GPUs are mounted over those of this machine."""

import json
import os
import subprocess
import sys

from mounted_gpus import MOUNT, MountedGpusTest
from zf_cli import BINARY, SOURCE, clean_environment

PROGRAM = """
import json, sys
from zf_runtime import bind
binding = bind(*map(int, sys.argv[1:]))
print(json.dumps({"bound": bool(binding), "cpus": sorted(binding.cpus), "source": binding.source, "plan": binding.plan,
                  "errors": binding.errors, "text": str(binding)}))
"""


class BindGpus(MountedGpusTest):
    def setUp(self):
        super().setUp()
        self.need_two_cpus()
        self.gpus = self.nvidia(2)
        self.write(*self.gpus)
        self.probe()  # skips where GPUs cannot be mounted
        self.homes = [self.bind(CUDA_VISIBLE_DEVICES=str(gpu)) for gpu in (0, 1)]

    def bind(self, *arguments: int, before=(), **variables: str) -> dict:
        """Runs bind() with these GPUs, and without zf-tune's own variables. Returns what it did."""
        environment = clean_environment(PYTHONPATH=str(SOURCE / "runtime/python"), ZF_TUNE_BINARY=BINARY) | variables
        words = ["unshare", "--mount", "sh", "-c", MOUNT, "sh", *before, sys.executable, "-B", "-c", PROGRAM,
                 *map(str, arguments)]
        ran = subprocess.run(words, cwd=self.folder, env=environment | {"OPEN": "", "REFUSED": ""}, timeout=50,
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assert_exit(ran, 0)
        return json.loads(ran.stdout)

    def assert_same(self, said: dict, gpu: int):
        self.assertEqual((said["bound"], said["cpus"]), (True, self.homes[gpu]["cpus"]), said["text"])

    def test_processes_with_one_gpu_each_share_no_cpu(self):
        for gpu, home in enumerate(self.homes):
            self.assertTrue(home["bound"], home["text"])
            self.assertEqual((home["source"], home["plan"]),
                             (f"GPU {self.gpus[gpu].address}", "a plan for all 2 GPUs of this node"))
        first, second = (set(home["cpus"]) for home in self.homes)
        self.assertTrue(first and second)
        self.assertEqual(first & second, set())

    def test_a_gpu_has_one_home_whatever_it_is_called_by(self):
        for gpu in (0, 1):
            self.assert_same(self.bind(CUDA_VISIBLE_DEVICES=self.gpus[gpu].uuid), gpu)
            self.assert_same(self.bind(LOCAL_RANK=str(gpu), LOCAL_WORLD_SIZE="2"), gpu)
            self.assert_same(self.bind(gpu, 2), gpu)
        self.assert_same(self.bind(LOCAL_RANK="0", LOCAL_WORLD_SIZE="2", CUDA_VISIBLE_DEVICES="1,0"), 1)

    def test_of_a_rank_that_has_one_gpu_the_gpu_counts(self):
        """Two jobs on one node have a rank 0 each."""
        self.assert_same(self.bind(LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", CUDA_VISIBLE_DEVICES="1"), 1)
        flux = {"FLUX_TASK_LOCAL_ID": "0", "FLUX_JOB_SIZE": "1", "FLUX_JOB_NNODES": "1"}
        self.assert_same(self.bind(CUDA_VISIBLE_DEVICES="1", **flux), 1)

    def test_several_gpus_and_nothing_else_known_is_not_bound_and_said(self):
        for variables, why in (({}, "no variable says which GPU this process has"),
                               ({"CUDA_VISIBLE_DEVICES": "0,1"}, "CUDA_VISIBLE_DEVICES lists 2 GPUs")):
            said = self.bind(**variables)
            self.assertFalse(said["bound"])
            self.assertIn(f"{why}, this node has 2, and nothing says which rank it is: give rank= and ranks=",
                          said["errors"][0])

    def test_a_gpu_that_is_not_here_is_named(self):
        said = self.bind(CUDA_VISIBLE_DEVICES="GPU-nowhere")
        self.assertFalse(said["bound"])
        self.assertIn("GPU GPU-nowhere cannot be found among the GPUs of this node", said["errors"][0])

    def test_ranks_that_share_one_visible_gpu_share_no_cpu(self):
        """All have the launcher's CUDA_VISIBLE_DEVICES. The shell is the launcher."""
        shell = ["sh", "-c", '"$@"; exit', "sh"]
        said = [self.bind(before=shell, LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2", CUDA_VISIBLE_DEVICES="1")
                for rank in (0, 1)]
        self.assertTrue(all(rank["bound"] for rank in said), said)
        self.assertEqual(set(said[0]["cpus"]) & set(said[1]["cpus"]), set())

    def test_tasks_of_slurm_that_each_count_their_gpu_from_0_share_no_cpu(self):
        slurm = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "2",
                 "SLURM_STEP_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": "0"}
        for gpu in (0, 1):
            self.assert_same(self.bind(SLURM_LOCALID=str(gpu), **slurm), gpu)

    def test_a_plan_gives_the_rank_of_the_gpu(self):
        self.run_mounted("plan", "-q", "--ranks", "2")
        for gpu in (0, 1):
            self.assert_same(self.bind(CUDA_VISIBLE_DEVICES=str(gpu), ZF_PLAN="plan.json"), gpu)
        said = self.bind(ZF_PLAN="plan.json")
        self.assertFalse(said["bound"])
        self.assertIn("nothing says which of the plan's 2 ranks this process is", said["errors"][0])

    def test_the_only_gpu_of_a_node_needs_no_variable_and_two_ranks_divide_its_home(self):
        for path in (self.folder / "pci/devices").glob("0000:20*"):
            path.rename(self.folder / path.name)
        said = self.bind()
        self.assertTrue(said["bound"], said["text"])
        self.assertEqual(said["plan"], "a plan for the GPU of this node")
        self.assertEqual(said["cpus"], sorted(os.sched_getaffinity(0)))
        ranks = [self.bind(LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2") for rank in (0, 1)]
        self.assertEqual([rank["plan"] for rank in ranks], ["a plan for 2 ranks"] * 2, "more ranks than GPUs")
        self.assertEqual(set(ranks[0]["cpus"]) & set(ranks[1]["cpus"]), set())
