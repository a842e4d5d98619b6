"""What the recorder of zf-tune record makes of the events of a job. Needs neither torch nor the library. Tests
record/jobs.py, record/timeline.py, record/workload.py."""

import json
import subprocess
import sys
import tempfile
import unittest

import support

from zf_runtime.record.jobs import Job
from zf_runtime.record.timeline import Timeline
from zf_runtime.record.workload import Replay, Seen, TooLittle, parallel_share, workload_of

MS = 1_000_000


class Clock:
    """Plays a job: forward, backward and step one after the other, in milliseconds."""

    def __init__(self):
        self.timeline = Timeline()
        self.now = 0

    def backward(self, forward: int, backward: int):
        begin = self.now + forward * MS
        self.now = begin + backward * MS
        self.timeline.backward(begin, self.now)

    def step(self, took: int, params=1000, **times):
        begin = self.now
        self.now += took * MS
        self.timeline.step(begin, self.now, params, **times)

    def update(self, forward=10, backward=20, step=5, backwards=1, **times):
        for _ in range(backwards):
            self.backward(forward, backward)
        self.step(step, **times)


def seen_of(clock: Clock, **more) -> Seen:
    facts = {"framework": "torch", "mode": "wait", "threads": 2, "replays": []} | more
    return Seen(name="job", updates=clock.timeline.updates(), **facts)


class Updates(unittest.TestCase):
    def test_an_update_ends_with_its_last_step(self):
        """DeepSpeed steps each group by itself: two steps without a backward between them are one."""
        clock = Clock()
        for _ in range(3):
            clock.backward(10, 20)
            clock.step(5, params=600)
            clock.step(7, params=400)
        first, second, third = clock.timeline.updates()
        self.assertTrue(first.disturbed)  # its begin was not seen
        for update in (second, third):
            self.assertEqual((update.period_ns, update.step_ns, update.params), (42 * MS, 12 * MS, 1000))
            self.assertEqual((update.backwards, update.forward_ns, update.backward_ns), (1, 10 * MS, 20 * MS))
            self.assertEqual(update.training_ns, 30 * MS)

    def test_gradients_that_accumulate_are_training_steps_of_one_update(self):
        clock = Clock()
        for _ in range(6):
            clock.update(backwards=4)
        workload = workload_of(seen_of(clock))
        self.assertEqual(workload["update_interval"], 4)
        self.assertEqual(workload["recorded"]["training_ns"], 30 * MS)
        self.assertEqual(workload["recorded"]["period_ns"], 125 * MS)
        self.assertEqual(workload["training"]["forward_share"], round(1 / 3, 4))

    def test_warm_up_disturbed_and_odd_updates_do_not_count(self):
        """ZenFlow begins with updates of one training step, whatever its interval is."""
        clock = Clock()
        for _ in range(2):
            clock.update(forward=500)
        clock.update(backwards=1)
        for number in range(5):
            clock.update(backwards=3, forward=200 if number == 1 else 10)
            if number == 0:
                clock.timeline.disturb()
        workload = workload_of(seen_of(clock))
        self.assertEqual((workload["update_interval"], workload["recorded"]["updates"]), (3, 4))
        self.assertEqual(workload["recorded"]["training_ns"], 30 * MS)

    def test_a_job_that_is_too_short_is_told_so(self):
        clock = Clock()
        for _ in range(4):
            clock.update()
        with self.assertRaisesRegex(TooLittle, "4 optimizer steps seen, 2 usable"):
            workload_of(seen_of(clock))

    def test_our_late_optimizer_is_timed_alone_and_beside_training(self):
        """Beside the optimizer a training step takes 60 ms, alone 30. The period is the job's own."""
        clock = Clock()
        for number in range(12):
            beside = number % 2 == 1
            clock.update(20 if beside else 10, 40 if beside else 20, 2, step_ns=0, blocked_ns=0)
            if beside:
                clock.now += 8 * MS
                clock.timeline.waited(clock.now, step_ns=25 * MS)
        workload = workload_of(seen_of(clock, framework="native", mode="overlap", replays=[Replay(40 * MS, 20 * MS)]))
        recorded = workload["recorded"]
        self.assertEqual((recorded["training_ns"], recorded["period_ns"]), (32 * MS, 62 * MS))
        self.assertEqual(recorded["step_ns"], 25 * MS)
        self.assertEqual(workload["estimates"], [])


