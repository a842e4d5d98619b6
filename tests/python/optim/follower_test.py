"""A fork and the end of a process wait for the step that is under way beside training. Costs 2 s. Tests
optim/overlap/follower.py."""

import contextlib
import io
import os
import time
import types
import unittest
import unittest.mock

import support

support.need("torch")
from zf_runtime.optim.overlap import follower  # noqa: E402
from zf_runtime.optim.tensors import threads  # noqa: E402


class Slow(follower.Follower):
    def __init__(self, error=None):
        super().__init__()
        self.turn, self.given = types.SimpleNamespace(ended=threads.Latch(), error=None, is_named=False), error
        self.call()

    def _do(self, turn):
        time.sleep(0.3)
        turn.error = self.given
        turn.ended.set()

    def _goes_on(self, turn):
        return True

    def _leave(self):
        pass


class Fork(unittest.TestCase):
    def fork(self, slow):
        """Returns whether the step was done when a child began, and what was said. Nothing waits without a word for
        longer than 50 ms."""
        self.addCleanup(slow.end)
        said = io.StringIO()
        with unittest.mock.patch.object(follower, "PATIENCE_S", 0.05), contextlib.redirect_stderr(said):
            child = os.fork()
            if child == 0:
                os._exit(int(slow.turn.ended.is_set))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1, said.getvalue()

    def test_a_child_never_has_old_weights(self):
        was_done, said = self.fork(Slow())
        self.assertTrue(was_done)
        self.assertIn("a fork waits for it", said)

    def test_a_step_that_has_failed_is_named_once(self):
        slow = Slow(OSError("the optimizer is dead"))
        was_done, said = self.fork(slow)
        self.assertTrue(was_done)
        self.assertIn("a forked child has old weights: their step has failed (the optimizer is dead)", said)
        self.assertEqual(self.fork(slow), (True, ""))

    def test_an_end_that_waits_says_so(self):
        slow, said = Slow(), io.StringIO()
        with unittest.mock.patch.object(follower, "PATIENCE_S", 0.05), contextlib.redirect_stderr(said):
            slow.end()
        self.assertIn("the end of its optimizer waits for it", said.getvalue())
        self.assertIsNone(slow.turn)

    def test_a_thread_ends_with_its_follower(self):
        """An interrupt may come before anything else can end it."""
        slow = Slow()
        slow.wait(slow.turn.ended)
        thread = slow._thread
        del slow
        thread.join(20)
        self.assertFalse(thread.is_alive())

    def test_the_end_of_the_process_gives_up(self):
        slow = Slow()
        self.addCleanup(slow.end)
        with unittest.mock.patch.object(follower, "PATIENCE_S", 0.05), contextlib.redirect_stderr(io.StringIO()):
            follower.settle_all()
        self.assertFalse(slow.turn.ended.is_set)


if __name__ == "__main__":
    unittest.main()
