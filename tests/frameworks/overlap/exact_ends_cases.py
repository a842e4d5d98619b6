"""In mode exact what would train on old parameters is refused, and a killed optimizer changes no bit. Costs 4 s. Tests
optim/overlap/gates.py, optim/overlap/graphs.py."""

import concurrent.futures
import gc
import os
import random
import signal
import time
import unittest
import unittest.mock
import weakref

import torch
from exact import Case, batch, loss_of, make_model, values_of
from graphs_jobs import IS_SEEN
from zf_runtime import ZfError
from zf_runtime.optim.overlap import opened


class Refused(Case):
    def test_a_gradient_that_nobody_waited_for(self):
        model = make_model()
        optimizer = self.ours(model.parameters(), "exact")

        def bare(step):
            inputs, targets = batch(step)
            with torch._C.DisableTorchFunction():  # as in a C++ extension
                hidden = torch.nn.functional.linear(inputs, model[0].weight, model[0].bias)
            return torch.nn.functional.mse_loss(hidden[:, :7], targets)

        loss_of(model, 0).backward()
        optimizer.step()
        loss = bare(1)
        with self.assertRaisesRegex(ZfError, r"weight of Linear of shape \(33, 10\) got a gradient.*synchronize"):
            loss.backward()
        optimizer.synchronize()
        optimizer.zero_grad()
        bare(2).backward()
        optimizer.step()

    def test_a_parameter_of_whose_share_another_was_waited_for(self):
        """It was read before, by hand, and holds old values."""
        with unittest.mock.patch.object(opened, "_cut", lambda places: [places]):
            model = make_model()
            optimizer = self.ours(model.parameters(), "exact")
            for step in range(3):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                optimizer.step()
            inputs, targets = batch(3)
            with torch._C.DisableTorchFunction():
                last = torch.nn.functional.linear(torch.ones(20, 33), model[2].weight)
            loss = torch.nn.functional.mse_loss(model[0](inputs)[:, :7] + last, targets)
            with self.assertRaisesRegex(ZfError, r"weight of Linear of shape \(7, 33\) got a gradient"):
                loss.backward()

    def test_a_graph_over_old_parameters(self):
        model = make_model()
        optimizer = self.ours(model.parameters(), "exact")
        loss = loss_of(model, 0)
        loss.backward(retain_graph=True)
        optimizer.step()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            loss.backward()

    def test_a_graph_of_which_nobody_sees_the_backward_begin(self):
        """It starts from edges, or in another thread."""
        def by_edges(loss):
            edge = torch.autograd.graph.get_gradient_edge(loss)
            torch.autograd.backward([edge if IS_SEEN else loss], [torch.ones(())])

        def in_a_thread(loss):
            with concurrent.futures.ThreadPoolExecutor(1) as threads:
                threads.submit(loss.backward).result()

        for backward in (by_edges, in_a_thread):
            model = make_model()
            optimizer = self.ours(model.parameters(), "exact")
            for step in range(2):
                kept = model[2].bias.sum()
                loss_of(model, step).backward()
                optimizer.step()
            with self.assertRaisesRegex(ZfError, r"of shape \(7,\) got a gradient.*synchronize"):
                backward(kept)
            optimizer.synchronize()

    def test_what_another_thread_has_read_although_all_is_sent_since(self):
        """The next use in the training thread lets go of nothing but what it uses."""
        model = make_model()
        optimizer = self.ours(model.parameters(), "exact")
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            for step in range(2):
                threads.submit(time.sleep, 0).result()  # the thread is there when step() is called
                loss_of(model, step).backward()
                pid = optimizer.runtime.stats().worker_pid
                os.kill(pid, signal.SIGSTOP)
                optimizer.step()
                kept = threads.submit(model[2].bias.sum).result()
                os.kill(pid, signal.SIGCONT)
                optimizer._engine.opened.overlap.turn.ended.wait(20)
                model[0].weight.sum()
                with self.assertRaisesRegex(ZfError, r"of shape \(7,\) got a gradient.*synchronize"):
                    threads.submit(kept.backward).result()
                optimizer.synchronize()

    def test_a_write_that_nobody_sees_while_the_step_is_running(self):
        """Through an array that the program keeps: it stays, as the warning says."""
        model = make_model()
        optimizer = self.ours(model.parameters(), "exact")
        kept = model[0].bias.detach().numpy()
        loss_of(model, 0).backward()
        pid = optimizer.runtime.stats().worker_pid
        os.kill(pid, signal.SIGSTOP)
        optimizer.step()
        kept.fill(3.0)
        os.kill(pid, signal.SIGCONT)
        with self.assertWarnsRegex(UserWarning, "1 parameter was written while the step was running.*synchronize"):
            optimizer.synchronize()
        self.assertTrue((model[0].bias == 3.0).all())

    def test_a_forked_child_waits_for_nothing(self):
        model = make_model()
        optimizer = self.ours(model.parameters(), "exact")
        loss_of(model, 0).backward()
        optimizer.step()
        child = os.fork()
        if child == 0:
            try:
                values_of(model)
                model.state_dict()
                with torch.no_grad():
                    model[1](torch.ones(1))
                try:
                    optimizer.step()
                except ZfError as error:
                    os._exit(0 if error.status == "ZF_ERROR_FORKED" else 3)
            finally:
                os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        optimizer.zero_grad()
        loss_of(model, 1).backward()
        optimizer.step()

    def test_nothing_is_left_on_the_model(self):
        model = make_model()
        before = [dict(vars(module)) for module in model.modules()]
        optimizer = self.ours(model.parameters(), "exact")
        gone = weakref.ref(optimizer)
        for step in range(2):
            loss_of(model, step).backward()
            optimizer.step()
        self.assertEqual([vars(module).keys() for module in model.modules()], [each.keys() for each in before])
        optimizer.close()
        self.doCleanups()
        del optimizer
        gc.collect()
        self.assertIsNone(gone())
        for module, variables in zip(model.modules(), before):
            self.assertEqual(vars(module).keys(), variables.keys())
            self.assertEqual(len(module._forward_pre_hooks) + len(module._state_dict_pre_hooks), 0)
        for param in model.parameters():
            self.assertFalse(param._post_accumulate_grad_hooks)
        self.assertEqual(len(torch.nn.modules.module._global_forward_pre_hooks), 0)


