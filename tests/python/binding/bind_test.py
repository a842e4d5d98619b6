"""zf_runtime.bind(): where the process and its threads are afterwards, and what is said of it. Tests binding/bind.py,
binding/bound.py, binding/math_threads.py, binding/memory.py, binding/own_threads.py."""

import pathlib
import unittest

import support

from bound_process import CPUS, BoundProcess, binding_line, cpu_list

# 16 threads with the process's mask, and one that is pinned.
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
        # And the one that looks 60 s later.
        self.assertGreaterEqual(said["masks"].count(home), 18)
        self.assertEqual([mask for mask in said["masks"] if mask != home], [[CPUS[-1]]])
        self.assertIn("17 threads moved", said["text"])
        self.assertIn("left: unnamed (", said["text"])

    def test_a_process_whose_threads_cannot_be_listed_is_bound_all_the_same(self):
        said, = self.run_python("""
from zf_runtime.binding import own_threads
def name_of(tid):
    raise ValueError("no name")
own_threads.name_of = name_of
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


class Refused(BoundProcess):
    def test_a_memory_policy_that_a_container_refuses_is_a_note(self):
        refuse = pathlib.Path(support.TUNE).parent / "test-refuse"
        if not refuse.exists():
            self.skipTest("no test-refuse beside zf-tune")
        said = self.bind("rank=1, ranks=2, strict=True", before=[refuse])
        self.assert_bound(said, CPUS[len(CPUS) // 2:])
        self.assertIn("a page goes to the node of the CPU that touches it first", said["text"])
        self.assertNotIn("memory preferred", said["text"])

    def test_a_memory_policy_that_was_set_before_is_kept(self):
        program = """
import ctypes
from zf_runtime.binding import memory
def policy():
    mode = ctypes.c_int()
    number = {"x86_64": 239, "aarch64": 236}[os.uname().machine]
    ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.byref(mode), None, ctypes.c_ulong(0), None,
                              ctypes.c_ulong(0))
    return mode.value & 7
if MODE:
    memory._set_mempolicy(memory._SET_MEMPOLICY[os.uname().machine], MODE, frozenset([0]))
said(bind(rank=0, ranks=2), policy=policy())
"""
        before, = self.run_python(program.replace("MODE", "0"))
        if before["policy"] == 0:
            self.skipTest("memory policies are refused here")
        self.assertEqual(before["policy"], 1, before["text"])
        self.assertIn("memory preferred on node 0", before["text"])
        interleaved, = self.run_python(program.replace("MODE", "3"))
        self.assertEqual(interleaved["policy"], 3, interleaved["text"])
        self.assertNotIn("memory preferred", interleaved["text"])
        self.assertIn("interleave on node 0, is kept, and memory of rank 0's optimizer lies on node 0",
                      interleaved["text"])
        self.assertNotIn("--memory-policy", interleaved["text"])

    def test_the_preference_of_zf_tune_exec_is_not_others(self):
        """A launcher under exec has started this process as another rank."""
        self.make_plan("--ranks", "2")
        said = self.bind("", before=[support.TUNE, "exec", "-q", "--plan", "plan.json", "--rank", "0", "--", "env",
                                     "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2"])
        self.assertTrue(said["bound"], said["text"])
        self.assertNotIn("memory policy", said["text"])

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

    def test_where_no_thread_can_be_started_to_look_later_it_is_bound_all_the_same(self):
        said, = self.run_python("""
start = threading.Thread.start
def refuse(thread):
    if thread.name == "zf-look":
        raise RuntimeError("can't start new thread")
    start(thread)
threading.Thread.start = refuse
said(bind(rank=1, ranks=2))
""")
        self.assert_bound(said, CPUS[len(CPUS) // 2:])

    def test_what_fails_after_the_move_is_an_error_of_a_bound_process(self):
        said, = self.run_python("""
from zf_runtime.binding import math_threads
def fail(variables):
    raise OverflowError("no such number")
math_threads.apply = fail
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
        other = self.bind("rank=1, ranks=2", OMP_PLACES=f"{{{CPUS[0]}}}")
        self.assertIn(f"OMP_PLACES={{{CPUS[0]}}} is set", other["errors"][0])
        self.assertEqual(self.bind("rank=1, ranks=2", OMP_PLACES="{0:65535}")["errors"], [], "the home and more")
        harmless = self.bind("rank=0, ranks=2, strict=True", OMP_PROC_BIND="false", KMP_AFFINITY="verbose,none",
                             GOMP_CPU_AFFINITY="0", OMP_PLACES="cores")
        self.assertEqual(harmless["errors"], [])

    def test_a_rank_that_is_text_is_said(self):
        for arguments, name in (("rank='0', ranks=2", "rank"), ("rank=0, ranks='0'", "ranks")):
            self.assertEqual(self.bind(arguments)["errors"], [f"{name} is '0'; it must be an integer"])

    def test_switched_off_it_does_nothing(self):
        said = self.bind("rank=0, ranks=2, strict=True", ZF_TUNE="off")
        self.assertEqual((said["bound"], said["now"], said["notes"]), (False, CPUS, ["ZF_TUNE is off"]))


if __name__ == "__main__":
    unittest.main()
