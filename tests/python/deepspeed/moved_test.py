"""What a program gives other memory through .data counts at the next step of the DeepSpeed adapter: moments, masters
and gradients. The optimizers here only look like ZeRO's. Tests deepspeed/arena.py."""

import unittest

import support

torch = support.need("torch")
support.need("numpy")
from imitated_zero import make_job, stand_in_for_deepspeed  # noqa: E402
from zf_runtime.deepspeed import arena  # noqa: E402


def replace(tensor, factor):
    """Gives a tensor other memory. What was there before is no longer what it was."""
    values = tensor.data * factor
    tensor.data.fill_(float("nan"))
    tensor.data = values


class Moved(unittest.TestCase):
    def setUp(self):
        stand_in_for_deepspeed(self)

    def each_step(self, change):
        """Trains in each mode. change(job, wanted) comes before each step, with what each partition should be."""
        for mode in arena.MODES:
            with self.subTest(mode=mode):
                job = make_job(self, mode)
                for _ in range(4):
                    given = job.backward()
                    change(job, [references[0] for references in job.wanted])
                    job.step()
                    job.settle()
                    job.check(self, given)
                    for slot in job.arena.slots:
                        state = job.optimizer.state[slot.param]
                        pairs = zip(slot.moments, (state[name] for name in arena.MOMENTS if name in state))
                        self.assertTrue(all(torch.equal(*pair) for pair in pairs), "the state is not what was stepped")

    def test_moments(self):
        def change(job, wanted):
            for param, reference in zip(job.params, wanted):
                replace(job.optimizer.state[param]["exp_avg"], 0.5)
                replace(job.optimizer.state[param]["exp_avg_sq"], 0)
                reference.m, reference.v = reference.m * 0.5, reference.v * 0

        self.each_step(change)

    def test_moments_by_other_tensors(self):
        def change(job, wanted):
            for param, reference in zip(job.params, wanted):
                state = job.optimizer.state[param]
                state["exp_avg"] = state["exp_avg"] * 0.5
                reference.m = reference.m * 0.5

        self.each_step(change)

    def test_masters(self):
        def change(job, wanted):
            for param, reference in zip(job.params, wanted):
                replace(param, 2)
                reference.p = reference.p * 2

        self.each_step(change)

    def test_gradients(self):
        """Values are those that the backward brought."""
        def change(job, wanted):
            for param in job.params:
                replace(param.overlap_grad[0] if hasattr(param, "overlap_grad") else param.grad, 1)

        self.each_step(change)

    def test_zenflow_counts_on(self):
        """Moments that were moved are no load: the number of the next step is the next."""
        job = make_job(self, "zenflow")
        numbers = []
        for _ in range(4):
            job.backward()
            for param in job.params:
                replace(job.optimizer.state[param]["exp_avg"], 1)
            job.step()
            numbers.append([job.arena.runtime.step(slot.index) for slot in job.arena.slots])
        self.assertEqual(numbers, [[1, 1], [2, 2], [3, 3], [4, 4]])


if __name__ == "__main__":
    unittest.main()
