"""Exports, verify and doctor on two real NUMA nodes with SMT: sets of several CPUs, memory on the wrong node."""

import json
import re
import shutil
import subprocess

import guest
from export_test import LIBGOMP_PROGRAM
from zf_cli import BINARY, DONE, CommandTest, parse_cpus

TRAINING = [{0, 4}, {2, 6}]  # of shape 2ht: nodes {0,1,4,5} and {2,3,6,7}, core 0 is {0,4}
PLAN = "zf-tune plan -q --mode overlap --ranks 2 -o plan.json"


class Job(CommandTest):
    def setUp(self):
        super().setUp()
        guest.need()

    def run_guest(self, command: str, *programs: str) -> str:
        path = BINARY.rsplit("/", 1)[0]
        result = guest.run(f"set -e; PATH={path}:{self.folder}:$PATH; {command}", shape="2ht",
                           programs=[BINARY, "numactl", "taskset", *programs])
        self.assert_exit(result, DONE)
        return result.stdout

    def test_numactl_and_taskset_put_each_rank_on_its_node(self):
        said = self.run_guest(f"{PLAN} --framework native; for who in numactl taskset; do for rank in 0 1; do "
                              "$(zf-tune export -q plan.json --for $who --rank $rank) "
                              "grep Cpus_allowed_list /proc/self/status; done; done; "
                              "$(zf-tune export -q plan.json --for numactl --rank 1) numactl --show")
        masks = [parse_cpus(text) for text in re.findall(r"Cpus_allowed_list:\s*(\S+)", said)]
        self.assertEqual(masks, TRAINING * 2)
        self.assertRegex(said, r"(?m)^preferred: 1")

    def test_libgomp_keeps_its_threads_in_the_ranks_place(self):
        if shutil.which("gcc") is None:
            self.skipTest("no gcc here")
        (self.folder / "program.c").write_text(LIBGOMP_PROGRAM)
        subprocess.run(["gcc", "-fopenmp", "-D_GNU_SOURCE", "-o", "program", "program.c"], cwd=self.folder, check=True,
                       timeout=60)
        said = self.run_guest(f"{PLAN} --framework native; "
                              "eval \"$(zf-tune export -q plan.json --for openmp --rank 1)\"; "
                              "OMP_NUM_THREADS=3 program; unset OMP_PLACES; "
                              "zf-tune plan -q --mode overlap --ranks 2 -o plan.json; export OMP_NUM_THREADS=2; "
                              "for set in GOMP_CPU_AFFINITY=0 OMP_PROC_BIND=spread OMP_PLACES=cores; do "
                              "env $set zf-tune exec -q --rank 1 -- program; done", str(self.folder / "program"))
        masks = [{int(cpu) for cpu in line.split()} for line in said.splitlines() if re.fullmatch(r"[\d ]+", line)]
        self.assertEqual(masks, [TRAINING[1]] * 3 + [{2, 3, 6, 7}] * 6, "by export, and under exec on the whole home")

    def test_memory_policy_of_others_is_kept_by_the_job_and_by_its_optimizer(self):
        """Rank 0's node is 0."""
        folder = BINARY.rsplit("/", 1)[0]
        hold = "dd if=/dev/zero of=/dev/null bs=64M"
        has_it = "grep -q '^RssAnon:[^0-9]*6[45][0-9][0-9][0-9] kB' /proc/$!/status"
        said = self.run_guest(
            f"{PLAN}; for way in '' --membind=1 --interleave=all --preferred=1 --localalloc; do "
            "${way:+numactl $way} zf-tune exec --rank 0 -- numactl --show 2>&1 | grep -v cpubind; echo; done; "
            "for way in --membind=1 --membind=0,1 --interleave=all; do "
            "numactl $way zf-tune exec -q --rank 0 -- guest_placement; done; "
            "numactl --membind=1 zf-tune fit --params 1M --format json | grep limit; "
            "numactl --membind=1 zf-tune check plan.json; "
            f"numactl --interleave=all zf-tune exec -q --rank 0 -- {hold} & n=0; "
            f"until {has_it} || [ $((n += 1)) -gt 60 ]; do sleep 1; done; zf-tune verify --pid $!; kill $!",
            f"{folder}/guest_placement", f"{folder}/zf-optimizer")
        *shown, rest = said.split("\n\n")
        within = "is kept, and memory of rank 0's optimizer lies on node 0;"
        elsewhere = "is kept, so memory of rank 0's optimizer lies on node 1 and not on the plan's node 0;"
        for text, policy, note in zip(shown, ("preferred", "bind", "interleave", "preferred", "local"), (
                "", f"bind on node 1, {elsewhere}", f"interleave on nodes 0-1, {within}",
                f"preferred on node 1, {elsewhere}", f"local, {within}"), strict=True):
            self.assertIn(f"policy: {policy}\n", text)
            self.assertIn(note, text)
            self.assertEqual("is kept" in text, bool(note), text)
        self.assertIn("preferred node: 0\n", shown[0])
        self.assertIn("preferred node: 1\n", shown[3])
        arenas = [json.loads(line) for line in rest.splitlines() if line.startswith("{")]
        self.assertEqual([(set(arena["nodes"]), arena["elsewhere"], arena["note"]) for arena in arenas],
                         [({"1"}, 0, ""), ({"0"}, 0, ""), ({"0"}, 0, "")])
        self.assertIn("the memory of the allowed NUMA nodes (1, by the memory policy)", rest)
        self.assertIn("zf-tune exec keeps it: rank 0 gets no memory on the plan's nodes", rest)
        self.assertIn("all as planned", rest, "pages that the policy interleaves are no drift")

    def test_verify_names_memory_on_the_wrong_node(self):
        hold = "dd if=/dev/zero of=/dev/null bs=64M"
        has_it = "grep -q '^RssAnon:[^0-9]*6[45][0-9][0-9][0-9] kB' /proc/$!/status"
        said = self.run_guest(f"{PLAN}; for node in 0 1; do "
                              f"zf-tune exec --rank 0 -- numactl --membind=$node {hold} & n=0; "
                              f"until {has_it} || [ $((n += 1)) -gt 60 ]; do sleep 1; done; "
                              "zf-tune verify --pid $! || echo exit $?; kill $!; done")
        right, wrong = said.split("all as planned")
        self.assertNotIn("drift", right)
        self.assertRegex(wrong, r"drift: process \d+ \(dd\) has 6[234]\S* MiB of its .* on node 1, outside node 0")
        self.assertIn("exit 3", wrong)

    def test_doctor_finds_automatic_balancing(self):
        setting = "/proc/sys/kernel/numa_balancing"
        said = self.run_guest(f"for value in 1 0; do echo $value > {setting}; zf-tune doctor; echo; done")
        on, off, _ = said.split("\n\n")
        self.assertIn("kernel.numa_balancing is on", on)
        self.assertNotIn("numa_balancing", off)
