"""zf_runtime.bind() without a plan, on a node with GPUs: each process gets the home of its GPU in a plan for all of
them, so ranks that know nothing of each other agree. The GPUs are mounted over those of this machine."""

import functools
import json
import os
import shutil
import subprocess
import sys

from mounted_gpus import MOUNT, MountedGpusTest
from zf_cli import BINARY, SOURCE, clean_environment

PROGRAM = """
import json, os, sys, time
from zf_runtime import bind
if os.environ.get("LATER"):
    from zf_runtime import _peers
    _peers._PATIENCE_S = 1
    os.environ.update(json.loads(os.environ["LATER"]))
time.sleep(float(os.environ.get("WAITS", 0)))
binding = bind(*map(int, sys.argv[1:]))
print(json.dumps({"bound": bool(binding), "cpus": sorted(binding.cpus), "source": binding.source, "plan": binding.plan,
                  "errors": binding.errors, "text": str(binding),
                  "notes": [note for note in binding.notes if "run fewer ranks" not in note]}), flush=True)
sys.stdin.read()
"""
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
# Starts each rank with variables of its own, and lets them live until all have said what they did. A rank whose
# variables have SHELL sets them in a shell of its own, which stays above it; one with AFTER starts so much later, and
# one with BECOMES is a shell first.
LAUNCHER = """
import json, os, subprocess, sys, time
ranks = []
for words, own in json.loads(sys.argv[1]):
    time.sleep(float(own.pop("AFTER", 0)))
    environment = os.environ | own
    if own.pop("BECOMES", ""):
        words = ["sh", "-c", 'sleep 4; exec "$@"', "sh", *words]
    if own.pop("SHELL", ""):
        setting = " ".join(f"{name}={value}" for name, value in own.items() if "LOCAL_" not in name)
        words = ["sh", "-c", f'export {setting}; "$@"; exit', "sh", *words]
        environment = os.environ | {name: value for name, value in own.items() if "LOCAL_" in name}
    ranks.append(subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
print(json.dumps([json.loads(rank.stdout.readline()) for rank in ranks]))
for rank in ranks:
    rank.stdin.close()
    rank.wait()
"""
# Is bound itself before.
PARENT = "from zf_runtime import bind; bind(rank=0, ranks=1, strict=True)\n" + LAUNCHER


