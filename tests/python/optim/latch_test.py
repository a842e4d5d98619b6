"""A latch that is set twice, while others wait and wake, ends each wait and raises nothing. Uses the standard library
only. Tests optim/tensors/threads.py."""

import signal
import sys
import threading
import time
import unittest

import support  # noqa: F401

from zf_runtime.optim.tensors.threads import Latch

ROUNDS = 300


class Between:
    """Stands in for the lock of a latch. Calls before() and after() around each acquire()."""

    def __init__(self, lock, before, after):
        self.lock, self._before, self._after = lock, before, after
        self.release = lock.release

    def acquire(self, timeout):
        self._before()
        got = self.lock.acquire(timeout=timeout)
        self._after()
        return got


def latch_with(before, after):
    """Returns a latch that calls before(latch) and after(latch) where a thread that waits can be interrupted."""
    latch = Latch()
    latch._closed = Between(latch._closed, lambda: before(latch), lambda: after(latch))
    return latch


class Order(unittest.TestCase):
    """In one thread, what threads do in an unlucky order."""

    def test_a_second_set_comes_while_a_waiter_wakes(self):
        for sets in (0, 1, 2, 3):
            with self.subTest(sets=sets):
                latch = latch_with(Latch.set, lambda latch, sets=sets: [latch.set() for _ in range(sets)])
                self.assertTrue(latch.wait(0))
                latch.set()
                self.assertTrue(latch._closed.lock.acquire(timeout=0), "it stays closed for the next waiter")

    def test_another_waiter_wakes_while_a_waiter_wakes(self):
        def wake_another(latch):
            latch.set()  # opens what the waiter has closed
            self.assertTrue(latch._closed.lock.acquire(timeout=0))
            latch._closed.release()

        latch = latch_with(Latch.set, wake_another)
        self.assertTrue(latch.wait(0))
        self.assertTrue(latch._closed.lock.acquire(timeout=0))

    def test_a_signal_handler_waits_in_the_middle_of_a_wait(self):
        def before(latch):
            if not latch.is_set:
                self.assertFalse(latch_of_handler.wait(0))
                latch.set()

        latch_of_handler = Latch()
        latch = latch_with(before, lambda latch: self.assertTrue(latch.wait(0)))
        self.assertTrue(latch.wait(0))

    def test_it_is_not_set_before_it_is_set(self):
        latch = Latch()
        self.assertFalse(latch.wait(0))
        self.assertFalse(latch.wait(0.001))
        latch.set()
        self.assertTrue(latch.wait(0))


class Threads(unittest.TestCase):
    def setUp(self):
        self.raised = []
        before = threading.excepthook
        self.addCleanup(setattr, threading, "excepthook", before)
        threading.excepthook = lambda caught: self.raised.append(caught.exc_value)
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1e-6)

    def test_many_waiters_and_double_sets(self):
        """Costs 2 s. Each wait has time enough, so one that is lost shows as 20 s."""
        begin = time.monotonic()
        for _ in range(ROUNDS):
            latch, ended = Latch(), []

            def wait(latch=latch, ended=ended):
                ended.append(latch.wait(20))

            def set_twice(latch=latch):
                latch.set()
                latch.set()

            threads = [threading.Thread(target=each) for each in (wait, wait, wait, wait, set_twice, set_twice)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual((self.raised, ended), ([], [True] * 4))
        self.assertLess(time.monotonic() - begin, 20)

    def test_signal_handlers_wait_in_the_middle_of_waits(self):
        latch, waits = Latch(), []

        def handler(*_):
            waits.append(latch.wait(0.0005))

        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, handler))
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        timer = threading.Timer(0.3, lambda: (latch.set(), latch.set()))
        timer.start()
        self.assertTrue(latch.wait(20))
        timer.join()
        self.assertGreater(len(waits), 10)
        self.assertEqual(self.raised, [])


if __name__ == "__main__":
    unittest.main()
