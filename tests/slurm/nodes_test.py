"""The same jobs where there is more than one NUMA node, under cgroup v2: in guests."""

from slurm_case import SlurmTest, reports_in

RANKS = "as_user srun -N1 -n2 --exclusive --cpu-bind=none"


class Nodes(SlurmTest):
    def test_each_rank_and_its_memory_on_one_node(self):
        nodes = {0: {0, 1, 4, 5}, 1: {2, 3, 6, 7}}
        said = self.in_guest(f"""
            class_plan --ranks 2
            {RANKS} -c4 zf-tune exec -- test-rank
            until_true 20 job_gone; find /run/zf-tune -type f""", "2ht")
        taken = self.assert_each_rank_in_its_place(reports_in(said), nodes)
        for rank, cpus in enumerate(taken):
            self.assertLessEqual(cpus, nodes[rank])
        self.assertNotIn("/run/zf-tune/", said, "the Epilog removes the plan")
