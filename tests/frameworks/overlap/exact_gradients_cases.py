"""In mode exact gradients that a program writes and clips are stepped as with overlap="off", bit for bit. Costs 5 s.
Tests optim/clips.py, optim/overlap/gradients.py, optim/tensors/clipping.py."""

import os
import signal
import unittest
import unittest.mock
import warnings

import torch
import zf_runtime
from exact import Case, loss_of, make_model, values_of
from zf_runtime import ZfError
from zf_runtime.optim.overlap import gradients
from zf_runtime.optim.tensors import hashing, streams


class Written(Case):
    """Who writes gradients between backward and step() counts: the copy in the arena is made again."""

    def test_each_writer(self):
        def replaced(model, optimizer, step):
            for param in model.parameters():
                param.grad = param.grad * 0.5

        def given_other_memory(model, optimizer, step):
            for param in model.parameters():
                param.grad.data = param.grad.data * 0.5

        def by_numpy(model, optimizer, step):
            model[0].weight.grad.numpy()[3, 2] = 4.0

        writers = {
            "clip_grad_norm_": lambda model, *_: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05),
            "a norm that clips nothing": lambda model, *_: torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9),
            "through .data": lambda model, *_: [param.grad.data.mul_(0.5) for param in model.parameters()],
            "one element through .data": lambda model, *_: model[2].weight.grad.data[1, 1].fill_(7.0),
            "another object": replaced, "other memory": given_other_memory, "numpy": by_numpy,
            "swapped": lambda model, *_: model[2].bias.grad.data.copy_(model[2].bias.grad.data.flip(0))}
        for name, write in writers.items():
            with self.subTest(name):
                warnings.filterwarnings("ignore", message=".*were written between backward")
                self.trained(write)

    def test_a_loss_scaler(self):
        """It writes gradients without raising their version, and steps nothing where one is infinite."""
        warnings.filterwarnings("ignore", message=".*were written between backward")

        def program(make):
            model = make_model()
            optimizer, scaler = make(model.parameters()), torch.amp.GradScaler("cpu", init_scale=1024.0)
            counts = []
            for step in range(8):
                optimizer.zero_grad()
                scaler.scale(loss_of(model, step)).backward()
                if step in (3, 5):
                    model[0].bias.grad[2] = torch.inf
                scaler.step(optimizer)
                scaler.update()
                counts.append(float(optimizer.state[model[0].bias]["step"]))
            self.assertEqual(counts, [1, 2, 3, 3, 4, 4, 5, 6])
            return values_of(model)

        self.same(program)

    def test_a_write_between_the_copy_and_its_digest_is_found(self):
        """As of GradScaler on a GPU, which does not wait for the side stream."""
        for way in ("torch", "torch, on the host"):
            with self.subTest(way):
                gradient, to = torch.ones(40), torch.zeros(40)
                if way != "torch":
                    gradient = torch.ones(8, 5).t()  # which the library does not take
                    to = torch.zeros(5, 8)
                write = unittest.mock.Mock(side_effect=streams.hashing.by_torch)

                def changing(tensor, write=write):
                    found = write(tensor)
                    tensor.mul_(0.5)
                    return found

                with unittest.mock.patch.object(streams.hashing, "by_torch", changing):
                    if way == "torch":
                        reading, = streams.read_by_torch([gradient], False, True, [to])
                        now = write(gradient)
                    else:
                        reading, = streams.read_on_host([gradient], False, True, [to], True)
                        now = write(gradient).tolist()
                # The copy may have either value; but never may an equal digest stand beside another copy.
                equal = hashing.differing([(now, reading.digest)]) == [False]
                self.assertTrue(not equal or torch.equal(to, gradient))
                self.assertEqual(to.flatten()[0].item(), 0.5, "the digest is taken first")

    def test_averages_wait_for_a_step_that_still_reads_the_last_ones(self):
        """As of DDP with a parameter that this forward has not used."""
        model = make_model()
        optimizer = self.ours(model.parameters(), "exact")
        for step in range(2):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            if step == 1:
                os.kill(optimizer.runtime.stats().worker_pid, signal.SIGSTOP)
            optimizer.step()
        place = optimizer._engine.opened.arena.of[model[2].bias]
        before = place.grads[0].clone()
        try:
            optimizer._engine._reduced([model[2].bias], [torch.full((len(place.grads[0]),), 9.0)])
            for copied in optimizer._engine.opened.gradients._copied.values():
                copied.event.synchronize()
            self.assertTrue(torch.equal(place.grads[0], before))
        finally:
            os.kill(optimizer.runtime.stats().worker_pid, signal.SIGCONT)

    def test_small_gradients_are_copied_together(self):
        def model():
            torch.manual_seed(1)
            return torch.nn.Sequential(torch.nn.Linear(10, 300), torch.nn.Linear(300, 300), torch.nn.Linear(300, 7))

        with unittest.mock.patch.object(gradients, "_AT_ONCE", 300_000):
            self.trained(model=model, clip_grad_norm=0.05)
            net = model()
            optimizer, counts = self.ours(net.parameters(), "exact"), []
            for step in range(3):
                optimizer.zero_grad()
                loss_of(net, step).backward()
                counts.append(len(optimizer._engine.opened.gradients._copied))
                optimizer.step()
            self.assertEqual(counts, [0, 4, 4])  # the last two, of 12 KB, are left to step()

    def test_it_is_said_once_and_early_copies_pause(self):
        model = make_model()
        optimizer = self.ours(model.parameters(), "exact")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for step in range(103):
                optimizer.zero_grad()
                loss_of(model, step).backward()
                early = len(optimizer._engine.opened.gradients._copied)
                self.assertEqual(early, 4 if step in (1, 102) else 0, step)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
                optimizer.step()
        lines = [str(each.message) for each in said if "written between" in str(each.message)]
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], "clip_grad_norm=.*max_norm=")


