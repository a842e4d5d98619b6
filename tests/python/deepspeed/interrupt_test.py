"""An interrupted step of the DeepSpeed adapter loses nothing: what was handed over is waited for, the optimizer's state
counts what was stepped, and training goes on right. Interrupted at every line, and by signals at random.

The optimizers here only look like ZeRO's. ZF_INTERRUPTS=2000 does 2,000 signals per mode, and all lines; otherwise it
is a sample. Tests deepspeed/arena.py, deepspeed/waiting.py."""

import os
import signal
import threading
import unittest

import support

support.need("torch")
support.need("numpy")
import interrupts  # noqa: E402
from imitated_zero import make_job, stand_in_for_deepspeed  # noqa: E402
from zf_runtime.deepspeed import arena  # noqa: E402


class Interrupted(unittest.TestCase):
    def setUp(self):
        stand_in_for_deepspeed(self)

    def round(self, job, interrupt, turn):
        given = [job.backward()]
        came = interrupt(job.step)
        job.was_interrupted = True
        if turn % 3 != 2:  # else it goes on at once
            job.settle()
            job.check(self, *given)
            given = []
        for _ in range(2):
            given.append(job.backward())
            job.step()
            job.settle()
            job.check(self, *given)
            given = []
        return came

    def at_lines(self, mode, few=12):
        job = make_job(self, mode)
        given = job.backward()
        last = interrupts.lines_of(job.step)
        job.settle()
        job.check(self, given)
        for turn, number in enumerate(interrupts.some_lines(last, few)):
            with self.subTest(mode=mode, line=number):
                self.round(job, lambda call, line=number: interrupts.at_line(line, call), turn)

    def by_signals(self, mode, few=20):
        job = make_job(self, mode, (30_000, 160))

        def one(interrupt, turn):
            with self.subTest(mode=mode, turn=turn):
                return self.round(job, interrupt, turn)
            return False

        interrupts.signals(one, few, mode)

    def test_at_a_line_of_a_step_that_waits(self):
        self.at_lines("wait")

    def test_at_a_line_of_a_late_step(self):
        self.at_lines("late")

    def test_at_a_line_of_a_step_of_zenflow(self):
        self.at_lines("zenflow")

    def test_a_handler_that_reads_the_state_and_raises_nothing(self):
        """It loses no step, whether it comes before one line or before each."""
        for mode in arena.MODES:
            job = make_job(self, mode)
            for number in (None, None, *range(4, 160, 12)):
                given, counts = job.backward(), list(job.counts)
                with self.subTest(mode=mode, line=number):
                    interrupts.calling(job.settle, job.step, number)
                    job.settle()
                    job.check(self, given)
                    self.assertEqual(job.counts, [count + 1 for count in counts])

    def test_another_thread_that_waits_while_a_step_is_handed_over(self):
        """A wait after that still waits for the step: the process stands still until then."""
        for mode in ("exact", "late"):
            job = make_job(self, mode)
            process = job.arena.runtime.stats().worker_pid
            for number in range(1, 60, 3):
                lines = iter(range(1, 10_000))

                def wait(job=job, lines=lines, number=number):
                    if arena.is_running(job.arena.submit) and next(lines) == number:
                        other = threading.Thread(target=job.arena.finish)
                        other.start()
                        other.join(0.01)  # it may wait for the step
                        self.addCleanup(other.join)

                given = job.backward()
                with self.subTest(mode=mode, line=number):
                    os.kill(process, signal.SIGSTOP)
                    going_on = threading.Timer(0.05, os.kill, (process, signal.SIGCONT))
                    try:
                        interrupts.calling(wait, job.step)
                    finally:
                        going_on.start()
                    job.settle()
                    job.check(self, given)
                    going_on.join()

    def test_a_state_without_a_count_stays_without_one(self):
        for mode in ("wait", "late"):
            job = make_job(self, mode)
            for state in job.optimizer.state.values():
                del state["step"]
            job.backward()

            def step(states=job.optimizer.state):
                for state in states.values():
                    state["step"] = 1
                raise interrupts.Interrupt

            self.assertRaises(interrupts.Interrupt, job.arena.in_step, step)
            job.settle()
            self.assertEqual([state.get("step", "none") for state in job.optimizer.state.values()], ["none"] * 2)

    def test_by_signals(self):
        for mode in arena.MODES:
            self.by_signals(mode)


if __name__ == "__main__":
    unittest.main()
