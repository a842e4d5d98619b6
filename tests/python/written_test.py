"""What a program does to parameters, param_groups and state behind OverlappedAdamW's back is taken, or refused in
words. Nothing is ignored in silence."""

import copy
import unittest
import unittest.mock
import warnings

import support

torch = support.need("torch")
import adamw_case  # noqa: E402
from models import make_model, train  # noqa: E402
from zf_runtime import ZfError, _flat_group, _published  # noqa: E402

MODES = {"late": {"overlap": True}, "wait": {"overlap": False}}
TYPES = (torch.float32, torch.bfloat16, torch.float64)


class Written(adamw_case.AdamWTest):
    def stepped(self, optimizer, params, steps=1):
        for _ in range(steps):
            for param in params:
                param.grad = torch.ones_like(param)
            optimizer.step()
        optimizer.synchronize()

    def one(self, value=1.0, dtype=torch.float32, lr=0.5, **mode):
        param = torch.nn.Parameter(torch.full((40, 3), value, dtype=dtype))
        return param, self.ours([param], lr=lr, weight_decay=0, **mode)

    def each(self):
        return [(mode, dtype) for mode in MODES.values() for dtype in TYPES]

    def assert_all(self, param, value, *place):
        self.assertLess((param.detach().double() - value).abs().max().item(), 0.004 * abs(value), (param[0, 0], *place))

    def test_weights_clipped_through_data(self):
        for mode, dtype in self.each():
            param, optimizer = self.one(dtype=dtype, lr=2.0 ** -6, **mode)
            for _ in range(3):
                self.stepped(optimizer, [param])
                param.data.clamp_(-0.25, 0.25)
            self.stepped(optimizer, [param])
            self.assert_all(param, 0.25 - 3 * 2.0 ** -6, mode, dtype)

    def test_one_weight_of_many_written_through_data(self):
        """A restore of EMA weights, row by row: what was not written keeps its fp32 master."""
        for mode, dtype in self.each():
            param, optimizer = self.one(dtype=dtype, lr=1e-3, **mode)
            twin, theirs = self.one(dtype=dtype, lr=1e-3, **mode)
            for both in ((optimizer, [param]), (theirs, [twin])):
                self.stepped(*both, steps=3)
            param.data[7, 1] = 5
            for both in ((optimizer, [param]), (theirs, [twin])):
                self.stepped(*both, steps=5)
            same = torch.ones(40, 3, dtype=torch.bool)
            same[7, 1] = False
            self.assertTrue(torch.equal(param.detach()[same], twin.detach()[same]))
            self.assertAlmostEqual(param[7, 1].item(), 4.995, delta=0.02)

    def test_reinitialised_by_assigning_data(self):
        for mode, dtype in self.each():
            param, optimizer = self.one(dtype=dtype, **mode)
            self.stepped(optimizer, [param])
            param.data = torch.full((40, 3), 4.0, dtype=dtype)
            self.stepped(optimizer, [param])
            self.assert_all(param, 3.5, mode, dtype)

    def test_weights_swapped_for_their_mean_and_back(self):
        """As an EMA does around an evaluation or a save: by .data, with a step's results between or without."""
        for mode, dtype in self.each():
            for look in (lambda optimizer: None, lambda optimizer: optimizer.state_dict()):
                param, optimizer = self.one(4.0, dtype=dtype, **mode)
                self.stepped(optimizer, [param])
                kept, param.data = param.data, torch.full((40, 3), 9.0, dtype=dtype)
                look(optimizer)
                param.data = kept
                self.assert_all(param, 3.5, mode, dtype)
                self.stepped(optimizer, [param])
                self.assert_all(param, 3.0, mode, dtype)

    def test_storage_that_moves(self):
        moves = {"clone": lambda param: setattr(param, "data", param.data.clone()),
                 "share_memory": lambda param: param.share_memory_(),
                 "vector": lambda param: torch.nn.utils.vector_to_parameters(
                     torch.nn.utils.parameters_to_vector([param]).detach(), [param])}
        for name, move in moves.items():
            for mode, dtype in self.each():
                param, optimizer = self.one(4.0, dtype=dtype, **mode)
                self.stepped(optimizer, [param])
                move(param)
                self.stepped(optimizer, [param], steps=2)
                self.assert_all(param, 2.5, name, mode, dtype)

    def test_written_while_a_late_step_runs(self):
        param, optimizer = self.one()
        param.grad = torch.ones_like(param)
        optimizer.step()
        param.data.fill_(4)
        with self.assertWarnsRegex(UserWarning, "synchronize"):
            optimizer.synchronize()
        self.assertEqual(param[0, 0].item(), 4)

    def test_saved_after_a_write(self):
        """bf16 weights are written, saved, and loaded before the next step: the older master does not win."""
        for name, mode in MODES.items():
            with self.subTest(mode=name):
                param, optimizer = self.one(dtype=torch.bfloat16, **mode)
                self.stepped(optimizer, [param])
                param.data.fill_(5)
                saved = optimizer.state_dict()
                again, other = self.one(5.0, dtype=torch.bfloat16, **mode)
                other.load_state_dict(saved)
                self.stepped(other, [again])
                self.assertEqual(again[0, 0].item(), 4.5)

    def test_a_group_added_after_a_write(self):
        for mode, dtype in self.each():
            param, optimizer = self.one(dtype=dtype, lr=1e-3, **mode)
            self.stepped(optimizer, [param])
            param.data.fill_(5)
            more = torch.nn.Parameter(torch.zeros(3))
            optimizer.add_param_group({"params": [more]})
            self.stepped(optimizer, [param, more])
            self.assertAlmostEqual(param[0, 0].item(), 4.999, delta=0.02)

    def test_masters_stay_in_either_order_of_loading(self):
        for order in (0, 1):
            param, optimizer = self.one(dtype=torch.bfloat16, lr=1e-4, overlap=False)
            self.stepped(optimizer, [param], steps=3)
            again, other = self.one(0.0, dtype=torch.bfloat16, lr=1e-4, overlap=False)
            saved = optimizer.state_dict()
            if order == 0:
                again.data.copy_(param.data)
            other.load_state_dict(saved)
            if order == 1:
                again.data.copy_(param.data)
            self.stepped(other, [again], steps=2)
            self.stepped(optimizer, [param], steps=2)
            self.assertTrue(torch.equal(other.state[again]["master"], optimizer.state[param]["master"]), order)

    def test_digests_find_every_write(self):
        """As on a GPU: without a copy."""
        for size in (1, 40, 65536, 65537, 200_000):
            for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
                values = torch.randn(size, 2, generator=torch.Generator().manual_seed(size)).to(dtype)

                def flip(changed, size=size):
                    changed.view(-1).view(torch.uint8)[size // 3] ^= 1

                for name, change in (("a constant", lambda changed: changed.fill_(0.5)), ("one bit", flip),
                                     ("two rows", lambda changed: changed.copy_(changed.flip(0))),
                                     ("two elements of one", lambda changed: changed[0].copy_(changed[0].flip(0)))):
                    with self.subTest(size=size, dtype=dtype, change=name):
                        seen = _published.Digest()
                        seen.note(values)
                        self.assertFalse(seen.differs(values))
                        self.assertFalse(seen.differs(values.clone()))
                        changed = values.clone()
                        change(changed)
                        self.assertEqual(bool(seen.differs(changed)), not torch.equal(changed, values))
        seen.forget()
        self.assertTrue(seen.differs(values))

    def test_another_shape_type_or_device_differs(self):
        for seen in (_published.Copy(), _published.Digest()):
            values = torch.ones(300, 500)
            seen.note(values)
            for other in (values[:200], values[:0], values.view(-1), values.to(torch.bfloat16), values.to(torch.int32),
                          values.to("meta")):
                self.assertIs(seen.differs(other), True)
            seen.note(values[:200])
            self.assertFalse(seen.differs(values[:200]))

    def test_writes_are_found_by_digests_too(self):
        with unittest.mock.patch.object(_flat_group, "published_of", lambda param: _published.Digest()):
            self.test_weights_clipped_through_data()
            self.test_one_weight_of_many_written_through_data()
            self.test_written_while_a_late_step_runs()
            self.test_saved_after_a_write()


class Refused(adamw_case.AdamWTest):
    def refused(self, change, remedy, calls=("step", "state_dict")):
        """A change after two steps is refused by each call, and nothing is stepped."""
        for name, mode in MODES.items():
            for call in calls:
                with self.subTest(mode=name, call=call):
                    model = make_model()
                    groups = [{"params": model[0].parameters()}, {"params": model[2].parameters()}]
                    optimizer = self.ours(groups, **mode)
                    train(model, optimizer, 2)
                    optimizer.synchronize()
                    change(model, optimizer)
                    before = [param.detach().clone() for param in model.parameters()]
                    with self.assertRaisesRegex(ZfError, remedy):
                        getattr(optimizer, call)()
                    for param, value in zip(model.parameters(), before):
                        self.assertTrue(torch.equal(param, value))

    def test_a_parameter_replaced_in_its_group(self):
        """Pruning and gaussian splatting do that."""
        def change(model, optimizer):
            model[0].weight = torch.nn.Parameter(model[0].weight.detach().clone())
            optimizer.param_groups[0]["params"][0] = model[0].weight

        self.refused(change, r"param_group 0: it holds others at \[0\].*add_param_group.*zf_runtime.AdamW")

    def test_a_parameter_appended_to_its_group(self):
        more = torch.nn.Parameter(torch.ones(3))
        self.refused(lambda model, optimizer: optimizer.param_groups[1]["params"].append(more),
                     "param_group 1: it holds 3 parameters.*add_param_group")

    def test_a_parameter_removed_from_its_group(self):
        self.refused(lambda model, optimizer: optimizer.param_groups[0]["params"].pop(),
                     "param_group 0: it holds 1 parameters.*new OverlappedAdamW")

    def test_a_group_appended_or_removed(self):
        self.refused(lambda model, optimizer: optimizer.param_groups.append(
            {**optimizer.param_groups[0], "params": [torch.nn.Parameter(torch.ones(3))]}), "add_param_group")
        self.refused(lambda model, optimizer: optimizer.param_groups.pop(), "new OverlappedAdamW")

    def test_another_shape(self):
        def change(model, optimizer):
            model[0].weight.data = torch.zeros(5, 5)
            model[0].weight.grad = None

        self.refused(change, r"parameter 0 was torch.float32 of shape \(33, 10\).*\(5, 5\)")

    def test_another_type(self):
        self.refused(lambda model, optimizer: model.to(torch.float64),
                     "parameter 0 was torch.float32.*is torch.float64")

    def test_another_shape_or_type_while_a_late_step_runs(self):
        def reshaped(model):
            model[0].weight.data = torch.zeros(5, 5)
            model[0].weight.grad = None

        changes = {r"shape \(5, 5\)": reshaped, "bfloat16": lambda model: model.to(torch.bfloat16)}
        for seen in (_published.Copy, _published.Digest):
            for text, change in changes.items():
                for call in ("step", "state_dict", "synchronize"):
                    patched = unittest.mock.patch.object(_flat_group, "published_of", lambda param, seen=seen: seen())
                    with self.subTest(seen=seen, change=text, call=call), patched, warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        model = make_model()
                        optimizer = self.ours(model.parameters())
                        train(model, optimizer, 2)
                        change(model)
                        if call == "synchronize":
                            optimizer.synchronize()
                            continue
                        with self.assertRaisesRegex(ZfError, text + ".*make a new OverlappedAdamW"):
                            getattr(optimizer, call)()

    def test_a_parameter_unfrozen_later(self):
        model = make_model()
        model[0].bias.requires_grad_(False)
        optimizer = self.ours(model.parameters())
        train(model, optimizer, 1)
        model[0].bias.requires_grad_(True)
        with self.assertRaisesRegex(ZfError, "parameter 1 has a gradient, and was frozen.*zf_runtime.AdamW"):
            train(model, optimizer, 1)

    def test_edited_state(self):
        def of(model, optimizer):
            return optimizer.state[model[0].weight]

        self.refused(lambda model, optimizer: optimizer.state.clear(), "removed the state of.*load_state_dict")
        self.refused(lambda model, optimizer: optimizer.state.pop(model[0].bias), "removed the state of parameter 1")
        self.refused(lambda model, optimizer: optimizer.state.__setitem__(
            model[0].weight, {name: value.clone() for name, value in of(model, optimizer).items()}), "replaced")
        self.refused(lambda model, optimizer: of(model, optimizer).update(step=torch.tensor(0.0)), "replaced.*'step'")
        self.refused(lambda model, optimizer: of(model, optimizer).update(exp_avg=torch.zeros(33, 10)), "'exp_avg'")
        self.refused(lambda model, optimizer: of(model, optimizer).pop("exp_avg_sq"), "'exp_avg_sq'")
        self.refused(lambda model, optimizer: of(model, optimizer)["step"].fill_(0), "its step is 2, and.*written 0")

    def test_state_that_lies_elsewhere(self):
        """It is refused, and load_state_dict() heals it."""
        def moved(name, change):
            def move(model, optimizer):
                value = optimizer.state[model[0].weight][name]
                value.data = change(value.data)
            return move

        for name, change in (("exp_avg", torch.clone), ("exp_avg_sq", torch.zeros_like), ("exp_avg", torch.t),
                             ("exp_avg", lambda value: value.view(10, 33)), ("exp_avg", torch.Tensor.double),
                             ("step", torch.clone)):
            self.refused(moved(name, change), f"other memory, by .data, to '{name}'.*after synchronize")
        for dtype in (torch.float32, torch.bfloat16):
            param = torch.nn.Parameter(torch.zeros(4, dtype=dtype))
            optimizer = self.ours([param], lr=1.0, weight_decay=0, overlap=False)
            param.grad = torch.ones_like(param)
            optimizer.step()
            saved = copy.deepcopy(optimizer.state_dict())
            for entry in optimizer.state[param].values():
                entry.data = entry.data.clone()
            self.assertRaisesRegex(ZfError, "other memory", optimizer.step)
            optimizer.load_state_dict(saved)
            optimizer.step()
            self.assertAlmostEqual(param[0].item(), -2, delta=1e-4)
            self.assertEqual(optimizer.state[param]["step"].item(), 2)

    def test_moments_written_in_place_count(self):
        param = torch.nn.Parameter(torch.zeros(4))
        optimizer = self.ours([param], lr=1.0, weight_decay=0, overlap=False)
        for _ in range(2):
            param.grad = torch.ones(4)
            optimizer.step()
            optimizer.state[param]["exp_avg"].zero_()
        torch.testing.assert_close(param.detach(), torch.full((4,), -1 - 0.1 / 0.19))

    def test_settings_in_a_dict_of_its_own_count(self):
        param = torch.nn.Parameter(torch.zeros(4))
        optimizer = self.ours([param], lr=1.0, weight_decay=0, overlap=False)
        optimizer.param_groups[0] = {**optimizer.param_groups[0], "lr": 2.0}
        param.grad = torch.ones(4)
        optimizer.step()
        torch.testing.assert_close(param.detach(), torch.full((4,), -2.0))


class Called(adamw_case.AdamWTest):
    def test_fused_and_foreach_are_accepted(self):
        for more in ({"fused": True}, {"foreach": True}, {"fused": False, "foreach": None}):
            model = make_model()
            train(model, self.ours(model.parameters(), overlap=False, **more), 1)

    def test_late_says_what_it_does_once(self):
        cases = [({}, "overlap is not given")]
        if hasattr(torch.nn.Module, "register_state_dict_pre_hook"):  # module= needs it, so torch 2.0
            cases = [({}, "overlap is not given.*; a model that is saved"), ({"overlap": True}, "module=model")]
        for more, text in cases:
            nothing = unittest.mock.patch("zf_runtime._in_arena._said", set())
            with warnings.catch_warnings(record=True) as caught, nothing:
                warnings.simplefilter("always")
                for _ in range(2):
                    self.ours(make_model().parameters(), **more)
                self.ours(make_model().parameters(), overlap=False)
            self.assertEqual(len(caught), 1)
            self.assertRegex(str(caught[0].message), text)


if __name__ == "__main__":
    unittest.main()
