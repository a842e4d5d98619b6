"""A failure to open, close or live is one clear exception and leaves nothing behind. Uses the standard library only.
Tests __init__.py, errors.py, native/handle.py, native/runtime.py, optim/torch_version.py."""

import inspect
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

import support

import zf_runtime
from zf_runtime import Group, Runtime, ZfError, ZfPlanError, ZfTimeout, ZfWorkerDied, adam_scalars, library_version
from zf_runtime.errors import error_of


def open_one(elements=1000, **options):
    return Runtime(support.plan(), groups=[Group(elements)], **options)


class Opening(unittest.TestCase):
    def test_without_a_plan(self):
        with self.assertRaisesRegex(ZfPlanError, "ZF_PLAN") as caught:
            Runtime(groups=[Group(1)])
        self.assertEqual(caught.exception.status, "ZF_ERROR_PLAN")
        self.assertIn("or name a plan with plan=", str(caught.exception))

    def test_what_the_library_says_has_the_names_of_python(self):
        """A message named zf_options.plan_path, which no Python program can set."""
        keywords = {*inspect.signature(Runtime).parameters, *inspect.signature(Group).parameters}
        named = set()
        for source in (*support.SOURCE.glob("runtime/abi/*.cpp"), *support.SOURCE.glob("runtime/worker/*.cpp")):
            for text in re.findall(r'"[^"\n]*\bzf_(?:options|group)\.[^"\n]*"', source.read_text()):
                said = str(error_of("ZF_ERROR_PLAN", text))
                self.assertNotRegex(said, "zf_options|zf_group|ZF_TRY")
                named |= set(re.findall(r"(\w+)=", said))
        self.assertIn("plan", named)
        self.assertLessEqual(named, keywords)

    def test_with_a_plan_that_is_not_there(self):
        with self.assertRaisesRegex(ZfPlanError, "/no/such/plan.json"):
            Runtime("/no/such/plan.json", groups=[Group(1)])

    def test_the_plan_may_come_from_the_environment(self):
        os.environ["ZF_PLAN"] = support.plan()
        self.addCleanup(os.environ.pop, "ZF_PLAN")
        with Runtime(groups=[Group(1)]) as runtime:
            self.assertTrue(runtime.stats().worker_alive)

    def test_a_rank_that_the_plan_lacks(self):
        with self.assertRaisesRegex(ZfError, "rank 7"):
            Runtime(support.plan(), rank=7, groups=[Group(1)])

    def test_a_library_that_is_not_there_is_named(self):
        environment = os.environ | {"ZF_RUNTIME_LIBRARY": "/no/such/lib.so", "PYTHONPATH": str(support.PACKAGE)}
        asked = subprocess.run([sys.executable, "-B", "-c", "import zf_runtime; zf_runtime.library_version()"],
                               env=environment, capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("/no/such/lib.so", asked.stderr)
        self.assertIn("ZfError", asked.stderr)

    def test_neither_numpy_nor_torch_is_imported(self):
        program = ("import sys, zf_runtime\nwith zf_runtime.Runtime(sys.argv[1], groups=[zf_runtime.Group(1)]) as r:\n"
                   "    r.wait(r.submit(zf_runtime.adam_scalars(1)))\nassert not {'numpy', 'torch'} & set(sys.modules)")
        subprocess.run([sys.executable, "-B", "-c", program, support.plan()], timeout=60, check=True,
                       env=os.environ | {"PYTHONPATH": str(support.PACKAGE)})

    def test_the_library_has_a_version(self):
        self.assertRegex(library_version(), r"^\d+\.\d+\.\d+$")


class Completing(unittest.TestCase):
    def test_dir_has_bind_and_nothing_that_cannot_be_had(self):
        names = dir(zf_runtime)
        self.assertLessEqual({"Binding", "Runtime", "bind"}, set(names))
        for name in names:
            getattr(zf_runtime, name)

    def test_a_torch_that_is_missing_or_too_old_is_named(self):
        if "AdamW" not in dir(zf_runtime):
            with self.assertRaisesRegex(ImportError, "need torch 2.4 or newer|No module named 'torch'"):
                zf_runtime.AdamW  # noqa: B018


class Closing(unittest.TestCase):
    def test_twice_is_once(self):
        runtime = open_one()
        runtime.close()
        self.assertTrue(runtime.closed)
        runtime.close()
        for call in (lambda: runtime.submit(adam_scalars(1)), runtime.wait, runtime.stats):
            with self.subTest(call.__name__), self.assertRaisesRegex(ZfError, "closed"):
                call()

    def test_the_context_leaves_nothing_behind(self):
        descriptors, maps = len(os.listdir("/proc/self/fd")), support.mapped_arenas()
        with open_one() as runtime:
            pid = runtime.stats().worker_pid
            runtime.submit(adam_scalars(1))
            self.assertTrue(support.process_exists(pid))
        self.assertFalse(support.process_exists(pid))
        self.assertEqual((len(os.listdir("/proc/self/fd")), support.mapped_arenas()), (descriptors, maps))

    def test_an_exception_inside_is_the_one_that_is_seen(self):
        with self.assertRaises(KeyError), open_one() as runtime:
            pid = runtime.stats().worker_pid
            os.kill(pid, signal.SIGKILL)
            raise KeyError("ours")
        self.assertFalse(support.process_exists(pid))

    def test_a_forked_child_leaves_the_parents_runtime_alone(self):
        with open_one() as runtime:
            child = os.fork()
            if child == 0:
                try:
                    runtime.submit(adam_scalars(1))
                except ZfError as error:
                    runtime.close()
                    runtime.close()
                    os._exit(0 if runtime.closed and error.status == "ZF_ERROR_FORKED" else 2)
                finally:
                    os._exit(1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            runtime.wait(runtime.submit(adam_scalars(1)))


    def test_a_forked_child_waits_for_no_thread_that_it_lacks(self):
        with open_one() as runtime:
            view = runtime.params(0)
            held, done = threading.Event(), threading.Event()

            def hold():
                with runtime._lock:
                    held.set()
                    done.wait(30)

            holder = threading.Thread(target=hold)
            holder.start()
            held.wait(30)
            child = os.fork()
            if child == 0:
                signal.alarm(10)
                runtime.close()
                del view, runtime
                os._exit(0)
            _, status = os.waitpid(child, 0)
            done.set()
            holder.join()
            self.assertEqual(status, 0)
            view[:] = 1


class Dying(unittest.TestCase):
    def test_a_killed_optimizer_is_started_again(self):
        with open_one() as runtime:
            runtime.params(0)[:] = 1
            runtime.grads(0)[:] = 1
            first = runtime.stats().worker_pid
            os.kill(first, signal.SIGKILL)
            deadline = time.monotonic() + 10
            while runtime.stats().restarts == 0 and time.monotonic() < deadline:
                time.sleep(0.001)
            runtime.wait(runtime.submit(adam_scalars(1)))
            stats = runtime.stats()
            self.assertEqual((stats.restarts, stats.worker_alive, stats.completed), (1, True, 1))
            self.assertNotEqual(stats.worker_pid, first)
            self.assertRegex(stats.last_death, "signal 9")
            self.assertTrue((runtime.params(0) < 1).all())

    def test_what_is_submitted_is_done_though_it_dies_while_closing(self):
        runtime = open_one()
        params = runtime.params(0)
        runtime.grads(0)[:] = 1
        pid = runtime.stats().worker_pid
        os.kill(pid, signal.SIGSTOP)
        runtime.submit(adam_scalars(1))
        os.kill(pid, signal.SIGKILL)
        runtime.close()
        self.assertTrue((params < 0).all())
        self.assertEqual(runtime.stats().restarts, 1)

    def test_more_restarts_than_none_are_meant(self):
        with self.assertRaisesRegex(ValueError, "max_restarts is -1"):
            open_one(max_restarts=-1)

    def test_without_restarts_a_kill_is_told_with_its_signal(self):
        runtime = open_one(max_restarts=0)
        pid = runtime.stats().worker_pid
        os.kill(pid, signal.SIGSTOP)  # so that the submission is not done when the kill comes
        submitted = runtime.submit(adam_scalars(1))
        os.kill(pid, signal.SIGKILL)
        started = time.monotonic()
        with self.assertRaisesRegex(ZfWorkerDied, "(?i)kill|signal 9"):
            runtime.wait(submitted)
        self.assertLess(time.monotonic() - started, 10, "it would wait for ever")
        with self.assertRaises(ZfWorkerDied):
            runtime.close()
        runtime.close()

    def test_a_step_is_waited_for_where_it_is_unknown_what_the_process_has_computed(self):
        runtime = open_one(close_timeout=0.2)
        self.addCleanup(runtime.close)
        pid = runtime.stats().worker_pid
        os.kill(pid, signal.SIGSTOP)
        going_on = threading.Timer(1.0, os.kill, (pid, signal.SIGCONT))
        self.addCleanup(going_on.join)
        going_on.start()
        runtime.submit(adam_scalars(1))
        runtime.end_waits()
        with unittest.mock.patch("time.clock_gettime", side_effect=PermissionError):
            runtime.wait()

    def test_a_stopped_process_is_killed_also_where_it_is_unknown_what_it_has_computed(self):
        runtime = open_one(close_timeout=0.2)
        pid = runtime.stats().worker_pid
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        going_on = threading.Timer(10, os.kill, (pid, signal.SIGCONT))  # else a failure would not end
        going_on.start()
        self.addCleanup(going_on.cancel)
        with unittest.mock.patch("time.clock_gettime", side_effect=PermissionError):
            self.assertRaises(ZfTimeout, runtime.close)

    def test_ctrl_c_ends_a_wait_for_a_stopped_process(self):
        """Also that of close(), which may be called again."""
        runtime = open_one(close_timeout=20)
        pid = runtime.stats().worker_pid
        os.kill(pid, signal.SIGSTOP)
        try:
            runtime.submit(adam_scalars(1))
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            for waits in (runtime.wait, runtime.close):
                signal.alarm(1)
                began = time.monotonic()
                self.assertRaises(KeyboardInterrupt, waits)
                self.assertLess(time.monotonic() - began, 10)
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertFalse(runtime.closed)
        runtime.close()

    def assert_process_goes_with(self, end: str, status: int):
        """Runs a script that opens a runtime, and then ends in this way."""
        program = ("import os, sys, zf_runtime\nr = zf_runtime.Runtime(sys.argv[1], groups=[zf_runtime.Group(1000)])\n"
                   f"print(r.stats().worker_pid, flush=True)\n{end}")
        trainer = subprocess.run([sys.executable, "-B", "-c", program, support.plan()], capture_output=True,
                                 text=True, timeout=60, check=False,
                                 env=os.environ | {"PYTHONPATH": str(support.PACKAGE)})
        self.assertEqual((trainer.returncode, trainer.stderr), (status, ""))
        deadline = time.monotonic() + 10
        while not _has_ended(int(trainer.stdout)):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_it_goes_when_a_script_ends_without_a_close(self):
        self.assert_process_goes_with("view, one = r.params(0), zf_runtime.adam_scalars(1)\n"
                                      "r.wait(r.submit(one))\nr.submit(one)", 0)

    def test_it_goes_when_the_trainer_is_killed(self):
        self.assert_process_goes_with("os.kill(os.getpid(), 9)", -signal.SIGKILL)


def _has_ended(pid: int) -> bool:
    """Returns whether the process has ended, also if it was not reaped."""
    try:
        return "Z (" in pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


if __name__ == "__main__":
    unittest.main()
