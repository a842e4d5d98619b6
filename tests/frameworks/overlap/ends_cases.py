"""AdamW with an optimizer process raises one clear exception when it refuses, closes or dies, and leaves the parameters
usable. Tests optim/tensors/engine.py, optim/overlap/opened.py, optim/overlap/refusals.py."""

import contextlib
import copy
import os
import re
import signal
import tempfile
import threading
import time
import traceback
import unittest.mock
import warnings

import case
import torch
import zf_runtime
from case import support
from models import make_model, parameters_of, train
from zf_runtime import ZfError, ZfPlanError, ZfTimeout, ZfWorkerDied

REFUSED = ("amsgrad", "capturable", "differentiable")


class Ends(case.AdamWTest):
    def trained(self, mode, steps):
        """Returns a model and its optimizer that have done so many steps."""
        model = make_model()
        optimizer = self.ours(model.parameters(), mode)
        train(model, optimizer, steps)
        return model, optimizer

    def test_what_it_cannot_do_is_refused(self):
        for mode in case.MODES:
            for name in REFUSED:
                with self.subTest(name, mode=mode), self.assertRaisesRegex(ZfError, name):
                    self.ours(make_model().parameters(), mode, **{name: True})
        for name in REFUSED:
            for mode in case.MODES:
                model, optimizer = self.trained(mode, 1)
                optimizer.synchronize()
                before = parameters_of(model)
                optimizer.param_groups[0][name] = True
                with self.assertRaisesRegex(ZfError, name):
                    train(model, optimizer, 1)
                self.assertTrue(torch.equal(parameters_of(model), before))
                optimizer.param_groups[0][name] = False
                train(model, optimizer, 1)

    def test_parameters_that_it_cannot_step_are_refused(self):
        for mode in case.MODES:
            for param, text in ((torch.nn.Parameter(torch.ones(2, dtype=torch.complex64)), "complex64"),
                                (torch.nn.Parameter(torch.ones(2, dtype=torch.int64), requires_grad=False), "int64")):
                with self.subTest(text, mode=mode):
                    param.requires_grad_(param.is_complex())
                    optimizer = self.ours(make_model().parameters(), mode)
                    with self.assertRaisesRegex(ZfError, text):
                        optimizer.add_param_group({"params": [param]})
                    if param.requires_grad:
                        self.assertRaisesRegex(ZfError, text, self.ours, [param], mode)

    def test_sparse_gradients_are_refused(self):
        for mode in case.MODES:
            table, plain = torch.nn.Embedding(5, 3, sparse=True), torch.nn.Linear(3, 2)
            params = [*table.parameters(), *plain.parameters()]
            optimizer = self.ours(params, mode)
            plain(table(torch.tensor([1, 2]))).sum().backward()
            before = [param.detach().clone() for param in params]
            with self.subTest(mode=mode), self.assertRaisesRegex(ZfError, "sparse gradient.*SparseAdam"):
                optimizer.step()
            optimizer.synchronize()
            self.assert_bits(params, before)
            table.weight.grad = table.weight.grad.to_dense()
            optimizer.step()
            optimizer.synchronize()
            self.assertTrue((table.weight[1] != before[0][1]).all())

    def test_what_torch_refuses_is_refused(self):
        """In torch's words."""
        for wrong in ({"lr": -1}, {"lr": float("nan")}, {"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)}, {"eps": -1e-8},
                      {"weight_decay": -0.1}):
            for mode in case.MODES:
                with self.subTest(wrong, mode=mode):
                    with self.assertRaises(ValueError) as theirs:
                        torch.optim.AdamW(make_model().parameters(), **wrong)
                    with self.assertRaisesRegex(ValueError, re.escape(str(theirs.exception))):
                        self.ours(make_model().parameters(), mode, **wrong)

    def test_settings_that_are_not_finite_are_refused_before_anything_is_stepped(self):
        for wrong in ({"lr": float("nan")}, {"betas": (0.9, float("inf"))}, {"eps": float("inf")}):
            for mode in case.MODES:
                model, optimizer = self.trained(mode, 2)
                optimizer.synchronize()
                before, kept = parameters_of(model), dict(optimizer.param_groups[0])
                optimizer.param_groups[0].update(wrong)
                text = "a param_group has (lr|beta2|eps) (nan|inf): set it to a finite number"
                with self.assertRaisesRegex(ZfError, text):
                    train(model, optimizer, 1, first=2)
                optimizer.synchronize()
                self.assertTrue(torch.equal(parameters_of(model), before))
                optimizer.param_groups[0].update(kept)
                train(model, optimizer, 1, first=2)
                optimizer.synchronize()
                whole = make_model()
                train(whole, other := self.ours(whole.parameters(), mode), 2)
                other.synchronize()
                train(whole, other, 1, first=2)
                other.synchronize()
                self.assertTrue(torch.equal(parameters_of(model), parameters_of(whole)))

    def test_a_shallow_copy_is_refused_where_a_process_has_the_state(self):
        """In place it goes on with the state, as torch's."""
        for mode in case.MODES:
            with self.subTest(mode), self.assertRaisesRegex(ZfError, "two would step one state"):
                copy.copy(self.ours(make_model().parameters(), mode))
        models = make_model(), make_model()
        for model, make in zip(models, (torch.optim.AdamW, zf_runtime.AdamW)):
            optimizer = make(model.parameters())
            train(model, optimizer, 1)
            train(model, copy.copy(optimizer), 1, first=1)
            train(model, optimizer, 1, first=2)
        self.assert_same(*models)

    def test_a_scripted_module_is_refused_where_its_state_dict_cannot_wait(self):
        model = torch.jit.script(make_model())
        with self.assertRaisesRegex(ZfError, "late.*RecursiveScriptModule.*cannot wait for the step"):
            train(model, self.ours(model.parameters(), "late"), 2)

    def test_a_group_that_is_refused_changes_nothing(self):
        for mode in case.MODES:
            model, whole = make_model(), make_model()
            optimizer = self.ours(model[0].parameters(), mode)
            for wrong in ({"lr": 0.1}, {"params": model[0].parameters()},
                          {"params": model[2].parameters(), "amsgrad": True},
                          {"params": [torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))]}):
                with self.assertRaises((KeyError, ValueError, ZfError)):
                    optimizer.add_param_group(wrong)
            self.assertEqual(len(optimizer.param_groups), 1)
            train(model, optimizer, 2)
            train(whole, other := self.ours(whole[0].parameters(), mode), 2)
            optimizer.close()
            other.close()
            self.assertTrue(torch.equal(parameters_of(model), parameters_of(whole)))

    def test_options_are_given_once(self):
        for name, place in (("plan", "argument"), ("rank", "argument"), ("groups", "param_group")):
            with self.subTest(name), self.assertRaisesRegex(TypeError, f"'{name}'.*{place}"):
                self.ours(make_model().parameters(), runtime_options={name: None})

    def test_an_option_that_there_is_not_is_named_with_those_that_there_are(self):
        with self.assertRaisesRegex(TypeError, "^runtime_options has 'keeps', which .*: spin_us, .*keep_s, "):
            self.ours(make_model().parameters(), runtime_options={"spin_us": 0, "keeps": 5})

    def test_modes_that_there_are_not(self):
        for wrong in ("", "on", True, None):
            with self.subTest(wrong), self.assertRaisesRegex(ZfError, 'must be "off", "late", "exact" or "backward"'):
                self.ours(make_model().parameters(), wrong)

    def test_ranks_that_cannot_be(self):
        for rank in (-1, -7, 2**40):
            with self.subTest(rank), self.assertRaisesRegex(ValueError, f"rank is {rank}; .*2147483647"):
                self.ours(make_model().parameters(), rank=rank)

    def test_no_plan(self):
        for mode in case.MODES:
            with self.subTest(mode), self.assertRaisesRegex(ZfPlanError, "ZF_PLAN"), \
                    unittest.mock.patch("zf_runtime.optim.adam._has_gpu", lambda params: True):
                zf_runtime.AdamW(make_model().parameters(), overlap=mode)

    def test_closing_leaves_usable_parameters_and_no_process(self):
        for mode in case.MODES:
            model, maps, threads = make_model(), support.mapped_arenas(), threading.active_count()
            with case.with_process(model.parameters(), mode) as optimizer:
                pid = optimizer.runtime.stats().worker_pid
                train(model, optimizer, 3)
                optimizer.synchronize()
                last = parameters_of(model)
            optimizer.close()
            self.assertFalse(support.process_exists(pid))
            self.assertEqual(threading.active_count(), threads)
            self.assertTrue(torch.equal(parameters_of(model), last))
            self.assertEqual(len(optimizer.state_dict()["state"]), 4)
            with self.assertRaisesRegex(ZfError, "closed"):
                optimizer.step()
            with self.assertRaisesRegex(ZfError, "closed"):
                optimizer.runtime.stats()
            optimizer.state.clear()  # it had the memory
            self.assertEqual(support.mapped_arenas(), maps)

    def test_no_group_is_added_to_an_optimizer_that_is_closed(self):
        """Also not to one without a process."""
        in_place = [zf_runtime.AdamW(make_model().parameters(), overlap=mode) for mode in ("off", "backward")]
        for optimizer in (*(self.ours(make_model().parameters(), mode) for mode in case.MODES), *in_place):
            optimizer.close()
            with self.subTest(optimizer.overlap), self.assertRaisesRegex(ZfError, "the optimizer is closed"):
                optimizer.add_param_group({"params": make_model().parameters()})
            self.assertEqual(len(optimizer.param_groups), 1)

    def test_closing_ends_a_process_that_stands_still(self):
        """Also where a save waits for it, and where the garbage collector closes. The step is lost."""
        for mode, by_hand, saves in (("late", True, False), ("late", False, False), ("exact", True, False),
                                     ("exact", True, True), ("exact", False, False)):
            with self.subTest(mode, by_hand=by_hand, saves=saves), tempfile.TemporaryDirectory() as folder:
                model = make_model()
                optimizer = case.with_process(model.parameters(), mode, runtime_options={"close_timeout": 0.5})
                train(model, optimizer, 1)
                optimizer.synchronize()
                before, pid = parameters_of(model), optimizer.runtime.stats().worker_pid
                model(torch.ones(1, 10)).sum().backward()
                os.kill(pid, signal.SIGSTOP)
                optimizer.step()
                going_on = threading.Timer(30, os.kill, (pid, signal.SIGCONT))  # else a failure would not end
                going_on.start()
                began = time.monotonic()
                if saves:
                    optimizer.save_async(f"{folder}/state.pt")
                if by_hand:
                    self.assertRaisesRegex(ZfTimeout, "was killed: it had not finished after 0.5 s", optimizer.close)
                del optimizer
                going_on.cancel()
                self.assertLess(time.monotonic() - began, 20)
                self.assertFalse(support.process_exists(pid))
                self.assertTrue(torch.equal(parameters_of(model), before))

    def test_ctrl_c_ends_closing_at_once_and_loses_nothing(self):
        """While the process stands still: with a step, without one, and with a save. The optimizer stays open."""
        for mode, steps, saves in (("late", True, False), ("exact", True, False), ("exact", False, False),
                                   ("exact", True, True), ("off", False, False)):
            with self.subTest(mode, steps=steps, saves=saves), tempfile.TemporaryDirectory() as folder:
                model, whole = make_model(), make_model()
                optimizer = self.ours(model.parameters(), mode, runtime_options={"close_timeout": 20})
                with case.with_process(whole.parameters(), mode) as other:
                    train(whole, other, 1)
                    other.synchronize()
                    train(whole, other, int(steps), first=1)
                train(model, optimizer, 1)
                optimizer.synchronize()
                pid = optimizer.runtime.stats().worker_pid
                os.kill(pid, signal.SIGSTOP)
                os.waitid(os.P_PID, pid, os.WSTOPPED)
                going_on = threading.Timer(60, os.kill, (pid, signal.SIGCONT))  # else a failure would not end
                going_on.start()
                if steps:
                    train(model, optimizer, 1, first=1)
                if saves:
                    optimizer.save_async(f"{folder}/state.pt")
                self.addCleanup(signal.signal, signal.SIGALRM,
                                signal.signal(signal.SIGALRM, signal.default_int_handler))
                for _ in range(2):
                    signal.setitimer(signal.ITIMER_REAL, 0.3)
                    began = time.monotonic()
                    self.assertRaises(KeyboardInterrupt, optimizer.close)
                    self.assertLess(time.monotonic() - began, 10)
                going_on.cancel()
                os.kill(pid, signal.SIGCONT)
                optimizer.close()
                self.assertFalse(support.process_exists(pid))
                self.assertEqual(os.path.exists(f"{folder}/state.pt"), saves)
                self.assertTrue(torch.equal(parameters_of(model), parameters_of(whole)))

    def test_closing_finishes_the_step_that_is_under_way(self):
        for mode in case.MODES:
            model, optimizer = self.trained(mode, 4)
            whole = make_model()
            train(whole, other := self.ours(whole.parameters(), mode), 4)
            other.synchronize()
            optimizer.close()
            self.assertTrue(torch.equal(parameters_of(model), parameters_of(whole)))

    def test_an_optimizer_that_nobody_closes_leaves_no_process(self):
        for mode in case.MODES:
            model, threads = make_model(), threading.active_count()
            optimizer = case.with_process(model.parameters(), mode)
            pid = optimizer.runtime.stats().worker_pid
            train(model, optimizer, 3)
            del optimizer
            self.assertFalse(support.process_exists(pid), mode)
            self.assertEqual(threading.active_count(), threads, mode)
            model(torch.ones(1, 10))
            model.state_dict()

    def test_a_forked_child_closes_it_and_the_parent_goes_on(self):
        warnings.filterwarnings("default", category=DeprecationWarning)  # Python's, of fork() beside threads
        for mode in case.MODES:
            forked, optimizer = self.trained(mode, 3)  # with overlap, the third is under way
            undisturbed = make_model()
            with case.with_process(undisturbed.parameters(), mode) as other:
                train(undisturbed, other, 6)
            self.assertEqual(self.status_of_child(forked, optimizer), 0)
            train(forked, optimizer, 3, first=3)
            self.assertEqual(optimizer.runtime.stats().restarts, 0)
            optimizer.close()
            self.assertTrue(torch.equal(parameters_of(forked), parameters_of(undisturbed)))

    def status_of_child(self, model, optimizer):
        """Forks a child that is refused every use and then closes. Its model works without waiting. Returns its
        status."""
        child = os.fork()
        if child == 0:
            try:
                for use in (optimizer.step, lambda: optimizer.add_param_group({"params": [torch.nn.Parameter()]}),
                            lambda: optimizer.load_state_dict({}), optimizer.synchronize, optimizer.state_dict):
                    try:
                        use()
                        os._exit(2)
                    except ZfError as error:
                        assert error.status == "ZF_ERROR_FORKED"
                with torch.no_grad():
                    model[0].weight.sum()
                model.state_dict()
                list(model.parameters())
                optimizer.close()
                optimizer.close()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        return os.waitpid(child, 0)[1]

    def test_a_kill_changes_nothing(self):
        for mode in case.MODES:
            killed, optimizer = self.trained(mode, 3)
            undisturbed = make_model()
            with case.with_process(undisturbed.parameters(), mode) as other:
                train(undisturbed, other, 6)
            os.kill(optimizer.runtime.stats().worker_pid, signal.SIGKILL)
            train(killed, optimizer, 3, first=3)
            optimizer.synchronize()
            self.assertEqual(optimizer.runtime.stats().restarts, 1)
            self.assertTrue(torch.equal(parameters_of(killed), parameters_of(undisturbed)))

    def test_without_restarts_a_kill_is_told_and_parameters_stay(self):
        for mode in case.MODES:
            with self.subTest(mode=mode):
                model = make_model()
                optimizer = case.with_process(model.parameters(), mode, runtime_options={"max_restarts": 0})
                train(model, optimizer, 3)
                optimizer.synchronize()
                before = parameters_of(model)
                os.kill(optimizer.runtime.stats().worker_pid, signal.SIGKILL)
                with self.assertRaises(ZfWorkerDied):
                    train(model, optimizer, 3)
                with contextlib.suppress(ZfWorkerDied):  # says it again if the step was handed over before
                    optimizer.close()
                self.assertTrue(torch.equal(parameters_of(model), before))
                model(torch.ones(1, 10))
                self.assertEqual(len(optimizer.state_dict()["state"]), 4)

    def test_a_step_after_an_interrupted_one_waits_before_it_writes_gradients(self):
        """Waiting modes have one gradient buffer, which the interrupted step still reads."""
        for mode in case.MODES:
            ours, place = torch.nn.Parameter(torch.ones(40)), torch.nn.Parameter(torch.ones(40))
            optimizer, own = self.ours([ours], mode), zf_runtime.AdamW([place])
            pid = optimizer.runtime.stats().worker_pid
            os.kill(pid, signal.SIGSTOP)
            ours.grad, place.grad = torch.ones(40), torch.ones(40)
            if mode != "off":
                optimizer.step()
            else:
                finish, calls = optimizer._engine.opened.overlap.finish, []

                def interrupted(finish=finish, calls=calls):
                    calls.append(1)
                    if len(calls) == 3:  # of a step: before its gradients, after them, and when it is handed over
                        raise KeyboardInterrupt
                    return finish()

                with unittest.mock.patch.object(optimizer._engine.opened.overlap, "finish", interrupted):
                    self.assertRaises(KeyboardInterrupt, optimizer.step)
            threading.Timer(0.1, os.kill, (pid, signal.SIGCONT)).start()
            own.step()
            ours.grad, place.grad = torch.full((40,), -3.0), torch.full((40,), -3.0)
            optimizer.step()
            own.step()
            optimizer.synchronize()
            self.assert_bits([ours, optimizer.state_dict()], [place, own.state_dict()], mode)
