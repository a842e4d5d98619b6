"""What this rank has of a sharded parameter is found, and what no process can step is refused in words. DTensors here
only look like torch's. Tests optim/overlap/shards.py."""

import types
import unittest

import support

torch = support.need("torch")
from zf_runtime import ZfError  # noqa: E402
from zf_runtime.optim.overlap import shards  # noqa: E402


def sharded(local, placements=("rows",), gradient=None, **more):
    return types.SimpleNamespace(_local_tensor=local, _spec=None, placements=placements, grad=gradient,
                                 shape=torch.Size((8, 2)), **more)


class Subclass(torch.Tensor):
    pass


class Refused(unittest.TestCase):
    def test_plain_parameters_and_shards_of_plain_tensors_in_mode_exact_are_taken(self):
        for mode in ("exact", "late"):
            shards.refuse(torch.nn.Parameter(torch.zeros(2)), mode)
        shards.refuse(sharded(torch.zeros(4, 2)), "exact")

    def test_each_reason_is_named(self):
        flat = torch.nn.Parameter(torch.zeros(2))
        flat._is_flat_param = True
        other = torch.zeros(4, 2).as_subclass(Subclass)
        for param, mode, why in ((flat, "exact", "is a flat one of FullyShardedDataParallel"),
                                 (sharded(torch.zeros(4, 2, device="meta")), "exact", "is a DTensor on meta"),
                                 (sharded(torch.zeros(4, 2)), "late", "with overlap=\"exact\" alone"),
                                 (sharded(other), "exact", r"\[8, 2\] is a DTensor of Subclass")):
            with self.subTest(why), self.assertRaisesRegex(ZfError, why):
                shards.refuse(param, mode)


class Here(unittest.TestCase):
    def test_a_gradient_is_the_part_that_is_here(self):
        local = torch.ones(4, 2)
        self.assertIs(shards.gradient_here(sharded(torch.zeros(4, 2), gradient=sharded(local))), local)
        self.assertIsNone(shards.gradient_here(sharded(torch.zeros(4, 2))))
        plain = torch.nn.Parameter(torch.zeros(2))
        plain.grad = torch.ones(2)
        self.assertIs(shards.gradient_here(plain), plain.grad)

    def test_a_gradient_that_would_have_to_be_summed_over_ranks_is_refused(self):
        for gradient in (sharded(torch.ones(4, 2), ("partial",)), torch.ones(8, 2)):
            with self.assertRaisesRegex(ZfError, r"\[8, 2\] is sharded otherwise than the parameter"):
                shards.gradient_here(sharded(torch.zeros(4, 2), gradient=gradient))

    def test_a_whole_parameter_keeps_its_number(self):
        param = torch.nn.Parameter(torch.zeros(3))
        self.assertEqual((shards.first_here(param, 17), shards.first_here(param, None)), (17, 0))

    def test_memory_of_its_own_has_the_same_values(self):
        for tensor in (torch.ones(3), sharded(torch.ones(3))):
            view = getattr(tensor, "_local_tensor", tensor).view(-1)
            shards.set_apart(tensor)
            view.zero_()
            self.assertEqual(getattr(tensor, "_local_tensor", tensor).tolist(), [1, 1, 1])


class Gathered(unittest.TestCase):
    def test_the_parameters_of_each_group_are_found_in_either_form_of_fsdp2(self):
        def group(*names):
            return types.SimpleNamespace(fsdp_params=[types.SimpleNamespace(
                _module_info=types.SimpleNamespace(param_name=name), sharded_param=name.upper()) for name in names])

        for state, found in (({"_fsdp_param_group": group("a", "b")}, [("a", "A"), ("b", "B")]),
                             ({"_fsdp_param_group": None}, []),
                             ({"_fsdp_param_groups": [group("a"), group("b")]}, [("a", "A"), ("b", "B")])):
            module = types.SimpleNamespace(_get_fsdp_state=lambda state=state: types.SimpleNamespace(**state))
            self.assertEqual(shards.gathered_by(module), found)
        self.assertTrue(shards.gathers(type("Sharded", (), {"_get_fsdp_state": None})))
        self.assertFalse(shards.gathers(torch.nn.Linear))


if __name__ == "__main__":
    unittest.main()
