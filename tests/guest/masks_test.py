"""CPUs as control groups and launchers give them on two real NUMA nodes: quotas, and masks that overlap."""

import json
import re

import guest
from zf_cli import BINARY, DONE, CommandTest, parse_cpus

FOLDER = BINARY.rsplit("/", 1)[0]
CPUS = "grep Cpus_allowed_list /proc/self/status"


class Masks(CommandTest):
    def setUp(self):
        super().setUp()
        guest.need()

    def run_guest(self, command: str, texts=None) -> str:
        programs = [BINARY, "taskset", f"{FOLDER}/guest_placement", f"{FOLDER}/zf-optimizer"]
        result = guest.run(f"set -e; PATH={FOLDER}:$PATH; {command}", shape="2n", programs=programs, texts=texts,
                           timeout_s=280)
        self.assert_exit(result, DONE)
        return result.stdout

    def test_two_pods_with_a_quota_in_one_cpuset_pin_no_thread_unless_the_cpus_are_their_own(self):
        said = self.run_guest(
            "echo +cpuset +cpu >/sys/fs/cgroup/cgroup.subtree_control; for pod in a b; do group=/sys/fs/cgroup/$pod; "
            "mkdir $group; echo 1-7 >$group/cpuset.cpus; echo 200000 100000 >$group/cpu.max; "
            "sh /pod $pod; sh /pod $pod --allowed 1-7; done",
            {"/pod": "echo $$ >/sys/fs/cgroup/$1/cgroup.procs; shift; zf-tune plan -q --mode overlap -o plan.json $*\n"
                     f"exec zf-tune exec -q --plan plan.json -- sh -c '{CPUS}; exec guest_placement'\n"})
        training = [parse_cpus(mask) for mask in re.findall(r"Cpus_allowed_list:\s*(\S+)", said)]
        pools = [[parse_cpus(mask) for mask in json.loads(line)["threads"]]
                 for line in said.splitlines() if line.startswith("{")]
        pool_cpus = set(range(1, 8))
        for pod in range(2):
            shared, own = 2 * pod, 2 * pod + 1
            self.assertEqual(training[shared], pool_cpus)
            self.assertTrue(all(mask == pool_cpus for mask in pools[shared]), pools[shared])
            self.assertTrue(any(len(mask) == 1 for mask in pools[own]), pools[own])

    def test_masks_of_slurm_that_overlap_leave_no_core_idle(self):
        said = self.run_guest(
            "export SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NODEID=0 SLURM_CPU_BIND_TYPE=mask_cpu:; "
            "start() { ranks=$1; SLURM_STEP_TASKS_PER_NODE=$1; SLURM_CPU_BIND_LIST=$2; shift 2; "
            "export SLURM_STEP_TASKS_PER_NODE SLURM_CPU_BIND_LIST; zf-tune plan -q --ranks $ranks -o plan.json; "
            "SLURM_LOCALID=0; for mask in $*; do export SLURM_LOCALID; "
            f"taskset $mask zf-tune exec -q --plan plan.json -- {CPUS}; SLURM_LOCALID=$((SLURM_LOCALID + 1)); "
            "done; }; "
            "start 4 0x0F,0xF0,0x0F,0xF0 0F F0 0F F0; start 4 0x0F,0xF0 0F F0 0F F0; start 2 0x03,0xFF 03 FF")
        homes = [parse_cpus(mask) for mask in re.findall(r"Cpus_allowed_list:\s*(\S+)", said)]
        each_its_own = [{0, 1}, {4, 5}, {2, 3}, {6, 7}]
        self.assertEqual(homes, each_its_own * 2 + [{0, 1}, {2, 3, 4, 5, 6, 7}])

    def test_masks_of_torchrun_and_mpi_that_no_variable_lists_name_the_remedy_that_fits(self):
        """Two ranks have each mask, so neither --cpus job nor --cpus rank is right. where and exec say the same."""
        said = self.run_guest(
            "zf-tune plan -q --ranks 4 -o plan.json; for launcher in 'LOCAL_RANK=0 LOCAL_WORLD_SIZE=4 "
            "TORCHELASTIC_RUN_ID=x' 'MPI_LOCALRANKID=0 MPI_LOCALNRANKS=4'; do for its in where exec; do "
            "[ $its = where ] || set -- -- true; "
            "env $launcher taskset 0F zf-tune $its --plan plan.json $* 2>&1 || echo exit $?; set --; done; done")
        remedies = re.findall(r"alone; (.*); or (?:start|give).* --cpus job .*\nexit 3\n", said)
        self.assertEqual(len(remedies), 4, said)
        self.assertEqual(set(remedies[:2]), {"if torchrun has bound this rank, start torchrun without --numa-binding"})
        for mpich in remedies[2:]:
            self.assertTrue(mpich.startswith("start with mpiexec -bind-to none "), said)

    def test_a_bound_rank_stays_in_a_cpuset_that_shrinks_and_grows_and_a_watch_says_so(self):
        said = self.run_guest(
            "echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control; group=/sys/fs/cgroup/job; mkdir $group; "
            "echo 0-7 >$group/cpuset.cpus; zf-tune plan -q --ranks 2 -o plan.json; zf-tune exec -q --plan plan.json "
            "--rank 1 -- sleep 60 & job=$!; echo $job >$group/cgroup.procs; sleep 2; "
            "mask() { grep Cpus_allowed_list /proc/$job/status; }; mask; "
            "zf-tune verify --pid $job --watch 9s >watched & watch=$!; "
            "until grep -q trainer watched; do sleep 0.2; done; sleep 2; "
            "echo 0-5 >$group/cpuset.cpus; mask; sleep 3; echo 0-7 >$group/cpuset.cpus; mask; "
            "wait $watch || echo exit $?; cat watched; kill $job")
        masks = [parse_cpus(mask) for mask in re.findall(r"Cpus_allowed_list:\s*(\S+)", said)]
        self.assertEqual(masks[0], {4, 5, 6, 7})
        for mask, cpuset in zip(masks[1:], (range(6), range(8)), strict=True):  # Linux before 6.2 gives all of it
            self.assertTrue(mask and mask <= set(cpuset), masks)
        for change in ("from 0-7 to 0-5", "from 0-5 to 0-7"):
            self.assertEqual(said.count(f"the CPUs of 1 process changed {change}"), 1, said)
        self.assertIn("none was moved, and the CPUs changed 2 times", said)
        self.assertIn("exit 3", said)
