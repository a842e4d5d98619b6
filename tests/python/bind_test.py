"""zf_runtime.bind(): where the process and its threads are afterwards, and what is said of it."""

import itertools
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

import support

from bound_process import CPUS, PRELUDE, BoundProcess, binding_line, cpu_list
from zf_runtime import _peers, _thread_counts

# 16 threads with the process's mask, and one that somebody has pinned.
WITH_THREADS = """
hold, pinned = threading.Event(), threading.Event()
for _ in range(16):
    threading.Thread(target=hold.wait, daemon=True).start()
def pin():
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pinned.set()
    hold.wait()
threading.Thread(target=pin, daemon=True).start()
pinned.wait()
"""


class Threads(BoundProcess):
    def test_threads_with_the_mask_of_the_process_move_and_others_are_left_and_listed(self):
        said, = self.run_python(WITH_THREADS + "said(bind(rank=0, ranks=2))")
        home = CPUS[:len(CPUS) // 2]
        self.assertEqual((said["bound"], said["cpus"], said["moved"]), (True, home, 17), said["text"])
        (name, cpus), = said["left"]
        self.assertEqual((name, cpus), ("unnamed", [CPUS[-1]]))
        self.assertEqual(said["masks"].count(home), 18, "and the one that looks 60 s later")
        self.assertIn("17 threads moved", said["text"])
        self.assertIn("left: unnamed (", said["text"])

    def test_a_process_whose_threads_cannot_be_listed_is_bound_all_the_same(self):
        said, = self.run_python("""
from zf_runtime import _own_threads
def name_of(tid):
    raise ValueError("no name")
_own_threads.name_of = name_of
""" + WITH_THREADS + "said(bind(rank=0, ranks=2))")
        self.assertEqual((said["bound"], said["errors"]),
                         (True, ["listing the threads failed with ValueError: no name"]), said["text"])

    def test_two_ranks_have_different_cpus(self):
        homes = [self.bind(f"rank={rank}, ranks=2") for rank in (0, 1)]
        for home in homes:
            self.assert_bound(home, home["cpus"])
        self.assertEqual(set(homes[0]["cpus"]) & set(homes[1]["cpus"]), set())

    def test_a_runtime_that_is_opened_later_has_the_same_rank_and_home(self):
        support.need("numpy")
        self.make_plan("--ranks", "1", "--mode", "overlap")
        said, = self.run_python("""
from zf_runtime import Group, Runtime
binding = bind(plan="plan.json")
with Runtime(groups=[Group(10)], narrow="must") as runtime:
    stats = runtime.stats()
    said(binding, narrowed=stats.narrowed_threads, training=sorted(os.sched_getaffinity(0)))
""")
        self.assertGreaterEqual(said["narrowed"], 1)
        self.assertLess(len(said["training"]), len(said["cpus"]))

    def test_where_our_runtime_has_the_other_side_it_is_the_training_side(self):
        plan = self.make_plan("--ranks", "1", "--mode", "overlap", "--framework", "native")
        said = self.bind("plan='plan.json'")
        self.assertEqual(cpu_list(said["cpus"]), plan["ranks"][0]["training"]["cpus"].replace("-", ","))


class Exec(BoundProcess):
    """What exec has done is not done again, if it was done for this very process."""

    def test_inside_exec_nothing_is_changed(self):
        self.make_plan("--ranks", "2")
        before = [support.TUNE, "exec", "-q", "--plan", "plan.json", "--rank", "1", "--"]
        said = self.bind(before=before)
        self.assert_bound(said, CPUS[len(CPUS) // 2:])
        self.assertEqual((said["moved"], said["rank"]), (0, 1))
        self.assertIn("nothing was changed", said["text"])

    def test_a_mask_that_was_changed_under_exec_is_set_again(self):
        self.make_plan("--ranks", "2")
        before = [support.TUNE, "exec", "-q", "--plan", "plan.json", "--rank", "1", "--", "taskset", "-c", str(CPUS[0])]
        self.assert_bound(self.bind(before=before), CPUS[len(CPUS) // 2:])

    def test_a_rank_that_inherited_the_binding_of_another_gets_its_own(self):
        """As a worker of a Ray, or of torch.multiprocessing, that was started under exec."""
        self.make_plan("--ranks", "2")
        before = [support.TUNE, "exec", "-q", "--plan", "plan.json", "--rank", "0", "--"]
        said = self.bind("rank=1, ranks=2", before=before)
        self.assert_bound(said, CPUS[len(CPUS) // 2:])

    def test_the_number_of_threads_of_that_other_rank_is_nobodys_wish(self):
        self.make_plan("--ranks", "2")
        line = binding_line(CPUS[:len(CPUS) // 2]).replace("home_threads=1", "home_threads=7")
        said = self.bind("rank=1, ranks=2", before=["taskset", "-c", cpu_list(CPUS[:len(CPUS) // 2])], ZF_RANK="0",
                         ZF_PLAN="plan.json", ZF_BINDING=line, OMP_NUM_THREADS="7", ZF_ALLOWED=cpu_list(CPUS))
        self.assertEqual(said["zf"]["OMP_NUM_THREADS"], str(len(CPUS) - len(CPUS) // 2), said["text"])

    def test_a_binding_that_exec_has_fitted_is_not_guessed_for_another_rank(self):
        self.make_plan("--ranks", "2")
        said = self.bind("rank=1, ranks=2", before=["taskset", "-c", str(CPUS[1])], ZF_PLAN="plan.json", ZF_RANK="0",
                         ZF_BINDING=binding_line([CPUS[1]]), ZF_ALLOWED=cpu_list(CPUS))
        self.assertFalse(said["bound"])
        self.assertIn("which CPUs the job has is not known", said["errors"][0])

    def test_other_ranks_stay_within_the_mask_that_exec_was_started_with(self):
        """Here that is the first rank's, by the plan: the second has no CPU left."""
        self.make_plan("--ranks", "2")
        before = ["taskset", "-c", cpu_list(CPUS[:len(CPUS) // 2]), support.TUNE, "exec", "-q", "--plan", "plan.json",
                  "--rank", "0", "--cpus", "rank", "--"]
        said = self.bind("rank=1, ranks=2", before=before)
        self.assertLessEqual(set(said["now"]), set(CPUS[:len(CPUS) // 2]), said["text"])
        self.assertFalse(said["bound"], said["text"])

    def test_an_exec_that_does_not_say_its_mask_is_not_guessed_for(self):
        self.make_plan("--ranks", "2")
        said = self.bind("rank=1, ranks=2", before=["taskset", "-c", str(CPUS[0])], ZF_PLAN="plan.json", ZF_RANK="0",
                         ZF_BINDING=binding_line([CPUS[0]]))
        self.assertFalse(said["bound"])
        self.assertIn("which CPUs this job has is not known: ZF_BINDING is set, and ZF_ALLOWED is not",
                      said["errors"][0])

    def test_a_second_call_changes_nothing(self):
        first, second = self.run_python("said(bind(rank=1, ranks=2)); said(bind())")
        self.assert_bound(second, first["cpus"])
        self.assertEqual((second["moved"], second["rank"]), (0, 1))


class Again(BoundProcess):
    """Arguments that are not those by which the process was bound are not obeyed, and not passed over."""

    def assert_ignored(self, said: dict, home: list[int], *sentences: str):
        self.assertEqual((said["bound"], said["now"], said["moved"], said["errors"]), (True, home, 0, list(sentences)))

    def test_after_bind_other_arguments_are_said_to_be_ignored_and_an_error_with_strict(self):
        first, same, ranks, both, strict = self.run_python("""
first = bind(rank=1, ranks=2)
said(first); said(bind(rank=1, ranks=2)); said(bind(ranks=1)); said(bind(rank=0, ranks=1))
try:
    bind(rank=0, ranks=2, strict=True)
except RuntimeError as error:
    said(first, error=str(error))
""")
        home = first["cpus"]
        self.assert_ignored(same, home)
        before = "ignored: a bind() before has bound this process as rank 1 of 2"
        self.assert_ignored(ranks, home, f"ranks=1 is {before}")
        self.assert_ignored(both, home, f"rank=0 and ranks=1 are {before}")
        self.assertEqual(strict["error"], f"rank=0 is {before}")
        self.assertEqual(strict["now"], home)

    def test_under_exec_too(self):
        self.make_plan("--ranks", "2")
        before = [support.TUNE, "exec", "-q", "--plan", "plan.json", "--rank", "1", "--"]
        home = CPUS[len(CPUS) // 2:]
        self.assert_ignored(self.bind("rank=1, ranks=2", before=before), home)
        self.assert_ignored(self.bind("ranks=1", before=before), home,
                            "ranks=1 is ignored: zf-tune exec has bound this process as rank 1 of 2")

    def test_a_forked_child_may_be_another_rank(self):
        _, child = self.run_python("""
said(bind(rank=0, ranks=2))
sys.stdout.flush()
if os.fork() == 0:
    said(bind(rank=1, ranks=2))
    sys.stdout.flush()
    os._exit(0)
os.wait()
""")
        self.assert_bound(child, CPUS[len(CPUS) // 2:])


class Children(BoundProcess):
    """What a bound process starts has its variables and its mask."""

    START = """
import subprocess
def start(arguments, **variables):
    words = [sys.executable, "-B", "-c", os.environ["CHILD"] + f"said(bind({arguments}))"]
    print(subprocess.run(words, env=os.environ | variables, capture_output=True, text=True, check=True).stdout, end="")
"""

    def children(self, parent: str, *calls: str, **variables: str) -> list[dict]:
        """Returns what each child did: they are started after bind() with these arguments."""
        starts = "".join(f"start({call})\n" for call in calls)
        return self.run_python(f"{self.START}bind({parent}, strict=True)\n{starts}", CHILD=PRELUDE, **variables)

    def test_ranks_of_a_job_of_their_own_divide_the_home_of_their_parent(self):
        """By arguments, or as torchrun in a notebook."""
        for calls in (("'0, 2'", "'1, 2'"), ("'', LOCAL_RANK='0', LOCAL_WORLD_SIZE='2'",
                                             "'', LOCAL_RANK='1', LOCAL_WORLD_SIZE='2'")):
            first, second = self.children("0, 1", *calls)
            self.assert_bound(first, CPUS[:len(CPUS) // 2])
            self.assert_bound(second, CPUS[len(CPUS) // 2:])

    def test_more_ranks_than_their_parent_has_cores_are_not_bound(self):
        self.assertEqual(len(CPUS) // 2, 1) if len(CPUS) == 2 else self.skipTest("this needs exactly two CPUs")
        for said in self.children("1, 2", "'0, 3'", "'1, 3'"):
            self.assertEqual((said["bound"], said["now"]), (False, CPUS[1:]), said["text"])

    def test_the_same_rank_keeps_what_its_parent_has_and_another_of_the_same_job_gets_its_own(self):
        none, same, other = self.children("0, 2", "''", "'0, 2'", "'1, 2'")
        for said in (none, same):
            self.assert_bound(said, CPUS[:len(CPUS) // 2])
            self.assertEqual(said["moved"], 0)
        self.assert_bound(other, CPUS[len(CPUS) // 2:])

    def test_a_job_of_as_many_ranks_as_that_of_its_parent_is_another_job(self):
        """As torchrun in a rank of torchrun, or of srun."""
        ranks = [f"'', LOCAL_RANK='{rank}', LOCAL_WORLD_SIZE='2', MASTER_ADDR='localhost', MASTER_PORT='2', "
                 "TORCHELASTIC_RUN_ID='none'" for rank in (0, 1)]
        for around in ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1",
                        "TORCHELASTIC_RUN_ID": "none"}, {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}):
            for said in self.children("None", *ranks, **around):
                self.assertTrue(set(said["now"]) <= set(CPUS[len(CPUS) // 2:]), said["text"])
                self.assertEqual(said["bound"], len(CPUS) > 3, said["text"])

    def test_a_child_of_a_rank_that_has_said_where_ranks_meet_keeps_what_its_parent_has(self):
        """Scripts do so after bind(). A data loader may run the script again."""
        same, = self.children("None", "'', MASTER_ADDR='localhost', MASTER_PORT='1'", LOCAL_RANK="1",
                              LOCAL_WORLD_SIZE="2")
        self.assert_bound(same, CPUS[len(CPUS) // 2:])

    def test_a_rank_without_a_number_of_ranks_is_not_taken_for_its_parents_part(self):
        said, = self.children("0, 1", "'rank=1'")
        self.assertFalse(said["bound"], said["text"])


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
        prelude = f"from zf_runtime import _which_home; _which_home.PLANS = {str(self.folder)!r}; said(bind(1, 2))"
        said, = self.run_python(prelude)
        self.assertTrue(said["plan"].endswith(f"{plan['machine']['fingerprint']}.json"), said["text"])

    def test_a_plan_that_does_not_fit_is_fitted(self):
        self.make_plan("--ranks", "1")
        said = self.bind("plan='plan.json'", before=["taskset", "-c", str(CPUS[1])])
        self.assert_bound(said, [CPUS[1]])
        self.assertIn("is fitted to the CPU allowed here", said["text"])

    def test_without_zf_tune_only_a_plan_that_fits_is_obeyed(self):
        plan = self.make_plan("--ranks", "2")
        nobody = {"ZF_TUNE_BINARY": ""}
        hidden = "from zf_runtime import _ask_tune; _ask_tune.find = lambda: None\n"
        fits, = self.run_python(hidden + "said(bind(1, 2, 'plan.json'))", **nobody)
        self.assert_bound(fits, fits["cpus"])
        self.assertEqual(fits["cpus"][0], int(plan["ranks"][1]["home"]["cpus"].partition("-")[0]))
        masked, = self.run_python(hidden + "said(bind(1, 2, 'plan.json'))", before=["taskset", "-c", str(CPUS[1])])
        self.assert_not_bound(masked, "plan.json", f"CPU {CPUS[0]}", "zf-tune, which would fit the plan, was not found")
        more, = self.run_python(hidden + "said(bind(1, 3, 'plan.json'))")
        self.assert_not_bound(more, "has 2 ranks, and 3 run here")
        none, = self.run_python(hidden + "said(bind(1, 2))")
        self.assert_not_bound(none, "no plan is named", "zf-tune is needed")

    def test_a_plan_that_cannot_be_read_is_named(self):
        (self.folder / "broken.json").write_text("{")
        (self.folder / "other.json").write_text('{"schema": "zf-plan/2", "ranks": []}')
        for name, why in (("none.json", "No such file"), ("broken.json", "Expecting"), ("other.json", "is not a plan")):
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

    def test_a_fault_of_ray_ends_no_job(self):
        said, = self.run_python(f"{self.FAKE}\nray = fake([], 0)\ndel ray.get_runtime_context\nsaid(bind(1, 2))")
        self.assertIn("bind() failed with AttributeError", said["errors"][0])


class Refused(BoundProcess):
    def test_a_memory_policy_that_a_container_refuses_is_a_note(self):
        refuse = pathlib.Path(support.TUNE).parent / "test-refuse"
        if not refuse.exists():
            self.skipTest("no test-refuse beside zf-tune")
        said = self.bind("rank=1, ranks=2, strict=True", before=[refuse])
        self.assert_bound(said, CPUS[len(CPUS) // 2:])
        self.assertIn("a page goes to the node of the CPU that touches it first", said["text"])
        self.assertNotIn("memory preferred", said["text"])


    def test_a_mask_that_is_refused_is_no_binding(self):
        said, = self.run_python("""
def refuse(tid, cpus):
    raise PermissionError(1, "Operation not permitted")

os.sched_setaffinity = refuse
before = dict(os.environ)
said(bind(), unchanged=before == os.environ)
""", ZF_BINDING=binding_line(CPUS[:1]), ZF_RANK="0", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
        self.assertFalse(said["bound"], said["text"])
        self.assertIn("not bound", said["text"])
        self.assertIn("Operation not permitted", said["errors"][0])
        self.assertTrue(said["unchanged"], "children would take it for a bound one")


    def test_what_fails_after_the_move_is_an_error_of_a_bound_process(self):
        said, = self.run_python("""
from zf_runtime import _peers, _thread_counts
def fail(variables):
    raise OverflowError("no such number")
_thread_counts.apply = fail
said(bind(rank=1, ranks=2))
""")
        self.assertTrue(said["bound"], said["text"])
        self.assertEqual((said["cpus"], said["now"]), (CPUS[len(CPUS) // 2:], CPUS[len(CPUS) // 2:]))
        self.assertEqual(said["errors"], ["setting the numbers of threads failed with OverflowError: no such number"])

    def test_no_threads_at_all_are_not_set(self):
        said, = self.run_python("""
import types
counts = []
sys.modules["torch"] = types.SimpleNamespace(set_num_threads=counts.append)
said(bind(rank=1, ranks=2), counts=counts)
""", MKL_NUM_THREADS="0")
        self.assertEqual((said["bound"], said["errors"], said["counts"]), (True, [], []), said["text"])

    def test_a_rank_that_is_bound_meanwhile_is_seen_after_the_move(self):
        """Both have looked before they moved."""
        said, = self.run_python("""
from zf_runtime import _peers
seen = []
def bound_on(cpus, who, before=None):
    seen.append(sorted(os.sched_getaffinity(0)))
    return None if before is None else _peers.Bound(4711, cpus)
_peers.bound_on = bound_on
before = dict(os.environ)
said(bind(rank=1, ranks=2), seen=seen, unchanged=before == os.environ)
""")
        self.assertEqual(said["seen"], [CPUS, CPUS[len(CPUS) // 2:]])
        self.assertEqual((said["bound"], said["now"], said["unchanged"]), (False, CPUS, True), said["text"])
        self.assertIn("process 4711 of this job has bound itself to", said["errors"][0])


class Strict(BoundProcess):
    def test_raises_what_would_be_said(self):
        said, = self.run_python("""
try:
    bind(strict=True)
except RuntimeError as error:
    said(bind(), error=str(error))
""")
        self.assertEqual([said["error"]], said["errors"])
        self.assertIn("error: nothing says which rank this process is", said["text"])

    def test_openmp_that_pins_its_threads_is_said_and_is_an_error_with_strict(self):
        for name in ("OMP_PROC_BIND", "KMP_AFFINITY"):
            with self.subTest(name):
                said = self.bind("rank=0, ranks=2", **{name: "close"})
                self.assertTrue(said["bound"])
                self.assertIn(f"{name}=close is set", said["errors"][0])
                strict, = self.run_python("""
try:
    bind(rank=0, ranks=2, strict=True)
except RuntimeError as error:
    print(json.dumps({"error": str(error), "now": sorted(os.sched_getaffinity(0))}))
""", **{name: "close"})
                self.assertIn(f"{name}=close is set", strict["error"])
                self.assertEqual(strict["now"], CPUS, "nothing was changed before the error")
        harmless = self.bind("rank=0, ranks=2, strict=True", OMP_PROC_BIND="false", KMP_AFFINITY="verbose,none",
                             GOMP_CPU_AFFINITY="0", OMP_PLACES="cores")
        self.assertEqual(harmless["errors"], [])

    def test_openmp_pins_threads_by_the_rule_of_the_doctor(self):
        """The doctor is asked, too. Of a KMP_AFFINITY that pins nothing it says something else."""
        for variables, pins in (({"OMP_PLACES": "cores"}, True), ({"OMP_PLACES": "{0},{1}"}, True),
                                ({"OMP_PLACES": "{0:2}"}, False),
                                ({"OMP_PLACES": "{0:2}", "OMP_PROC_BIND": "true"}, False),
                                ({"OMP_PLACES": "cores", "OMP_PROC_BIND": "FALSE"}, False),
                                ({"GOMP_CPU_AFFINITY": "0-1"}, True),
                                ({"GOMP_CPU_AFFINITY": "0-1", "OMP_PROC_BIND": "false"}, False),
                                ({"KMP_AFFINITY": "verbose,none"}, False), ({"KMP_AFFINITY": "disabled"}, False),
                                ({"KMP_AFFINITY": "granularity=fine,verbose"}, False),
                                ({"KMP_AFFINITY": "granularity=fine, Compact,1,0"}, True),
                                ({"KMP_AFFINITY": "explicit,proclist=[0]", "OMP_PROC_BIND": "false"}, True)):
            with self.subTest(variables):
                self.assertEqual(bool(_thread_counts.pinning_in(variables)), pins)
                clean = {name: value for name, value in os.environ.items()
                         if not name.startswith(("OMP", "GOMP", "KMP"))}
                said = subprocess.run([support.TUNE, "doctor", "--format", "json"], env=clean | variables, timeout=60,
                                      capture_output=True, text=True, check=True).stdout
                found = [finding for finding in json.loads(said)["findings"]
                         if finding["check"] == "openmp" and finding["severity"] != "note"]
                self.assertEqual(bool(found), pins, found)

    def test_switched_off_it_does_nothing(self):
        said = self.bind("rank=0, ranks=2, strict=True", ZF_TUNE="off")
        self.assertEqual((said["bound"], said["now"], said["notes"]), (False, CPUS, ["ZF_TUNE is off"]))


class Commands(unittest.TestCase):
    def test_of_python_are_told_apart_by_what_runs_whatever_options_precede_it(self):
        for words, runs in ((["-B", "-c", "a; b"], ["-c", "a; b"]), (["-uBc", "a\nb", "0"], ["-c", "a\nb"]),
                            (["-ca"], ["-c", "a"]), (["-W", "ignore", "-X", "dev", "-m", "job", "x"], ["-m", "job"]),
                            (["-Wignore", "-u", "train.py", "--lr", "2"], ["train.py", "--lr"]), ([], []),
                            (["-I", "-"], ["-"]), (["-u"], [])):
            with self.subTest(words):
                self.assertEqual(_peers.what_runs(["/usr/bin/python3", *words]), ["/usr/bin/python3", *runs])
        self.assertEqual(_peers.what_runs(["sh", "-c", "a", "b"]), ["sh", "-c", "a"])

    def test_of_two_processes_with_other_code_are_two(self):
        commands = []
        for code in ("import time; time.sleep(50)", "import time; time.sleep(50); a"):
            process = subprocess.Popen([sys.executable, "-B", "-c", code])
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            commands.append(self.command(process.pid))
        self.assertNotEqual(*commands)

    def command(self, pid: int) -> list[str]:
        """Returns the command of a process that was just started. Popen returns before the kernel has its new words."""
        end = time.monotonic() + 20
        while not any(_peers._command(pid)[1:]):
            self.assertLess(time.monotonic(), end, "a process without a command line")
            time.sleep(0.001)
        return _peers._command(pid)


class Counts(unittest.TestCase):
    def test_of_threads_follow_the_rule_of_exec(self):
        """Both are asked about all settings of two variables, alone and under torchrun."""
        path = support.plan()
        planned = json.loads(pathlib.Path(path).read_text())["ranks"][0]["home"]["threads"]
        values = (None, "", "1", "7", "4,2")
        for openmp, mkl, run in itertools.product(values, values, (None, "job")):
            variables = {name: value for name, value in (("OMP_NUM_THREADS", openmp), ("MKL_NUM_THREADS", mkl),
                                                         ("TORCHELASTIC_RUN_ID", run)) if value is not None}
            clean = {name: value for name, value in os.environ.items() if name not in _thread_counts.VARIABLES}
            said = subprocess.run([support.TUNE, "exec", "--plan", path, "--rank", "0", "--", "env"], timeout=60,
                                  env=clean | variables, capture_output=True, text=True, check=True).stdout
            by_exec = dict(line.split("=", 1) for line in said.splitlines()
                           if line.startswith(_thread_counts.VARIABLES))
            ours = _thread_counts.counts_for(planned, "", variables, _thread_counts.launchers_own(variables, None))
            with self.subTest(variables):
                self.assertEqual(variables | ours.set, by_exec | ({"TORCHELASTIC_RUN_ID": run} if run else {}))

    def test_of_an_outer_exec_are_nobodys_wish(self):
        counts = _thread_counts.counts_for(8, "2", {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "3"}, None)
        self.assertEqual(counts.set, {"OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "3"})

    def test_of_ray_are_nobodys_wish(self):
        counts = _thread_counts.counts_for(8, "", {"OMP_NUM_THREADS": "1"}, ("Ray", "1"))
        self.assertEqual(counts.set, dict.fromkeys(_thread_counts.VARIABLES, "8"))
        self.assertIn("OMP_NUM_THREADS=1 is taken to be Ray's", counts.note)
        users = _thread_counts.counts_for(8, "", {"OMP_NUM_THREADS": "3"}, ("Ray", "1"))
        self.assertEqual(users.set["MKL_NUM_THREADS"], "3")


if __name__ == "__main__":
    unittest.main()
