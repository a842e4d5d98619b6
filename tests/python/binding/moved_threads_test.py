"""Who moved my threads: one look at all masks, after step 20 of an optimizer of ours, or some time after bind(). Tests
binding/moved_threads.py."""

import unittest

import support  # noqa: F401  says where the package is

from bound_process import CPUS, PRELUDE, BoundProcess, binding_line
from zf_runtime.binding import moved_threads
from zf_runtime.binding.home import parse_home
from zf_runtime.binding.own_threads import Thread

LOOKS = PRELUDE + """
from zf_runtime.binding import moved_threads
hold = threading.Event()
def start(cpus=None):
    started = threading.Event()
    def run():
        if cpus is not None:
            os.sched_setaffinity(0, cpus)
        started.set()
        hold.wait()
    threading.Thread(target=run, daemon=True).start()
    started.wait()
def steps(first, last):
    return [moved for step in range(first, last + 1) for moved in moved_threads.look(step)]
def say(moved):
    print(json.dumps([[one.tid == os.getpid(), one.name, one.before and sorted(one.before), sorted(one.now)]
                      for one in moved]))
"""
# The look comes 0.2 s after bind() began, but not before the test has moved threads, however long that takes.
LATE = """
moved_threads._AFTER_S = 0.2
are_moved, look_now = threading.Event(), moved_threads._look_safely
def look_when_moved(*when):
    are_moved.wait(20)
    return look_now(*when)
moved_threads._look_safely = look_when_moved
"""


