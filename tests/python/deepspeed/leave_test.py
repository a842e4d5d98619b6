"""Stage 3 in mode exact: a fork gives no alarm where no step is under way, and an engine with a process that stands
still can be destroyed. Costs 4 s. Tests deepspeed/exact_stage_3.py."""

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

    def test_destroy_ends_a_process_that_stands_still(self):
        """The step is lost."""
        job = make_job(self, "exact", close_timeout=0.5)
        unpublished = exact_stage_3.Unpublished(job.arena, [], [])
        job.zero.destroy = lambda: unpublished.leave(follower.END_WAITS)
        closing.close_with(job.zero, job.arena)
        pid = job.arena.runtime.stats().worker_pid
        job.backward()
        os.kill(pid, signal.SIGSTOP)
        job.step()
        going_on = threading.Timer(30, os.kill, (pid, signal.SIGCONT))  # else a failure would not end
        going_on.start()
        began, said = time.monotonic(), io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(ZfTimeout):
            job.zero.destroy()
        going_on.cancel()
        self.assertLess(time.monotonic() - began, 20)
        self.assertIn(follower.END_WAITS, said.getvalue())
        self.assertFalse(support.process_exists(pid))


if __name__ == "__main__":
    unittest.main()
