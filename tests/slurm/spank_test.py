"""The plugin: `srun --zf-tune` binds each task and its memory before the command starts, and never holds one up."""

import unittest

from lab import BUILD, HOME, kit_conf
from slurm_case import RANKS, SHOW_RANK, SlurmTest, reports_in
from zf_cli import parse_cpus

PLUGIN = BUILD / "lib/zf_tune.so"


class Spank(SlurmTest):
    def setUp(self):
        super().setUp()
        if not PLUGIN.exists():
            raise unittest.SkipTest("built without the plugin: install libslurm-dev")

    @staticmethod
    def with_plugin(words="") -> dict:
        """Without the TaskProlog: the plugin does its work."""
        conf = "\n".join(line for line in kit_conf().splitlines() if not line.startswith("TaskProlog")) + "\n"
        return {"conf": conf, "more": {f"{HOME}/lib/zf_tune.so": PLUGIN,
                                       "/etc/slurm/plugstack.conf": f"optional {HOME}/lib/zf_tune.so {words}\n"}}

    def test_each_rank_and_its_memory_on_one_node(self):
        nodes = {0: {0, 1, 4, 5}, 1: {2, 3, 6, 7}}
        said = self.in_guest(f"""
            class_plan --ranks 2
            as_user {RANKS} -c4 --zf-tune test-rank
            as_user {RANKS} -c4 --zf-tune numactl --show""", "2ht", **self.with_plugin())
        taken = self.assert_each_rank_in_its_place(reports_in(said), nodes)
        for rank, cpus in enumerate(taken):
            self.assertLessEqual(cpus, nodes[rank])
        for node in nodes:
            self.assertIn(f"preferred node: {node}\n", said)

    def test_what_others_have_set_is_as_under_exec(self):
        """As it is without words, and by words of the step's option. Memory that srun names for each task is kept as
        numactl's."""
        show = ("sh -c 'test -z \"$ZF_RANK\" || echo $ZF_RANK ${OMP_PLACES-none} "
                "$(numactl --show | grep -e ^policy -e ^preferred)'")
        said = self.in_guest(f"""
            class_plan --ranks 2
            export OMP_PLACES=cores
            as_user {RANKS} -c4 --mem-bind=local --zf-tune {show} 2>&1 | sort
            as_user {RANKS} -c4 --mem-bind=local --zf-tune=omp=keep,memory-policy=plan {show} | sort
            unset OMP_PLACES
            as_user {RANKS} -c4 --mem-bind=map_mem:1,0 --zf-tune test-rank 2>&1
            as_user {RANKS} -c4 --mem-bind=mask_mem:0x2,0x1 zf-tune exec --plan /etc/zf-tune/plans/* -- test-rank 2>&1
            """, "2ht", **self.with_plugin())
        lines = [line for line in said.splitlines() if line[:1] in "01"]
        self.assertEqual([line.split()[:4] for line in lines],
                         [["0", "none", "policy:", "bind"], ["1", "none", "policy:", "bind"],
                          ["0", "cores", "policy:", "preferred"], ["1", "cores", "policy:", "preferred"]], said)
        self.assertEqual(said.count("OMP_PLACES=cores is taken out of the job's environment"), 1, said)
        self.assertIn("the memory policy that was set before, bind on nodes 0-1, is kept", said)
        for report in reports_in(said):  # each task has the node that the plan has for the other one
            self.assertEqual((report["arena_nodes"], report["own_nodes"]), (str(1 - report["rank"]),) * 2, said)
        for rank in range(2):
            kept = (f"the memory policy that was set before, bind on node {1 - rank}, is kept, so memory of rank "
                    f"{rank}'s optimizer lies on node {1 - rank} and not on the plan's node {rank}; ")
            self.assertIn(f"zf-tune: {kept}srun --zf-tune=memory-policy=plan replaces it\n", said)
            self.assertIn(f"zf-tune exec: {kept}--memory-policy plan replaces it\n", said)

    def test_ranks_that_slurm_has_bound_keep_its_cpus(self):
        said = self.in_guest("""
            class_plan --ranks 4
            as_user srun -N1 -n2 --exclusive -c4 --zf-tune test-rank 2>&1""", "2ht", **self.with_plugin())
        taken = sorted(sorted(parse_cpus(report["training"]) | parse_cpus(report["optimizer"]))
                       for report in reports_in(said))
        self.assertEqual(taken, [[0, 1, 4], [2, 3, 6]])
        self.assertIn("is fitted to the CPUs that Slurm gave to rank 1, 2-3,6-7 ", said)

    def test_plan_is_fitted_to_the_job(self):
        said = self.here("""
            class_plan --ranks 1
            as_user srun -n1 -c1 --cpu-bind=none --zf-tune test-rank 2>&1""", **self.with_plugin())
        (report,) = reports_in(said)
        self.assertEqual((report["training"], report["optimizer"]), ("0", "0"))
        self.assertIn("is fitted to the CPU allowed here, 0\n", said)

    def test_second_component_of_a_heterogeneous_job_finds_its_plan(self):
        nodes = "".join(f"NodeName={name} CPUs=2 RealMemory=500\n" for name in ("n1", "n2"))
        lab = self.with_plugin()
        lab["conf"] += nodes
        said = self.here(f"""
            class_plan --ranks 1
            as_user timeout 30 srun -N1 -n1 --exclusive true : -N1 -n1 --exclusive --zf-tune {SHOW_RANK}""",
                         confined=False, **lab)
        self.assertEqual(said, "ran as:0\n")

    def test_only_where_it_is_asked_for(self):
        said = self.here(f"""
            class_plan --ranks 2
            as_user {RANKS} {SHOW_RANK}
            as_user {RANKS} --zf-tune=off {SHOW_RANK}
            ZF_TUNE=off as_user {RANKS} --zf-tune {SHOW_RANK}
            echo asked; as_user {RANKS} --zf-tune {SHOW_RANK} | sort""", **self.with_plugin())
        before, after = said.split("asked\n")
        self.assertEqual(before, "ran as:\n" * 6)
        self.assertEqual(after, "ran as:0\nran as:1\n")

    def test_folder_of_the_plans_is_named_to_the_plugin_too(self):
        """It does not read the settings of the scripts."""
        for words, ranks in (("run=/run/elsewhere", "ran as:0\nran as:1\n"), ("", "ran as:\n" * 2)):
            with self.subTest(words):
                said = self.here(f"""
                    class_plan --ranks 2
                    echo run=/run/elsewhere >>/etc/zf-tune/slurm.conf
                    as_user {RANKS} --zf-tune {SHOW_RANK} | sort""", **self.with_plugin(words))
                self.assertEqual(said, ranks)

    def test_words_of_plugstack_that_are_not_known_are_logged_and_have_no_effect(self):
        said = self.here(f"""
            class_plan --ranks 1
            as_user srun -N1 -n1 --exclusive --cpu-bind=none {SHOW_RANK}
            cat $lab/log/slurmd-*""", **self.with_plugin("default=on default=maybe mem=plan"))
        self.assertTrue(said.startswith("ran as:0\n"), said)
        for word in ("default=maybe", "mem=plan"):
            self.assertIn(f'plugstack.conf: "{word}" is not known and has no effect; there are default=on|off', said)
        self.assertNotIn('"default=on" is not', said)

    def test_lines_name_the_options_that_srun_has(self):
        said = self.here("""
            class_plan --ranks 2
            export OMP_PLACES=cores
            as_user srun -N1 -n2 --exclusive --cpu-bind=none --mem-bind=local --zf-tune true 2>&1
            as_user srun -N1 -n2 --exclusive --cpu-bind=rank --zf-tune true 2>&1""", **self.with_plugin())
        self.assertIn("; srun --zf-tune=omp=keep keeps it", said)
        self.assertIn("may be the job's or this rank's alone; start with srun --cpu-bind=none, and the plan divides "
                      "the job's CPUs; going on, bound to nothing", said)
        for option in ("--omp ", "--memory-policy", "--cpus ", "--force"):
            self.assertNotIn(option, said)

    def test_default_of_the_cluster(self):
        said = self.here(f"""
            class_plan --ranks 2
            as_user {RANKS} {SHOW_RANK} | sort
            as_user {RANKS} --zf-tune=off {SHOW_RANK}
            mkdir -m 777 out; as_user sbatch -o out/log --exclusive --wrap 'echo batch:$ZF_RANK' >/dev/null
            until_true 10 job_gone; cat out/log""", **self.with_plugin("default=on"))
        self.assertEqual(said, "ran as:0\nran as:1\n" + "ran as:\n" * 2 + "batch:\n")

    def test_a_plan_writes_no_lines_of_its_own(self):
        said = self.here("""
            class_plan --ranks 1
            sed -i 's/"rank": 0,/&"gpu": {"pci": "one\\\\ntwo", "cpus": "0"},/' /etc/zf-tune/plans/*.json
            as_user srun -N1 -n1 --exclusive --cpu-bind=none --zf-tune true 2>&1""", **self.with_plugin())
        self.assertIn("zf-tune: the plan's GPU one two of rank 0 is not on this node", said)

    def test_task_starts_whatever_is_wrong_with_the_plan(self):
        said = self.here(f"""
            class_plan --ranks 2
            echo nonsense >$lab/nonsense; mkfifo -m 666 $lab/fifo
            for plan in $lab/nonsense $lab/fifo $lab/absent; do
              ZF_PLAN=$plan as_user {RANKS} --zf-tune {SHOW_RANK} 2>&1
            done
            until_true 10 job_gone; node_state""", **self.with_plugin())
        self.assertEqual(said.count("ran as:\n"), 6, said)
        self.assertEqual(said.count("going on, bound to nothing"), 6, said)
        self.assertTrue(said.endswith("node is idle\n"), said)
