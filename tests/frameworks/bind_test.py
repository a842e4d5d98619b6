"""zf_runtime.bind() in real jobs that no wrapper precedes: torch with threads that run already, launchers, and Ray.

What was seen: PyTorch 2.13.0, deepspeed 0.19.8, Open MPI 4.1.4, Lightning 2.6.6, Ray 2.60.0 with Ray Train. accelerate:
bind_example_test.py; srun: tests/slurm/bound_ranks_test.py. Tests binding/math_threads.py, binding/ray.py."""

import os
import unittest

from frameworks_case import TUNE, FrameworkTest, home_of, job
from launchers_case import LaunchersTest
from mounted_gpus import MOUNT, MountedGpusTest
from ray_case import RAY_PYTHON, RAY_VARIABLES, need_ray
from zf_cli import BINARY, SOURCE

PACKAGE = str(SOURCE / "runtime/python")
NO_RANK = "nothing says which rank this process is: give rank= and ranks=, or name a plan"


class Bind(FrameworkTest):
    def setUp(self):
        super().setUp()
        self.allowed = sorted(os.sched_getaffinity(0))

    def launch(self, *words: str, **keywords) -> list[dict]:
        return super().launch(*words, **{"PYTHONPATH": PACKAGE, "ZF_TUNE_BINARY": BINARY,
                                         "ZF_CLAIMS": str(self.folder / "claims")} | keywords)

    def assert_bound(self, its: dict, home: set[int]):
        """Every thread is at home, except those that bind() says it has left."""
        self.assertEqual((its["bound"], set(its["cpus"]), its["errors"]), (True, home, []), its["text"])
        elsewhere = {thread: mask for thread, mask in self.masks(its["threads"]).items() if mask != home}
        self.assertEqual(elsewhere, {}, its["text"])

    def assert_share_no_cpu(self, ended: list[dict]):
        self.assertEqual(len(ended), 2, self.output)
        first, second = (set(its["cpus"]) for its in ended)
        self.assertTrue(first and second, self.output)
        self.assertEqual(first & second, set())
        for its, home in zip(ended, (first, second)):
            self.assert_bound(its, home)


