"""AdamW(state=...): fewer bytes, the same bits in any grouping, and checkpoints of every format. Tests
optim/tensors/formats.py."""

import copy
import io
import json
import os
import tempfile
import unittest
import unittest.mock

import torch
import zf_runtime
from case import make_model, tensors_of, train

FORMATS = ("fp32", "bf16", "split", "bf16+split")


def optimizer_of(model, state, **options):
    return zf_runtime.AdamW(model.parameters(), lr=1e-2, state=state, **options)


def bits_of(model, optimizer) -> list:
    """Returns all tensors of a model and of its states."""
    return tensors_of(model) + [value.detach().clone() for param in model.parameters()
                                for value in optimizer.state[param].values() if isinstance(value, torch.Tensor)]


def reloaded(optimizer) -> dict:
    """Returns the state dict as a file has it."""
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


class Formats(unittest.TestCase):
    def assert_same(self, ours: list, theirs: list) -> None:
        self.assertEqual(len(ours), len(theirs))
        for one, other in zip(ours, theirs):
            self.assertTrue(one.dtype == other.dtype and torch.equal(one, other))

    def test_states_have_their_types(self):
        for dtype in (torch.float32, torch.bfloat16):
            for state in FORMATS:
                with self.subTest(dtype=dtype, state=state):
                    model = make_model(dtype)
                    optimizer = optimizer_of(model, state)
                    train(model, optimizer, 2)
                    moment = torch.bfloat16 if "bf16" in state else torch.float32
                    split = "split" in state and dtype is torch.bfloat16
                    number = 0
                    for param in model.parameters():
                        entry = optimizer.state[param]
                        self.assertEqual(entry["exp_avg"].dtype, moment)
                        self.assertEqual(entry["exp_avg_sq"].dtype, moment)
                        self.assertEqual("low" in entry, split)
                        self.assertEqual("master" in entry, dtype is torch.bfloat16 and not split)
                        if "bf16" in state:
                            self.assertEqual(entry["first_element"], number)
                        number += param.numel()

    def test_losses_are_close_to_those_of_fp32(self):
        for dtype in (torch.float32, torch.bfloat16):
            expected = make_model(dtype)
            wanted = train(expected, optimizer_of(expected, "fp32"), 60)
            for state in FORMATS[1:]:
                with self.subTest(dtype=dtype, state=state):
                    model = make_model(dtype)
                    losses = train(model, optimizer_of(model, state), 60)
                    self.assertLess(losses[-1], 0.5 * losses[0])
                    self.assertAlmostEqual(losses[-1], wanted[-1], delta=0.05 * wanted[0])
                    if state == "split" and dtype is torch.float32:
                        self.assertEqual(losses, wanted)

    def test_bits_do_not_depend_on_threads_or_groups(self):
        for state in FORMATS[1:]:
            results = []
            for threads, groups in ((1, False), (2, False), (2, True)):
                torch.set_num_threads(threads)
                model = make_model(torch.bfloat16)
                params = list(model.parameters())
                grouped = [{"params": params[:1]}, {"params": params[1:]}] if groups else params
                optimizer = zf_runtime.AdamW(grouped, lr=1e-2, state=state, seed=5)
                train(model, optimizer, 5)
                results.append(bits_of(model, optimizer))
            torch.set_num_threads(2)
            with self.subTest(state=state):
                self.assert_same(results[0], results[1])
                self.assert_same(results[0], results[2])

    def test_a_gradient_that_comes_late_changes_no_number(self):
        model = make_model()
        optimizer = optimizer_of(model, "bf16")
        model(torch.randn(3, 10)).sum().backward()
        model[0].weight.grad = None
        optimizer.step()
        train(model, optimizer, 1)
        self.assertEqual([optimizer.state[param]["first_element"] for param in model.parameters()], [0, 330, 363, 594])

    def test_a_saved_training_goes_on_bit_for_bit(self):
        for dtype in (torch.float32, torch.bfloat16):
            for state in FORMATS:
                with self.subTest(dtype=dtype, state=state):
                    model = make_model(dtype)
                    optimizer = optimizer_of(model, state, seed=9 if state != "fp32" else 0)
                    train(model, optimizer, 4)
                    saved, other = reloaded(optimizer), copy.deepcopy(model)
                    second = optimizer_of(other, state)  # the seed comes from the file
                    second.load_state_dict(saved)
                    for which, kept in ((model, optimizer), (other, second)):
                        train(which, kept, 4, first=4)
                    self.assert_same(bits_of(model, optimizer), bits_of(other, second))

    def test_every_format_loads_every_other(self):
        for dtype in (torch.float32, torch.bfloat16):
            for before in FORMATS:
                model = make_model(dtype)
                optimizer = optimizer_of(model, before)
                train(model, optimizer, 4)
                for after in FORMATS:
                    with self.subTest(dtype=dtype, before=before, after=after):
                        other = copy.deepcopy(model)
                        second = optimizer_of(other, after)
                        second.load_state_dict(reloaded(optimizer))
                        wanted = copy.deepcopy(optimizer.state_dict()["state"])
                        for param in other.parameters():
                            param.grad = torch.zeros_like(param)
                        for group in second.param_groups:
                            group.update(lr=0.0, weight_decay=0.0, betas=(0.0, 1.0), bias_correction=False)  # v stays
                        second.step()
                        for key, param in enumerate(other.parameters()):
                            moment = torch.bfloat16 if "bf16" in after else torch.float32
                            entry = second.state[param]
                            self.assertEqual(entry["exp_avg_sq"].dtype, moment)
                            self.assertTrue(torch.equal(entry["exp_avg_sq"], wanted[key]["exp_avg_sq"].to(moment)))
                            self.assertEqual("low" in entry, "split" in after and dtype is torch.bfloat16)
                        self.assert_same(tensors_of(model), tensors_of(other))

    def test_masters_survive_the_way_to_halves_and_back(self):
        model = make_model(torch.bfloat16)
        optimizer = optimizer_of(model, "fp32")
        train(model, optimizer, 6)
        masters = [optimizer.state[param]["master"].clone() for param in model.parameters()]
        way = optimizer.state_dict()
        for state in ("split", "fp32"):
            other = copy.deepcopy(model)
            second = optimizer_of(other, state)
            second.load_state_dict(way)
            for param in other.parameters():
                param.grad = torch.zeros_like(param)
            for group in second.param_groups:
                group.update(lr=0.0, weight_decay=0.0)
            second.step()
            way = second.state_dict()
        for param, master in zip(other.parameters(), masters):
            ties = (master.view(torch.int32) & 0xFFFF) == 0x8000  # bf16 copies go to even, halves away from zero
            self.assertTrue(torch.equal(second.state[param]["master"][~ties], master[~ties]))

    def test_a_written_parameter_counts(self):
        model = make_model(torch.bfloat16)
        optimizer = optimizer_of(model, "bf16+split")
        train(model, optimizer, 5)
        with torch.no_grad():
            model[0].weight.fill_(3.0)
            model[2].weight.zero_()
        for param in model.parameters():
            param.grad = torch.zeros_like(param)
        for group in optimizer.param_groups:
            group.update(lr=0.0, weight_decay=0.0)
        optimizer.step()
        self.assertTrue((model[0].weight == 3.0).all() and (model[2].weight == 0.0).all())

    def test_torch_loads_what_we_save(self):
        for state in FORMATS:
            model = make_model()
            optimizer = optimizer_of(model, state)
            train(model, optimizer, 3)
            other = copy.deepcopy(model)
            theirs = torch.optim.AdamW(other.parameters(), lr=1e-2)
            theirs.load_state_dict(reloaded(optimizer))
            train(other, theirs, 1, first=3)
            for same in other.parameters():
                self.assertEqual(theirs.state[same]["exp_avg"].dtype, torch.float32)

    def test_a_shard_has_the_numbers_of_the_whole(self):
        from torch.distributed.tensor import DTensor, Replicate, Shard
        from torch.distributed.tensor.placement_types import _StridedShard
        from torch.testing._internal.distributed.fake_pg import FakeStore

        shape = (8, 6, 4)
        torch.distributed.init_process_group("fake", rank=3, world_size=4, store=FakeStore())
        try:
            mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2, 2))  # this is rank (1, 1)
            for placements, here in (((Shard(0), Replicate()), (slice(4, 8),)),
                                     ((Replicate(), Shard(1)), (slice(None), slice(3, 6))),
                                     ((Shard(2), Replicate()), (slice(None), slice(None), slice(2, 4))),
                                     ((Shard(0), Shard(1)), (slice(4, 8), slice(3, 6))),
                                     ((Shard(0), Shard(0)), (slice(6, 8),))):
                def shard(tensor, placements=placements, here=here):
                    return DTensor.from_local(tensor[here].clone().contiguous(), mesh, placements)

                # A parameter before it, so that its first number is not 0.
                before = [torch.nn.Parameter(torch.ones(5)) for _ in range(2)]
                whole, param = torch.nn.Parameter(torch.ones(shape)), torch.nn.Parameter(shard(torch.ones(shape)))
                alone = zf_runtime.AdamW([before[0], whole], state="bf16", seed=2)
                sharded = zf_runtime.AdamW([before[1], param], state="bf16", seed=2)
                for step in range(1, 5):
                    grad = torch.arange(192.0).reshape(shape) / 97 * step
                    whole.grad, param.grad = grad, shard(grad)
                    before[0].grad, before[1].grad = torch.ones(5), torch.ones(5)
                    alone.step()
                    sharded.step()
                for name in ("exp_avg", "exp_avg_sq"):
                    ours, theirs = sharded.state[param][name].to_local(), alone.state[whole][name]
                    self.assertTrue(torch.equal(ours, theirs[here]), (placements, name))
                    if theirs[tuple(slice(0, size) for size in ours.shape)].shape == ours.shape:
                        self.assertFalse(torch.equal(ours, theirs[tuple(slice(0, size) for size in ours.shape)]))
            twice = torch.nn.Parameter(DTensor.from_local(torch.ones(2, 6, 4), mesh,
                                                          [_StridedShard(0, split_factor=2), Shard(0)]))
            twice.grad = DTensor.from_local(torch.ones(2, 6, 4), mesh, [_StridedShard(0, split_factor=2), Shard(0)])
            with self.assertRaisesRegex(zf_runtime.ZfError, "sharded twice along one dimension"):
                zf_runtime.AdamW([twice], state="bf16").step()
            turned = torch.ones(3, 8, 4).transpose(0, 1)
            other = torch.nn.Parameter(DTensor.from_local(turned, mesh, [Replicate(), Shard(1)]))
            other.grad = DTensor.from_local(turned.clone(), mesh, [Replicate(), Shard(1)])
            with self.assertRaisesRegex(zf_runtime.ZfError, "make it contiguous"):
                zf_runtime.AdamW([other], state="bf16").step()
        finally:
            torch.distributed.destroy_process_group()

    def test_the_plan_names_the_format(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as plan:
            json.dump({"intent": {"state_format": "bf16"}}, plan)
            plan.flush()
            with unittest.mock.patch.dict(os.environ, {"ZF_PLAN": plan.name, "ZF_TUNE": ""}):
                self.assertEqual(zf_runtime.AdamW([torch.ones(3)]).param_groups[0]["state_format"], "bf16")
                with self.assertWarnsRegex(UserWarning, "state='fp32' is used, and the plan is for 'bf16'"):
                    self.assertNotIn("state_format", zf_runtime.AdamW([torch.ones(3)], state="fp32").param_groups[0])
        self.assertNotIn("state_format", zf_runtime.AdamW([torch.ones(3)]).param_groups[0])

    def test_copies_and_pickles_keep_the_format(self):
        model = make_model(torch.bfloat16)
        optimizer = optimizer_of(model, "bf16+split", seed=3)
        train(model, optimizer, 2)
        both = copy.deepcopy((model, optimizer))
        train(model, optimizer, 2, first=2)
        train(*both, 2, first=2)
        self.assert_same(bits_of(model, optimizer), bits_of(*both))

    def test_what_does_not_go_together_is_one_line(self):
        params = [torch.nn.Parameter(torch.ones(3))]
        for options, text in (({"state": "int8"}, "is not a state format: use fp32, bf16, split or bf16[+]split"),
                              ({"state": "bf16", "amsgrad": True}, "does not go together with amsgrad=True")):
            with self.assertRaisesRegex(zf_runtime.ZfError, text):
                zf_runtime.AdamW(params, **options)
        for dtype, text in ((torch.float16, "is fp16, and only fp32 and bf16 parameters"), (torch.float64, "float64")):
            param = torch.nn.Parameter(torch.ones(3, dtype=dtype))
            param.grad = torch.ones_like(param)
            with self.assertRaisesRegex(zf_runtime.ZfError, text):
                zf_runtime.AdamW([param], state="bf16").step()
            self.assertTrue((param == 1).all())


if __name__ == "__main__":
    unittest.main()