class Clipped(Case):
    def test_as_torch_clips(self):
        for limit in (0.05, 1e9):
            model, ours = make_model(), make_model()
            theirs = torch.optim.AdamW(model.parameters(), lr=1e-2)
            optimizer = self.ours(ours.parameters(), "exact", clip_grad_norm=limit)
            for step in range(8):
                for net, each in ((model, theirs), (ours, optimizer)):
                    each.zero_grad()
                    loss_of(net, step).backward()
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit).item()
                theirs.step()
                optimizer.step()
                self.assertAlmostEqual(optimizer.grad_norm, norm, delta=2e-6 * norm)
            torch.testing.assert_close(values_of(ours), values_of(model), rtol=2e-5, atol=2e-6)

    def test_by_each_way_to_ask_for_it(self):
        def program(how):
            def run(make):
                model = make_model()
                optimizer = make(model.parameters(), **({"clip_grad_norm": 0.05} if how == "constructor" else {}))
                norms = []
                for step in range(6):
                    optimizer.zero_grad()
                    loss_of(model, step).backward()
                    if how == "method":
                        norms.append(float(optimizer.clip_grad_norm_(model.parameters(), 0.05)))
                    optimizer.step(**({"max_norm": 0.05} if how == "step" else {}))
                    norms.append(optimizer.grad_norm)
                return [*values_of(model), *sorted(set(norms))]
            return run

        results = [self.same(program(how)) for how in ("constructor", "step", "method")]
        for other in results[1:]:
            for mine, theirs in zip(results[0][:4], other[:4]):
                self.assertTrue(torch.equal(mine, theirs))

    def test_a_norm_that_is_not_finite_skips_the_step(self):
        def broken(model, optimizer, step):
            if step in (2, 4):
                model[2].bias.grad[1] = (torch.inf, torch.nan)[step // 4]

        self.trained(broken, clip_grad_norm=0.05)
        model = make_model()
        for mode in self.modes:
            optimizer = self.ours(model.parameters(), mode, clip_grad_norm=0.05)
            loss_of(model, 0).backward()
            model[0].weight.grad[0, 0] = torch.nan
            before = values_of(model)
            optimizer.step()
            optimizer.synchronize()
            self.assertTrue(all(map(torch.equal, values_of(model), before)))
            self.assertEqual(len(optimizer.state), 0)

    def test_several_micro_batches(self):
        for clip in (None, 0.05):
            for counts in ([3] * 6, [1, 3, 1, 1, 2, 4, 4]):  # the last backward is guessed, and sometimes wrongly
                def program(make, counts=counts):
                    model, number = make_model(), 0
                    optimizer = make(model.parameters())
                    for count in counts:
                        optimizer.zero_grad()
                        for _ in range(count):
                            loss_of(model, number).backward()
                            number += 1
                        optimizer.step()
                    return values_of(model)

                self.same(program, clip_grad_norm=clip)

    def test_nonsense_is_refused(self):
        for wrong in (-1, float("nan")):
            self.assertRaisesRegex(ValueError, "clip_grad_norm is", zf_runtime.AdamW, make_model().parameters(),
                                   clip_grad_norm=wrong)
        with self.assertRaisesRegex(ZfError, 'must be "off", "late", "exact" or "backward"'):
            zf_runtime.AdamW(make_model().parameters(), overlap=True)

if __name__ == "__main__":
    unittest.main()
