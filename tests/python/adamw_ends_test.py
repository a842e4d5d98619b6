"""OverlappedAdamW raises one clear exception when it refuses, closes or dies, and leaves the parameters usable."""

import contextlib
import copy
import os
import re
import signal
import traceback
import unittest
import unittest.mock

import support

torch = support.need("torch")
import adamw_case  # noqa: E402
from models import make_model, parameters_of, train  # noqa: E402
from zf_runtime import ZfError, ZfPlanError, ZfWorkerDied  # noqa: E402
from zf_runtime._in_arena import InArena  # noqa: E402


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

    def test_what_torch_refuses_is_refused(self):
        for wrong in ({"lr": -1}, {"lr": float("nan")}, {"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)}, {"eps": -1e-8},
                      {"weight_decay": -0.1}):
            with self.subTest(wrong):
                with self.assertRaises(ValueError) as theirs:
                    torch.optim.AdamW(make_model().parameters(), **wrong)
                with self.assertRaisesRegex(ValueError, re.escape(str(theirs.exception))):
                    self.ours(make_model().parameters(), **wrong)
                model = make_model()
                optimizer = self.ours(model[0].parameters())
                for make, argument in (
                        (self.ours, [{"params": model[0].parameters()}, {"params": model[2].parameters(), **wrong}]),
                        (optimizer.add_param_group, {"params": model[2].parameters(), **wrong})):
                    with self.assertRaisesRegex(ValueError, re.escape(str(theirs.exception)) + " in param_group 1"):
                        make(argument)
                train(model, optimizer, 1)

    def test_a_group_that_is_refused_changes_nothing(self):
        model = make_model()
        optimizer = self.ours(model[0].parameters())
        for wrong in ({"lr": 0.1}, {"params": model[0].parameters()},
                      {"params": model[2].parameters(), "amsgrad": True},
                      {"params": [torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))]}):
            with self.assertRaises((KeyError, ValueError, ZfError)):
                optimizer.add_param_group(wrong)
        self.assertEqual(len(optimizer.param_groups), 1)
        train(model, optimizer, 1)
        optimizer.close()
        with self.assertRaisesRegex(ZfError, "amsgrad"):
            optimizer.add_param_group({"params": model[2].parameters(), "amsgrad": True})

    def test_options_are_given_once(self):
        for name, place in (("plan", "argument"), ("rank", "argument"), ("groups", "param_group")):
            with self.subTest(name), self.assertRaisesRegex(TypeError, f"'{name}'.*{place}"):
                self.ours(make_model().parameters(), runtime_options={name: None})

    def test_ranks_that_cannot_be(self):
        for rank in (-1, -7, 2**40):
            with self.subTest(rank), self.assertRaisesRegex(ValueError, f"rank is {rank}; .*2147483647"):
                self.ours(make_model().parameters(), rank=rank)

    def test_some_without_gradients_are_named(self):
        first, second = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
        optimizer = self.ours([first, second])
        first.grad = torch.ones(2)
        with self.assertRaisesRegex(ZfError, r"\[1\] of 2"):
            optimizer.step()

    def test_no_plan(self):
        with self.assertRaisesRegex(ZfPlanError, "ZF_PLAN"):
            InArena(make_model().parameters())

    def test_closing_leaves_usable_parameters_and_no_process(self):
        for overlap in (False, True):
            model, maps = make_model(), support.mapped_arenas()
            with InArena(model.parameters(), plan=support.plan(), overlap=overlap) as optimizer:
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

    def test_a_forked_child_closes_it_and_the_parent_goes_on(self):
        for overlap in (False, True):
            undisturbed, forked = make_model(), make_model()
            with InArena(undisturbed.parameters(), plan=support.plan(), overlap=overlap) as optimizer:
                train(undisturbed, optimizer, 6)
            with InArena(forked.parameters(), plan=support.plan(), overlap=overlap) as optimizer:
                train(forked, optimizer, 3)  # with overlap, the third is under way
                self.assertEqual(self.status_of_child(optimizer), 0)
                train(forked, optimizer, 3, first=3)
                self.assertEqual(optimizer.runtime.stats().restarts, 0)
            self.assertTrue(torch.equal(parameters_of(forked), parameters_of(undisturbed)))

    def status_of_child(self, optimizer):
        """Forks a child that is refused every use and then closes. Returns its status."""
        child = os.fork()
        if child == 0:
            try:
                for use in (optimizer.step, lambda: optimizer.add_param_group({"params": [torch.nn.Parameter()]}),
                            lambda: optimizer.load_state_dict({})):
                    try:
                        use()
                        os._exit(2)
                    except ZfError as error:
                        assert error.status == "ZF_ERROR_FORKED"
                optimizer.close()
                optimizer.close()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        return os.waitpid(child, 0)[1]

    def test_a_kill_changes_nothing(self):
        for overlap in (False, True):
            undisturbed, killed = make_model(), make_model()
            with InArena(undisturbed.parameters(), plan=support.plan(), overlap=overlap) as optimizer:
                train(undisturbed, optimizer, 6)
            with InArena(killed.parameters(), plan=support.plan(), overlap=overlap) as optimizer:
                train(killed, optimizer, 3)
                os.kill(optimizer.runtime.stats().worker_pid, signal.SIGKILL)
                train(killed, optimizer, 3, first=3)
                optimizer.synchronize()
                self.assertEqual(optimizer.runtime.stats().restarts, 1)
            self.assertTrue(torch.equal(parameters_of(killed), parameters_of(undisturbed)))

    def test_without_restarts_a_kill_is_told_and_parameters_stay(self):
        model = make_model()
        optimizer = InArena(model.parameters(), plan=support.plan(), overlap=False,
                            runtime_options={"max_restarts": 0})
        train(model, optimizer, 3)
        before = parameters_of(model)
        os.kill(optimizer.runtime.stats().worker_pid, signal.SIGKILL)
        with self.assertRaises(ZfWorkerDied):
            train(model, optimizer, 2)
        with contextlib.suppress(ZfWorkerDied):  # says it again if the step was handed over before the death was seen
            optimizer.close()
        self.assertTrue(torch.equal(parameters_of(model), before))

    def test_a_step_after_an_interrupted_one_waits_before_it_writes_gradients(self):
        """With overlap=False there is one gradient buffer, which the interrupted step still reads."""
        param = torch.nn.Parameter(torch.ones(40))
        plain = torch.nn.Parameter(torch.ones(40))
        optimizer, theirs = self.ours([param], overlap=False), torch.optim.AdamW([plain])
        group, = optimizer._groups
        self.assertEqual(len(group.grads), 1)
        param.grad, plain.grad = torch.ones(40), torch.ones(40)
        with unittest.mock.patch.object(optimizer.runtime, "wait", side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, optimizer.step)
        theirs.step()
        running, write = [], group.write_grads
        group.write_grads = lambda buffer: running.append(not optimizer.runtime.done()) or write(buffer)
        param.grad, plain.grad = torch.full((40,), -3.0), torch.full((40,), -3.0)
        optimizer.step()
        theirs.step()
        self.assertEqual(running, [False])
        torch.testing.assert_close(param.detach(), plain.detach(), **adamw_case.ROUNDING)


if __name__ == "__main__":
    unittest.main()
