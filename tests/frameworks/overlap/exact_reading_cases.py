"""In mode exact a read of parameters between step() and forward finds those of overlap="off", bit for bit. Costs
5 s."""

import copy
import io
import os
import pickle
import signal
import unittest

import torch
from exact import Case, is_under_way, loss_of, make_model, values_of


class Read(Case):
    """What reads parameters between step() and forward waits."""

    def read(self, look):
        def program(make):
            model, seen = make_model(), []
            optimizer = make(model.parameters())
            for step in range(5):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                optimizer.step()
                seen += look(model, optimizer)
            optimizer.close()
            return seen + values_of(model)

        self.same(program)

    def test_parameters(self):
        self.read(lambda model, _: values_of(model))
        self.read(lambda model, _: [value.detach().clone() for _, value in model.named_parameters()])
        self.read(lambda model, _: values_of(model[2]))
        self.read(lambda model, _: [model.get_parameter("2.weight").detach().clone()])

    def test_state_dicts(self):
        self.read(lambda model, _: [value.clone() for value in model.state_dict().values()])
        self.read(lambda model, _: [value.clone() for value in model[0].state_dict().values()])
        self.read(lambda model, optimizer: [entry["exp_avg"].clone() for entry in
                                            optimizer.state_dict()["state"].values()])
        self.read(lambda model, _: [value.clone() for value in torch.nn.ModuleList([model]).state_dict().values()])

    def test_copies_and_pickles(self):
        def saved(model, _):
            file = io.BytesIO()
            torch.save(model, file)
            self.assertNotIn(b"zf_runtime", file.getvalue())  # the program that loads it need not have it
            file.seek(0)
            return values_of(torch.load(file, weights_only=False))

        self.read(lambda model, _: values_of(copy.deepcopy(model)))
        self.read(lambda model, _: values_of(pickle.loads(pickle.dumps(model))))
        self.read(saved)
        self.read(lambda model, _: values_of(copy.deepcopy(torch.nn.Sequential(model, model[1]))))

    def test_a_copy_waits_for_nothing_and_trains_by_itself(self):
        def program(make):
            model = make_model()
            optimizer = make(model.parameters())
            for step in range(3):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                optimizer.step()
            twin = copy.deepcopy(model)
            optimizer.zero_grad()
            loss_of(model, 3).backward()
            optimizer.step()
            under_way = is_under_way(optimizer)
            values = [value.clone() for value in twin.state_dict().values()] + values_of(twin)
            self.assertEqual(is_under_way(optimizer), under_way, "the copy has waited")
            twin.zero_grad()
            other = torch.optim.AdamW(twin.parameters())
            loss_of(twin, 4).backward()
            other.step()
            self.assertEqual(vars(twin).keys(), vars(make_model()).keys())
            for each in twin.modules():
                self.assertEqual((len(each._forward_pre_hooks), len(each._state_dict_pre_hooks)), (0, 0))
            return values + values_of(twin)

        self.same(program)

    def test_what_is_loaded_or_converted_counts(self):
        other = make_model(5)

        def loaded(model, optimizer):
            model.load_state_dict(other.state_dict())
            return []

        def converted(model, optimizer):
            model.to(torch.float64).to(torch.float32)
            return values_of(model)

        self.read(loaded)
        self.read(converted)

    def test_hooks_after_the_step_find_it_done(self):
        def program(make):
            model, seen = make_model(), []
            optimizer = make(model.parameters())
            optimizer.register_step_post_hook(lambda optimizer, *_: seen.extend(
                param.detach().clone() for param in optimizer.param_groups[0]["params"]))
            for step in range(3):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                optimizer.step()
            return seen

        self.same(program)

    def test_means_of_weights(self):
        def averaged(make):
            model = make_model()
            optimizer, mean = make(model.parameters()), torch.optim.swa_utils.AveragedModel(model)
            for step in range(6):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                optimizer.step()
                mean.update_parameters(model)
            return values_of(mean)

        def by_hand(make):
            model = make_model()
            optimizer, means = make(model.parameters()), values_of(model)
            params = list(model.parameters())
            for step in range(6):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                optimizer.step()
                for mean, param in zip(means, params):
                    mean.lerp_(param.detach(), 0.1)
            return means

        self.same(averaged)
        self.same(by_hand)

    def test_zero_grad_of_the_model_does_not_wait(self):
        model = make_model()
        optimizer = self.ours(model.parameters(), "exact")
        for step in range(3):
            loss_of(model, step).backward()
            os.kill(optimizer.runtime.stats().worker_pid, signal.SIGSTOP)
            optimizer.step()
            model.zero_grad()
            self.assertTrue(is_under_way(optimizer))
            os.kill(optimizer.runtime.stats().worker_pid, signal.SIGCONT)

if __name__ == "__main__":
    unittest.main()
