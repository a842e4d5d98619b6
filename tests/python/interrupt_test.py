"""An interrupted step of OverlappedAdamW loses nothing: whatever was handed over is waited for, counted and published,
and training goes on right. Interrupted at every line, and by signals at random.

ZF_INTERRUPTS=2000 does 2,000 signals per mode, and all lines; otherwise it is a sample."""

import time
import unittest

import support

torch = support.need("torch")
numpy = support.need("numpy")
import adamw_case  # noqa: E402
import interrupts  # noqa: E402
from reference_adam import ReferenceGroup  # noqa: E402
from zf_runtime import Group  # noqa: E402

MODES = {"late": {"overlap": True}, "wait": {"overlap": False}}


class Job:
    """Two groups with gradients, and beside them what their state should be, bit for bit."""

    def __init__(self, make, dtype, sizes, **mode):
        generator = torch.Generator().manual_seed(1)
        self.random = lambda shape: torch.randn(shape, generator=generator).to(dtype)
        self.groups = [[torch.nn.Parameter(self.random(shape)) for shape in shapes] for shapes in sizes]
        self.settings = [{"lr": 1e-2, "weight_decay": 0.1}, {"lr": 1e-3, "betas": (0.8, 0.99), "weight_decay": 0.0}]
        self.optimizer = make([{"params": params, **more} for params, more in zip(self.groups, self.settings)], **mode)
        self.wanted = [ReferenceGroup(self.flat(params), Group(1, **more))
                       for params, more in zip(self.groups, self.settings)]
        self.counts = [0, 0]
        self.late = [self.flat(params) for params in self.groups]

    @staticmethod
    def flat(tensors):
        return torch.cat([tensor.detach().float().reshape(-1) for tensor in tensors]).numpy()

    def gradients(self, active=(0, 1)):
        """Gives the parameters of the groups new gradients, and returns them by group."""
        for number, params in enumerate(self.groups):
            for param in params:
                param.grad = self.random(param.shape) if number in active else None
        return {number: self.flat([param.grad for param in self.groups[number]]) for number in active}

    def check(self, test, *given):
        """Compares after synchronize(). given: the gradients of the steps since the last check; those before the last
        one were interrupted, so each counts only if its step was counted."""
        test.assertTrue(self.optimizer.runtime.done(), "a step is running")
        document = self.optimizer.state_dict()
        first = 0
        for number, (params, wanted) in enumerate(zip(self.groups, self.wanted)):
            mine = [gradients[number] for gradients in given if number in gradients]
            entries = [document["state"].get(first + index) for index in range(len(params))]
            first += len(params)
            steps = {0 if entry is None else int(entry["step"]) for entry in entries}
            test.assertEqual(len(steps), 1, "parameters of one group have different counts")
            count, = steps
            done = count - self.counts[number]
            test.assertIn(done, (len(mine) - 1, len(mine)) if mine else (0,), "steps were counted")
            for gradient in mine[len(mine) - done:] if len(mine) > 1 else mine[:done]:
                wanted.step(gradient)
            self.counts[number] = count
            test.assertEqual(self.optimizer.runtime.step(number), count)
            rounded = torch.from_numpy(wanted.p).to(params[0].dtype)
            got = torch.cat([param.detach().reshape(-1) for param in params])
            test.assertTrue(torch.equal(got, rounded), f"group {number}: parameters differ after step {count}")
            if count:
                for name, value in (("exp_avg", wanted.m), ("exp_avg_sq", wanted.v)):
                    test.assertTrue(numpy.array_equal(self.flat([entry[name] for entry in entries]), value),
                                    f"group {number}: {name} differs after step {count}")