class Looks(BoundProcess):
    def looks(self, program: str, **variables: str) -> list[list]:
        return self.run_python(program, prelude=LOOKS, **variables)

    def test_a_thread_that_was_moved_is_named_after_step_20(self):
        """As NCCL 2.29 did: it leaves the calling thread on all CPUs near the GPU."""
        home, everything = CPUS[:len(CPUS) // 2], CPUS
        early, late, again = self.looks(f"""
bind(rank=0, ranks=2)
os.sched_setaffinity(0, {everything})
say(steps(1, 19)); say(steps(20, 20)); say(steps(21, 60))
""")
        self.assertEqual((early, late, again), ([], [[True, "the main thread", home, everything]], []))
        self.assertRegex(self.stderr, r"^zf_runtime: thread \d+ \(the main thread\) was moved from CPUs? \S+ to CPUs "
                         r"\S+ in the first 20 steps, by another part of this job; its home is CPUs? \S+\. `zf-tune ")

    def test_a_new_thread_that_may_have_placed_itself_outside_is_named_without_blame(self):
        (_, name, before, now), = self.looks(f"""
bind(rank=0, ranks=2)
start({CPUS[-1:]})
say(steps(1, 20))
""")[0]
        self.assertEqual((name, before, now), ("unnamed", None, CPUS[-1:]))
        self.assertRegex(self.stderr, r"^zf_runtime: thread \d+ \(unnamed\) may run on CPU \d+; its home is CPU")

    def test_under_exec_nobody_needs_to_call_bind(self):
        pins = f"os.sched_setaffinity(0, [{CPUS[0]}]); start({CPUS[1:]}); say(steps(1, 20))"
        under_exec = {"ZF_RANK": "0", "ZF_BINDING": binding_line(CPUS)}
        said, = self.looks(pins, **under_exec)
        self.assertEqual(said, [[True, "the main thread", None, CPUS[:1]]], "where the other was is not known")
        # The command itself may have done it, such as taskset.
        self.assertRegex(self.stderr, r"\(the main thread\) may run on CPU \d+; its home is CPUs \S+\. `zf-tune ")
        said, = self.looks(pins, OMP_PROC_BIND="true", **under_exec)
        self.assertEqual(said, [], "OpenMP may have pinned it")
        said, = self.looks(f"os.sched_setaffinity(0, {CPUS}); say(steps(1, 20))", ZF_RANK="0",
                           ZF_BINDING=binding_line(CPUS[:1]))
        self.assertEqual(said, [[True, "the main thread", None, CPUS]])

    def test_a_job_that_goes_on_from_a_late_step_has_20_steps_before_the_look(self):
        early, late = self.looks(f"""
bind(rank=0, ranks=2)
os.sched_setaffinity(0, {CPUS})
say(steps(1001, 1019)); say(steps(1020, 1020))
""")
        self.assertEqual((early, len(late)), ([], 1))

    def test_without_an_optimizer_it_looks_some_time_after_bind(self):
        said, = self.run_python(f"""{LATE}
bind(rank=0, ranks=2)
os.sched_setaffinity(0, {CPUS})
are_moved.set()
for thread in threading.enumerate():
    if thread.name == "zf-look":
        thread.join(20)
print(json.dumps("looked"))
""", prelude=LOOKS)
        self.assertEqual(said, "looked")
        self.assertIn("within 0.2 s after zf_runtime.bind()", self.stderr)

    def test_where_an_optimizer_steps_it_alone_looks(self):
        said, = self.run_python(f"""
bind(rank=0, ranks=2)
os.sched_setaffinity(0, {CPUS})
steps(1, 1)
moved_threads._AFTER_S = 0
watch = moved_threads._watch
late = threading.Thread(target=moved_threads._look_later, args=[watch, watch.home, threading.Event()])
late.start()
late.join()
print(json.dumps("waited"))
""", prelude=LOOKS)
        self.assertEqual((said, self.stderr), ("waited", ""))

    def test_the_thread_that_looks_stands_at_home_before_others_are_moved(self):
        """By it zf-tune verify --watch knows bind()'s own moves."""
        stood, = self.run_python("""
from zf_runtime.binding import own_threads
move = own_threads.move
def see(*masks):
    print(json.dumps([sorted(os.sched_getaffinity(thread.native_id)) for thread in threading.enumerate()
                      if thread.name == "zf-look"]))
    return move(*masks)
own_threads.move = see
bind(rank=0, ranks=2)
""", prelude=LOOKS)
        self.assertEqual(stood, [CPUS[:len(CPUS) // 2]])

    def test_under_exec_too(self):
        """bind() finds the process bound."""
        said, = self.run_python(f"""{LATE}
bind(); bind()
os.sched_setaffinity(0, {CPUS})
looks = [thread for thread in threading.enumerate() if thread.name == "zf-look"]
are_moved.set()
for thread in looks:
    thread.join(20)
print(json.dumps(len(looks)))
""", prelude=LOOKS, before=["taskset", "-c", str(CPUS[0])], ZF_RANK="0", ZF_BINDING=binding_line(CPUS[:1]))
        self.assertEqual(said, 1)
        self.assertIn("(the main thread) was moved from CPU", self.stderr)

    def test_a_thread_that_never_comes_to_stand_there_holds_nobody_up(self):
        bound, = self.run_python("""
moved_threads._STANDS_S = 0.2
moved_threads._look_later = lambda *arguments: None
print(json.dumps(bool(bind(rank=0, ranks=2))))
""", prelude=LOOKS)
        self.assertTrue(bound)

    def test_no_name_and_no_stderr_ends_a_step(self):
        """A name of 15 bytes may be cut off within a letter."""
        said, = self.looks(f"""
bind(rank=0, ranks=2)
open("/proc/self/comm", "wb").write(b"process")
def run():
    open(f"/proc/self/task/{{threading.get_native_id()}}/comm", "wb").write(b"\\xc3\\xbcbungsschritt\\xc3")
    os.sched_setaffinity(0, {CPUS})
    started.set()
    hold.wait()
started = threading.Event()
threading.Thread(target=run, daemon=True).start()
started.wait()
say(steps(1, 20))
""")
        (is_main, name, _, now), = said
        self.assertEqual((is_main, name, now), (False, "übungsschritt\ufffd", CPUS))
        for stderr in ("sys.stderr.close()", "os.close(2)", "sys.stderr = open('/dev/full', 'w')", "sys.stderr = None"):
            looked, = self.run_python(f"""
bind(rank=0, ranks=2)
os.sched_setaffinity(0, {CPUS})
{stderr}
steps(1, 20)
print(json.dumps("looked"))
sys.stderr = None
""", prelude=LOOKS)
            self.assertEqual(looked, "looked")

    def test_threads_that_begin_and_end_and_pin_themselves_inside_are_no_alarm(self):
        said, = self.looks(f"""
for _ in range(8):
    start()
bind(rank=0, ranks=1)
for cpu in {CPUS}:
    start({{cpu}})
for _ in range(200):
    threading.Thread(target=len, args=[""]).start()
hold.set()
say(steps(1, 20))
""")
        self.assertEqual((said, self.stderr), ([], ""))

    def test_a_process_that_nobody_has_bound_is_left_alone(self):
        said, = self.looks("say(steps(1, 20))")
        self.assertEqual((said, self.stderr), ([], ""))

    def test_a_forked_child_does_not_look(self):
        said, = self.looks(f"""
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python's, of fork() beside threads
bind(rank=0, ranks=2)
if os.fork() == 0:
    os.sched_setaffinity(0, {CPUS})
    steps(1, 20)
    os._exit(0)
os.wait()
say(steps(1, 20))
""")
        self.assertEqual((said, self.stderr), ([], ""))


class Rule(unittest.TestCase):
    """On values: a home of CPUs 0-7. Training has 0-3 of them while our runtime is open."""

    def moved(self, before: dict, *now: Thread, framework="unknown") -> list:
        home = parse_home(binding_line(range(8), framework=framework, training=range(4)))
        return moved_threads.moved_threads(home, before, list(now))

    def test_a_known_thread_has_its_mask_or_the_home_or_the_training_side(self):
        pinned = {(2000000001, 5): frozenset([9])}
        for cpus in (range(8), range(4), [9]):
            self.assertEqual(self.moved(pinned, Thread(2000000001, 5, frozenset(cpus))), [])
        for cpus in ([0], range(16), [8]):
            (moved,) = self.moved(pinned, Thread(2000000001, 5, frozenset(cpus)))
            self.assertEqual(moved.before, frozenset([9]))

    def test_a_number_that_another_thread_has_now_is_a_new_thread(self):
        self.assertEqual(self.moved({(2000000001, 5): frozenset([9])}, Thread(2000000001, 6, frozenset([0]))), [])

    def test_a_framework_that_divides_homes_by_plan_may_do_so_inside(self):
        before, now = {(2000000001, 5): frozenset(range(8))}, Thread(2000000001, 5, frozenset([0, 1, 5]))
        self.assertEqual(len(self.moved(before, now)), 1)
        self.assertEqual(self.moved(before, now, framework="deepspeed-zenflow"), [])


if __name__ == "__main__":
    unittest.main()