class Shares(unittest.TestCase):
    def test_a_compute_bound_job_is_seen_as_one(self):
        """Twice the threads, half the time: all of it is parallel work."""
        clock = Clock()
        for _ in range(6):
            clock.update()
        workload = workload_of(seen_of(clock, replays=[Replay(40 * MS, 20 * MS)]))
        self.assertEqual(workload["training"]["parallel_ns"], 60 * MS)  # 30 ms on 2 threads
        self.assertEqual(workload["training"]["launch_ns"], 0)
        self.assertEqual(workload["estimates"], [])

    def test_a_serial_job_is_seen_as_one(self):
        clock = Clock()
        for _ in range(6):
            clock.update()
        workload = workload_of(seen_of(clock, replays=[Replay(20 * MS, 20 * MS)]))
        self.assertEqual((workload["training"]["parallel_ns"], workload["training"]["launch_ns"]), (0, 30 * MS))

    def test_the_share_gives_both_times_back(self):
        share = parallel_share([Replay(70, 40), Replay(90, 55)], 4)
        self.assertAlmostEqual((1 - share) * 40 + share * 40 * 4, 70)

    def test_what_was_not_seen_is_an_estimate_and_marked(self):
        clock = Clock()
        for _ in range(6):
            clock.update()
        self.assertEqual(workload_of(seen_of(clock))["estimates"], ["training.launch_ns", "training.parallel_ns"])
        cuda = workload_of(seen_of(clock, cuda=True, launches=300, gpu_ns=25 * MS))
        self.assertEqual((cuda["training"]["launches"], cuda["training"]["gpu_ns"]), (300, 25 * MS))
        self.assertEqual(cuda["training"]["host_bytes"], 14_000)
        self.assertIn("training.host_bytes", cuda["estimates"])
        self.assertNotIn("training.gpu_ns", cuda["estimates"])
        self.assertIn("training.gpu_ns", workload_of(seen_of(clock, cuda=True))["estimates"])

    def test_kernels_of_an_update_are_shared_by_its_training_steps(self):
        clock = Clock()
        for _ in range(6):
            clock.update(backwards=4)
        seen = workload_of(seen_of(clock, cuda=True, launches=1200, gpu_ns=100 * MS))
        self.assertEqual(seen["update_interval"], 4)
        self.assertEqual((seen["training"]["launches"], seen["training"]["gpu_ns"]), (300, 25 * MS))

    def test_parameters_of_all_ranks_add_up(self):
        clock = Clock()
        for _ in range(6):
            clock.update()
        workload = workload_of(seen_of(clock), ranks=2)
        self.assertEqual((workload["params"], workload["ranks"]), (2000, 2))


class SuperOffload(unittest.TestCase):
    def test_is_known_by_its_engine_because_no_step_is_seen(self):
        for module, known in (("deepspeed.runtime.superoffload.superoffload_stage3", True),
                              ("deepspeed.runtime.zero.stage3", False)):
            zero = type("Optimizer", (), {"__module__": module})()
            engine = type("Engine", (), {"optimizer": zero})()
            job = Job()
            self.assertFalse(job.is_superoffload)
            job.take_engine(engine)
            self.assertEqual(job.is_superoffload, known)


class Package(unittest.TestCase):
    def test_without_torch_the_package_can_be_imported_and_is_light(self):
        code = "import json, sys, zf_runtime.record.attach; print(json.dumps(sorted(sys.modules)))"
        with tempfile.TemporaryDirectory() as folder:
            ended = subprocess.run([sys.executable, "-B", "-c", code], cwd=folder, text=True, check=True, timeout=60,
                                   env={"PYTHONPATH": str(support.PACKAGE)}, capture_output=True)
        loaded = json.loads(ended.stdout)
        self.assertIn("zf_runtime.record.attach", loaded)
        self.assertNotIn("torch", loaded)
        self.assertNotIn("zf_runtime.record.recorder", loaded)  # it comes with torch


if __name__ == "__main__":
    unittest.main()
