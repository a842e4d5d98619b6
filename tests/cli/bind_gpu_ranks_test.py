"""zf_runtime.bind() in several ranks on a node with GPUs: no two share a CPU, whatever each takes its list for."""

import json
import os
import shutil
import sys

from bound_gpus import LAUNCHER, PROGRAM, BoundGpusTest

# What a worker of Ray knows, without Ray: its GPUs, those of the node, and whether Ray Train has started it.
WORKER = """
import json, os, sys, types
gpus, of_node, is_trains = json.loads(os.environ["RAY"])
def train_context():
    if not is_trains:
        raise RuntimeError("not in a function of Ray Train")
    return types.SimpleNamespace(get_local_rank=lambda: int(sys.argv[1]), get_local_world_size=lambda: 2)
context = types.SimpleNamespace(get_assigned_resources=lambda: {"GPU": float(len(gpus))}, get_node_id=lambda: "this")
ray = types.SimpleNamespace(WORKER_MODE=1, get_gpu_ids=lambda: gpus, get_runtime_context=lambda: context,
                            nodes=lambda: [{"NodeID": "other", "Resources": {"GPU": 8.0}},
                                           {"NodeID": "this", "Resources": {"GPU": of_node} if of_node else {}}])
worker = types.SimpleNamespace(global_worker=types.SimpleNamespace(connected=True, mode=1))
sys.modules.update({"ray": ray, "ray._private.worker": worker,
                    "ray.train": types.SimpleNamespace(get_context=train_context)})
""" + PROGRAM


# A claim ends with its process, so a rank waits for all to be bound: until there are so many files that say so.
STAYS = """open(f"bound.{os.getpid()}", "w").close()
until = time.monotonic() + 60
while len([name for name in os.listdir() if name.startswith("bound.")]) < int(os.environ["BOUND"]):
    assert time.monotonic() < until, "the other rank was not bound"
    time.sleep(0.05)
"""


