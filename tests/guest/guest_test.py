"""Two real NUMA nodes: what zf-tune says and does there. QEMU emulates them; see guest.py."""

import json
import re

import guest
from zf_cli import BINARY, DONE, CommandTest, parse_cpus


class Guest(CommandTest):
    def setUp(self):
        super().setUp()
        guest.need()

    def run_guest(self, command: str, more_programs=(), **keywords):
        result = guest.run(f"set -e; PATH={BINARY.rsplit('/', 1)[0]}:$PATH; {command}",
                           programs=[BINARY, "numactl", *more_programs], **keywords)
        self.assert_exit(result, DONE)
        return result.stdout

    def test_exit_code_and_output_pass_through(self):
        result = guest.run("echo out; echo err >&2; exit 7", shape="2n")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (7, "out\n", "err\n"))

    def test_probe_sees_nodes_and_siblings_and_exec_binds_each_rank_to_its_node(self):
        for shape, nodes in (("2n", ({0, 1, 2, 3}, {4, 5, 6, 7})), ("2ht", ({0, 1, 4, 5}, {2, 3, 6, 7}))):
            with self.subTest(shape=shape):
                said = self.run_guest(
                    "zf-tune probe --format json; zf-tune plan -q --mode overlap --ranks 2 --framework native -o "
                    "plan.json; for rank in 0 1; do "
                    "zf-tune exec --plan plan.json --rank $rank -- sh -c "
                    "'grep Cpus_allowed_list /proc/self/status; echo pool: $ZF_OPTIMIZER_CPUS; numactl --show'; done",
                    shape=shape)
                machine, end = json.JSONDecoder().raw_decode(said)
                self.assertEqual({node["node"]: parse_cpus(node["cpus"]) for node in machine["nodes"]},
                                 dict(enumerate(nodes)))
                said = said[end:]
                training = [parse_cpus(text) for text in re.findall(r"Cpus_allowed_list:\s*(\S+)", said)]
                pools = [parse_cpus(text) for text in re.findall(r"pool: (\S+)", said)]
                preferred = re.findall(r"^preferred: (\d+)", said, re.MULTILINE)
                self.assertEqual(preferred, ["0", "1"])
                for rank, node in enumerate(nodes):
                    self.assertTrue(training[rank] and pools[rank])
                    self.assertLessEqual(training[rank] | pools[rank], node)
                    self.assertFalse(training[rank] & pools[rank])

    def test_rank_that_sees_no_gpus_takes_the_same_home(self):
        """The job has fewer CPUs than the plan, so each rank fits the plan alone. GPU 0 is near node 1."""
        start = ("zf-tune probe | grep -c 'near CPUs' || true; zf-tune exec --plan plan.json --rank $rank -- sh -c "
                 "'grep Cpus_allowed_list /proc/self/status; echo pool: $ZF_OPTIMIZER_CPUS'")
        said = self.run_guest(
            "zf-tune plan -q --ranks 2 -o plan.json; job=/sys/fs/cgroup/job; mkdir $job; "
            "echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control; echo 1-3,5-7 >$job/cpuset.cpus; "
            f"echo $$ >$job/cgroup.procs; for rank in 0 1; do {start}; done; "
            f"mount -t tmpfs nothing /sys/bus/pci/devices; {start}", shape="2n-gpus")
        found = re.findall(r"^([01])\nCpus_allowed_list:\s*(\S+)\npool: (\S+)$", said, re.MULTILINE)
        self.assertEqual([sees_gpus for sees_gpus, _, _ in found], ["1", "1", "0"])
        rank0, rank1, blind_rank1 = (parse_cpus(mask) | parse_cpus(pool) for _, mask, pool in found)
        self.assertTrue(rank0 and rank0 <= {5, 6, 7} and rank1 and rank1 <= {1, 2, 3}, (rank0, rank1))
        self.assertEqual(blind_rank1, rank1)

    def test_exec_leaves_isolated_cpus_out_unless_the_plan_has_them(self):
        """CPUs 6-7 are isolated. The plan is for CPUs 0-3 and the job gets 4-7, so the rank fits the plan. Then init's
        mask lacks CPUs 6-7, the control group has them, and no launcher has bound the ranks."""
        start = ("taskset f0 zf-tune exec --plan plan.json -- grep Cpus_allowed_list /proc/self/status 2>&1")
        both = self.run_guest(
            "taskset ff zf-tune probe | grep isolated; "
            f"for option in '' --isolated; do taskset f zf-tune plan -q $option -o plan.json; {start}; done; "
            "echo unbound; zf-tune plan -q --ranks 2 -o plan.json; for rank in 0 1 2; do LOCAL_RANK=$rank "
            "LOCAL_WORLD_SIZE=3 zf-tune exec --plan plan.json -- grep Cpus_allowed_list /proc/self/status 2>&1; done",
            shape="2n-isolated", more_programs=["taskset"])
        said, unbound = both.split("\nunbound\n")
        self.assertIn("CPUs 6-7: isolated (isolcpus, or a cpuset partition)", said)
        self.assertIn("CPUs 6-7 are left out: isolated", said)
        self.assertEqual(re.findall(r"Cpus_allowed_list:\s*(\S+)", said), ["4-5", "4-7"])
        homes = [parse_cpus(cpus) for cpus in re.findall(r"Cpus_allowed_list:\s*(\S+)", unbound)]
        self.assertEqual(len(homes), 3, unbound)
        self.assertEqual(sorted(cpu for home in homes for cpu in home), [0, 1, 2, 3, 4, 5], unbound)
        self.assertNotIn("tell the launcher to bind nothing", unbound)

    def test_pool_and_its_pages_lie_where_the_plan_says(self):
        folder = BINARY.rsplit("/", 1)[0]
        for shape in ("2n", "2ht"):
            with self.subTest(shape=shape):
                said = self.run_guest(
                    "zf-tune plan -q --mode overlap --ranks 2 -o plan.json; for rank in 0 1; do "
                    "zf-tune exec --quiet --plan plan.json --rank $rank -- guest_placement >rank$rank & done; wait; "
                    "cat plan.json; cat rank0 rank1",
                    shape=shape, more_programs=[f"{folder}/guest_placement", f"{folder}/zf-optimizer"])
                plan, end = json.JSONDecoder().raw_decode(said)
                for rank, line in zip(plan["ranks"], said[end:].strip().splitlines(), strict=True):
                    found = json.loads(line)
                    pool = parse_cpus(rank["optimizer"]["cpus"])
                    threads = [parse_cpus(text) for text in found["threads"]]
                    self.assertEqual(sorted(map(len, threads)), sorted([1] * len(pool) + [len(pool)]), "and the watch")
                    self.assertEqual(set.union(*threads), pool)
                    self.assertEqual(set(found["nodes"]), {rank["optimizer"]["mems"]})
                    self.assertGreater(found["nodes"][rank["optimizer"]["mems"]], 5000)
                    self.assertEqual((found["unknown"], found["elsewhere"], found["note"]), (0, 0, ""))
                    self.assertGreater(found["on_plan"], 5000)

    def test_killed_optimizers_of_two_to_five_threads_lose_nothing(self):
        folder = BINARY.rsplit("/", 1)[0]
        said = self.run_guest(
            "for cpus in 0-2 0-4; do ZF_KILLS=2 taskset -c $cpus abi_kill_test; done", shape="2n", timeout_s=280,
            more_programs=[f"{folder}/abi_kill_test", f"{folder}/zf-optimizer"])
        self.assertEqual(re.findall(r"^(\d) threads .*: 2 kills, .* all equal$", said, re.MULTILINE), list("2345"))

    def kill_while_a_cpu_comes_and_goes(self, kills: int, timeout_s: float):
        """Kills so often with 7 threads, and with 8, while CPU 7 leaves the cpuset, and while it goes offline."""
        folder = BINARY.rsplit("/", 1)[0]
        said = self.run_guest(
            "echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control; "
            f"for way in cpuset offline; do ZF_KILLS={kills} abi_kill_test $way; done", timeout_s=timeout_s,
            more_programs=[f"{folder}/abi_kill_test", f"{folder}/zf-optimizer"])
        runs = re.findall(r"^(\d) threads .*: (\d+) kills, .* all equal$", said, re.MULTILINE)
        self.assertEqual(runs, [("7", str(kills)), ("8", str(kills))] * 2)
        without = re.findall(r"; (\d+) of \d+ workers were started without it$", said, re.MULTILINE)
        self.assertGreater(sum(map(int, without)), 0)

    def test_kills_lose_nothing_while_a_cpu_comes_and_goes(self):
        self.kill_while_a_cpu_comes_and_goes(4, 280)

    def test_two_thousand_kills_lose_nothing_while_a_cpu_comes_and_goes(self):
        self.kill_while_a_cpu_comes_and_goes(500, 3500)
