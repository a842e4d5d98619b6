"""The order in which modules read parameters is learned from their calls, and nothing of ours is left on them. Tests
optim/overlap/gates.py."""

import copy
import pickle
import unittest

import case  # noqa: F401
import torch
from zf_runtime.optim.overlap.gates import Order, SavingGate, is_closed_to_us


class Engine:
    """Notes before which modules it is asked to wait, and for which parameters."""

    def __init__(self):
        self.seen, self.waits = [], 0

    def before_forward(self, module, own):
        self.seen.append((module, own))

    def wait_for_all(self):
        self.waits += 1


class Learned(unittest.TestCase):
    def setUp(self):
        self.engine = Engine()
        self.model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 3, bias=False))
        self.order = Order(self.engine, "Read it in forward.", saves_late=False)
        self.addCleanup(self.order.close)
        self.order.want(self.model.parameters())

    def test_parameters_are_in_the_order_of_the_calls(self):
        self.order.want([self.model[2].weight, self.model[0].weight])
        self.order.watch(is_told=True)
        self.model[2](torch.ones(1, 3))
        self.model(torch.ones(1, 3))
        self.assertEqual(list(self.order.read), [id(self.model[2].weight), id(self.model[0].weight)])

    def test_each_call_waits_for_the_parameters_of_its_module(self):
        self.order.watch(is_told=True)
        self.model(torch.ones(1, 3))
        self.assertEqual([module for module, _ in self.engine.seen], [self.model, *self.model])
        self.assertEqual([own for _, own in self.engine.seen],
                         [[], [*map(id, self.model[0].parameters())], [], [id(self.model[2].weight)]])

    def test_at_rest_it_sees_nothing(self):
        self.order.watch(is_told=True)
        self.order.rest()
        self.model(torch.ones(1, 3))
        self.assertEqual((self.engine.seen, self.order.read), ([], {}))

    def test_what_was_read_unseen_is_named(self):
        self.order.watch(is_told=True)
        self.model(torch.ones(1, 3))
        said = str(self.order.was_read_unseen(self.model[0].bias))
        self.assertTrue(said.startswith("bias of Linear of shape (3,) got a gradient"), said)
        self.assertTrue(said.endswith("Read it in forward."), said)

    def test_in_mode_late_state_dict_waits_until_it_is_closed(self):
        order = Order(self.engine, "", saves_late=True)
        order.want(self.model.parameters())
        order.watch(is_told=True)
        self.model(torch.ones(1, 3))
        self.model[0].state_dict()
        self.assertEqual(self.engine.waits, 1)
        order.close()
        self.model.state_dict()
        self.assertEqual(self.engine.waits, 1)

    def test_copies_and_pickles_of_a_gate_do_nothing(self):
        gate = SavingGate(self.engine)
        for other in (copy.deepcopy(gate), pickle.loads(pickle.dumps(gate))):
            other(None, "", False)
        self.assertEqual(self.engine.waits, 0)
        gate(None, "", False)
        self.assertEqual(self.engine.waits, 1)


class Closed(unittest.TestCase):
    def test_modules_that_read_unseen_or_compute_other_bits_are_known(self):
        attention = torch.nn.MultiheadAttention(4, 1)
        wrapped = torch.nn.Module()
        wrapped._orig_mod = torch.nn.Linear(1, 1)
        for module, is_closed in ((torch.nn.Linear(1, 1), False), (attention, False), (wrapped, True),
                                  (torch.jit.ScriptModule(), True)):
            self.assertEqual(is_closed_to_us(module), is_closed, module)
        self.assertTrue(is_closed_to_us(attention.eval()))


if __name__ == "__main__":
    unittest.main()
