"""A backward runs again only where the job cannot notice it, and leaves graph, gradients and threads as they are. Tests
record/probes.py."""

import unittest

import support

torch = support.need("torch")
from zf_runtime.record import probes  # noqa: E402


class OpenMP:
    """Stands in for the OpenMP runtime: notes the numbers of threads that are set."""

    def __init__(self):
        self.numbers = []

    def omp_set_num_threads(self, number):
        self.numbers.append(number)


class Own(torch.autograd.Function):
    @staticmethod
    def forward(context, tensor):
        return 2 * tensor

    @staticmethod
    def backward(context, gradient):
        return 2 * gradient


class Replayed(unittest.TestCase):
    def setUp(self):
        self.weight, self.bias = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))

    def loss(self, values=None):
        return ((self.weight if values is None else values) * torch.arange(3.0) + self.bias).sum()

    def ids(self, *tensors):
        return sorted(map(id, tensors))

    def test_leaves_are_those_that_get_gradients(self):
        self.assertEqual(self.ids(*probes.leaves_of([self.loss()])), self.ids(self.weight, self.bias))
        self.bias.requires_grad_(False)
        self.assertEqual(self.ids(*probes.leaves_of([self.loss()])), self.ids(self.weight))

    def test_a_hook_on_a_leaf_prevents_it(self):
        handle = self.bias.register_hook(lambda gradient: gradient)
        self.assertEqual(probes.leaves_of([self.loss()]), [])
        handle.remove()
        self.assertEqual(len(probes.leaves_of([self.loss()])), 2)

    def test_a_function_of_the_jobs_own_prevents_it(self):
        self.assertEqual(probes.leaves_of([self.loss(Own.apply(self.weight))]), [])

    def test_graph_gradients_and_threads_stay(self):
        loss, openmp = self.loss(), OpenMP()
        times = probes.replay(openmp, 6, [loss], None)
        self.assertGreater(min(times.one_ns, times.all_ns), 0)
        self.assertEqual(openmp.numbers, [1, 6, 6, 6])
        self.assertEqual((self.weight.grad, self.bias.grad), (None, None))
        loss.backward()
        self.assertEqual(self.weight.grad.tolist(), [0, 1, 2])

    def test_what_refuses_it_is_not_replayed_and_threads_are_set_back(self):
        loss, openmp = self.loss(), OpenMP()
        loss.backward()  # frees what the graph has saved
        self.assertIsNone(probes.replay(openmp, 6, [loss], None))
        self.assertEqual(openmp.numbers, [1, 6])

    def test_functions_by_which_a_job_notices_are_there(self):
        for owner, name in probes.noticing_functions():
            self.assertTrue(callable(getattr(owner, name)))
        self.assertIn((torch.Tensor, "register_hook"), probes.noticing_functions())


class Kernels(unittest.TestCase):
    def test_without_cuda_nothing_is_counted(self):
        count = probes.KernelCount()
        count.start()
        self.assertFalse(count.counting)
        count.stop()
        self.assertEqual((count.kernels, count.kernel_ns), (0, 0))


if __name__ == "__main__":
    unittest.main()
