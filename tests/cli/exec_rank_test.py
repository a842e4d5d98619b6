"""zf-tune exec finds its local rank in whatever the launcher set."""

import subprocess

from zf_cli import BINARY, DONE, USAGE, CommandTest, clean_environment, parse_cpus

VARIABLES = [
    "LOCAL_RANK",
    "SLURM_LOCALID",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "PMI_LOCAL_RANK",
    "PALS_LOCAL_RANKID",
    "JSM_NAMESPACE_LOCAL_RANK",
    "FLUX_TASK_LOCAL_ID",
]
SHOW = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status; echo rank $ZF_RANK"]


class ExecRank(CommandTest):
    def setUp(self):
        super().setUp()
        self.need_two_cpus()
        self.plan = self.make_plan("--ranks", "2")

    def assert_runs_as(self, rank: int, result):
        self.assert_exit(result, DONE)
        _, cpus, _, number = result.stdout.split()
        self.assertEqual(parse_cpus(cpus), parse_cpus(self.plan["ranks"][rank]["home"]["cpus"]))
        self.assertEqual(number, str(rank))

    def run_exec(self, *options: str, **environment: str):
        return self.run_tune("exec", "--plan", "plan.json", *options, "--", *SHOW, **environment)

    def test_each_launchers_variable_is_understood(self):
        for variable in VARIABLES:
            for rank in (0, 1):
                with self.subTest(variable=variable, rank=rank):
                    self.assert_runs_as(rank, self.run_exec(**{variable: str(rank)}))

    def test_option_beats_the_launcher(self):
        self.assert_runs_as(1, self.run_exec("--rank", "1", LOCAL_RANK="0"))

    def test_local_rank_beats_slurm(self):
        self.assert_runs_as(1, self.run_exec(LOCAL_RANK="1", SLURM_LOCALID="0"))

    def test_unknown_rank_among_several_is_asked_for(self):
        self.assert_refused(self.run_exec(), USAGE, "--rank")

    def test_batch_script_of_slurm_is_no_rank(self):
        """It has SLURM_LOCALID=0, starts the ranks, and must not be bound to the home of the first."""
        script = {"SLURM_JOB_ID": "7", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_TASKS_PER_NODE": "1"}
        self.assert_refused(self.run_exec(**script), USAGE, "this is a Slurm batch script",
                            "start the job with srun, or give --rank N")
        self.assert_runs_as(0, self.run_exec(**script, SLURM_STEP_ID="0"))

    def test_ranks_that_a_script_copied_to_local_rank_are_those_of_the_step(self):
        """Two tasks under a plan for one rank: with the plan's count, the second would be refused."""
        step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "2"}
        self.make_plan("--ranks", "1")
        homes = []
        for rank in "01":
            result = self.run_exec(**step, SLURM_LOCALID=rank, LOCAL_RANK=rank)
            self.assert_exit(result, DONE)
            homes.append(parse_cpus(result.stdout.split()[1]))
        self.assertFalse(homes[0] & homes[1])

    def test_ranks_of_torchrun_inside_a_task_of_srun_do_not_take_the_masks_of_its_tasks(self):
        """By the masks of two tasks, rank 0 would go out of the way of CPUs that rank 1 does not keep to."""
        cpus = sorted(parse_cpus(self.plan["allocation"]["cpus"]))
        masks = f"{sum(1 << cpu for cpu in cpus):#x},{1 << cpus[0]:#x}"
        task = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "2",
                "SLURM_LOCALID": "0", "SLURM_CPU_BIND_TYPE": "mask_cpu:", "SLURM_CPU_BIND_LIST": masks}
        for rank in (0, 1):
            self.assert_runs_as(rank, self.run_exec(**task, LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2",
                                                    TORCHELASTIC_RUN_ID="none"))

    def test_a_place_of_openmp_that_is_one_ranks_home_is_said_by_the_other(self):
        place = f"{{{','.join(map(str, sorted(parse_cpus(self.plan['ranks'][0]['home']['cpus']))))}}}"
        said = [self.run_exec(LOCAL_RANK=rank, LOCAL_WORLD_SIZE="2", OMP_PLACES=place).stderr for rank in "01"]
        self.assertNotIn("OMP_PLACES", said[0])
        self.assertIn(f"OMP_PLACES={place} is taken out of the job's environment", said[1])

    def test_two_tasks_of_flux_under_a_plan_for_one_rank_get_a_home_each(self):
        self.make_plan("--ranks", "1")
        homes = []
        for rank in "01":
            result = self.run_exec(FLUX_TASK_LOCAL_ID=rank, FLUX_JOB_SIZE="4", FLUX_JOB_NNODES="2")
            self.assert_exit(result, DONE)
            homes.append(parse_cpus(result.stdout.split()[1]))
        self.assertFalse(homes[0] & homes[1])

    def test_rank_beyond_the_plan_is_refused(self):
        self.assert_refused(self.run_exec(LOCAL_RANK="2"), USAGE, "2")
        self.assert_refused(self.run_exec(LOCAL_RANK="1", LOCAL_WORLD_SIZE="1"), USAGE,
                            "LOCAL_RANK=1 is not below LOCAL_WORLD_SIZE=1")
        self.assert_refused(self.run_exec("--rank", "7"), USAGE, "7")

    def test_rank_that_is_no_number_is_refused_with_its_variable(self):
        self.assert_refused(self.run_exec(SLURM_LOCALID="zero"), USAGE, "SLURM_LOCALID", "zero")

    def run_words(self, *words: str, **environment: str):
        """zf-tune with these words, as a launcher starts it."""
        return subprocess.run([BINARY, *words], cwd=self.folder, env=clean_environment(**environment), text=True,
                              capture_output=True, timeout=30, check=False)

    def test_local_rank_of_deepspeeds_launcher_is_the_rank_and_is_handed_on(self):
        show = ["sh", "-c", 'grep Cpus_allowed_list /proc/self/status; echo rank $ZF_RANK; echo "$@"',
                "sh", "--lr", "1"]
        for option in ("--local_rank=1", "--local-rank=1"):
            for words in ([option, "exec", "--plan", "plan.json", "--", *show],
                          ["exec", option, "--plan", "plan.json", "--", *show]):
                with self.subTest(words=words):
                    result = self.run_words(*words, LOCAL_RANK="1")
                    *where, given = result.stdout.splitlines()
                    self.assert_runs_as(1, subprocess.CompletedProcess((), result.returncode, "\n".join(where)))
                    self.assertEqual(given, f"--lr 1 {option}")
        apart = self.run_words("--local_rank", "1", "exec", "--plan", "plan.json", "--no-local-rank", "--", *show)
        self.assertEqual(apart.stdout.splitlines()[-1], "--lr 1", apart.stderr)

    def test_local_rank_behind_the_dashes_is_the_commands_own(self):
        result = self.run_words("exec", "--plan", "plan.json", "--rank", "0", "--", "echo", "--local_rank=1")
        self.assertEqual(result.stdout, "--local_rank=1\n", result.stderr)

    def test_local_rank_that_contradicts_is_refused(self):
        words = ["exec", "--plan", "plan.json", "--", "true"]
        self.assert_refused(self.run_words("--local_rank=1", *words, LOCAL_RANK="0"), USAGE, "--local_rank 1",
                            "LOCAL_RANK=0")
        self.assert_refused(self.run_words("exec", "--rank", "0", "--local_rank=1", *words[1:]), USAGE, "--rank 0")
        self.assert_refused(self.run_words("exec", "--rank", "1", "--local_rank=1", *words[1:], LOCAL_RANK="0"), USAGE,
                            "LOCAL_RANK=0")
        self.assert_refused(self.run_words("exec", "--local_rank=1", "--local-rank=0", *words[1:]), USAGE,
                            "--local-rank 0")
        self.assertEqual(self.run_words("--local_rank=1", *words, LOCAL_RANK="").returncode, DONE)
        self.assert_refused(self.run_words("--local_rank=x", *words), USAGE, "--local_rank")
        self.assert_refused(self.run_words("--local_rank=0", "probe"), USAGE, "local_rank")
