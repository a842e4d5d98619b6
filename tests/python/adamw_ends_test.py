"""Where OverlappedAdamW refuses, closes or dies: one clear exception, and usable parameters."""

import copy
import os
import signal
import unittest

import support

torch = support.need("torch")
import adamw_case  # noqa: E402
from models import make_model, parameters_of, train  # noqa: E402
from zf_runtime import OverlappedAdamW, ZfError, ZfPlanError, ZfWorkerDied  # noqa: E402


class Ends(adamw_case.AdamWTest):
    def test_what_it_cannot_do_is_refused(self):
        for name in ("amsgrad", "maximize"):
            with self.subTest(name), self.assertRaisesRegex(ZfError, name):
                self.ours(make_model().parameters(), **{name: True})
        model = make_model()
        optimizer = self.ours(model.parameters())
        optimizer.param_groups[0]["amsgrad"] = True
        with self.assertRaisesRegex(ZfError, "amsgrad"):
            train(model, optimizer, 1)
        with self.assertRaisesRegex(TypeError, "state_dict"):
            copy.deepcopy(optimizer)

    def test_some_without_gradients_are_named(self):
        first, second = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
        optimizer = self.ours([first, second])
        first.grad = torch.ones(2)
        with self.assertRaisesRegex(ZfError, r"\[1\] of 2"):
            optimizer.step()

    def test_no_plan(self):
        with self.assertRaisesRegex(ZfPlanError, "ZF_PLAN"):
            OverlappedAdamW(make_model().parameters())

    def test_closing_leaves_usable_parameters_and_no_process(self):
        for overlap in (False, True):
            model, maps = make_model(), support.mapped_arenas()
            with OverlappedAdamW(model.parameters(), plan=support.plan(), overlap=overlap) as optimizer:
                pid = optimizer.runtime.stats().worker_pid
                train(model, optimizer, 3)
                optimizer.synchronize()
                last = parameters_of(model)
            optimizer.close()
            self.assertFalse(support.process_exists(pid))
            self.assertEqual(support.mapped_arenas(), maps)
            self.assertTrue(torch.equal(parameters_of(model), last))
            self.assertEqual(len(optimizer.state_dict()["state"]), 4)
            with self.assertRaisesRegex(ZfError, "closed"):
                optimizer.step()

    def test_a_kill_changes_nothing(self):
        for overlap in (False, True):
            undisturbed, killed = make_model(), make_model()
            with OverlappedAdamW(undisturbed.parameters(), plan=support.plan(), overlap=overlap) as optimizer:
                train(undisturbed, optimizer, 6)
            with OverlappedAdamW(killed.parameters(), plan=support.plan(), overlap=overlap) as optimizer:
                train(killed, optimizer, 3)
                os.kill(optimizer.runtime.stats().worker_pid, signal.SIGKILL)
                train(killed, optimizer, 3, first=3)
                optimizer.synchronize()
                self.assertEqual(optimizer.runtime.stats().restarts, 1)
            self.assertTrue(torch.equal(parameters_of(killed), parameters_of(undisturbed)))

    def test_without_restarts_a_kill_is_told_and_parameters_stay(self):
        model = make_model()
        optimizer = OverlappedAdamW(model.parameters(), plan=support.plan(), overlap=False,
                                    runtime_options={"max_restarts": 0})
        train(model, optimizer, 3)
        before = parameters_of(model)
        os.kill(optimizer.runtime.stats().worker_pid, signal.SIGKILL)
        with self.assertRaises(ZfWorkerDied):
            train(model, optimizer, 2)
        with self.assertRaises(ZfWorkerDied):
            optimizer.close()
        self.assertTrue(torch.equal(parameters_of(model), before))


if __name__ == "__main__":
    unittest.main()
