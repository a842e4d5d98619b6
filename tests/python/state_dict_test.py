"""A checkpoint of OverlappedAdamW is one of torch.optim.AdamW, and the other way round."""

import copy
import io
import unittest

import support

torch = support.need("torch")
import adamw_case  # noqa: E402
from models import groups_of, make_model, parameters_of, train  # noqa: E402
from zf_runtime import ZfError  # noqa: E402


def through_a_file(document):
    file = io.BytesIO()
    torch.save(document, file)
    file.seek(0)
    return torch.load(file)


class StateDict(adamw_case.AdamWTest):
    def theirs(self, model):
        return torch.optim.AdamW(groups_of(model), lr=1e-2)

    def continued(self, make_first, make_second):
        """10 steps with one optimizer, 10 with another that takes over its checkpoint; beside 20 of torch's."""
        whole, first, second = make_model(), make_model(), make_model()
        train(whole, self.theirs(whole), 20)
        optimizer = make_first(first)
        train(first, optimizer, 10)
        saved = through_a_file({"optimizer": optimizer.state_dict(), "model": first.state_dict()})
        optimizer = make_second(second)
        train(second, optimizer, 3)  # what it held before is gone after the load
        second.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        train(second, optimizer, 10, first=10)
        self.assert_same(second, whole)
        self.assertEqual([int(entry["step"]) for entry in optimizer.state_dict()["state"].values()], [20] * 4)

    def sync(self, model):
        return self.ours(groups_of(model), lr=1e-2, overlap=False)

    def test_from_torch_to_ours(self):
        self.continued(self.theirs, self.sync)

    def test_from_ours_to_torch(self):
        self.continued(self.sync, self.theirs)

    def test_from_ours_to_ours(self):
        self.continued(self.sync, self.sync)

    def test_same_form_as_torchs(self):
        models = make_model(), make_model()
        documents = []
        for model, make in zip(models, (self.theirs, self.sync)):
            optimizer = make(model)
            self.assertEqual(optimizer.state_dict()["state"], {})
            train(model, optimizer, 2)
            documents.append(optimizer.state_dict())
        self.assertEqual(*({key: {name: (value.shape, value.dtype) for name, value in entry.items()}
                            for key, entry in document["state"].items()} for document in documents))
        for theirs, ours in zip(*(document["param_groups"] for document in documents)):
            self.assertLessEqual(set(ours), set(theirs))
            for name, value in ours.items():
                self.assertEqual(value, theirs[name], name)

    def test_settings_come_with_it(self):
        model = make_model()
        source = torch.optim.AdamW(model.parameters(), lr=0.125, betas=(0.5, 0.75), eps=1e-3, weight_decay=0.25)
        optimizer = self.ours(make_model().parameters())
        optimizer.load_state_dict(source.state_dict())
        group = optimizer.param_groups[0]
        self.assertEqual((group["lr"], group["betas"], group["eps"], group["weight_decay"]),
                         (0.125, (0.5, 0.75), 1e-3, 0.25))

    def test_overlapped_is_consistent_with_the_model(self):
        model = make_model()
        optimizer = self.ours(model.parameters(), lr=1e-2)
        train(model, optimizer, 5)
        saved = copy.deepcopy((optimizer.state_dict(), model.state_dict()))
        train(model, optimizer, 5, first=5)
        optimizer.synchronize()
        again = make_model()
        other = self.ours(again.parameters(), lr=1e-2)
        again.load_state_dict(saved[1])
        other.load_state_dict(saved[0])
        train(again, other, 5, first=5)
        other.synchronize()
        self.assert_same(again, model)

    def test_bf16_masters_survive(self):
        model, again = make_model(torch.bfloat16), make_model(torch.bfloat16)
        optimizer, other = (self.ours(m.parameters(), lr=1e-3, overlap=False) for m in (model, again))
        train(model, optimizer, 10)
        saved = through_a_file((optimizer.state_dict(), model.state_dict()))
        again.load_state_dict(saved[1])
        other.load_state_dict(saved[0])
        for m, o in ((model, optimizer), (again, other)):
            train(m, o, 3, first=10)
        for mine, theirs in zip(model.parameters(), again.parameters()):
            torch.testing.assert_close(optimizer.state[mine]["master"], other.state[theirs]["master"])

    def test_what_does_not_fit_changes_nothing(self):
        model = make_model()
        optimizer = self.sync(model)
        train(model, optimizer, 3)
        good = copy.deepcopy(optimizer.state_dict())

        def refused(error, text, change):
            bad = copy.deepcopy(good)
            change(bad)
            with self.subTest(text), self.assertRaisesRegex(error, text):
                optimizer.load_state_dict(bad)

        refused(ZfError, "amsgrad", lambda bad: bad["param_groups"][0].update(amsgrad=True))
        refused(ZfError, r"steps \[1, 3\]", lambda bad: bad["state"][1].update(step=torch.tensor(1.0)))
        refused(ZfError, "shape", lambda bad: bad["state"][0].update(exp_avg=torch.ones(3)))
        refused(ValueError, "parameter group", lambda bad: bad["param_groups"].pop())
        torch.testing.assert_close(optimizer.state_dict()["state"], good["state"], rtol=0, atol=0)

    def test_a_group_may_be_added_later(self):
        models = make_model(), make_model()
        for model, make in zip(models, (torch.optim.AdamW, self.ours)):
            more = {} if make is torch.optim.AdamW else {"overlap": False}
            optimizer = make(model[0].parameters(), lr=1e-2, **more)
            train(model, optimizer, 5)
            optimizer.add_param_group({"params": model[2].parameters(), "lr": 3e-3})
            train(model, optimizer, 5, first=5)
        self.assert_same(models[1], models[0])
        self.assertGreater(parameters_of(models[1]).abs().max(), 0)


if __name__ == "__main__":
    unittest.main()