class Killed(Case):
    def test_a_kill_at_any_moment_changes_no_bit(self):
        """ZF_KILLS is how many: in every second step, up to 3 ms after it was handed over."""
        kills, moments = int(os.environ.get("ZF_KILLS", "20")), random.Random(7)
        model, undisturbed = make_model(), make_model()
        optimizer = self.ours(model.parameters(), "exact", clip_grad_norm=0.05,
                              runtime_options={"max_restarts": 10 * kills})
        other = self.ours(undisturbed.parameters(), "off", clip_grad_norm=0.05)
        for step in range(2 * kills):
            for net, each in ((model, optimizer), (undisturbed, other)):
                each.zero_grad()
                loss_of(net, step).backward()
                each.step()
            if step % 2 == 1:
                time.sleep(moments.uniform(0, 0.003))
                os.kill(optimizer.runtime.stats().worker_pid, signal.SIGKILL)
            if step % 50 == 49:
                for mine, theirs in zip(values_of(model), values_of(undisturbed)):
                    self.assertTrue(torch.equal(mine, theirs), step)
        for mine, theirs in zip(values_of(model), values_of(undisturbed)):
            self.assertTrue(torch.equal(mine, theirs))
        optimizer.synchronize()
        restarts = optimizer.runtime.stats().restarts
        print(f"{kills} kills, {restarts} restarts")
        # Nothing restarts after the last kill if its step was done.
        self.assertGreaterEqual(restarts, 0.9 * kills - 1)


if __name__ == "__main__":
    unittest.main()
