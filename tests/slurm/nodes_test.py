"""The same jobs where there is more than one NUMA node, under cgroup v2: in guests."""

from lab import kit_conf
from slurm_case import SlurmTest, reports_in
from zf_cli import parse_cpus

RANKS = "as_user srun -N1 -n2 --exclusive --cpu-bind=none"


class Nodes(SlurmTest):
    def test_jobs_have_each_rank_and_its_memory_on_one_node_whatever_the_plan_was_made_for(self):
        """task/affinity gives each task of the second job a mask of its own; no task may make do with a part of its
        part. The third has two tasks on the node of a plan for four. One boot is enough for all."""
        nodes = {0: {0, 1, 4, 5}, 1: {2, 3, 6, 7}}
        said = self.in_guest(f"""
            class_plan --ranks 2
            {RANKS} -c4 zf-tune exec -- test-rank
            until_true 20 job_gone; find /run/zf-tune -type f
            echo NEXT; class_plan --ranks 4
            as_user srun -N1 -n2 --exclusive -c4 zf-tune exec -- test-rank 2>&1
            until_true 20 job_gone
            echo NEXT; {RANKS} -c4 zf-tune exec -- test-rank 2>&1""", "2ht")
        for_two, bound, for_four = said.split("NEXT\n")
        taken = self.assert_each_rank_in_its_place(reports_in(for_two), nodes)
        for rank, cpus in enumerate(taken):
            self.assertLessEqual(cpus, nodes[rank])
        self.assertNotIn("/run/zf-tune/", for_two, "the Epilog removes the plan")
        self.assertEqual(self.cpus_in(bound), [[0, 4, 1], [2, 6, 3]], "two cores each, of one the first PU")
        self.assertIn("is fitted to the CPUs that Slurm gave to rank 1, 2-3,6-7 ", bound)
        self.assertEqual(self.cpus_in(for_four), [[0, 4, 1], [2, 6, 3]])
        self.assertIn("made for 4 ranks and CPUs 0-7, is fitted to 2 ranks and the CPUs allowed here, 0-7\n", for_four)

    def test_plan_of_the_whole_node_in_a_job_of_half_of_it(self):
        """A job of one core on either node."""
        conf = kit_conf() + ("NodeName=lab CPUs=8 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=500 "
                             "CpuSpecList=2-5\n")
        said = self.in_guest(f"class_plan --ranks 2; {RANKS} -c2 zf-tune exec -- test-rank", "2ht", conf=conf)
        taken = self.assert_each_rank_in_its_place(reports_in(said), {0: {0, 1, 4, 5}, 1: {2, 3, 6, 7}})
        self.assertEqual(taken, [{0, 4}, {3, 7}])

    def test_job_that_holds_the_home_of_one_rank_alone_divides_it_between_both(self):
        """Rank 1's home and nothing of rank 0's: the CPUs are the step's, so neither rank keeps all of them."""
        conf = kit_conf() + ("NodeName=lab CPUs=8 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=500 "
                             "CpuSpecList=0-3\n")
        said = self.in_guest(f"class_plan --ranks 2; {RANKS} -c2 zf-tune exec -- test-rank", "2ht", conf=conf)
        taken = self.assert_each_rank_in_its_place(reports_in(said), {0: {0, 1, 4, 5}, 1: {2, 3, 6, 7}})
        self.assertEqual(taken, [{2, 6}, {3, 7}])

    def cpus_in(self, said: str) -> list[list[int]]:
        """Each rank's training CPUs, then its optimizer's."""
        return sorted(sorted(parse_cpus(report["training"])) + sorted(parse_cpus(report["optimizer"]))
                      for report in reports_in(said))

    def test_sparse_mask_of_48_cpus(self):
        """What Slurm gave a job on a busy node, for a plan that was made on all of an idle one."""
        mask = "0,4-11,21-26,30-46"
        nodes = {0: set(range(24)), 1: set(range(24, 48))}
        taken_by_the_system = ",".join(map(str, sorted(set(range(48)) - parse_cpus(mask))))
        conf = kit_conf() + ("NodeName=lab CPUs=48 Sockets=2 CoresPerSocket=24 ThreadsPerCore=1 RealMemory=500 "
                             f"CpuSpecList={taken_by_the_system}\n")
        said = self.in_guest(f"""
            class_plan --ranks 2
            {RANKS} -c16 grep Cpus_allowed_list /proc/self/status
            until_true 20 job_gone
            {RANKS} -c16 zf-tune exec -- test-rank""", "48", conf=conf)
        self.assertEqual(said.count(f"Cpus_allowed_list:\t{mask}\n"), 2, said)
        taken = self.assert_each_rank_in_its_place(reports_in(said), nodes)
        self.assertEqual(taken[0] | taken[1], parse_cpus(mask), "nothing is idle")
        self.assertEqual([len(cpus) for cpus in taken], [16, 16])
