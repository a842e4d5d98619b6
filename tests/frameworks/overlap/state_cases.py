"""A checkpoint of AdamW with an optimizer process is one of torch.optim.AdamW, and the other way round. Tests
optim/overlap/state.py."""

import collections
import copy
import io

import case
import torch
import zf_runtime
from models import groups_of, make_model, parameters_of, train
from zf_runtime import ZfError


def through_a_file(document):
    file = io.BytesIO()
    torch.save(document, file)
    file.seek(0)
    return torch.load(file)


class StateDict(case.AdamWTest):
    def theirs(self, model):
        return torch.optim.AdamW(groups_of(model), lr=1e-2)

    def in_place(self, model):
        return zf_runtime.AdamW(groups_of(model), lr=1e-2)

    def waiting(self, model):
        return self.ours(groups_of(model), "off", lr=1e-2)

    def exact(self, model):
        return self.ours(groups_of(model), "exact", lr=1e-2)

    def continued(self, make_first, make_second):
        """Does 10 steps with one optimizer, and 10 with another that takes over its checkpoint; beside 20 of torch's
        and 20 in place."""
        whole, place, first, second = make_model(), make_model(), make_model(), make_model()
        train(whole, self.theirs(whole), 20)
        own = self.in_place(place)
        train(place, own, 20)
        optimizer = make_first(first)
        train(first, optimizer, 10)
        saved = through_a_file({"optimizer": optimizer.state_dict(), "model": first.state_dict()})
        optimizer = make_second(second)
        train(second, optimizer, 3)  # what it held before is gone after the load
        second.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        train(second, optimizer, 10, first=10)
        states = optimizer.state_dict()["state"]
        self.assert_same(second, whole)
        self.assertEqual([int(entry["step"]) for entry in states.values()], [20] * 4)
        if self.theirs not in (make_first, make_second):
            self.assert_bits([parameters_of(second), states], [parameters_of(place), own.state_dict()["state"]])

    def test_from_torch_to_ours(self):
        for make in (self.waiting, self.exact):
            self.continued(self.theirs, make)

    def test_from_ours_to_torch(self):
        for make in (self.waiting, self.exact):
            self.continued(make, self.theirs)

    def test_from_ours_to_ours(self):
        for first in (self.waiting, self.exact, self.in_place):
            for second in (self.waiting, self.exact, self.in_place):
                self.continued(first, second)

    def test_same_form_as_torchs(self):
        models = make_model(), make_model(), make_model()
        documents = []
        for model, make in zip(models, (self.theirs, self.waiting, self.exact)):
            optimizer = make(model)
            self.assertEqual(optimizer.state_dict()["state"], {})
            train(model, optimizer, 2)
            documents.append(optimizer.state_dict())
        forms = [{key: {name: (value.shape, value.dtype) for name, value in entry.items()}
                  for key, entry in document["state"].items()} for document in documents]
        self.assertEqual(forms[1], forms[0])
        self.assertEqual(forms[2], forms[0])
        for theirs, *ours in zip(*(document["param_groups"] for document in documents)):
            for group in ours:
                self.assertEqual(set(group) - set(theirs), {"bias_correction"})
                for name, value in theirs.items():
                    self.assertEqual(group[name], value, name)

    def test_a_kept_state_dict_shows_later_steps_as_torchs_does(self):
        counts = []
        for make in (self.waiting, self.exact, lambda model: torch.optim.AdamW(model.parameters())):
            model = make_model()
            optimizer = make(model)
            train(model, optimizer, 2)
            saved = optimizer.state_dict()
            train(model, optimizer, 2, first=2)
            counts.append([int(entry["step"]) for entry in saved["state"].values()])
            self.assertEqual([entry["exp_avg"].data_ptr() for entry in saved["state"].values()],
                             [entry["exp_avg"].data_ptr() for entry in optimizer.state.values()])
        self.assertEqual(counts, [[4] * 4] * 3)

    def test_settings_come_with_it(self):
        for mode in case.MODES:
            model = make_model()
            source = torch.optim.AdamW(model.parameters(), lr=0.125, betas=(0.5, 0.75), eps=1e-3, weight_decay=0.25)
            optimizer = self.ours(make_model().parameters(), mode)
            optimizer.load_state_dict(source.state_dict())
            group = optimizer.param_groups[0]
            self.assertEqual((group["lr"], group["betas"], group["eps"], group["weight_decay"]),
                             (0.125, (0.5, 0.75), 1e-3, 0.25))

    def test_it_is_of_the_step_that_the_model_has(self):
        for mode in case.MODES:
            model = make_model()
            optimizer = self.ours(model.parameters(), mode, lr=1e-2)
            train(model, optimizer, 5)
            saved = copy.deepcopy((optimizer.state_dict(), model.state_dict()))
            train(model, optimizer, 1, first=5)
            optimizer.synchronize()
            train(model, optimizer, 4, first=6)
            optimizer.synchronize()
            again = make_model()
            other = self.ours(again.parameters(), mode, lr=1e-2)
            again.load_state_dict(saved[1])
            other.load_state_dict(saved[0])
            train(again, other, 1, first=5)
            other.synchronize()
            train(again, other, 4, first=6)
            other.synchronize()
            self.assert_bits([parameters_of(again), other.state_dict()], [parameters_of(model), optimizer.state_dict()])

    def test_bf16_masters_survive(self):
        for mode in case.MODES:
            model, again = make_model(torch.bfloat16), make_model(torch.bfloat16)
            optimizer, other = (self.ours(m.parameters(), mode, lr=1e-3) for m in (model, again))
            train(model, optimizer, 10)
            saved = through_a_file((optimizer.state_dict(), model.state_dict()))
            again.load_state_dict(saved[1])
            other.load_state_dict(saved[0])
            for m, o in ((model, optimizer), (again, other)):
                train(m, o, 3, first=10)
                o.synchronize()
            self.assert_bits([parameters_of(again), other.state_dict()], [parameters_of(model), optimizer.state_dict()])

    def test_what_does_not_fit_changes_nothing(self):
        for make in (self.waiting, self.exact):
            model = make_model()
            optimizer = make(model)
            train(model, optimizer, 3)
            good = copy.deepcopy(optimizer.state_dict())

            def refused(error, text, change, good=good, optimizer=optimizer):
                bad = copy.deepcopy(good)
                change(bad)
                with self.subTest(text), self.assertRaisesRegex(error, text):
                    optimizer.load_state_dict(bad)
                self.assert_bits(optimizer.state_dict(), good)

            for name in ("amsgrad", "capturable", "differentiable"):
                refused(ZfError, name, lambda bad, name=name: bad["param_groups"][0].update({name: True}))
            refused(ZfError, "shape", lambda bad: bad["state"][0].update(exp_avg=torch.ones(3)))
            refused(ValueError, "parameter group", lambda bad: bad["param_groups"].pop())
            whole = make_model()
            train(whole, other := self.in_place(whole), 4)
            train(model, optimizer, 1, first=3)
            self.assert_bits([parameters_of(model), optimizer.state_dict()["state"]],
                             [parameters_of(whole), other.state_dict()["state"]])

    def test_counts_that_differ_and_states_that_are_missing(self):
        """As torch takes them: each parameter has a count of its own, and one without a state begins anew."""
        def changed(saved):
            saved["state"][1].update(step=torch.tensor(1.0))
            saved["state"][3].update(step=torch.tensor(70.0))
            del saved["state"][2]

        def continued(make):
            model = make_model()
            optimizer = make(model)
            train(model, optimizer, 3)
            saved = through_a_file(optimizer.state_dict())
            changed(saved)
            optimizer.load_state_dict(saved)
            train(model, optimizer, 3, first=3)
            return [parameters_of(model), optimizer.state_dict()["state"]]

        wanted = continued(self.theirs)
        bits = continued(self.in_place)
        for make in (self.waiting, self.exact):
            got = continued(make)
            torch.testing.assert_close(got, wanted, **case.ROUNDING)
            self.assert_bits(got, bits)
            self.assertEqual([int(got[1][number]["step"]) for number in range(4)], [6, 4, 3, 73])

    def test_what_programs_do_to_state_and_groups_does_what_it_does_in_torch(self):
        """Each habit between two steps, and before close()."""
        def take_last(model, optimizer):
            optimizer.param_groups.pop()

        def assign(model, optimizer):
            optimizer.param_groups[1]["params"] = [model[2].bias]

        def replace(model, optimizer):
            model[0].weight = torch.nn.Parameter(model[0].weight.detach() / 2)
            optimizer.param_groups[0]["params"] = [model[0].weight]

        habits = (lambda model, optimizer: optimizer.state.pop(model[0].bias),
                  lambda model, optimizer: optimizer.state.clear(),
                  lambda model, optimizer: optimizer.state.update({model[0].bias: {}}),
                  lambda model, optimizer: setattr(optimizer, "state", collections.defaultdict(dict)),
                  take_last, assign, replace)

        def after(make, habit, later):
            model = make_model()
            optimizer = make(model)
            close, settle = (getattr(optimizer, name, lambda: None) for name in ("close", "synchronize"))
            for step in range(4):
                train(model, optimizer, 1, first=step)
                settle()
                if step == 1 or (step == 3 and later):
                    habit(model, optimizer)
            close()
            state = optimizer.state
            return parameters_of(model), [len(group["params"]) for group in optimizer.param_groups], [
                {name: state[param][name].reshape(-1) for name in ("exp_avg", "exp_avg_sq", "step")
                 if name in state[param]} if param in state else None for param in model.parameters()]

        def late(model):
            return self.ours(groups_of(model), "late", lr=1e-2)

        for number, habit in enumerate(habits):
            for later in (False, True):
                wanted = after(self.theirs, habit, later)
                for make in (self.in_place, self.waiting, late, self.exact):
                    with self.subTest(habit=number, later=later, make=make.__name__):
                        torch.testing.assert_close(after(make, habit, later), wanted, rtol=2e-5, atol=2e-6)

    def test_an_entry_that_the_program_has_emptied_stays_empty(self):
        """Split masters are shown in `state` at close(), and not in this one."""
        for mode in case.MODES:
            model = make_model(torch.bfloat16)
            optimizer = self.ours(model.parameters(), mode, state="split")
            train(model, optimizer, 2)
            optimizer.synchronize()
            optimizer.state[model[0].bias] = {}
            optimizer.close()
            self.assertEqual(optimizer.state[model[0].bias], {})
            self.assertIn("low", optimizer.state[model[0].weight])

    def test_a_group_may_be_added_later(self):
        def trained(make):
            model = make_model()
            optimizer = make(model[0].parameters(), lr=1e-2)
            train(model, optimizer, 5)
            optimizer.add_param_group({"params": model[2].parameters(), "lr": 3e-3})
            train(model, optimizer, 5, first=5)
            if make is not torch.optim.AdamW:
                optimizer.synchronize()
            return model, optimizer.state_dict()["state"]

        wanted, bits = trained(torch.optim.AdamW), trained(zf_runtime.AdamW)
        for mode in case.WAITING:
            got = trained(lambda params, mode=mode, **more: self.ours(params, mode, **more))
            self.assert_same(got[0], wanted[0])
            self.assert_bits([parameters_of(got[0]), got[1]], [parameters_of(bits[0]), bits[1]])
