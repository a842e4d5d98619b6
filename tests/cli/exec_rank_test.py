"""zf-tune exec finds its local rank in whatever the launcher set."""

from zf_cli import DONE, USAGE, CommandTest, parse_cpus

VARIABLES = [
    "LOCAL_RANK",
    "SLURM_LOCALID",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "PMI_LOCAL_RANK",
    "PALS_LOCAL_RANKID",
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
        self.assertEqual(parse_cpus(cpus), parse_cpus(self.plan["ranks"][rank]["training"]["cpus"]))
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

    def test_rank_beyond_the_plan_is_refused(self):
        self.assert_refused(self.run_exec(LOCAL_RANK="2"), USAGE, "2")
        self.assert_refused(self.run_exec("--rank", "7"), USAGE, "7")

    def test_rank_that_is_no_number_is_refused_with_its_variable(self):
        self.assert_refused(self.run_exec(SLURM_LOCALID="zero"), USAGE, "SLURM_LOCALID", "zero")