class Torch(Bind):
    def test_torch_with_16_threads_that_run_already_is_moved_and_its_numbers_are_read_back(self):
        home = set(self.allowed[len(self.allowed) // 2:])
        its = self.only(*job("bind_rank", "threads"), LOCAL_RANK="1", LOCAL_WORLD_SIZE="2")
        self.assert_bound(its, home)
        self.assertGreaterEqual(its["moved"], 16)
        self.assertEqual(its["torch_threads"], len(home))
        self.assertEqual(its["regions"], [[len(home), sorted(home)]] * 2)

    def test_the_users_number_of_threads_is_kept_and_all_of_them_are_at_home(self):
        home = set(self.allowed[len(self.allowed) // 2:])
        its = self.only(*job("bind_rank", "threads"), LOCAL_RANK="1", LOCAL_WORLD_SIZE="2", OMP_NUM_THREADS="3")
        self.assert_bound(its, home)
        self.assertEqual((its["torch_threads"], its["omp"]), (3, "3"))
        self.assertEqual(its["regions"], [[3, sorted(home)]] * 2)


class Launchers(Bind, LaunchersTest):
    """Two ranks each."""

    def assert_as_planned(self, plan: dict, ended: list[dict]):
        self.assert_share_no_cpu(ended)
        for rank, its in enumerate(ended):
            self.assertEqual(set(its["cpus"]), home_of(plan, rank), its["text"])
            self.assertEqual(its["plan"], str(self.folder / "plan.json"))

    def assert_bound_at_last(self, ended: list[dict], *refused: list[str]):
        """Each rank is bound, and each CPU is in one home. refused: by which lines it was not bound at first."""
        self.assert_share_no_cpu(ended)
        self.assertEqual(sorted(cpu for its in ended for cpu in its["cpus"]), self.allowed)
        self.assertEqual([its["refused"] for its in ended], [*refused])

    def test_two_ranks_of_torchrun_have_the_homes_of_the_plan(self):
        plan = self.make_plan("--ranks", "2")
        self.assert_share_no_cpu(self.torchrun(2, *job("bind_rank")))
        self.assert_as_planned(plan, self.torchrun(2, *job("bind_rank", "plan", "threads")))

    def test_two_ranks_of_mpirun_have_the_homes_of_the_plan(self):
        """Which of two masks of one CPU is the job's cannot be told: a binding of Open MPI's is refused."""
        plan = self.make_plan("--ranks", "2")
        self.assert_as_planned(plan, self.mpirun(2, *job("bind_rank", "plan")))
        refused = self.mpirun(2, *job("bind_rank", "plan"), bind_to="hwthread")
        self.assertEqual([its["bound"] for its in refused], [False, False], self.output)
        for its in refused:
            self.assertRegex(its["text"], "may be the job's or this rank's alone; .*mpirun --bind-to none")

    def test_two_ranks_of_deepspeed_have_the_homes_of_the_plan(self):
        plan = self.make_plan("--ranks", "2")
        self.assert_as_planned(plan, self.deepspeed(2, *job("bind_rank", "plan")))

    def by_hand(self, how: str) -> list[dict]:
        return self.ended(*job("bind_by_hand", how))

    def test_ranks_of_spawn_and_fork_give_what_the_refusal_asks_for(self):
        """torch's spawn() where the program then sets LOCAL_RANK, and forks that give arguments."""
        for how in ("spawn", "fork"):
            with self.subTest(how):
                self.assert_bound_at_last(self.by_hand(how), [NO_RANK], [NO_RANK])

    def test_ranks_of_lightning_are_bound_in_setup(self):
        """Before that nothing says that the first is one. The second is started as one, and bound at once."""
        self.assert_bound_at_last(self.by_hand("lightning"), [NO_RANK], [])


class Ray(Bind, MountedGpusTest):
    def setUp(self):
        super().setUp()
        need_ray()

    def ray(self, *parts: str, before=(), **variables: str) -> dict[str, list[dict]]:
        """Starts a Ray for these parts of jobs/ray_bind.py. Returns what its two workers did in each."""
        words = [*before, RAY_PYTHON, *job("ray_bind", *parts)[1:]]
        ended = self.ended(*words, **RAY_VARIABLES, **variables)
        return {part: [its for its in ended if its["part"] == part] for part in parts}

    def test_two_workers_of_a_ray_that_was_started_under_exec_share_no_cpu(self):
        """All inherit ZF_BINDING and the mask of the rank as which Ray was started."""
        plan = self.make_plan("--ranks", "2")
        ended = self.ray("train", before=[str(TUNE), "exec", "--plan", "plan.json", "--rank", "0", "--"])["train"]
        self.assert_share_no_cpu(ended)
        self.assertEqual(sorted(its["rank"] for its in ended), [0, 1])
        self.assertEqual([set(its["cpus"]) for its in ended], [home_of(plan, rank) for rank in (0, 1)])

    def test_workers_of_a_ray_with_gpus_have_the_homes_of_those_that_ray_gave_them(self):
        """Actors and Ray Train's workers, which see both GPUs; also if Ray sets no list. An actor without a GPU is not
        bound where another has one, and says why."""
        self.write(*self.nvidia(2))
        self.probe()  # skips where GPUs cannot be mounted
        did = self.ray("gpus", "hidden", "train", "mixed", before=["unshare", "--mount", "sh", "-c", MOUNT, "sh"],
                       OPEN="tty", REFUSED="")
        for part in ("gpus", "hidden", "train"):
            self.assert_share_no_cpu(did[part])
            self.assertEqual(sorted(its["source"] for its in did[part]), ["GPU 0000:10:00.0", "GPU 0000:20:00.0"])
        self.assertEqual(sorted(its["visible"] for its in did["gpus"]), ["0", "1"])
        self.assertEqual([its["visible"] for its in did["hidden"]], [None, None])
        self.assertEqual(*([its["cpus"] for its in did[part]] for part in ("gpus", "hidden")))
        other, its = did["mixed"]
        self.assert_bound(its, set(its["cpus"]))
        self.assertRegex(its["source"], "^GPU 0000:[12]0:00.0$")
        self.assertFalse(other["bound"])
        self.assertIn("Ray has given this worker no whole GPU, and other workers here may have", other["errors"][0])


if __name__ == "__main__":
    unittest.main()
