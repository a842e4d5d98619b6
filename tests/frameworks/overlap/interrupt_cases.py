"""An interrupted step of AdamW with an optimizer process is done whole or not at all. What was handed over is waited
for, counted and sent, and training goes on right. Interrupted at every line, and by signals at random.

ZF_INTERRUPTS=2000 does 2,000 signals per mode, and all lines; otherwise it is a sample."""

import gc
import pathlib
import sys
import threading
import time

import case
import torch
import zf_runtime
from case import interrupts
from zf_runtime.optim.overlap.refusals import refuse_moved
from zf_runtime.optim.tensors.threads import OUR_THREADS, Latch

SIZES = (((3, 5), (40,)), ((17,), (2, 9)))
LARGE = (((30_000,), (40,)), ((7_000,), (2, 9)))
SETTINGS = ({"lr": 1e-2, "weight_decay": 0.1}, {"lr": 1e-3, "betas": (0.8, 0.99), "weight_decay": 0.0})
BOTH = (0, 1)


def alive():
    """Returns our threads that there are, and the child processes."""
    children = pathlib.Path("/proc/self/task").glob("*/children")
    return {each for each in threading.enumerate() if each.name in OUR_THREADS} | {
        pid for each in children for pid in each.read_text().split()}


class Job:
    """Parameters in two groups, and a twin of them that is stepped in place: what they should be, bit for bit."""

    def __init__(self, make, dtype, sizes):
        generator = torch.Generator().manual_seed(1)
        self.random = lambda shape: torch.randn(shape, generator=generator).to(dtype)
        groups = [[torch.nn.Parameter(self.random(shape)) for shape in shapes] for shapes in sizes]
        self.params = [param for group in groups for param in group]
        self.group_of = [number for number, group in enumerate(groups) for _ in group]
        self.optimizer = make([{"params": group, **more} for group, more in zip(groups, SETTINGS)])
        self.reader = case.Reader(self.params)
        twins = [[torch.nn.Parameter(param.detach().clone()) for param in group] for group in groups]
        self.twins = [twin for group in twins for twin in group]
        self.wanted = zf_runtime.AdamW([{"params": group, **more} for group, more in zip(twins, SETTINGS)])
        self.counts = [0] * len(self.params)

    def draw(self, active=BOTH):
        """Returns new gradients for the parameters of these groups."""
        return [self.random(param.shape) if group in active else None
                for param, group in zip(self.params, self.group_of)]

    def gradients(self, active=BOTH):
        """Gives the parameters new gradients, by a forward and a backward, and returns them."""
        given = self.draw(active)
        self.reader.give(given)
        return given

    def check(self, test, *given, is_cut=False):
        """Compares after synchronize(). given: the gradients of the steps since the last check. is_cut: the first of
        these was interrupted. Then it counts if it was done."""
        test.assertTrue(case.SPECULATES or self.optimizer.runtime.done(), "a step is running")
        states = self.optimizer.state_dict()["state"]
        counts = [int(states[number]["step"]) if number in states else 0 for number in range(len(self.params))]
        for at, gradients in enumerate(given):
            active = [number for number, gradient in enumerate(gradients) if gradient is not None]
            done = {counts[number] - self.counts[number] - sum(later[number] is not None for later in given[at + 1:])
                    for number in active}
            test.assertEqual(len(done), 1, "some parameters are a step ahead")
            is_done, = done
            test.assertIn(is_done, (0, 1) if is_cut and at == 0 else (1,), "steps were counted")
            if is_done:
                for number in active:
                    self.counts[number] += 1
                for twin, gradient in zip(self.twins, gradients):
                    twin.grad = gradient
                self.wanted.step()
        test.assertEqual(counts, self.counts)
        test.assert_bits([param.detach() for param in self.params], [twin.detach() for twin in self.twins])
        wanted = self.wanted.state_dict()["state"]
        test.assert_bits({number: entry for number, entry in states.items() if counts[number]}, wanted)
        for number, entry in states.items():
            test.assertTrue(counts[number] or not entry["exp_avg"].any(), "an unstepped parameter has moments")


