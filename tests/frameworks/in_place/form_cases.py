"""What tells tensors from those of the last step is seen, with torch's own guards and without them. Tests
optim/in_place/columns.py, optim/in_place/newcomers.py, optim/in_place/pointers.py, optim/in_place/tensor_list.py."""

import contextlib
import unittest
import warnings
from unittest import mock

import torch
import torch.distributed as dist
import zf_runtime
from zf_runtime.optim.in_place import columns, newcomers, tensor_list


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

    def in_all_ways(self):
        """Yields a Form made with the guards, one without, and one of a first look."""
        yield from self.in_both_ways()
        yield columns.Form(self.tensors, first=True), "first"

    def in_both_ways(self):
        with_guards = columns.Form(self.tensors)
        self.assertTrue(with_guards._checks, "this torch has no guards")
        yield with_guards, "with guards"
        with mock.patch.object(columns, "guards", lambda tensors: []):
            yield columns.Form(self.tensors), "without guards"

    def test_the_same_kind_elsewhere_in_memory_is_the_same(self):
        for one, way in self.in_all_ways():
            with self.subTest(way):
                self.assertIsNotNone(one.plain(self.tensors))
                self.assertIsNotNone(one.plain([tensor.clone() for tensor in self.tensors]))

    def test_autograd_and_autocast_do_not_matter_and_are_asked_in_one_call_from_the_second_time_on(self):
        def frozen():
            self.tensors[2].requires_grad_(not self.tensors[2].requires_grad)
            return contextlib.nullcontext()

        for one, way in self.in_both_ways():
            for context in (torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu"), frozen):
                with self.subTest(way), context():
                    self.assertIsNotNone(one.plain(self.tensors))
                    if one._checks:
                        with mock.patch.object(columns, "described", side_effect=AssertionError("one by one")):
                            self.assertIsNotNone(one.plain(self.tensors))

    def test_every_other_kind_is_seen(self):
        for one, way in self.in_all_ways():
            for name, change in CHANGES.items():
                with self.subTest(f"{way}: {name}"):
                    self.assertIsNone(one.plain([*self.tensors[:2], change(self.tensors[2])]))

    def test_one_more_or_less_is_seen(self):
        for one, way in self.in_all_ways():
            with self.subTest(way):
                self.assertIsNone(one.plain(self.tensors[:2]))
                self.assertIsNone(one.plain([*self.tensors, self.tensors[0]]))

    def calls_of(self, method, has_gradient):
        """Returns how often TensorList or Roster calls a method in steps of three parameters, in changing modes."""
        kind = tensor_list.TensorList if hasattr(tensor_list.TensorList, method) else tensor_list.Roster
        params = [torch.nn.Parameter(torch.ones(3)) for _ in range(3)]
        optimizer = zf_runtime.AdamW(params)
        with mock.patch.object(kind, method, autospec=True, side_effect=getattr(kind, method)) as calls:
            for step in range(8):
                for number, param in enumerate(params):
                    param.grad = torch.ones(3) if has_gradient(step, number) else None
                with torch.autocast("cpu", enabled=step % 2 == 1), torch.set_grad_enabled(step % 3 > 0):
                    optimizer.step()
        return calls.call_count

    def test_a_job_that_alternates_is_looked_at_one_by_one_twice(self):
        self.assertEqual(self.calls_of("_look_one_by_one", lambda step, number: step % 4 < 2 or number > 0), 2)

    def test_a_late_parameter_lets_what_is_known_of_the_others_stay(self):
        self.assertEqual(self.calls_of("again", lambda step, number: number <= step // 3), 2,
                         "the first step, and the first one in another mode")

    def test_a_torch_without_guards_is_asked_one_by_one(self):
        for broken in (TypeError, ImportError):
            with mock.patch("torch._C._dynamo.guards.TensorGuards", side_effect=broken):
                one = columns.Form(self.tensors)
            self.assertIsNotNone(one.plain(self.tensors))
            self.assertIsNone(one.plain([*self.tensors[:2], self.tensors[2].half()]))


class FirstSteps(unittest.TestCase):
    def test_usual_parameters_are_taken_at_once_as_they_are_one_by_one(self):
        def stepped():
            torch.manual_seed(1)
            params = [torch.nn.Parameter(torch.randn(5, 3).to(dtype))
                      for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float32)]
            optimizer = zf_runtime.AdamW([{"params": params[:2]}, {"params": params[2:], "lr": 1e-2}])
            for param in params:
                param.grad = torch.randn(5, 3).to(param.dtype)
            for _ in range(3):
                optimizer.step()
            states = [(name, value) for state in optimizer.state.values() for name, value in state.items()]
            return [name for name, _ in states], [*params, *(value for _, value in states)]

        with mock.patch.object(tensor_list.TensorList, "_take_each", side_effect=AssertionError("one by one")):
            names, found = stepped()
        with mock.patch.object(newcomers, "taken", lambda *_: None):
            wanted_names, wanted = stepped()
        self.assertEqual(names, wanted_names)
        self.assertTrue(all(map(torch.equal, found, wanted)))

    def test_parameters_of_one_shape_are_stepped_as_each_would_be_alone(self):
        def buffer(offset):
            return torch.frombuffer(bytearray(4 * 24 + 4), dtype=torch.float32, offset=offset, count=24).view(4, 6)

        kinds = {"plain": lambda t: t, "again": lambda t: t, "bf16": torch.Tensor.bfloat16,
                 "transposed": lambda t: t.t().contiguous().t(), "at an odd address": lambda t: buffer(1).copy_(t),
                 "at an even one": lambda t: buffer(0).copy_(t), "with gaps": lambda t: t.repeat(1, 2)[:, ::2]}
        datas = [change(torch.randn(4, 6, generator=torch.Generator().manual_seed(at)))
                 for at, change in enumerate(kinds.values())]
        pairs = [(p, g) for p in datas for g in datas[:-1] if p.dtype is g.dtype]

        def stepped(pairs):
            params = [torch.nn.Parameter(buffer(1).copy_(p) if p.data_ptr() % 4 else p.clone()) for p, _ in pairs]
            for param, (_, grad) in zip(params, pairs):
                param.grad = grad
            optimizer = zf_runtime.AdamW(params, lr=1e-2)
            for _ in range(3):
                optimizer.step()
            return [param.detach().clone() for param in params]

        with warnings.catch_warnings(record=True):
            together, alone = stepped(pairs), [each for pair in pairs for each in stepped([pair])]
        self.assertTrue(all(map(torch.equal, together, alone)))


def sharded(local, placement=None):
    """Returns a DTensor. This only rank has all of it."""
    from torch.distributed.tensor import DTensor, Shard

    return DTensor.from_local(local, MESH[0], [placement or Shard(0)], run_check=False)


MESH = []


def _put(tensor, name, value):
    setattr(tensor, name, value)
    return tensor


def _other_mesh(tensor):
    from torch.distributed.tensor import DeviceMesh, DTensor

    return DTensor.from_local(tensor._local_tensor, DeviceMesh("cpu", [[0]]), [*tensor.placements] * 2, run_check=False)


def _partial(tensor):
    from torch.distributed.tensor import Partial

    return sharded(tensor._local_tensor, Partial())


SHARDS = {
    "no DTensor": lambda t: t._local_tensor,
    "another placement": _partial,
    "another mesh": _other_mesh,
    "a shard of another element type": lambda t: _put(t, "_local_tensor", t._local_tensor.bfloat16()),
    "a shard of another shape": lambda t: _put(t, "_local_tensor", t._local_tensor[:3]),
    "a shard with other strides": lambda t: _put(t, "_local_tensor", t._local_tensor.t().contiguous().t()),
    "a shard of a subclass": lambda t: _put(t, "_local_tensor", t._local_tensor.as_subclass(Marked)),
    "a shard of another whole": lambda t: _put(sharded(torch.ones(5, 6)), "_local_tensor", t._local_tensor),
    "nothing": lambda t: None,
}


def move_the_shard(params, optimizer):
    params[0]._local_tensor.data = params[0]._local_tensor.clone()


def swap_a_shard(params, optimizer):
    params[1]._local_tensor = params[1]._local_tensor.clone() * 2


def swap_a_parameter(params, optimizer):
    torch.utils.swap_tensors(params[1], torch.nn.Parameter(sharded(torch.ones(4, 6))))
    params[1].grad = sharded(torch.ones(4, 6))


def move_a_moment(params, optimizer):
    moment = optimizer.state[params[1]]["exp_avg_sq"]._local_tensor
    moment.data = moment + 1


def swap_a_moments_shard(params, optimizer):
    moment = optimizer.state[params[1]]["exp_avg"]
    moment._local_tensor = moment._local_tensor + 1


def swap_a_gradients_shard(params, optimizer):
    params[2].grad._local_tensor = params[2].grad._local_tensor * 3


def sum_a_gradient_first(params, optimizer):
    params[2].grad = _partial(params[2].grad)


def drop_a_gradient(params, optimizer):
    params[0].grad = None


def narrow_a_gradient(params, optimizer):
    params[0].grad = sharded(params[0].grad._local_tensor.t().contiguous().t())


class Shards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            from torch.distributed.tensor import DTensor  # noqa: F401
        except ImportError as error:  # before torch 2.5
            raise unittest.SkipTest(f"this torch has no public DTensor: {error}") from None
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        cls.addClassCleanup(dist.destroy_process_group)
        MESH[:] = [dist.device_mesh.init_device_mesh("cpu", (1,))]
        cls.addClassCleanup(MESH.clear)

    def three(self):
        return [torch.ones(4, 6), sharded(torch.ones(4, 6)), sharded(torch.ones(4, 6))]

    def test_shards_elsewhere_in_memory_are_the_same_and_stand_in_the_places_of_their_dtensors(self):
        one = columns.Form(self.three())
        tensors = self.three()
        self.assertEqual(list(map(id, one.plain(tensors))),
                         [id(tensors[0]), *(id(tensor._local_tensor) for tensor in tensors[1:])])
        self.assertEqual(list(map(id, columns.Form(tensors[1:]).plain(tensors[1:]))),
                         [id(tensor._local_tensor) for tensor in tensors[1:]])

    def test_every_other_shard_is_seen(self):
        for guards in (columns.guards, lambda tensors: []):
            with mock.patch.object(columns, "guards", guards):
                one = columns.Form(self.three())
            for name, change in SHARDS.items():
                with self.subTest(name), mock.patch.object(columns, "guards", guards):
                    tensors = self.three()
                    self.assertIsNone(one.plain([*tensors[:2], change(tensors[2])]))

    def trained(self, change):
        """Returns what ten steps make of three DTensors and a plain tensor. change(): what the program does in
        between."""
        torch.manual_seed(1)
        params = [torch.nn.Parameter(sharded(torch.randn(4, 6))) for _ in range(3)]
        params.append(torch.nn.Parameter(torch.randn(5)))
        optimizer = zf_runtime.AdamW(params, lr=1e-2)
        for step in range(10):
            for param in params[:3]:
                param.grad = sharded(torch.randn(4, 6))
            params[3].grad = torch.randn(5)
            if step in (4, 5, 8):
                change(params, optimizer)
            optimizer.step()
        states = [columns.plain(optimizer.state[param][name]) for param in params for name in ("exp_avg", "exp_avg_sq")]
        return [columns.plain(param.detach()) for param in params] + states

    def test_a_replaced_dtensor_is_stepped_as_when_all_are_looked_at_one_by_one(self):
        for change in (move_the_shard, swap_a_shard, swap_a_parameter, move_a_moment, swap_a_moments_shard,
                       swap_a_gradients_shard, sum_a_gradient_first, drop_a_gradient, narrow_a_gradient):
            with self.subTest(change.__name__):
                found = self.trained(change)
                with mock.patch.object(tensor_list, "_settled", lambda groups, roster, *rest: roster):
                    wanted = self.trained(change)
                self.assertTrue(all(map(torch.equal, found, wanted)))

    def test_dtensors_are_looked_at_one_by_one_once(self):
        with mock.patch.object(tensor_list.TensorList, "_look_one_by_one", autospec=True,
                               side_effect=tensor_list.TensorList._look_one_by_one) as look:
            self.trained(lambda params, optimizer: None)
        self.assertEqual(look.call_count, 1)