class BindGpuRanks(BoundGpusTest):
    def test_ranks_that_each_have_a_gpu_have_its_home(self):
        """Set by the launcher, or a shell of each rank, which may stay above it."""
        for own in ({}, {"SHELL": "yes"}):
            for arguments in (None, [(0, 2), (1, 2)]):
                if own and arguments:
                    continue  # nothing says which shell belongs to the job
                said = self.bind_ranks(own | {"CUDA_VISIBLE_DEVICES": "1"}, own | {"CUDA_VISIBLE_DEVICES": "0"},
                                       arguments=arguments)
                for rank, gpu in ((0, 1), (1, 0)):
                    self.assert_same(said[rank], gpu)
                    self.assertEqual((said[rank]["notes"], said[rank]["source"]),
                                     ([], f"GPU {self.gpus[gpu].address}"))

    def test_a_launcher_that_has_the_number_of_a_rank_itself_is_none(self):
        """Another launcher has started it, as rank 0 of 1 or of as many."""
        for around in ({}, {"LOCAL_WORLD_SIZE": "1"}, {"LOCAL_WORLD_SIZE": "2"}):
            for own in ({}, {"SHELL": "yes"}):
                with self.subTest(around=around, own=own):
                    said = self.bind_ranks(*(own | {"CUDA_VISIBLE_DEVICES": gpu} for gpu in "10"), LOCAL_RANK="0",
                                           **around)
                    for rank, its in enumerate(said):
                        self.assert_same(its, 1 - rank)

    def test_of_ranks_with_one_gpu_and_numbers_but_no_count_one_is_bound(self):
        """Each is below a shell of its own."""
        ranks = [(self.program(rank), {"LOCAL_RANK": str(rank), "CUDA_VISIBLE_DEVICES": "1", "SHELL": "yes"})
                 for rank in (0, 1)]
        said = self.run_json(sys.executable, "-B", "-c", LAUNCHER, json.dumps(ranks))
        self.assertEqual(sorted(rank["bound"] for rank in said), [False, True], said)

    def test_ranks_that_share_one_visible_gpu_divide_its_home(self):
        """If that has two cores: here on a node with one GPU for both CPUs. tests/guest has one with more."""
        shared = {"CUDA_VISIBLE_DEVICES": "1"}  # the launcher has it, too
        for own in ({}, {"SHELL": "yes", "OF": "rank"}):
            for rank in self.bind_ranks(own, own, **shared):
                self.assertRegex(rank["notes"][0], "^the ranks divide the whole node, as they cannot divide CPU . of "
                                 "GPU 0000:20:00.0: 2 ranks have 1 core, and each needs one of its own$")
        for path in (self.folder / "pci/devices").glob("0000:20*"):
            path.rename(self.folder / path.name)
        said = self.bind_ranks({}, {}, CUDA_VISIBLE_DEVICES="0")
        self.assertEqual([rank["notes"] for rank in said], [[], []])

    def test_ranks_of_mpirun_share_no_cpu_whoever_sets_their_gpu(self):
        if shutil.which("mpirun") is None:
            self.skipTest("no mpirun here")
        mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"]
        stays = [sys.executable, "-B", "-c", PROGRAM.replace("sys.stdin.read()", STAYS)]
        shell = ["sh", "-c", 'export CUDA_VISIBLE_DEVICES=$((1 - OMPI_COMM_WORLD_LOCAL_RANK)); "$@"; exit', "sh"]
        same = self.run_json(*mpirun, *stays, CUDA_VISIBLE_DEVICES="1", BOUND="2")
        own = self.run_json(*mpirun, *shell, *stays, BOUND="4")
        for said in (same, own):
            self.assertEqual(sorted(rank["cpus"] for rank in said), [home["cpus"] for home in self.homes], said)
        self.assertEqual(sorted(rank["source"] for rank in own), [f"GPU {gpu.address}" for gpu in self.gpus])

    def test_ranks_whose_lists_cross_share_no_cpu(self):
        """A list per rank, with its own GPU first; a GPU that one rank has alone, and one that two share; or a GPU that
        two have, set in the script or on the command line of mpirun. A rank may be refused then: it says what to do."""
        for own, *lists in (("", "0,1", "1,0"), ("", "1", "0,1"), ("", "", "0"), ("LATER", "1", ""),
                            ("LATER", "0", "0"), ("", "1", "1")):
            with self.subTest(lists):
                said = self.start_ranks(*({"LATER": json.dumps({"CUDA_VISIBLE_DEVICES": gpus})} if own else
                                          {"CUDA_VISIBLE_DEVICES": gpus} for gpus in lists))
                self.assertTrue(any(rank["bound"] for rank in said), said)
                for rank in said:
                    if not rank["bound"]:
                        self.assertRegex(rank["errors"][0], "has bound itself to CPU .: end it, or give each job")

    def test_a_list_that_is_set_in_the_script_counts(self):
        for rank, said in enumerate(self.bind_ranks(*({"LATER": json.dumps({"CUDA_VISIBLE_DEVICES": gpu})}
                                                      for gpu in "10"))):
            self.assert_same(said, 1 - rank)

    def bind_workers(self, *given: list[int], of_node=2.0, is_trains=False) -> list[dict]:
        """Has two workers of Ray bind themselves as rank 0 and 1. `given`: the GPUs of each."""
        shell = ["sh", "-c", '"$@"; exit', "sh"]  # Ray's own process, which has other variables
        return [self.run_json("env", "RAYLET=yes", *shell, "env", f"RAY={json.dumps([gpus, of_node, is_trains])}",
                              sys.executable, "-B", "-c", WORKER, str(rank), "2") for rank, gpus in enumerate(given)]

    def test_a_worker_of_ray_without_a_gpu_has_no_cpu_of_one_with_a_gpu(self):
        first, second = self.bind_workers([1], [])
        self.assert_same(first, 1)
        self.assertFalse(second["bound"], second["text"])
        self.assertIn("Ray has given this worker no whole GPU, and other workers here may have", second["errors"][0])

    def test_workers_of_ray_that_all_have_no_gpu_divide_the_node(self):
        for keywords in ({"of_node": 0}, {"is_trains": True}):
            self.assertEqual([said["cpus"] for said in self.bind_workers([], [], **keywords)],
                             [home["cpus"] for home in self.homes])

    def test_a_worker_of_ray_with_several_gpus_has_their_homes(self):
        everything = sorted(os.sched_getaffinity(0))
        self.assertEqual(self.bind_workers([0, 1])[0]["cpus"], everything)

    def test_tasks_of_slurm_that_each_count_their_gpu_from_0_share_no_cpu(self):
        slurm = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "2",
                 "SLURM_STEP_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": "0"}
        said = self.bind_ranks({"SLURM_LOCALID": "0"}, {"SLURM_LOCALID": "1"}, arguments=[(), ()], **slurm)
        for gpu in (0, 1):
            self.assert_same(said[gpu], gpu)
            self.assertIn("Slurm may count the GPUs of each task from 0", said[gpu]["notes"][0])