class Interrupted(case.AdamWTest):
    def tearDown(self):
        self.check_thread()

    def check_thread(self):
        """Later cases run in this thread: it must see uses of parameters, and be in no exception."""
        self.assertTrue(torch._C._is_torch_function_enabled())
        self.assertIsNone(sys.exc_info()[1])

    def job(self, mode, dtype=torch.float32, sizes=SIZES):
        return Job(lambda groups: self.ours(groups, mode), dtype, sizes)

    def warm(self, mode, dtype=torch.float32, sizes=SIZES):
        """Returns a job that has done four steps: in mode exact there are gates, and early copies."""
        job = self.job(mode, dtype, sizes)
        for _ in range(2):
            self.go_on(job)
        return job

    def go_on(self, job):
        """Two steps. The second forward waits for the first step, in mode exact."""
        given = []
        for _ in range(2):
            given.append(job.gradients())
            job.optimizer.step()
        job.optimizer.synchronize()
        job.check(self, *given)

    def round(self, job, interrupt, number):
        """One interrupted step, then either synchronize(), state_dict() or the next step, then two that go well."""
        active = (BOTH, (0,), (1,), BOTH)[number % 4]
        given = [job.gradients(active)]
        came = interrupt(job.optimizer.step)
        torch.set_grad_enabled(True)  # torch's own no_grad() may be interrupted, too
        after = number // 4 % 3
        if after == 0:
            given.append(job.gradients(active))
            job.optimizer.step()
        if after == 1:
            job.optimizer.state_dict()
        else:
            job.optimizer.synchronize()
        job.check(self, *given, is_cut=came)
        self.go_on(job)
        return came

    def at_lines(self, mode, dtype=torch.float32, few=24):
        job = self.warm(mode, dtype)
        given = job.gradients()
        last = interrupts.lines_of(job.optimizer.step)
        job.optimizer.synchronize()
        job.check(self, given)
        for turn, number in enumerate(interrupts.some_lines(last, few)):
            is_right = False
            with self.subTest(mode=mode, dtype=dtype, line=number):
                self.round(job, lambda call, line=number: interrupts.at_line(line, call), turn + number)
                is_right = True
            job = job if is_right else self.warm(mode, dtype)  # each line is judged alone

    def test_no_line_leaves_the_thread_in_a_with(self):
        """No signal comes between a `with` and its __exit__(), and no interrupt of a test may."""
        latch = Latch()
        latch.set()
        for call in (lambda: refuse_moved([]), latch.set):
            self.assertGreater(interrupts.lines_of(call), 3)
            for line in range(1, 8):
                interrupts.at_line(line, call)
                self.check_thread()

    def test_at_a_line_of_step(self):
        for mode in case.MODES:
            for dtype in (torch.float32, torch.bfloat16):
                self.at_lines(mode, dtype)

    def test_at_a_line_of_the_first_step(self):
        """It shows the state, and puts gates. Each interrupt needs an optimizer of its own."""
        for mode in case.MODES:
            job = self.job(mode)
            job.gradients()
            for number in interrupts.some_lines(interrupts.lines_of(job.optimizer.step), 5):
                job = self.job(mode)
                with self.subTest(mode=mode, line=number):
                    self.round(job, lambda call, line=number: interrupts.at_line(line, call), 0)
                job.optimizer.close()

    def test_at_a_line_of_a_step_that_opens_the_arena_anew(self):
        """A parameter was appended to its group."""
        def appended(mode):
            job = self.warm(mode)
            more, twin = (torch.nn.Parameter(torch.ones(6)) for _ in range(2))
            job.optimizer.param_groups[1]["params"].append(more)
            job.wanted.param_groups[1]["params"].append(twin)
            job.params.append(more)
            job.twins.append(twin)
            job.group_of.append(1)
            job.counts.append(0)
            job.reader = case.Reader(job.params)
            return job

        for mode in case.MODES:
            job = appended(mode)
            job.gradients()
            for number in interrupts.some_lines(interrupts.lines_of(job.optimizer.step), 12):
                job = appended(mode)
                with self.subTest(mode=mode, line=number):
                    self.round(job, lambda call, line=number: interrupts.at_line(line, call), 0)
                job.optimizer.close()

    def test_at_a_line_of_the_constructor(self):
        """No thread and no process stays."""
        def make(made, mode):
            made.append(case.with_process([torch.nn.Parameter(torch.ones(3))], mode, speculate=mode == "exact"))

        for mode in ("late", "exact"):
            make(made := [], mode)  # the first one compiles and imports
            last = interrupts.lines_of(lambda mode=mode, made=made: make(made, mode))
            for each in made:
                each.close()
            for number in interrupts.some_lines(last, 16):
                before = alive()
                with self.subTest(mode=mode, line=number):
                    self.assertTrue(interrupts.at_line(number, lambda mode=mode: make([], mode)))
                    gc.collect()
                    deadline = time.monotonic() + 5
                    while (left := alive() - before) and time.monotonic() < deadline:
                        time.sleep(0.01)
                    self.assertEqual(left, set())

    def test_at_a_line_of_close(self):
        """A second close() leaves no thread and no process, also while the program keeps the optimizer."""
        def make():
            param = torch.nn.Parameter(torch.ones(3))
            param.grad = torch.ones(3)
            optimizer = case.with_process([param], "exact")
            optimizer.step()
            return optimizer

        last = interrupts.lines_of(make().close)
        for number in interrupts.some_lines(last, 32):
            before, optimizer = alive(), make()
            with self.subTest(line=number):
                interrupts.at_line(number, optimizer.close)
                optimizer.close()
                deadline = time.monotonic() + 5
                while (left := alive() - before) and time.monotonic() < deadline:
                    time.sleep(0.01)
                self.assertEqual(left, set())

    def test_at_a_line_of_synchronize(self):
        for mode in ("late", "exact"):
            job = self.warm(mode, torch.bfloat16)
            for number in interrupts.some_lines(60, 60):
                given = job.gradients()
                job.optimizer.step()
                interrupts.at_line(number, job.optimizer.synchronize)
                began = time.monotonic()
                job.optimizer.synchronize()
                with self.subTest(mode=mode, line=number):
                    self.assertLess(time.monotonic() - began, 20, "it waited for a flag that was half set")
                    job.check(self, given)

    def test_at_a_line_of_forward_and_backward(self):
        """Where mode exact waits for parameters, and copies gradients."""
        job = self.warm("exact")
        given = job.gradients()
        job.optimizer.step()
        last = interrupts.lines_of(lambda: job.reader.give(job.draw()))
        job.check(self, given)
        self.assertGreater(last, 20)
        for number in interrupts.some_lines(last, 24):
            with self.subTest(line=number):
                job.optimizer.synchronize()
                given = job.gradients()
                job.optimizer.step()
                interrupts.at_line(number, lambda: job.reader.give(job.draw()))
                torch.set_grad_enabled(True)
                again = job.gradients()
                job.check(self, given)
                job.optimizer.step()
                job.optimizer.synchronize()
                job.check(self, again)

    def test_a_handler_that_reads_the_state_and_raises_nothing(self):
        """It loses no step, whether it comes before one line or before each."""
        for mode in case.MODES:
            for dtype in (torch.float32, torch.bfloat16):
                job = self.warm(mode, dtype)
                for turn, number in enumerate([None, None, *range(8, 400, 24)]):
                    given = job.gradients()
                    read = job.optimizer.state_dict if turn % 2 == 0 else job.optimizer.synchronize
                    with self.subTest(mode=mode, dtype=dtype, line=number):
                        interrupts.calling(read, job.optimizer.step, number)
                        job.optimizer.synchronize()
                        job.check(self, given)

    def test_by_signals(self):
        for mode in case.MODES:
            for dtype in (torch.float32, torch.bfloat16):
                self.by_signals(mode, dtype)

    def by_signals(self, mode, dtype, few=10):
        job = self.warm(mode, dtype, LARGE)

        def one(interrupt, turn):
            with self.subTest(mode=mode, dtype=dtype, turn=turn):
                return self.round(job, interrupt, turn)
            return False

        interrupts.signals(one, few, mode)
