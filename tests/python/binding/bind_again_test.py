"""zf_runtime.bind() in a process that was bound before, by itself, by zf-tune exec, or with its parent. Tests
binding/bind.py, binding/home.py."""

import os
import pathlib
import unittest

import support

from bound_process import CPUS, PRELUDE, BoundProcess, binding_line, cpu_list


class Exec(BoundProcess):
    """What exec has done is not done again, if it was done for this very process."""

    def test_inside_exec_nothing_is_changed(self):
        self.make_plan("--ranks", "2")
        before = [support.TUNE, "exec", "-q", "--plan", "plan.json", "--rank", "1", "--"]
        said = self.bind(before=before)
        self.assert_bound(said, CPUS[len(CPUS) // 2:])
        self.assertEqual((said["moved"], said["rank"]), (0, 1))
        self.assertIn("nothing was changed", said["text"])

    def test_where_our_runtime_has_narrowed_the_process_so_is_the_thread_that_looks(self):
        said = self.bind(before=["taskset", "-c", str(CPUS[0])], ZF_RANK="0", ZF_ALLOWED=cpu_list(CPUS),
                         ZF_BINDING=binding_line(CPUS, training=CPUS[:1]))
        self.assertEqual((said["masks"], said["left"]), ([CPUS[:1]] * 2, []), said["text"])

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

    def test_the_mask_of_their_parent_does_not_make_cpus_their_own_that_neighbours_share(self):
        group = pathlib.Path(f"/sys/fs/cgroup/cpu/zf-bind-{os.getpid()}")
        try:
            group.mkdir()
        except OSError as error:
            self.skipTest(f"no control group can be made here ({error}): needs root and cgroup v1")
        self.addCleanup(group.rmdir)
        (group / "cpu.cfs_quota_us").write_text(f"{len(CPUS) * 50000}")
        enter = f"open('{group}/cgroup.procs', 'w').write('0')\n"
        said, = self.run_python(f"{self.START}bind(0, 2, strict=True)\n{enter}start('0, 1')\n", CHILD=PRELUDE)
        self.assert_bound(said, CPUS[:len(CPUS) // 2])
        self.assertIn(" optimizer_threads=", said["zf"]["ZF_BINDING"])

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

    def test_a_rank_that_another_starts_after_it_has_said_where_ranks_meet_gets_its_own(self):
        """As Lightning starts its ranks, also if the user has given half of the place."""
        for around in ({}, {"MASTER_PORT": "1"}, {"MASTER_ADDR": "localhost"}):
            with self.subTest(around):
                other, = self.children("0, 2", "'1, 2', MASTER_ADDR='localhost', MASTER_PORT='1'", **around)
                self.assert_bound(other, CPUS[len(CPUS) // 2:])

    def test_a_rank_without_a_number_of_ranks_is_not_taken_for_its_parents_part(self):
        said, = self.children("0, 1", "'rank=1'")
        self.assertFalse(said["bound"], said["text"])


if __name__ == "__main__":
    unittest.main()
