"""What tells tensors from those of the last step is seen, with torch's own guards and without them."""

import contextlib
import unittest
from unittest import mock

import torch
from zf_runtime.optim.in_place import columns


class Marked(torch.Tensor):
    pass


CHANGES = {
    "another element type": lambda t: t.to(torch.bfloat16),
    "another shape of as many elements": lambda t: t.reshape(6, 4),
    "other strides": lambda t: t.t().contiguous().t(),
    "fewer elements": lambda t: t[:3],
    "a subclass": lambda t: t.as_subclass(Marked),
    "another device": lambda t: t.to("meta"),
    "a sparse tensor": lambda t: t.to_sparse(),
    "a lazy negation": torch._neg_view,
    "no tensor": lambda t: None,
}


class Forms(unittest.TestCase):
    def setUp(self):
        self.tensors = [torch.ones(4, 6), torch.ones(()), torch.ones(4, 6)]

    def in_both_ways(self):
        """Yields a Form made with the guards, and one without."""
        with_guards = columns.Form(self.tensors)
        self.assertTrue(with_guards._checks, "this torch has no guards")
        yield with_guards, "with guards"
        with mock.patch.object(columns, "_guards", lambda tensors: []):
            yield columns.Form(self.tensors), "without guards"

    def test_the_same_kind_elsewhere_in_memory_is_the_same(self):
        for one, way in self.in_both_ways():
            with self.subTest(way):
                self.assertTrue(one.holds(self.tensors))
                self.assertTrue(one.holds([tensor.clone() for tensor in self.tensors]))

    def test_autograd_and_autocast_do_not_matter_and_are_asked_in_one_call_from_the_second_time_on(self):
        def frozen():
            self.tensors[2].requires_grad_(not self.tensors[2].requires_grad)
            return contextlib.nullcontext()

        for one, way in self.in_both_ways():
            for context in (torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu"), frozen):
                with self.subTest(way), context():
                    self.assertTrue(one.holds(self.tensors))
                    if one._checks:
                        with mock.patch.object(columns, "described", side_effect=AssertionError("one by one")):
                            self.assertTrue(one.holds(self.tensors))

    def test_every_other_kind_is_seen(self):
        for one, way in self.in_both_ways():
            for name, change in CHANGES.items():
                with self.subTest(f"{way}: {name}"):
                    self.assertFalse(one.holds([*self.tensors[:2], change(self.tensors[2])]))

    def test_one_more_or_less_is_seen(self):
        for one, way in self.in_both_ways():
            with self.subTest(way):
                self.assertFalse(one.holds(self.tensors[:2]))
                self.assertFalse(one.holds([*self.tensors, self.tensors[0]]))

    def test_a_torch_without_guards_is_asked_one_by_one(self):
        for broken in (TypeError, ImportError):
            with mock.patch("torch._C._dynamo.guards.TensorGuards", side_effect=broken):
                one = columns.Form(self.tensors)
            self.assertTrue(one.holds(self.tensors))
            self.assertFalse(one.holds([*self.tensors[:2], self.tensors[2].half()]))
