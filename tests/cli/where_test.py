"""zf-tune where says which home a rank has, in text and in JSON, and binds nothing."""

import json
import os

from zf_cli import DONE, INFEASIBLE, STALE, USAGE, CommandTest, print_cpus


class Where(CommandTest):
    def where(self, *words, **variables):
        result = self.run_tune("where", "--format", "json", *words, **variables)
        self.assert_exit(result, DONE)
        return json.loads(result.stdout)

    def test_the_home_of_a_plan_is_the_one_of_exec(self):
        self.make_plan("--ranks", "1", name="plan.json")
        said = self.where("--plan", "plan.json", "--rank", "0", "--ranks", "1")
        self.assertEqual((said["schema"], said["rank"], said["file"]), ("zf-where/1", 0, True))
        under_exec = self.run_tune("exec", "-q", "--plan", "plan.json", "--", "sh", "-c", "echo $ZF_BINDING")
        self.assert_exit(under_exec, DONE)
        self.assertEqual(said["set"]["ZF_BINDING"], under_exec.stdout.strip())

    def test_in_words(self):
        result = self.run_tune("where", "--rank", "0", "--ranks", "1")
        self.assert_exit(result, DONE)
        self.assertRegex(result.stdout, r"^rank 0 is on CPU[^,]*")
        self.assertIn("by a plan for 1 rank", " ".join(result.stdout.split()))

    def test_the_launcher_says_of_how_many_its_own_rank_is(self):
        launched = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        self.assertEqual(self.where(**launched)["rank"], 0)
        self.assertEqual(self.where("--rank", "0", **launched)["rank"], 0)
        self.assert_refused(self.run_tune("where", "--rank", "1", **launched), INFEASIBLE, "nothing says of how many")

    def test_a_rank_that_cannot_be_is_refused(self):
        said = self.run_tune("where", "--rank", "5", "--ranks", "2")
        self.assert_refused(said, USAGE, "rank 5 is not below the number of ranks, 2", "--ranks")
        self.assertNotIn("LOCAL_RANK", said.stderr)

    def test_remedies_are_those_of_a_process_that_exec_has_not_started(self):
        self.make_plan("--ranks", "2", name="two.json")
        high = self.run_tune("where", "--plan", "two.json", "--rank", "5")
        self.assert_refused(high, USAGE, "rank 5: this node runs 2 ranks; local ranks count from 0: check rank= ")
        self.make_plan("--topology", "core:3 pu:1", name="other.json")
        for words in (("where", "--rank", "0"), ("publish", "--to", "-")):
            foreign = self.run_tune(*words, "--plan", "other.json")
            self.assert_refused(foreign, STALE, "is for machines of another class", "; make a plan here with zf-tune")
            self.assertNotIn("--force", foreign.stderr)

    def test_a_mask_of_a_launcher_is_refused_with_its_remedy_as_by_exec(self):
        """Also in a job of Slurm, and by masks that Slurm does not list. Masks of two CPUs need a third CPU."""
        allowed = sorted(os.sched_getaffinity(0))
        if len(allowed) < 2:
            self.skipTest("a mask needs a CPU that it lacks")
        self.make_plan("--ranks", "2", name="two.json")
        slurm = {"SLURM_JOB_ID": "7", "SLURM_CPUS_ON_NODE": "64"}
        step = {"SLURM_STEP_ID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "2",
                "SLURM_CPU_BIND_TYPE": "rank"}
        mpich = {"MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}
        open_mpi = {"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
        say = "--cpus job if all ranks share these CPUs, --cpus rank if this rank has them alone "
        for mask in (allowed[:count] for count in (1, 2) if count < len(allowed)):
            for variables, first in ((open_mpi, "start with mpirun --bind-to none, and the plan divides"),
                                     (mpich, "start with mpiexec -bind-to none "),
                                     (mpich | slurm, "start with mpiexec -bind-to none "),
                                     (slurm | step, "start the ranks with no mask (taskset, srun --cpu-bind), or ")):
                with self.subTest(mask=mask, variables=variables):
                    words = ["where", "--plan", "two.json"]
                    result = self.run_tune(*words, before=["taskset", "-c", print_cpus(mask)], **variables)
                    self.assert_refused(result, STALE, first, "with zf-tune exec and " + say)
                    self.assertEqual("no mask" in result.stderr, "MPI" not in str(variables), result.stderr)
        mask = ["taskset", "-c", str(allowed[0])]
        alone = self.run_tune("where", before=mask, MPI_LOCALRANKID="0", MPI_LOCALNRANKS="1")
        self.assert_exit(alone, DONE)
        self.assertIn("give the job more: mpiexec -bind-to none ", " ".join(alone.stdout.split()))

    def test_nothing_is_bound(self):
        before = os.sched_getaffinity(0)
        self.where("--rank", "0", "--ranks", "1")
        self.assertEqual(os.sched_getaffinity(0), before)
