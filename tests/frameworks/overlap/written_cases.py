"""What a program does to parameters, param_groups and state between the steps of AdamW with an optimizer process is
taken, as torch.optim.AdamW takes it, or refused in words. Nothing is ignored in silence. Tests
optim/overlap/refusals.py, optim/overlap/state.py, optim/tensors/hashing.py."""

import copy
import itertools
import unittest.mock
import warnings

import case
import torch
import zf_runtime
from models import make_model, train
from zf_runtime import ZfError
from zf_runtime.optim.tensors import hashing, streams

TYPES = (torch.float32, torch.bfloat16, torch.float64)


class Written(case.AdamWTest):
    def setUp(self):
        super().setUp()
        self.readers = {}

    def stepped(self, optimizer, params, steps=1):
        """Gradients are 1. In mode exact the step is waited for in the next forward, or here."""
        reader = self.readers.setdefault(optimizer, case.Reader(params))
        for _ in range(steps):
            reader.give([torch.ones_like(param) for param in params])
            optimizer.step()
        optimizer.synchronize()

    def one(self, value=1.0, dtype=torch.float32, lr=0.5, mode="late"):
        param = torch.nn.Parameter(torch.full((40, 3), value, dtype=dtype))
        return param, self.ours([param], mode, lr=lr, weight_decay=0)

    def each(self):
        return [(mode, dtype) for mode in case.MODES for dtype in TYPES]

    def assert_all(self, param, value, *place):
        self.assertLess((param.detach().double() - value).abs().max().item(), 0.004 * abs(value), (param[0, 0], *place))

    def test_weights_clipped_through_data(self):
        for mode, dtype in self.each():
            param, optimizer = self.one(dtype=dtype, lr=2.0 ** -6, mode=mode)
            for _ in range(3):
                self.stepped(optimizer, [param])
                param.data.clamp_(-0.25, 0.25)
            self.stepped(optimizer, [param])
            self.assert_all(param, 0.25 - 3 * 2.0 ** -6, mode, dtype)

    def test_one_weight_of_many_written_through_data(self):
        """A restore of EMA weights, row by row: what was not written keeps its fp32 master."""
        for mode, dtype in self.each():
            param, optimizer = self.one(dtype=dtype, lr=1e-3, mode=mode)
            twin, theirs = self.one(dtype=dtype, lr=1e-3, mode=mode)
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
            param, optimizer = self.one(dtype=dtype, mode=mode)
            self.stepped(optimizer, [param])
            param.data = torch.full((40, 3), 4.0, dtype=dtype)
            self.stepped(optimizer, [param])
            self.assert_all(param, 3.5, mode, dtype)

    def test_weights_swapped_for_their_mean_and_back(self):
        """As an EMA does around an evaluation or a save: by .data, with a step's results between or without."""
        for mode, dtype in self.each():
            for look in (lambda optimizer: None, lambda optimizer: optimizer.state_dict()):
                param, optimizer = self.one(4.0, dtype=dtype, mode=mode)
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
                param, optimizer = self.one(4.0, dtype=dtype, mode=mode)
                self.stepped(optimizer, [param])
                move(param)
                self.stepped(optimizer, [param], steps=2)
                self.assert_all(param, 2.5, name, mode, dtype)

    def test_memory_that_two_parameters_share_is_refused(self):
        """At once, or in the first step after it. Parts of one memory go."""
        def values():
            return torch.ones(6, 4)

        def pair(first, second):
            return [torch.nn.Parameter(first), torch.nn.Parameter(second)]

        for mode in case.MODES:
            for shared in (lambda memory: (memory, memory), lambda memory: (memory, memory.t()),
                           lambda memory: (memory[:4], memory[3:]),
                           lambda memory: (memory, memory.view(torch.bfloat16))):
                with self.assertRaisesRegex(ZfError, "two parameters.*share memory"):
                    self.ours(pair(*shared(values())), mode)
            for parts in (lambda memory: (memory[:3], memory[3:]), lambda memory: (memory[:, ::2], memory[:, 1::2])):
                params = pair(*parts(values()))
                optimizer = self.ours(params, mode, lr=0.5, weight_decay=0)
                self.stepped(optimizer, params)
                for param in params:
                    self.assert_all(param, 0.5, mode)
            params = pair(values(), values())
            optimizer = self.ours(params, mode, lr=0.5, weight_decay=0)
            self.stepped(optimizer, params)
            with self.assertRaisesRegex(ZfError, "share memory"):
                optimizer.add_param_group({"params": [torch.nn.Parameter(params[0].data)]})
            own, params[1].data = params[1].data, params[0].data
            for _ in range(2):
                with self.assertRaisesRegex(ZfError, "share memory"):
                    self.stepped(optimizer, params)
            params[1].data = own
            self.stepped(optimizer, params)
            self.assertLess(max(param.abs().max().item() for param in params), 0.004)

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
        for mode in case.MODES:
            with self.subTest(mode=mode):
                param, optimizer = self.one(dtype=torch.bfloat16, mode=mode)
                self.stepped(optimizer, [param])
                param.data.fill_(5)
                saved = optimizer.state_dict()
                again, other = self.one(5.0, dtype=torch.bfloat16, mode=mode)
                other.load_state_dict(saved)
                self.stepped(other, [again])
                self.assertEqual(again[0, 0].item(), 4.5)

    def test_a_group_added_after_a_write(self):
        for mode, dtype in self.each():
            param, optimizer = self.one(dtype=dtype, lr=1e-3, mode=mode)
            self.stepped(optimizer, [param])
            param.data.fill_(5)
            more = torch.nn.Parameter(torch.zeros(3))
            optimizer.add_param_group({"params": [more]})
            more.grad = torch.ones(3)
            self.stepped(optimizer, [param])
            self.assertAlmostEqual(more[0].item(), -0.001, delta=1e-5)
            self.assertAlmostEqual(param[0, 0].item(), 4.999, delta=0.02)

    def test_masters_stay_in_either_order_of_loading(self):
        for mode, order in ((mode, order) for mode in case.MODES for order in (0, 1)):
            param, optimizer = self.one(dtype=torch.bfloat16, lr=1e-4, mode=mode)
            self.stepped(optimizer, [param], steps=3)
            again, other = self.one(0.0, dtype=torch.bfloat16, lr=1e-4, mode=mode)
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
        """By the library, as on the CPU, and by torch, as on a GPU."""
        def by_library(values):
            return streams.HostStream().read([values], digest=True)[0].digest

        for size in (1, 40, 65536, 65537, 200_000):
            for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
                values = torch.randn(size, 2, generator=torch.Generator().manual_seed(size)).to(dtype)

                def flip(changed, size=size):
                    changed.view(-1).view(torch.uint8)[size // 3] ^= 1

                for name, change in (("a constant", lambda changed: changed.fill_(0.5)), ("one bit", flip),
                                     ("two rows", lambda changed: changed.copy_(changed.flip(0))),
                                     ("two elements of one", lambda changed: changed[0].copy_(changed[0].flip(0)))):
                    for take in (by_library, hashing.by_torch):
                        with self.subTest(size=size, dtype=dtype, change=name, digest=take):
                            seen, changed = take(values), values.clone()
                            self.assertEqual(hashing.differing([(take(changed), seen)]), [False])
                            change(changed)
                            self.assertEqual(hashing.differing([(take(changed), seen)]),
                                             [not torch.equal(changed, values)])
        self.assertEqual(hashing.differing([(seen, None), (None, None)]), [True, True])

    def test_another_shape_type_or_device_is_another_kind(self):
        values = torch.ones(300, 500)
        for other in (values[:200], values[:0], values.view(-1), values.to(torch.bfloat16), values.to(torch.int32),
                      values.to("meta")):
            self.assertNotEqual(hashing.kind(other), hashing.kind(values))
        self.assertEqual(hashing.kind(values.clone()), hashing.kind(values))

    def test_writes_are_found_by_the_digests_of_a_gpu_too(self):
        def read(tensors, norm, digest, copies, alone):
            return streams.read_by_torch(tensors, norm, digest, copies)

        with unittest.mock.patch.object(streams, "read_on_host", read):
            self.test_weights_clipped_through_data()
            self.test_one_weight_of_many_written_through_data()
            self.test_written_while_a_late_step_runs()
            self.test_saved_after_a_write()


class Taken(case.AdamWTest):
    """A change after two steps, and three more: as with torch within rounding, and bit for bit as in place."""

    @staticmethod
    def groups_of(model):
        return [{"params": list(model[0].parameters()), "lr": 1e-2}, {"params": list(model[2].parameters())}]

    def trained(self, make, change, dtype):
        model = make_model(dtype)
        optimizer = make(self.groups_of(model))
        train(model, optimizer, 2)
        self.changed(model, optimizer, change)
        train(model, optimizer, 3, first=2)
        return self.found(optimizer)

    def given(self, make, change, dtype):
        """The same, with gradients that do not depend on the parameters."""
        model, random = make_model(dtype), torch.Generator().manual_seed(8)
        optimizer = make(self.groups_of(model))
        for step in range(5):
            if step == 2:
                self.changed(model, optimizer, change)
            for param in (param for group in optimizer.param_groups for param in group["params"]):
                param.grad = torch.randn(param.shape, generator=random).to(param.dtype)
            optimizer.step()
        return self.found(optimizer)

    def changed(self, model, optimizer, change):
        if hasattr(optimizer, "synchronize"):
            optimizer.synchronize()
        for param in model.parameters():
            param.grad = None
        change(model, optimizer)

    def found(self, optimizer):
        if hasattr(optimizer, "synchronize"):
            optimizer.synchronize()
        params = [param for group in optimizer.param_groups for param in group["params"]]
        return [param.detach().clone() for param in params], [
            {name: value for name, value in optimizer.state[param].items()
             if name != "master" or param.dtype != torch.float32} for param in params]  # one is left of a 16-bit type

    def taken(self, change, *, like_torch=True, dtypes=(torch.float32, torch.bfloat16)):
        for dtype in dtypes:
            if like_torch and dtype is torch.float32:
                torch.testing.assert_close(self.trained(zf_runtime.AdamW, change, dtype),
                                           self.trained(torch.optim.AdamW, change, dtype), **case.ROUNDING)
            for train_it, modes in ((self.trained, case.WAITING), (self.given, case.MODES)):
                wanted = train_it(zf_runtime.AdamW, change, dtype)
                for mode in modes:
                    with self.subTest(dtype=dtype, mode=mode, training=train_it.__name__):
                        got = train_it(lambda groups, mode=mode: self.ours(groups, mode), change, dtype)
                        self.assert_bits(got, wanted)

    def test_a_parameter_replaced_in_its_group(self):
        """Pruning and gaussian splatting do that."""
        def change(model, optimizer):
            old = model[0].weight
            model[0].weight = torch.nn.Parameter(old.detach().clone() * 0.5)
            optimizer.param_groups[0]["params"][0] = model[0].weight
            optimizer.state.pop(old)

        def with_its_state(model, optimizer):
            old = model[0].weight
            model[0].weight = torch.nn.Parameter(old.detach().clone() * 0.5)
            optimizer.param_groups[0]["params"][0] = model[0].weight
            optimizer.state[model[0].weight] = optimizer.state.pop(old)

        def grown(model, optimizer):
            """By a row, and so are its moments; the next layer gets a column."""
            for layer, dim, group in ((model[0], 0, 0), (model[2], 1, 1)):
                for number, (name, old) in enumerate(list(layer.named_parameters())):
                    if old.dim() <= dim:
                        continue
                    row = old.detach().narrow(dim, 0, 1)
                    new = torch.nn.Parameter(torch.cat([old.detach(), row], dim))
                    state = optimizer.state.pop(old)
                    for moment in set(state) & {"exp_avg", "exp_avg_sq", "master"}:
                        state[moment] = torch.cat([state[moment], state[moment].narrow(dim, 0, 1)], dim)
                    optimizer.state[new] = state
                    setattr(layer, name, new)
                    optimizer.param_groups[group]["params"][number] = new

        for each in (change, with_its_state, grown):
            with self.subTest(each.__name__):
                self.taken(each)

    def test_a_parameter_appended_to_its_group(self):
        def change(model, optimizer):
            model[0].more = torch.nn.Parameter(torch.ones(3))
            model[0].more.register_hook(lambda gradient: gradient)
            optimizer.param_groups[1]["params"].append(model[0].more)

        self.taken(change, like_torch=False)

    def test_a_parameter_removed_from_its_group(self):
        self.taken(lambda model, optimizer: optimizer.param_groups[0]["params"].pop())
        self.taken(lambda model, optimizer: optimizer.param_groups[0]["params"].reverse())

    def test_a_group_appended_or_removed(self):
        self.taken(lambda model, optimizer: optimizer.param_groups.append(
            {**optimizer.param_groups[0], "params": [optimizer.param_groups[1]["params"].pop()], "lr": 0.1}))
        self.taken(lambda model, optimizer: optimizer.param_groups.pop())

    def test_settings_in_a_dict_of_its_own(self):
        def change(model, optimizer):
            optimizer.param_groups[0] = {**optimizer.param_groups[0], "lr": 0.1}

        self.taken(change)

    def test_another_type(self):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            with self.subTest(dtype):
                self.taken(lambda model, optimizer, dtype=dtype: model.to(dtype), like_torch=False)

    def test_another_shape_is_refused_until_its_state_is_removed(self):
        for mode in case.MODES:
            model = make_model()
            optimizer = self.ours(self.groups_of(model), mode)
            train(model, optimizer, 2)
            optimizer.synchronize()
            model[0].weight.data = torch.zeros(5, 5)
            model[0].weight.grad = torch.ones(5, 5)
            before = [param.detach().clone() for param in model.parameters()]
            for _ in range(2):
                with self.assertRaisesRegex(ZfError, r"exp_avg of a parameter has shape \(33, 10\).*\(5, 5\).*remove"):
                    optimizer.step()
            optimizer.synchronize()
            self.assert_bits(list(model.parameters()), before)
            optimizer.state.pop(model[0].weight)
            for group in optimizer.param_groups:
                group.update(weight_decay=0.0)
            optimizer.step()
            optimizer.synchronize()
            torch.testing.assert_close(model[0].weight.detach(), torch.full((5, 5), -1e-2))
            self.assertEqual([int(optimizer.state[param]["step"]) for param in model.parameters()], [1, 3, 3, 3])

    def test_another_shape_or_type_while_a_late_step_runs(self):
        """The step of such a parameter is lost, and a warning says so."""
        def reshaped(model):
            model[0].weight.data = torch.zeros(5, 5)
            model[0].weight.grad = None

        for change in (reshaped, lambda model: model.to(torch.bfloat16)):
            for call in ("step", "state_dict", "synchronize"):
                with self.subTest(call=call):
                    model = make_model()
                    optimizer = self.ours(model.parameters())
                    train(model, optimizer, 2)
                    change(model)
                    with self.assertWarnsRegex(UserWarning, "written while the step was running.*their step is lost"):
                        getattr(optimizer, call)()

    def test_states_removed(self):
        self.taken(lambda model, optimizer: optimizer.state.clear())
        self.taken(lambda model, optimizer: optimizer.state.pop(model[0].bias))

    def test_states_replaced_and_written(self):
        def of(model, optimizer):
            return optimizer.state[model[0].weight]

        def anew(model, optimizer):
            optimizer.state[model[0].weight] = {name: value.clone() for name, value in of(model, optimizer).items()}

        def swapped(model, optimizer):
            first, second = (optimizer.state[param]["exp_avg"] for param in (model[0].bias, model[2].bias))
            optimizer.state[model[0].bias]["exp_avg"] = second.sum() * torch.ones_like(first)
            optimizer.state[model[2].bias]["exp_avg"] = first[:7] * 2

        for change in (
                anew, swapped, lambda *both: of(*both).update(step=torch.tensor(0.0)),
                lambda *both: of(*both).update(step=torch.tensor(7.0)), lambda *both: of(*both)["step"].fill_(9),
                lambda *both: of(*both).update(exp_avg=torch.zeros(33, 10)),
                lambda *both: of(*both)["exp_avg"].zero_(), lambda *both: of(*both)["exp_avg_sq"].mul_(4)):
            self.taken(change)

    def test_states_that_lie_elsewhere(self):
        def moved(name, change):
            def move(model, optimizer):
                value = optimizer.state[model[0].weight][name]
                value.data = change(value.data)
            return move

        for name, change in (("exp_avg", torch.clone), ("exp_avg_sq", torch.ones_like), ("step", torch.clone)):
            self.taken(moved(name, change))

    def test_states_that_were_set_are_in_the_checkpoint(self):
        """Without a step between: by `.data` or in the dict, moved away and back, and before close()."""
        def assigned(entry, name, value):
            entry[name].data = value

        def replaced(entry, name, value):
            entry[name] = value

        def away_and_back(entry, name, value):
            entry[name].data = torch.empty(0)
            entry[name].data = value

        for mode, set_to, closes in itertools.product(
                case.MODES, (assigned, replaced, away_and_back), (False, True)):
            with self.subTest(set_to.__name__, mode=mode, closes=closes):
                model = make_model(torch.bfloat16)
                optimizer = self.ours(model.parameters(), mode)
                train(model, optimizer, 2)
                optimizer.synchronize()
                wanted = {}
                for number, param in enumerate(model.parameters()):
                    entry = optimizer.state[param]
                    wanted[number] = {name: value.clone() * {"exp_avg_sq": 0, "exp_avg": 1.5}.get(name, 1)
                                      for name, value in entry.items()}
                    for name, value in wanted[number].items():
                        set_to(entry, name, value.clone())
                if closes:
                    optimizer.close()
                self.assert_bits(optimizer.state_dict()["state"], wanted)

    def test_a_moment_that_is_turned_where_it_lies(self):
        def turned(make):
            torch.manual_seed(4)
            param = torch.nn.Parameter(torch.randn(5, 5))
            optimizer = make([param])
            for _ in range(2):
                param.grad = torch.randn(5, 5)
                optimizer.step()
            moment = optimizer.state[param]["exp_avg"]
            moment.data = moment.data.t()
            param.grad = torch.randn(5, 5)
            optimizer.step()
            return [param.detach(), optimizer.state[param]["exp_avg"]]

        wanted = turned(torch.optim.AdamW)
        for mode in case.MODES:
            with self.subTest(mode=mode):
                def make(params, mode=mode):
                    optimizer = self.ours(params, mode)
                    optimizer.register_step_post_hook(lambda *_: optimizer.synchronize())
                    return optimizer

                torch.testing.assert_close(turned(make), wanted, **case.ROUNDING)

    def test_moments_of_a_wrong_shape_are_refused_and_load_state_dict_heals(self):
        def turned(entry):
            entry["exp_avg"].data = entry["exp_avg"].data.t()

        for mode in case.MODES:
            for change in (turned, lambda entry: entry.update(exp_avg_sq=torch.zeros(3))):
                model = make_model()
                optimizer = self.ours(self.groups_of(model), mode)
                train(model, optimizer, 2)
                saved = copy.deepcopy(optimizer.state_dict())
                change(optimizer.state[model[0].weight])
                for call in (train, lambda _, optimizer, steps: optimizer.state_dict()):
                    with self.subTest(mode=mode), \
                            self.assertRaisesRegex(ZfError, r"exp_avg\S* of a parameter has shape"):
                        call(model, optimizer, 1)
                optimizer.load_state_dict(saved)
                train(model, optimizer, 1)
                self.assertEqual([int(entry["step"]) for entry in optimizer.state_dict()["state"].values()], [3] * 4)


class Said(case.AdamWTest):
    def test_fused_and_foreach_are_accepted(self):
        for more in ({"fused": True}, {"foreach": True}, {"fused": False, "foreach": None}):
            for mode in case.MODES:
                model = make_model()
                train(model, self.ours(model.parameters(), mode, **more), 1)

    def test_a_plan_for_another_mode_is_said_once(self):
        for mode, line in (("off", "overlap='off' is mode wait"), ("exact", "overlap='exact' is mode exact"),
                           ("late", "")):
            with warnings.catch_warnings(record=True) as said, \
                    unittest.mock.patch("zf_runtime.native.planned._said", set()):
                warnings.simplefilter("always")
                for _ in range(2):
                    self.ours(make_model().parameters(), mode)
            lines = [str(each.message) for each in said if "the plan is for" in str(each.message)]
            self.assertEqual(len(lines), len(line) > 0)
            self.assertTrue(all(line in each and "the plan is for mode overlap" in each for each in lines), lines)
