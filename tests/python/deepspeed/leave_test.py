"""Stage 3 in mode exact: a fork gives no alarm where no step is under way, and an engine with a process that stands
still can be destroyed. Costs 8 s. Tests deepspeed/exact_stage_3.py."""

import contextlib
import io
import os
import signal
import threading
import time
import unittest
import unittest.mock

import support

support.need("torch")
support.need("numpy")
from imitated_zero import make_job, stand_in_for_deepspeed  # noqa: E402
from zf_runtime import ZfTimeout, ZfWorkerDied  # noqa: E402
from zf_runtime.deepspeed import closing, exact_stage_3  # noqa: E402
from zf_runtime.optim.overlap import follower  # noqa: E402


class Leave(unittest.TestCase):
    def setUp(self):
        stand_in_for_deepspeed(self)
        self.job = make_job(self, "exact")
        self.unpublished = exact_stage_3.Unpublished(self.job.arena, [], [])
        self.job.arena.at_end = self.unpublished.forget

    def said_by_a_fork(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            child = os.fork()
            if child == 0:
                os._exit(0)
        os.waitpid(child, 0)
        return said.getvalue()

    def test_after_a_step_that_is_done_a_fork_says_nothing(self):
        self.job.backward()
        self.job.step()
        self.job.settle()
        self.job.arena.runtime.close()
        self.assertEqual(self.said_by_a_fork(), "")

    def test_a_step_that_has_failed_is_said_until_the_engine_ends(self):
        self.job.backward()
        self.job.step()
        unittest.mock.patch.object(self.job.arena.runtime, "wait", side_effect=ZfWorkerDied("it has died")).start()
        self.assertIn("a forked child has old weights: their step has failed (it has died)", self.said_by_a_fork())
        self.job.arena.close()
        self.assertEqual(self.said_by_a_fork(), "")

    def stopped(self, mode, has_step, close_timeout):
        """Returns a job with a stopped process, its number, and the calls of DeepSpeed's destroy()."""
        job, destroyed = make_job(self, mode, close_timeout=close_timeout), []
        unpublished = exact_stage_3.Unpublished(job.arena, [], [])
        job.zero.destroy = lambda: (destroyed.append(1), unpublished.leave(follower.END_WAITS))
        closing.close_with(job.zero, job.arena)
        pid = job.arena.runtime.stats().worker_pid
        job.backward()
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        going_on = threading.Timer(60, os.kill, (pid, signal.SIGCONT))  # else a failure would not end
        going_on.start()
        self.addCleanup(going_on.cancel)
        if has_step:
            job.step()
        return job, pid, destroyed

    def test_destroy_ends_a_process_that_stands_still_after_one_deadline(self):
        """The step is lost."""
        for mode, has_step in (("exact", True), ("wait", False)):
            job, pid, destroyed = self.stopped(mode, has_step, 2.5)
            began, said = time.monotonic(), io.StringIO()
            with self.subTest(mode), contextlib.redirect_stderr(said):
                self.assertRaisesRegex(ZfTimeout, "was killed: it had not finished after 2.5 s", job.zero.destroy)
                self.assertLess(time.monotonic() - began, 4.9)
                self.assertEqual((said.getvalue(), destroyed), ("", [1]))
                self.assertFalse(support.process_exists(pid))

    def test_ctrl_c_ends_destroy_at_once_and_loses_nothing(self):
        """While the process stands still. The engine stays."""
        for mode, has_step in (("exact", True), ("late", True), ("wait", False)):
            job, pid, destroyed = self.stopped(mode, has_step, 20)
            steps = job.arena.runtime.stats().completed
            self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, signal.default_int_handler))
            with self.subTest(mode):
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                began = time.monotonic()
                self.assertRaises(KeyboardInterrupt, job.zero.destroy)
                self.assertLess(time.monotonic() - began, 10)
                self.assertEqual(destroyed, [])
                os.kill(pid, signal.SIGCONT)
                job.zero.destroy()
                self.assertFalse(support.process_exists(pid))
                self.assertEqual((job.arena.runtime.stats().completed - steps, destroyed), (2 * has_step, [1]))

    def test_destroy_says_that_a_long_step_is_waited_for(self):
        job, pid, _ = self.stopped("exact", True, 20)
        threading.Timer(0.5, os.kill, (pid, signal.SIGCONT)).start()
        said = io.StringIO()
        with unittest.mock.patch.object(follower, "PATIENCE_S", 0.05), contextlib.redirect_stderr(said):
            job.zero.destroy()
        self.assertIn(follower.END_WAITS, said.getvalue())


if __name__ == "__main__":
    unittest.main()
