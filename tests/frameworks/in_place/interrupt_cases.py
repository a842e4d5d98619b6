"""An exception at any point of step(): counts agree with what was stepped, and going on is right. Tests
optim/in_place/engine.py, optim/in_place/parts.py."""

import os
import pathlib
import random
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python/helpers"))
import interrupts
import torch
import zf_runtime

RANDOM = int(os.environ.get("ZF_INTERRUPTS", "150"))
SEED = int(os.environ.get("ZF_SEED", "1"))
LR = 2.0 ** -7


class Interrupted(Exception):
    pass


def raise_it(*_):
    raise Interrupted


def send_after(delay, thread):
    time.sleep(delay)
    signal.pthread_kill(thread, signal.SIGUSR1)


class Job:
    """Parameters that tell each step by their value: with a constant gradient, and betas and eps of 0, each
    step takes LR off, exactly."""

    def __init__(self, sizes=(3, 5, 1000), dtype=torch.float32, **options):
        self.params = [torch.nn.Parameter(torch.zeros(size, dtype=dtype)) for size in sizes]
        self.optimizer = zf_runtime.AdamW(self.params, lr=LR, betas=(0.0, 0.0), eps=0.0, weight_decay=0.0, **options)
        for param in self.params:
            param.grad = torch.ones_like(param)

    def count(self, param):
        return float(self.optimizer.state.get(param, {}).get("step", 0.0))

    def values(self):
        return [-(self.optimizer.state[param]["master"] if param.dtype is torch.bfloat16 else param.detach()) / LR
                for param in self.params]

    def check(self, case):
        """Every parameter has one value, which is its count."""
        for param, value in zip(self.params, self.values() if self.optimizer.state else []):
            count = self.count(param)
            case.assertEqual(set(value.tolist()), {count})
        counts = {self.count(param) for param in self.params}
        case.assertEqual(len(counts), 1, "some are a step ahead")
        return counts.pop()


class EveryLine(unittest.TestCase):
    """Seen: 100 to 250 lines for a step. Each case costs 1 s."""

    def at_every_line(self, prepare, **options):
        for number in range(1, 10_000):
            job = Job(**options)
            prepare(job)
            before = job.check(self)
            came = interrupts.at_line(number, job.optimizer.step)
            torch.set_grad_enabled(True)  # torch's own no_grad() may be interrupted, too
            if not came:
                self.assertGreater(number, 20)
                return
            done = job.check(self) - before
            self.assertIn(done, (0, 1))
            job.optimizer.state_dict()
            for _ in range(2):
                job.optimizer.step()
            self.assertEqual(job.check(self), before + done + 2)
        self.fail("it does not end")

    def test_of_the_first_step(self):
        self.at_every_line(lambda _: None)

    def test_of_a_later_step(self):
        self.at_every_line(lambda job: [job.optimizer.step() for _ in range(3)])

    def test_of_a_step_of_bf16(self):
        self.at_every_line(lambda job: job.optimizer.step(), dtype=torch.bfloat16)

    def test_of_a_step_after_states_and_lists_have_changed(self):
        def change(job):
            job.optimizer.step()
            job.optimizer.state[job.params[1]] = dict(job.optimizer.state[job.params[1]])
            job.optimizer.state[job.params[0]]["step"] = torch.tensor(1.0)
            job.optimizer.param_groups[0]["params"].reverse()

        self.at_every_line(change)

    def test_of_a_step_that_brings_its_counts_together(self):
        def scatter(job):
            job.optimizer.step()
            for value in range(10):
                for state in job.optimizer.state.values():
                    state["step"] = 1
                for param in job.params:
                    param.data.fill_(-LR)
                if value < 9:
                    job.optimizer.step()

        self.at_every_line(scatter)


class Signals(unittest.TestCase):
    """ZF_INTERRUPTS=2000 is the long form; the seed is ZF_SEED."""

    def test_at_random(self):
        """150 interrupts cost 3 s."""
        generator, job, raised = random.Random(SEED), Job(sizes=(3, 400_000, 70_000)), 0
        job.optimizer.step()
        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, raise_it))
        main = threading.main_thread().ident
        started = time.perf_counter()
        job.optimizer.step()
        length = time.perf_counter() - started
        expected = 2.0
        for _ in range(20 * RANDOM):
            if raised == RANDOM:
                break
            delay = generator.random() * 1.5 * length
            thread = threading.Thread(target=send_after, args=(delay, main))
            before, stepping = expected, False
            try:
                try:
                    thread.start()
                    stepping = True
                    job.optimizer.step()
                    thread.join()
                except Interrupted:
                    raised += stepping  # else the signal was there before start() returned
                thread.join()
            except Interrupted:
                pass
            expected = job.check(self)
            self.assertIn(expected - before, (0, 1))
            if expected > 2000:  # the values are exact up to there
                job = Job(sizes=(3, 400_000, 70_000))
                job.optimizer.step()
                expected = 1.0
        self.assertEqual(raised, RANDOM)
