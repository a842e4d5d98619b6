"""zf-tune verify --watch: looks on while a job runs, and names each thread that is moved."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from zf_cli import BINARY, DONE, PACKAGE, STALE, USAGE, CommandTest, clean_environment, print_cpus, wait_until

# A trainer: on a line of its standard input it does something, and says "done".
TRAINER = """
import os, sys, threading, time
hold = threading.Event()
for _ in range(4):
    threading.Thread(target=hold.wait, daemon=True).start()
def churn(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        def place():
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
            time.sleep(0.01)
        threads = [threading.Thread(target=place) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if os.fork() == 0:
            os._exit(0)
        os.wait()
def late(seconds):
    def place():
        time.sleep(seconds)
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        hold.wait()
    for _ in range(10):
        threading.Thread(target=place, daemon=True).start()
        time.sleep(0.05)
print("ready", flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""

# As NCCL 2.29.2 to 2.29.7: a call of the library leaves the calling thread on other CPUs. It has a thread, too.
LEAK = """
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#include <sys/syscall.h>
#include <time.h>
static void* serve(void* nothing) {
  for (;;) {  /* sleeps in this library, not in the C library */
    struct timespec t = {1, 0};
    long ret;
    register long r10 __asm__("r10") = 0;
    __asm__ volatile("syscall" : "=a"(ret) : "a"((long)SYS_clock_nanosleep), "D"(1L), "S"(0L), "d"(&t), "r"(r10)
                     : "rcx", "r11", "memory");
  }
  return nothing;
}
void leak_start(void) { pthread_t thread; pthread_create(&thread, 0, serve, 0); }
void leak_mask(int tid, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(tid, sizeof set, &set);
}
"""


class Watch(CommandTest):
    def setUp(self):
        super().setUp()
        self.need_two_cpus()
        self.cpus = sorted(os.sched_getaffinity(0))

    def start(self, *before: str, **environment: str) -> subprocess.Popen:
        # The claims of other jobs on this machine do not count.
        environment = clean_environment(ZF_CLAIMS=str(self.folder / "claims"), **environment)
        process = subprocess.Popen([*before, sys.executable, "-c", TRAINER], cwd=self.folder, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.began = time.monotonic()
        return process

    def start_under_plan(self, **environment: str) -> subprocess.Popen:
        self.make_plan("--ranks", "1", "--mode", "wait")
        return self.start(BINARY, "exec", "-q", "--plan", "plan.json", "--", **environment)

    def do(self, process: subprocess.Popen, line: str):
        process.stdin.write(line + "\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "done\n")

    def watch(self, process: subprocess.Popen, while_it: str, *options: str, time_s="2s"):
        """Watches, and has the trainer do something once the first look is over. Its threads are then over a second
        old, so that moves count."""
        if while_it:
            time.sleep(max(0.0, self.began + 1.2 - time.monotonic()))
        watch = self.start_watch("--pid", str(process.pid), "--watch", time_s, *options)
        if while_it:
            self.do(process, while_it)
        return self.finish(watch)

    def test_a_thread_that_is_moved_is_named_with_when_and_whence_and_whither(self):
        trainer = self.start_under_plan()
        to = self.cpus[:1]
        result = self.watch(trainer, f"os.sched_setaffinity(0, {to})")
        self.assert_exit(result, STALE)
        self.assertIn("all as planned\n", result.stdout)
        self.assertRegex(result.stdout, rf"(?m)^\d\.\d s: process {trainer.pid} \(python3\S*\), thread "
                         rf"{trainer.pid} \(the main thread\): moved from CPUs {print_cpus(set(self.cpus))} to CPU "
                         rf"{to[0]}$")
        self.assertRegex(result.stdout, r"(?m)^watched 5 threads for [2-9]\.\d s: 1 move$")

    def test_a_preloaded_library_that_leaks_a_mask_is_named_within_the_watch(self):
        if shutil.which("gcc") is None or os.uname().machine != "x86_64":
            self.skipTest("no gcc here, or another machine than x86-64")
        (self.folder / "leak.c").write_text(LEAK)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", "libleaks.so", "leak.c", "-lpthread"], cwd=self.folder,
                       check=True, timeout=60)
        trainer = self.start_under_plan(LD_PRELOAD=str(self.folder / "libleaks.so"))
        tasks = pathlib.Path(f"/proc/{trainer.pid}/task")
        before = set(os.listdir(tasks))
        self.do(trainer, "import ctypes; library = ctypes.CDLL(None); library.leak_start()")
        (tid,) = set(os.listdir(tasks)) - before
        self.began = time.monotonic()
        wait_until(lambda: (tasks / tid / "syscall").read_text() != "running\n")
        result = self.watch(trainer, f"library.leak_mask({tid}, {self.cpus[0]}); library.leak_mask(0, {self.cpus[1]})",
                            "--format", "json")
        self.assert_exit(result, STALE)
        watched = json.loads(result.stdout)["watched"]
        moved = {move["tid"]: (move["thread"], move["from"], move["to"]) for move in watched["moved"]}
        home = print_cpus(set(self.cpus))
        self.assertEqual(moved, {trainer.pid: ("the main thread", home, str(self.cpus[1])),
                                 int(tid): ("unnamed, in libleaks.so", home, str(self.cpus[0]))})
        for move in watched["moved"]:
            self.assertTrue(0.4 <= move["at_s"] <= 3, move)

    def test_threads_and_processes_that_begin_and_end_are_no_alarm(self):
        trainer = self.start_under_plan()
        result = self.watch(trainer, "churn(2)", time_s="3s")
        self.assert_exit(result, DONE)
        self.assertRegex(result.stdout, r"(?m)^watched 5 threads for [3-9]\.\d s: none was moved$")

    def test_threads_that_pin_themselves_late_in_their_first_second_are_no_alarm(self):
        """They begin all over half a second, so some are seen twice before they pin themselves."""
        result = self.watch(self.start_under_plan(), "late(0.8)", time_s="3s")
        self.assert_exit(result, DONE)
        self.assertIn(": none was moved\n", result.stdout)

    def test_after_a_stop_it_does_not_make_up_for_the_looks_that_it_missed(self):
        trainer = self.start_under_plan()
        watch = self.start_watch("--pid", str(trainer.pid), "--watch", "3s", "--format", "json")
        watch.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        watch.send_signal(signal.SIGCONT)
        result = self.finish(watch)
        self.assert_exit(result, DONE)
        watched = json.loads(result.stdout)["watched"]
        self.assertGreater(watched["seconds"], 2.9)
        self.assertLess(watched["looks"], 6, "7 without the stop")

    def test_a_process_that_binds_itself_meanwhile_is_no_alarm_and_one_that_is_moved_then_is(self):
        """As after long imports. All threads go where bind() says, without a plan; then one is moved from there."""
        trainer = self.start(**PACKAGE)
        bind = "import zf_runtime; home = zf_runtime.bind(rank=0, ranks=2, strict=True)"
        result = self.watch(trainer, bind, time_s="3s")
        self.assert_exit(result, DONE)
        self.assertRegex(result.stdout, r"(?m)^watched 5 threads for \d\.\d s: none was moved$")
        result = self.watch(trainer, f"os.sched_setaffinity(0, {self.cpus})")
        self.assert_exit(result, STALE)
        self.assertRegex(result.stdout, r"(?m)\(the main thread\): moved from .*\n.*: 1 move$")
        self.assertIn(f"zf-tune exec started neither process {trainer.pid} nor a child, so only moves are looked for",
                      result.stderr)
        every = f"for tid in os.listdir('/proc/self/task'): os.sched_setaffinity(int(tid), {self.cpus})"
        result = self.watch(trainer, every)
        self.assertRegex(result.stdout, r"(?m)^\d\.\d s: .* \(zf-look\): moved from ", "all that were not moved before")

    def test_a_runtime_that_opens_and_closes_is_no_alarm_under_exec_or_bind(self):
        self.make_plan("--ranks", "1", "--mode", "overlap")
        bind = "import zf_runtime; zf_runtime.bind(plan='plan.json', strict=True)"
        opens = ("from zf_runtime import Group, Runtime; runtime = Runtime(groups=[Group(10)], narrow='must'); "
                 "side = os.sched_getaffinity(0); time.sleep(1.2); runtime.close(); time.sleep(1.2)")
        for before, line in (((BINARY, "exec", "-q", "--plan", "plan.json", "--"), "0"), ((), bind)):
            trainer = self.start(*before, **PACKAGE)
            self.do(trainer, line)
            result = self.watch(trainer, opens, time_s="6s")
            self.assert_exit(result, DONE)
            self.assertRegex(result.stdout, r"(?m)^watched [56] threads for \d\.\d s: none was moved$")
            self.do(trainer, f"assert side < set({self.cpus}) == os.sched_getaffinity(0)")

    def test_it_ends_with_the_job_and_with_ctrl_c(self):
        trainer = self.start_under_plan()
        watch = self.start_watch("--pid", str(trainer.pid), "--watch", "10m")
        watch.send_signal(signal.SIGINT)
        result = self.finish(watch)
        self.assert_exit(result, DONE)
        self.assertRegex(result.stdout, r"(?m)^watched 5 threads for \d\.\d s: none was moved$")
        watch = self.start_watch("--job", "plan.json", "--watch", "10m")
        trainer.stdin.close()
        trainer.wait(20)
        result = self.finish(watch)
        self.assert_exit(result, DONE)
        self.assertRegex(result.stdout, r": none was moved; the job has ended\n$")

    def test_a_look_costs_little(self):
        """Seen: 10 ms of CPU time a look at 1,609 threads of 9 processes, twice a second: 2 % of one CPU."""
        trainer = self.start_under_plan()
        before = os.times()
        result = self.watch(trainer, "", time_s="3s")
        after = os.times()
        self.assert_exit(result, DONE)
        used = (after.children_user + after.children_system) - (before.children_user + before.children_system)
        self.assertLess(used, 0.15, "5 % of one CPU")

    def test_bad_times_are_refused(self):
        for text in ("soon", "0s", "-1s"):
            result = self.run_tune("verify", "--job", f"--watch={text}")
            self.assert_exit(result, USAGE)
            self.assertRegex(result.stderr, re.escape("zf-tune verify: --watch"))
