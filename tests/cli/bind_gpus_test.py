"""zf_runtime.bind() without a plan, on a node with GPUs: each process gets the home of its GPU in a plan for all of
them, so processes that know nothing of each other agree."""

import json
import os
import shutil
import subprocess
import sys

from bound_gpus import LAUNCHER, BoundGpusTest
from mounted_gpus import MOUNT
from zf_cli import PACKAGE, clean_environment

# Is bound itself before.
PARENT = "from zf_runtime import bind; bind(rank=0, ranks=1, strict=True)\n" + LAUNCHER


class BindGpus(BoundGpusTest):
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
        for rank, said in enumerate(self.bind_ranks({}, {}, CUDA_VISIBLE_DEVICES="1,0")):
            self.assert_same(said, 1 - rank)

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

    def test_a_gpu_that_others_may_open_has_its_home_all_the_same(self):
        """A control group or a container hides it from this process. CUDA then counts the others from 0."""
        for gpu in (0, 1):
            nodes = {"OPEN": f"nvidiactl nvidia{gpu}", "REFUSED": f"nvidia{1 - gpu}"}
            for variables in ({}, {"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": self.gpus[gpu].uuid},
                              {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "CUDA_VISIBLE_DEVICES": "0"}):
                self.assert_same(self.bind(**nodes, **variables), gpu)
            self.assert_same(self.bind(OPEN=f"nvidiactl nvidia{gpu}", CUDA_VISIBLE_DEVICES="0"), gpu)

    def test_ranks_of_one_pod_divide_the_homes_of_its_gpus(self):
        """Here that is one core, which two ranks cannot divide."""
        for rank in self.bind_ranks({}, {}, OPEN="nvidiactl nvidia1", REFUSED="nvidia0"):
            self.assertRegex(" ".join(rank["notes"]), "they cannot divide CPU [0-9]+ of GPU 0000:20:00.0", rank["text"])

    def test_ranks_that_each_see_another_gpu_without_a_list_share_no_cpu(self):
        """Each takes its number's part of what it sees. They have no folder of claims in common."""
        ranks = [(["unshare", "--mount", "sh", "-c", MOUNT, "sh", *self.program()],
                  {"LOCAL_RANK": str(gpu), "LOCAL_WORLD_SIZE": "2", "LATER": "{}", "OPEN": f"nvidiactl nvidia{gpu}",
                   "REFUSED": f"nvidia{1 - gpu}"}) for gpu in (0, 1)]
        launcher = [sys.executable, "-B", "-c", LAUNCHER, json.dumps(ranks)]
        ran = subprocess.run(launcher, cwd=self.folder, timeout=100, stdin=subprocess.DEVNULL, capture_output=True,
                             env=clean_environment(**PACKAGE),
                             text=True, check=True)
        self.assertEqual(sorted(said["cpus"] for said in json.loads(ran.stdout)), [home["cpus"] for home in self.homes])

    def test_a_gpu_that_is_hidden_otherwise_is_named_and_nothing_is_bound(self):
        """Its home is not known, as the driver does not say what it is. Ranks of one job still have their numbers."""
        shutil.rmtree(self.folder / "driver/nvidia/gpus/0000:20:00.0")
        for variables in ({}, {"CUDA_VISIBLE_DEVICES": "0"}, {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}):
            said = self.bind(**variables)
            self.assertFalse(said["bound"], said["text"])
            self.assertRegex(said["errors"][0], "^GPU 0000:20:00.0 of this node is not for this .*: name a plan")
        for rank in self.bind_ranks({}, {}, CUDA_VISIBLE_DEVICES="0"):
            self.assertIn("the ranks divide the whole node by their numbers", rank["notes"][0])

    def test_hip_counts_what_rocr_lists(self):
        for gpu in (0, 1):
            lists = {"ROCR_VISIBLE_DEVICES": str(gpu), "HIP_VISIBLE_DEVICES": "0"}
            self.assert_same(self.bind(**lists), gpu)
            self.assert_same(self.bind(**lists, LOCAL_RANK="0", LOCAL_WORLD_SIZE="1"), gpu)
        self.assert_same(self.bind(ROCR_VISIBLE_DEVICES="1,0", HIP_VISIBLE_DEVICES="0"), 1)
        said = self.bind_ranks(*({"ROCR_VISIBLE_DEVICES": gpu, "HIP_VISIBLE_DEVICES": "0"} for gpu in "10"))
        for rank, its in enumerate(said):
            self.assert_same(its, 1 - rank)

    def test_a_list_of_cuda_counts_also_where_slurm_has_set_those_of_rocm(self):
        self.assert_same(self.bind(ROCR_VISIBLE_DEVICES="1", CUDA_VISIBLE_DEVICES="1"), 1)

    def test_mig_instances_of_one_gpu_share_no_cpu(self):
        instances = [f"MIG-{self.gpus[1].uuid}/{number}/0" for number in (1, 2)]
        for variables in ({}, {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}):
            said = self.bind(CUDA_VISIBLE_DEVICES=instances[0], **variables)
            self.assertFalse(said["bound"], said["text"])
            self.assertIn("other processes may have other MIG instances of that GPU", said["errors"][0])
        own = self.bind_ranks(*({"CUDA_VISIBLE_DEVICES": name} for name in instances))
        self.assertIn("several MIG instances may be of one GPU", own[0]["notes"][0])
        shared = self.bind_ranks({}, {}, CUDA_VISIBLE_DEVICES=",".join(instances))
        self.assertIn("as they cannot divide CPU", shared[0]["notes"][0])

    def test_children_of_a_bound_process_with_a_gpu_each_share_no_cpu(self):
        """The first has the whole node, and has started the others."""
        said = self.run_json(sys.executable, "-B", "-c", PARENT, json.dumps([
            (self.program(), {"CUDA_VISIBLE_DEVICES": str(gpu)}) for gpu in (0, 1)]))
        for gpu in (0, 1):
            self.assert_same(said[gpu], gpu)

    def test_a_gpu_that_is_not_here_is_named(self):
        said = self.bind(CUDA_VISIBLE_DEVICES="GPU-nowhere")
        self.assertFalse(said["bound"])
        self.assertIn("GPU GPU-nowhere cannot be found among the GPUs of this node", said["errors"][0])

    def test_the_only_rank_has_the_node_unless_it_lists_gpus(self):
        """As with a plan for one rank."""
        everything = sorted(os.sched_getaffinity(0))
        for said in (self.bind(0, 1), self.bind(LOCAL_RANK="0", LOCAL_WORLD_SIZE="1"),
                     self.bind(0, 1, CUDA_VISIBLE_DEVICES="1,0")):
            self.assertEqual((said["bound"], said["cpus"], said["notes"]), (True, everything, []), said["text"])
            self.assertEqual(said["plan"], "a plan for 1 rank")
        self.assert_same(self.bind(0, 1, CUDA_VISIBLE_DEVICES="1"), 1)

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

    def test_of_two_processes_with_one_gpu_one_has_its_home_and_the_other_names_that_one(self):
        own = {"CUDA_VISIBLE_DEVICES": "1"}
        for numbers in ({}, {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}):
            ranks = json.dumps([(self.program(), own | numbers)] * 2)
            said = self.run_json(sys.executable, "-B", "-c", LAUNCHER, ranks)
            self.assertEqual(sorted(one["bound"] for one in said), [False, True], said)
            for one in said:
                if not one["bound"]:
                    self.assertRegex(one["errors"][0], r"^CPU \d would be this rank's, and process \d+ \(.*\) has b")