class BindGpus(MountedGpusTest):
    def setUp(self):
        super().setUp()
        self.need_two_cpus()
        self.gpus = self.nvidia(2)
        self.write(*self.gpus)
        self.probe()  # skips where GPUs cannot be mounted

    @functools.cached_property
    def homes(self) -> list[dict]:
        """What bind() does with each GPU alone."""
        return [self.bind(CUDA_VISIBLE_DEVICES=str(gpu)) for gpu in (0, 1)]

    def bind(self, *arguments: int, before=(), **variables: str) -> dict:
        """Runs bind() with these GPUs, and without zf-tune's own variables. Returns what it did."""
        return self.run_json(*before, *self.program(*arguments), **variables)

    def program(self, *arguments: int) -> list[str]:
        return [sys.executable, "-B", "-c", PROGRAM, *map(str, arguments)]

    def run_json(self, *words: str, **variables: str):
        """Runs a program with these GPUs. OPEN and REFUSED: as for MOUNT. Returns what it said."""
        environment = clean_environment(PYTHONPATH=str(SOURCE / "runtime/python"), ZF_TUNE_BINARY=BINARY) | variables
        ran = subprocess.run(["unshare", "--mount", "sh", "-c", MOUNT, "sh", *words], cwd=self.folder, timeout=100,
                             env={"OPEN": "", "REFUSED": ""} | environment, stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, check=False)
        self.assert_exit(ran, 0)
        said = [json.loads(line) for line in ran.stdout.splitlines()]
        return said[0] if len(said) == 1 else said

    def bind_ranks(self, *own: dict[str, str], arguments=None, **variables: str) -> list[dict]:
        """Runs a launcher and its ranks: by torchrun's variables, or with arguments of bind(). `own`: the variables of
        each rank. Returns what each rank did; all are bound, and no two have a CPU in common."""
        ranks = []
        for rank, mine in enumerate(own):
            given = {} if arguments else {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(len(own))}
            ranks.append((self.program(*(arguments[rank] if arguments else ())), given | mine))
        said = self.run_json(sys.executable, "-B", "-c", LAUNCHER, json.dumps(ranks), **variables)
        self.assertTrue(all(rank["bound"] for rank in said), said)
        cpus = [cpu for rank in said for cpu in rank["cpus"]]
        self.assertEqual(len(set(cpus)), len(cpus), "\n".join(rank["text"] for rank in said))
        return said

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

    def test_pods_with_a_gpu_each_share_no_cpu_without_a_list(self):
        """Each is rank 0 of 1, by variables or arguments; also if a plan is for the other's GPU, or for both."""
        self.run_mounted("plan", "-q", "--ranks", "2")
        (self.folder / "plan.json").rename(self.folder / "both.json")
        self.run_mounted("plan", "-q", "--ranks", "1")
        for gpu in (0, 1):
            nodes = {"OPEN": f"nvidiactl nvidia{gpu}", "REFUSED": f"nvidia{1 - gpu}"}
            self.assert_same(self.bind(LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", **nodes), gpu)
            self.assert_same(self.bind(0, 1, **nodes), gpu)
            self.assert_same(self.bind(ZF_PLAN="both.json", **nodes), gpu)
            only = self.bind(ZF_PLAN="plan.json", **nodes)
            self.assertEqual(only["bound"], gpu == 0, only["text"])
        self.assertIn("has GPU 0000:10:00.0, and this process has 0000:20:00.0: give rank=", only["errors"][0])

    def test_ranks_of_one_pod_divide_the_homes_of_its_gpus(self):
        """Here that is one core, which two ranks cannot divide."""
        for rank in self.bind_ranks({}, {}, OPEN="nvidiactl nvidia1", REFUSED="nvidia0"):
            self.assertRegex(" ".join(rank["notes"]), "they cannot divide CPU [0-9]+ of GPU 0000:20:00.0", rank["text"])

    def test_ranks_that_each_see_another_gpu_without_a_list_are_not_bound(self):
        ranks = [(["unshare", "--mount", "sh", "-c", MOUNT, "sh", *self.program()],
                  {"LOCAL_RANK": str(gpu), "LOCAL_WORLD_SIZE": "2", "LATER": "{}", "OPEN": f"nvidiactl nvidia{gpu}",
                   "REFUSED": f"nvidia{1 - gpu}"}) for gpu in (0, 1)]
        launcher = [sys.executable, "-B", "-c", LAUNCHER, json.dumps(ranks)]
        ran = subprocess.run(launcher, cwd=self.folder, timeout=100, stdin=subprocess.DEVNULL, capture_output=True,
                             env=clean_environment(PYTHONPATH=str(SOURCE / "runtime/python"), ZF_TUNE_BINARY=BINARY),
                             text=True, check=True)
        for said in json.loads(ran.stdout):
            self.assertFalse(said["bound"], said["text"])
            self.assertIn("not all 2 ranks were seen to have the same GPUs", said["errors"][0])

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

    def test_the_only_rank_of_a_plan_has_the_plans_gpu(self):
        """Another process may have another GPU, and the same plan."""
        self.run_mounted("plan", "-q", "--ranks", "1")
        plan = {"ZF_PLAN": "plan.json"}
        self.assertTrue(self.bind(CUDA_VISIBLE_DEVICES="0", **plan)["bound"])
        self.assertTrue(self.bind(**plan)["bound"])
        self.assertTrue(self.bind(0, CUDA_VISIBLE_DEVICES="1", **plan)["bound"])
        other = self.bind(CUDA_VISIBLE_DEVICES="1", **plan)
        self.assertFalse(other["bound"], other["text"])
        self.assertIn("has GPU 0000:10:00.0, and this process has 1: give rank=", other["errors"][0])
        without = self.read_plan()
        del without["ranks"][0]["gpu"]
        (self.folder / "plan.json").write_text(json.dumps(without))
        nobodys = self.bind(CUDA_VISIBLE_DEVICES="1", **plan)
        self.assertFalse(nobodys["bound"], nobodys["text"])
        self.assertIn("has no GPU, this process has 1, and others may have the others", nobodys["errors"][0])

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

    def test_ranks_that_each_have_a_gpu_have_its_home(self):
        """Whoever has set it: the launcher, or a shell of each rank, which may stay above it."""
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

    def test_ranks_that_a_task_of_slurm_or_of_mpirun_has_started_itself_see_each_other_at_once(self):
        """As torch.multiprocessing does: all have the task's variables, which say rank 0 of 1."""
        for around in ({"SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "1",
                        "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7"},
                       {"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}):
            for arguments, own in (([(0, 2), (1, 2)], [{}, {}]), ([(), ()], [{"LATER": json.dumps(
                    {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2"})} for rank in (0, 1)])):
                said = self.bind_ranks(*own, arguments=arguments, CUDA_VISIBLE_DEVICES="1,0", **around)
                for rank, its in enumerate(said):
                    self.assertEqual(its["notes"], [], its["text"])
                    self.assert_same(its, 1 - rank)

    def test_ranks_that_share_one_visible_gpu_divide_its_home(self):
        """If that has two cores: here on a node with one GPU for both CPUs. tests/guest has one with more."""
        for own in ({}, {"SHELL": "yes"}):
            mine = own | {"CUDA_VISIBLE_DEVICES": "1"}  # not in the launcher's variables: mpirun -x
            for rank in self.bind_ranks(mine, mine):
                self.assertRegex(rank["notes"][0], "^the ranks divide the whole node, as they cannot divide CPU . of "
                                 "GPU 0000:20:00.0: 2 ranks have 1 core, and each needs one of its own$")
        for path in (self.folder / "pci/devices").glob("0000:20*"):
            path.rename(self.folder / path.name)
        for own, variables in (({"CUDA_VISIBLE_DEVICES": "0"}, {}), ({}, {"CUDA_VISIBLE_DEVICES": "0"})):
            said = self.bind_ranks(own, own, **variables)
            self.assertEqual([rank["notes"] for rank in said], [[], []])

    def test_ranks_of_mpirun_share_no_cpu_whoever_sets_their_gpu(self):
        if shutil.which("mpirun") is None:
            self.skipTest("no mpirun here")
        mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2"]
        stays = [sys.executable, "-B", "-c", PROGRAM.replace("sys.stdin.read()", "time.sleep(3)")]
        shell = ["sh", "-c", 'export CUDA_VISIBLE_DEVICES=$((1 - OMPI_COMM_WORLD_LOCAL_RANK)); "$@"; exit', "sh"]
        same = self.run_json(*mpirun, "-x", "CUDA_VISIBLE_DEVICES=1", *stays)
        own = self.run_json(*mpirun, *shell, *stays)
        for said in (same, own):
            self.assertEqual(sorted(rank["cpus"] for rank in said), [home["cpus"] for home in self.homes], said)
        self.assertEqual(sorted(rank["source"] for rank in own), [f"GPU {gpu.address}" for gpu in self.gpus])

    def test_ranks_whose_lists_cross_share_no_cpu(self):
        """A list per rank, with its own GPU first; or a GPU that one rank has alone, and one that two share."""
        for lists in (("0,1", "1,0"), ("1", "0,1"), ("1", ""), ("", "0")):
            with self.subTest(lists):
                for rank in self.bind_ranks(*({"CUDA_VISIBLE_DEVICES": gpus} for gpus in lists)):
                    self.assertEqual(rank["plan"], "a plan for 2 ranks", rank["text"])

    def test_a_list_that_other_ranks_cannot_see_counts_for_none(self):
        """It was set in the script, after the process was started."""
        for first, second in (("0", "0"), ("0", "1"), ("1", "0")):
            said = self.bind_ranks(*({"LATER": json.dumps({"CUDA_VISIBLE_DEVICES": gpu})} for gpu in (first, second)))
            for rank in said:
                self.assertIn("was set in this process itself", rank["notes"][0])

    def test_a_rank_that_starts_late_knows_that_others_have_given_up(self):
        """The patience is 1 s here."""
        own = {"LATER": "{}", "CUDA_VISIBLE_DEVICES": "1"}
        said = self.bind_ranks(own, own | {"CUDA_VISIBLE_DEVICES": "0", "AFTER": "3"})
        for rank in said:
            self.assertIn("of which not all 2 were seen", rank["notes"][0])
        for rank in self.bind_ranks(own, own | {"CUDA_VISIBLE_DEVICES": "0", "WAITS": "3"}):
            self.assertEqual(rank["notes"], [])

    def test_a_rank_that_was_a_shell_for_long_sees_where_others_are(self):
        """It has started in time, and nobody could see that it is a rank."""
        own = {"LATER": "{}", "CUDA_VISIBLE_DEVICES": "1"}
        _, late = self.bind_ranks(own, own | {"CUDA_VISIBLE_DEVICES": "0", "BECOMES": "yes"})
        self.assertRegex(late["notes"][0], r"^process \d+ of this job was bound before to CPU \d+: the numbers of ")

    def test_without_a_number_a_gpu_that_another_process_has_too_is_nobodys(self):
        said = self.run_json(sys.executable, "-B", "-c", LAUNCHER,
                             json.dumps([(self.program(), {"CUDA_VISIBLE_DEVICES": "1", "WAITS": "1"})] * 2))
        for one in said:
            self.assertFalse(one["bound"])
            self.assertRegex(one["errors"][0], r"CUDA_VISIBLE_DEVICES=1 is that of process \d+, too, and nothing says")
        only = {"CUDA_VISIBLE_DEVICES": "1", "WAITS": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        said = self.run_json(sys.executable, "-B", "-c", LAUNCHER, json.dumps([(self.program(), only)] * 2))
        for one in said:
            self.assertFalse(one["bound"], one["text"])
            self.assertRegex(one["errors"][0], "too, and the number of ranks here is said to be 1: give rank= and ")

    def bind_workers(self, *given: list[int], of_node=2.0, is_trains=False) -> list[dict]:
        """Has two workers of Ray bind themselves as rank 0 and 1. `given`: the GPUs of each."""
        shell = ["sh", "-c", '"$@"; exit', "sh"]  # Ray's own process, which has other variables
        return [self.run_json("env", "RAYLET=yes", *shell, "env", f"RAY={json.dumps([gpus, of_node, is_trains])}",
                              sys.executable, "-B", "-c", WORKER, str(rank), "2") for rank, gpus in enumerate(given)]

    def test_a_worker_of_ray_without_a_gpu_has_no_cpu_of_one_with_a_gpu(self):
        first, second = self.bind_workers([1], [])
        self.assert_same(first, 1)
        self.assertFalse(second["bound"], second["text"])
        self.assertIn("Ray has given this worker no GPU, and other workers here may have GPUs", second["errors"][0])

    def test_workers_of_ray_that_all_have_no_gpu_divide_the_node(self):
        for keywords in ({"of_node": 0}, {"is_trains": True}):
            self.assertEqual([said["cpus"] for said in self.bind_workers([], [], **keywords)],
                             [home["cpus"] for home in self.homes])

    def test_a_worker_of_ray_with_several_gpus_has_their_homes(self):
        everything = sorted(os.sched_getaffinity(0))
        self.assertEqual(self.bind_workers([0, 1])[0]["cpus"], everything)

    def test_the_only_rank_has_the_node_unless_it_lists_gpus(self):
        """As with a plan for one rank."""
        everything = sorted(os.sched_getaffinity(0))
        for said in (self.bind(0, 1), self.bind(LOCAL_RANK="0", LOCAL_WORLD_SIZE="1"),
                     self.bind(0, 1, CUDA_VISIBLE_DEVICES="1,0")):
            self.assertEqual((said["bound"], said["cpus"], said["notes"]), (True, everything, []), said["text"])
            self.assertEqual(said["plan"], "a plan for 1 rank")
        self.assert_same(self.bind(0, 1, CUDA_VISIBLE_DEVICES="1"), 1)

    def test_tasks_of_slurm_that_each_count_their_gpu_from_0_share_no_cpu(self):
        slurm = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "2",
                 "SLURM_STEP_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": "0"}
        said = self.bind_ranks({"SLURM_LOCALID": "0"}, {"SLURM_LOCALID": "1"}, arguments=[(), ()], **slurm)
        for gpu in (0, 1):
            self.assert_same(said[gpu], gpu)
            self.assertIn("Slurm may count the GPUs of each task from 0", said[gpu]["notes"][0])

    def test_a_plan_gives_the_rank_of_the_gpu(self):
        self.run_mounted("plan", "-q", "--ranks", "2")
        for gpu in (0, 1):
            self.assert_same(self.bind(CUDA_VISIBLE_DEVICES=str(gpu), ZF_PLAN="plan.json"), gpu)
        said = self.bind(ZF_PLAN="plan.json")
        self.assertFalse(said["bound"])
        self.assertIn("nothing says which of the plan's 2 ranks this process is", said["errors"][0])

    def test_two_jobs_with_one_plan_have_the_homes_of_their_gpus(self):
        """Each has a rank 0 of 1."""
        self.run_mounted("plan", "-q", "--ranks", "2")
        launched = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "ZF_PLAN": "plan.json"}
        for gpu in (0, 1):
            self.assert_same(self.bind(CUDA_VISIBLE_DEVICES=str(gpu), **launched), gpu)
            self.assert_same(self.bind(0, 1, CUDA_VISIBLE_DEVICES=str(gpu), ZF_PLAN="plan.json"), gpu)
            self.assert_same(self.bind(OPEN=f"nvidiactl nvidia{gpu}", REFUSED=f"nvidia{1 - gpu}", **launched), gpu)
        self.assert_same(self.bind(0, 2, CUDA_VISIBLE_DEVICES="1", ZF_PLAN="plan.json"), 0)  # the user says so
        for every in ({}, {"CUDA_VISIBLE_DEVICES": "1,0"}):
            self.assertEqual(self.bind(**launched, **every)["cpus"], sorted(os.sched_getaffinity(0)))
        for rank, its in enumerate(self.bind_ranks({"CUDA_VISIBLE_DEVICES": "1"}, {"CUDA_VISIBLE_DEVICES": "0"},
                                                   ZF_PLAN="plan.json")):
            self.assert_same(its, 1 - rank)

    def test_a_plan_is_not_fitted_to_fewer_ranks_with_other_gpus(self):
        self.run_mounted("plan", "-q", "--ranks", "2")
        launched = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "CUDA_VISIBLE_DEVICES": "1", "ZF_PLAN": "plan.json"}
        plan = self.read_plan()
        plan["ranks"][1]["gpu"]["pci"] = "0000:30:00.0"
        (self.folder / "plan.json").write_text(json.dumps(plan))
        said = self.bind(**launched)
        self.assertFalse(said["bound"], said["text"])
        self.assertIn("is for 2 ranks with GPU 0000:10:00.0, 0000:30:00.0, and this job has 1, so others may have",
                      said["errors"][0])
        self.run_mounted("plan", "-q", "--ranks", "1")
        said = self.bind(**launched)
        self.assertFalse(said["bound"], said["text"])
        self.assertIn("is for 1 rank with GPU 0000:10:00.0, and this job has 1, so", said["errors"][0])
        self.assertTrue(self.bind(**launched | {"CUDA_VISIBLE_DEVICES": "0"})["bound"])

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
