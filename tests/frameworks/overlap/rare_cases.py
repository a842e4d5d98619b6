"""What happens rarely in mode exact, and changes no bit either. Costs 4 s. Tests optim/clips.py,
optim/tensors/threads.py."""

import ctypes
import gc
import math
import os
import platform
import threading
import time
import unittest
import unittest.mock
import warnings
import weakref

import exact
import torch
from exact import Case, batch, loss_of, make_model, pause, values_of
from zf_runtime import ZfError
from zf_runtime.native import group
from zf_runtime.optim.tensors import threads


def alive(thread):
    return thread.is_alive()


class Tied(torch.nn.Module):
    """Two modules with one weight. The head is not called in the first steps."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.body, self.head = torch.nn.Linear(10, 10), torch.nn.Linear(10, 10)
        self.head.weight, self.head.bias = self.body.weight, self.body.bias

    def forward(self, inputs):
        return self.body(inputs)[:, :7]


class Rare(Case):
    def test_a_module_whose_parameters_another_has_read(self):
        def program(make):
            model, seen = Tied(), []
            optimizer = make(model.parameters())
            for step in range(5):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                pause(optimizer)
                optimizer.step()
                if step > 1:
                    seen.append(model.head(torch.ones(1, 10)).detach())
            return seen + values_of(model)

        self.same(program)

    def test_clipping_is_forgotten_with_its_gradients(self):
        """As where a step is skipped: a loss scaler has found an infinite gradient, or the program goes on."""
        def program(drop):
            def run(make):
                model = make_model()
                optimizer = make(model.parameters())
                for step in range(4):
                    loss_of(model, step).backward()
                    if step % 2 == 0:
                        optimizer.clip_grad_norm_(max_norm=1e-6)
                    else:
                        optimizer.step()
                    drop(model, optimizer)
                return values_of(model)

            return run

        def plain(make):
            model = make_model()
            optimizer = make(model.parameters())
            for step in (1, 3):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                optimizer.step()
            return values_of(model)

        wanted = self.same(plain, eps=1e-3)
        for drop in (lambda model, _: model.zero_grad(), lambda _, optimizer: optimizer.zero_grad(set_to_none=False)):
            for mine, theirs in zip(self.same(program(drop), eps=1e-3), wanted):
                self.assertTrue(torch.equal(mine, theirs))

    def test_a_norm_that_is_asked_for_now_and_then(self):
        """The program has not written gradients, so it is not told that it has."""
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*the plan is for mode")
        warnings.filterwarnings("ignore", message=".*with parameters on the CPU")

        def program(make):
            model = make_model()
            optimizer = make(model.parameters())
            for step in range(8):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                optimizer.step(max_norm=0.05 if step % 3 == 2 else None)
            self.assertTrue(optimizer.overlap == "off" or optimizer._engine.opened.gradients.is_early)
            return values_of(model)

        self.same(program)

    def test_a_step_that_is_refused_is_not_the_last(self):
        model, undisturbed = make_model(), make_model()
        optimizer = self.ours(model.parameters(), "exact")
        other = self.ours(undisturbed.parameters(), "off")
        for step in range(5):
            for net, each in ((model, optimizer), (undisturbed, other)):
                each.zero_grad()
                loss_of(net, step).backward()
            if step == 2:
                optimizer.param_groups[0]["lr"] = 1e300  # infinite in fp32
                with self.assertRaisesRegex(ZfError, "step_size is -inf"):
                    optimizer.step()
                optimizer.param_groups[0]["lr"] = 1e-2
            optimizer.step()
            other.step()
        for mine, theirs in zip(values_of(model), values_of(undisturbed)):
            self.assertTrue(torch.equal(mine, theirs))

    def test_a_norm_of_complex_and_sparse_gradients(self):
        param = torch.nn.Parameter(torch.tensor([3.0 + 4.0j, 1.0j, 2.0]))
        optimizer = self.ours([param], "off", clip_grad_norm=0.1)
        (param.abs() ** 2).sum().backward()
        optimizer.step()
        self.assertAlmostEqual(optimizer.grad_norm, 2 * math.sqrt(25 + 1 + 4), places=5)
        for mode in self.modes:
            embedding = torch.nn.Embedding(5, 3, sparse=True)
            optimizer = self.ours(embedding.parameters(), mode, clip_grad_norm=0.1)
            embedding(torch.tensor([1, 2])).sum().backward()
            with self.assertRaisesRegex(ZfError, "sparse gradient.*SparseAdam"):
                optimizer.step()

    def test_a_large_parameter_is_sent_in_pieces_that_are_final(self):
        def model():
            torch.manual_seed(1)
            return torch.nn.Sequential(torch.nn.Linear(10, 300), torch.nn.Linear(300, 300), torch.nn.Linear(300, 7))

        with unittest.mock.patch.object(group, "PIECE_BYTES", 20_000):
            self.trained(model=model, clip_grad_norm=0.05)
            for dtype in (torch.bfloat16, torch.float16):
                def loss(net, step, dtype=dtype):
                    inputs, targets = (each.to(dtype) for each in batch(step))
                    return torch.nn.functional.mse_loss(net(inputs), targets)

                self.trained(model=lambda dtype=dtype: model().to(dtype), loss=loss)
            net, calls = model(), []
            optimizer = self.ours(net.parameters(), "exact")
            sender = optimizer._engine.opened.overlap.follower._streams[torch.device("cpu")]
            read, progress = sender.read, optimizer.runtime.progress

            def noted(sources, copies=None, **more):
                calls.extend(("copy", to.numel()) for to in copies or ()
                             if to.untyped_storage().data_ptr() == net[1].weight.untyped_storage().data_ptr())
                return read(sources, copies=copies, **more)

            sender.read = noted
            optimizer.runtime.progress = lambda index, elements, **more: (
                progress(index, elements, **more), calls.append((index, elements)))
            for step in range(2):
                optimizer.zero_grad()
                loss_of(net, step).backward()
                optimizer.step()
            optimizer.synchronize()
        place = optimizer._engine.opened.arena.of[net[1].weight]
        large, ends = place.index, place.ends
        self.assertGreater(len(ends), 10)
        at, done = 0, []
        for what, elements in calls:
            if what == "copy":
                at += elements
                self.assertLessEqual(at, done[-1] if done else 0)
                at = 0 if at == 90_000 else at
            elif what == large:
                done.append(elements)
        self.assertEqual(done, [end for _ in range(2) for end in (ends[0], *ends)])

    def test_a_large_parameter_whose_layout_changes(self):
        def program(make):
            torch.manual_seed(1)
            net = torch.nn.Sequential(torch.nn.Unflatten(1, (10, 1, 1)), torch.nn.Conv2d(10, 300, 3, padding=1),
                                      torch.nn.Conv2d(300, 70, 1), torch.nn.Flatten())
            with unittest.mock.patch.object(group, "PIECE_BYTES", 20_000):
                optimizer = make(net.parameters(), lr=1e-3)
            for step in range(6):
                if step in {2, 4}:
                    net.to(memory_format=torch.channels_last if step == 2 else torch.contiguous_format)
                optimizer.zero_grad()
                net(batch(step)[0]).square().mean().backward()
                optimizer.step()
            optimizer.synchronize()
            return values_of(net)

        self.same(program)

    def same_with_a_group_after(self, edit):
        """Adds a group after edit(state, the first parameter)."""
        def program(make):
            model = make_model()
            optimizer = make(model[0].parameters())
            for step in range(6):
                model.zero_grad()
                loss_of(model, step).backward()
                if step == 3:
                    optimizer.synchronize()
                    edit(optimizer.state, model[0].weight)
                    optimizer.add_param_group({"params": model[2].parameters()})
                optimizer.step()
            return values_of(model)

        self.same(program)

    def test_a_state_that_is_edited_before_a_group_is_added(self):
        def edit(state, param):
            state[param]["exp_avg"] = torch.full_like(state[param]["exp_avg"], 0.5)

        self.same_with_a_group_after(edit)

    def test_a_state_that_is_cleared_before_a_group_is_added_begins_anew(self):
        self.same_with_a_group_after(lambda state, _: state.clear())

    def test_parameters_that_no_called_module_holds(self):
        """They are read before the first gate."""
        def forward_by_hand(model, extra, inputs):
            hidden = torch.nn.functional.embedding(torch.arange(20) % 3, extra)[:, :10] + inputs
            return model.forward(hidden)

        for forward in (lambda model, extra, inputs: model(inputs * extra[0]),
                        lambda model, extra, inputs: model(inputs) * extra[1, :7], forward_by_hand):
            def program(make, forward=forward):
                model, extra, losses = make_model(), torch.nn.Parameter(torch.linspace(0.5, 1, 30).view(3, 10)), []
                optimizer = make([*model.parameters(), extra])
                for step in range(6):
                    inputs, targets = batch(step)
                    optimizer.zero_grad()
                    loss = torch.nn.functional.mse_loss(forward(model, extra, inputs), targets)
                    loss.backward()
                    pause(optimizer)
                    optimizer.step()
                    losses.append(loss.item())
                optimizer.synchronize()
                return [*losses, *values_of(model)]

            self.same(program)

    def test_two_optimizers_over_one_model_and_an_average(self):
        def program(make):
            model, mean = make_model(), {}
            optimizers = [make(model[0].parameters()), make(model[2].parameters())]
            for step in range(6):
                model.zero_grad()
                loss_of(model, step).backward()
                for optimizer in optimizers:
                    pause(optimizer)
                    optimizer.step()
                for name, param in model.named_parameters():
                    mean[name] = mean.get(name, torch.zeros(())) + param.detach()
                if step == 3:
                    optimizers[0].close()
                    optimizers[0] = make(model[0].parameters())
            return [*mean.values(), *values_of(model)]

        self.same(program)

    def test_a_collector_that_runs_on_our_own_thread_leaves_nothing(self):
        model = make_model()
        optimizer = exact.zf_runtime.AdamW(model.parameters(), overlap="exact", plan=exact.plan())
        for step in range(3):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            optimizer.step()
        optimizer.synchronize()
        pid, live, ended = optimizer.runtime.stats().worker_pid, optimizer._engine.opened, optimizer._engine._finalizer
        threads = [live.overlap.follower._thread, *(stream._thread for stream in live.gradients._streams.values())]
        optimizer.runtime.wait = lambda *_: ended()  # as if it were collected there
        live.overlap.follower.turn.ended.is_set = False
        live.overlap.follower._follow = lambda turn: ended()
        live.overlap.follower.call()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and (os.path.exists(f"/proc/{pid}") or any(map(alive, threads))):
            time.sleep(0.01)
        self.assertFalse(os.path.exists(f"/proc/{pid}"))
        self.assertFalse(any(map(alive, threads)))

    def test_gradients_of_a_skipped_step_are_not_kept(self):
        """As after a step that GradScaler skips: the next backward needs their memory."""
        for norm_is_taken in (False, True):
            model = make_model()
            optimizer = self.ours(model.parameters(), "exact")
            for step in range(3):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                if step < 2:
                    optimizer.step()
                elif norm_is_taken:
                    optimizer.clip_grad_norm_(max_norm=1.0)
            kept = [weakref.ref(param.grad) for param in model.parameters()]
            optimizer.zero_grad()
            loss_of(model, 3)
            deadline = time.monotonic() + 20
            while any(reference() is not None for reference in kept) and time.monotonic() < deadline:
                gc.collect()
                time.sleep(0.01)  # the thread that begins steps in backward may still have some
            self.assertEqual([reference() for reference in kept], [None] * len(kept))

    def test_our_threads_let_those_of_the_job_go_first(self):
        found = []

        def look():
            threads.yield_to_the_job()
            buffer = ctypes.create_string_buffer(threads._ATTRIBUTES.size)
            ctypes.CDLL(None).syscall(threads._GETATTR[platform.machine()], 0, buffer, len(buffer), 0)
            found.extend(threads._ATTRIBUTES.unpack(buffer.raw))

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        self.assertEqual(found[3], min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5))
        if tuple(map(int, platform.release().split(".")[:2])) >= (6, 12):
            self.assertEqual(found[5], 50_000_000)

    def test_an_optimizer_that_nobody_closes_leaves_nothing_on_the_model(self):
        for mode in ("exact", "late"):
            model = make_model()
            optimizer = exact.zf_runtime.AdamW(model.parameters(), overlap=mode, plan=exact.plan())
            for step in range(2):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                optimizer.step()
            pid = optimizer.runtime.stats().worker_pid
            before = values_of(model)
            del optimizer
            gc.collect()
            self.assertFalse(os.path.exists(f"/proc/{pid}"))
            self.assertEqual(mode == "late", not all(map(torch.equal, before, model.parameters())), "the step was lost")
            for module in model.modules():
                self.assertNotIn("parameters", vars(module))
                self.assertEqual(len(module._forward_pre_hooks) + len(module._state_dict_pre_hooks), 0)
            for param in model.parameters():
                self.assertFalse(param._post_accumulate_grad_hooks)
            self.assertEqual(len(torch.nn.modules.module._global_forward_pre_hooks), 0)


if __name__ == "__main__":
    unittest.main()