class Interrupted(adamw_case.AdamWTest):
    def job(self, mode, dtype=torch.float32, sizes=(((3, 5), (40,)), ((17,), (2, 9)))):
        return Job(self.ours, dtype, sizes, **MODES[mode])

    def round(self, job, interrupt, number):
        """One interrupted step, then either synchronize(), state_dict() or the next step, then two that go well."""
        active = ((0, 1), (0,), (1,), (0, 1))[number % 4]
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
        job.check(self, *given)
        for _ in range(2 if number % 5 == 0 else 1):
            given = job.gradients()
            job.optimizer.step()
            job.optimizer.synchronize()
            job.check(self, given)
        return came

    def at_lines(self, mode, dtype=torch.float32, few=24):
        job = self.job(mode, dtype)
        given = job.gradients()
        job.optimizer.step()
        job.optimizer.synchronize()
        job.check(self, given)
        given = job.gradients()
        last = interrupts.lines_of(job.optimizer.step)
        job.optimizer.synchronize()
        job.check(self, given)
        for turn, number in enumerate(interrupts.some_lines(last, few)):
            with self.subTest(mode=mode, line=number):
                self.round(job, lambda call, line=number: interrupts.at_line(line, call), turn + number)

    def first_step(self, mode, few=4):
        """The first step shows the state. Each interrupt needs an optimizer of its own."""
        job = self.job(mode)
        job.gradients()
        for number in interrupts.some_lines(interrupts.lines_of(job.optimizer.step), few):
            job = self.job(mode)
            with self.subTest(mode=mode, line=number):
                self.round(job, lambda call, line=number: interrupts.at_line(line, call), 0)
            job.optimizer.close()

    def by_signals(self, mode, dtype=torch.float32, few=10):
        job = self.job(mode, dtype, (((30_000,), (40,)), ((7_000,), (2, 9))))

        def one(turn, delay):
            took = 0.0

            def interrupt(call):
                nonlocal took
                started = time.perf_counter()
                came = interrupts.by_signal(delay, call)
                took = time.perf_counter() - started
                return came

            with self.subTest(mode=mode, turn=turn):
                return self.round(job, interrupt, turn), took
            return False, took

        interrupts.signals(one, few, mode)

    def test_at_a_line_of_step_late(self):
        self.at_lines("late")

    def test_at_a_line_of_step_late_in_bf16(self):
        self.at_lines("late", torch.bfloat16)

    def test_at_a_line_of_step_that_waits(self):
        self.at_lines("wait")

    def test_at_a_line_of_step_that_waits_in_bf16(self):
        self.at_lines("wait", torch.bfloat16)

    def test_at_a_line_of_the_first_step(self):
        for mode in MODES:
            self.first_step(mode)

    def test_at_a_line_of_synchronize(self):
        job = self.job("late", torch.bfloat16)
        for number in interrupts.some_lines(150, 20):
            given = job.gradients()
            job.optimizer.step()
            interrupts.at_line(number, job.optimizer.synchronize)
            job.optimizer.synchronize()
            with self.subTest(line=number):
                job.check(self, given)

    def test_a_handler_that_reads_the_state_and_raises_nothing(self):
        """It loses no step, whether it comes before one line or before each."""
        for mode in MODES:
            for dtype in (torch.float32, torch.bfloat16):
                job = self.job(mode, dtype)
                for turn, number in enumerate([None, None, *range(8, 400, 16)]):
                    given = job.gradients()
                    counts = list(job.counts)
                    read = job.optimizer.state_dict if turn % 2 == 0 else job.optimizer.synchronize
                    with self.subTest(mode=mode, dtype=dtype, line=number):
                        interrupts.calling(read, job.optimizer.step, number)
                        job.optimizer.synchronize()
                        job.check(self, given)
                        self.assertEqual(job.counts, [count + 1 for count in counts])

    def test_by_signals_late(self):
        self.by_signals("late")
        self.by_signals("late", torch.bfloat16)

    def test_by_signals_that_wait(self):
        self.by_signals("wait")
        self.by_signals("wait", torch.bfloat16)


if __name__ == "__main__":
    unittest.main()
