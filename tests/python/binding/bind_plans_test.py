"""Which home zf_runtime.bind() takes: by a plan, by a rank, by what Ray says. Tests binding/ask_tune.py,
binding/ray.py, binding/which_rank.py."""

import subprocess
import unittest

import support

from bound_process import CPUS, BoundProcess


class Plans(BoundProcess):
    def test_a_plan_is_taken_from_the_argument_or_from_the_environment(self):
        plan = self.make_plan("--ranks", "2")
        home = [int(plan["ranks"][1]["home"]["cpus"].partition("-")[0])]
        for arguments, variables in (("1, 2, 'plan.json'", {}), ("rank=1, ranks=2", {"ZF_PLAN": "plan.json"})):
            with self.subTest(arguments):
                said = self.bind(arguments, **variables)
                self.assertEqual(said["cpus"][:1], home)
                self.assertTrue(said["plan"].endswith("/plan.json"))
                self.assertEqual(said["zf"]["ZF_PLAN"], said["plan"])

    def test_the_plan_of_this_class_is_found(self):
        plan = self.make_plan("--ranks", "2")
        (self.folder / "plan.json").rename(self.folder / f"{plan['machine']['fingerprint']}.json")
        folder = f"sys.modules['zf_runtime.binding.bind'].PLANS = {str(self.folder)!r}\n"
        said, = self.run_python(folder + "said(bind(1, 2))")
        self.assertTrue(said["plan"].endswith(f"{plan['machine']['fingerprint']}.json"), said["text"])

    def test_a_plan_that_does_not_fit_is_fitted(self):
        self.make_plan("--ranks", "1")
        said = self.bind("plan='plan.json'", before=["taskset", "-c", str(CPUS[1])])
        self.assert_bound(said, [CPUS[1]])
        self.assertIn("is fitted to the CPU allowed here", said["text"])

    def test_without_zf_tune_nothing_is_bound_and_it_is_said(self):
        self.make_plan("--ranks", "2")
        hidden = "from zf_runtime.binding import ask_tune; ask_tune.find = lambda: None\n"
        for arguments in ("1, 2", "1, 2, 'plan.json'"):
            said, = self.run_python(f"{hidden}said(bind({arguments}))", ZF_TUNE_BINARY="")
            self.assert_not_bound(said, "zf-tune, which finds the homes, was not found: install it")

    def test_an_answer_of_another_version_is_refused_in_words(self):
        other = self.folder / "zf-tune"
        other.write_text("#!/bin/sh\necho \"$SAYS\"\n")
        other.chmod(0o755)
        said = subprocess.run([support.TUNE, "where", "--format", "json", "--rank", "0", "--ranks", "1"],
                              stdout=subprocess.PIPE, text=True, check=True).stdout
        for says, why in ((said.replace("zf-where/1", "zf-where/2"),
                           "says zf-where/2, and this package reads zf-where/1: install both of one version"),
                          ("{}", "is of another version than this package: KeyError('schema')"),
                          ("[]", "is of another version"), ("", "is of another version")):
            self.assert_not_bound(self.bind("0, 1", ZF_TUNE_BINARY=str(other), SAYS=says), f"{other} {why}")

    def test_a_plan_that_cannot_be_read_is_named(self):
        (self.folder / "broken.json").write_text("{")
        (self.folder / "other.json").write_text('{"schema": "zf-plan/2", "ranks": []}')
        for name, why in (("none.json", "No such file"), ("broken.json", "is not JSON"),
                          ("other.json", "made: is missing")):
            self.assert_not_bound(self.bind(f"rank=0, ranks=1, plan='{name}'"), name, why)

    def test_ranks_under_a_mask_that_may_be_one_ranks_alone_are_not_bound(self):
        self.make_plan("--ranks", "2")
        said = self.bind("0, 2, 'plan.json'", before=["taskset", "-c", str(CPUS[0])])
        self.assert_not_bound(said, "may be the job's or this rank's alone", "start the ranks with no mask")
        self.assertNotIn("--force", said["errors"][0])
        without = self.bind("0, 2", before=["taskset", "-c", str(CPUS[0])])
        self.assert_not_bound(without, "all 2 ranks in a plan for 2 ranks, and may be")

    def test_a_rank_that_is_given_needs_no_sound_variable(self):
        said = self.bind("rank=1, ranks=2", LOCAL_RANK="first")
        self.assert_bound(said, CPUS[len(CPUS) // 2:])
        self.assert_not_bound(self.bind(LOCAL_RANK="first"), 'LOCAL_RANK="first" is not a whole number')

    def test_of_a_rank_that_is_given_the_launcher_says_of_how_many(self):
        launched = {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
        self.assert_bound(self.bind("rank=1", **launched), CPUS[len(CPUS) // 2:])
        self.assert_not_bound(self.bind("rank=0", **launched), "nothing says of how many: give ranks=")

    def test_numbers_that_cannot_be_are_named(self):
        launched = {"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "4"}
        self.assert_not_bound(self.bind("ranks=2", **launched),
                              "rank 3 (LOCAL_RANK) is not below the number of ranks here, which is 2")
        self.assert_not_bound(self.bind("rank=-1"), "rank=-1: local ranks count from 0")
        self.assert_not_bound(self.bind("rank=0, ranks=0"), "ranks=0: there is at least one")


class Threads(BoundProcess):
    def test_the_users_number_of_threads_is_kept_and_torchruns_one_is_not(self):
        said = self.bind("1, 2", OMP_NUM_THREADS="3")
        self.assertEqual((said["bound"], said["zf"]["OMP_NUM_THREADS"]), (True, "3"), said["text"])
        self.assertIn("OMP_NUM_THREADS=3 is set already and is kept", said["notes"][-1])
        said = self.bind("0, 1", OMP_NUM_THREADS="1", TORCHELASTIC_RUN_ID="none")
        self.assertEqual((said["bound"], said["zf"]["OMP_NUM_THREADS"]), (True, str(len(CPUS))), said["text"])
        self.assertNotIn("--keep-threads", said["text"])


class Ray(BoundProcess):
    """What a worker of Ray has, without Ray: tests/frameworks has the real one."""

    FAKE = """
import types
def fake(ids, share, cpus=1.0, rank=None):
    resources = {"GPU": share, "CPU": cpus}
    context = types.SimpleNamespace(get_assigned_resources=lambda: resources)
    ray = types.SimpleNamespace(WORKER_MODE=1, get_gpu_ids=lambda: ids, get_runtime_context=lambda: context)
    worker = types.SimpleNamespace(global_worker=types.SimpleNamespace(connected=True, mode=1))
    def train_context():
        if rank is None:
            raise RuntimeError("not in a function of Ray Train")
        return types.SimpleNamespace(get_local_rank=lambda: rank[0], get_local_world_size=lambda: rank[1])
    sys.modules.update({"ray": ray, "ray._private.worker": worker,
                        "ray.train": types.SimpleNamespace(get_context=train_context)})
    return ray
"""

    def bind_in_worker(self, worker: str, arguments="", **variables: str) -> dict:
        said, = self.run_python(f"{self.FAKE}\nray = fake({worker})\nsaid(bind({arguments}))",
                                before=["sh", "-c", '"$@"; exit $?', "sh"], **variables)
        return said

    def test_train_says_the_rank(self):
        said = self.bind_in_worker("[], 0, rank=(1, 2)")
        self.assert_bound(said, CPUS[len(CPUS) // 2:])
        self.assertEqual(said["source"], "Ray Train")

    def test_what_ray_was_started_with_is_not_about_its_workers(self):
        """A Ray that srun or exec has started has a rank of its own."""
        inherited = {"SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "1", "ZF_RANK": "0"}
        self.assertEqual(self.bind_in_worker("[], 0, rank=(1, 2)", **inherited)["source"], "Ray Train")
        self.assert_not_bound(self.bind_in_worker("[], 0", **inherited), "nothing says which rank this process is")

    def test_its_number_of_threads_is_nobodys_wish(self):
        said, = self.run_python(f"{self.FAKE}\nfake([], 0, cpus=7.0)\nos.environ['OMP_NUM_THREADS'] = '7'\n"
                                "said(bind(1, 2))")
        self.assertEqual(said["zf"]["OMP_NUM_THREADS"], str(len(CPUS) - len(CPUS) // 2))
        self.assertIn("OMP_NUM_THREADS=7 is taken to be Ray's", said["text"])

    def test_a_part_of_a_gpu_or_several_are_no_ones_place(self):
        for worker in ("['0'], 0.5", "['0', '1'], 2.0"):
            self.assert_not_bound(self.bind_in_worker(worker), "nothing says which rank this process is")

    def test_of_gpus_those_count_that_a_worker_has_alone(self):
        """The other worker of a GPU that Ray has divided has the same list. zf-tune is told who has the list."""
        asked = self.folder / "zf-tune"
        asked.write_text('#!/bin/sh\necho "$*, CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES" >&2; exit 1\n')
        asked.chmod(0o755)
        for worker, ranks, holder, gpus in (("['3'], 0.5", 2, "others", ""), ("[], 0", 2, "others", ""),
                                           ("['3'], 0.5", 1, "nothing", ""),  # no other worker has a part
                                           ("['3'], 1.0", 2, "process", "3"), ("['2', '3'], 2.0", 2, "process", "2,3")):
            with self.subTest(worker, ranks=ranks):
                said = self.bind_in_worker(worker, f"0, {ranks}", ZF_TUNE_BINARY=str(asked), CUDA_VISIBLE_DEVICES="3")
                self.assert_not_bound(said, f" --list={holder} ")
                self.assertTrue(said["errors"][0].endswith(f", CUDA_VISIBLE_DEVICES={gpus}"), said["text"])

    def test_a_fault_of_ray_ends_no_job(self):
        said, = self.run_python(f"{self.FAKE}\nray = fake([], 0)\ndel ray.get_runtime_context\nsaid(bind(1, 2))")
        self.assertIn("bind() failed with AttributeError", said["errors"][0])


if __name__ == "__main__":
    unittest.main()
