"""In mode exact every program trains as with overlap="off", bit for bit, whatever it does between step() and forward.
Costs 20 s."""

import copy
import functools
import gc
import io
import os
import pickle
import random
import signal
import subprocess
import tempfile
import time
import unittest
import unittest.mock
import warnings
import weakref

import case
import torch
import torch.utils.checkpoint
import zf_runtime
from zf_runtime import ZfError, _device, _digests, _gradients, _moved_threads

_folder = tempfile.TemporaryDirectory(prefix="zf-overlap-test-")


@functools.cache
def plan(ranks=1):
    """Returns a plan for mode exact on these CPUs."""
    path = f"{_folder.name}/{ranks}.json"
    subprocess.run([case.support.TUNE, "plan", "-q", "--mode", "exact", "--ranks", str(ranks), "-o", path], check=True,
                   timeout=60)
    return path


def make_model(seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(10, 33), torch.nn.Tanh(), torch.nn.Linear(33, 7))


def batch(step):
    inputs = torch.randn(20, 10, generator=torch.Generator().manual_seed(step))
    return inputs, torch.tanh(inputs[:, :7])


def loss_of(model, step):
    inputs, targets = batch(step)
    return torch.nn.functional.mse_loss(model(inputs), targets)


def values_of(model):
    return [param.detach().clone() for param in model.parameters()]


def is_under_way(optimizer):
    return optimizer.overlap == "exact" and optimizer._live.overlap.turn is not None


class Counted:
    """Counts the gradients that step() found in the arena already, and those that it had to copy."""

    def __init__(self, optimizer):
        self.early, self.copied = 0, 0
        gradients = optimizer._live.gradients
        overtaken = gradients._overtaken

        def counting(places, *more):
            held, found = set(gradients._copied), overtaken(places, *more)
            self.copied += len(found)
            self.early += len(places) - len(found) if held else 0
            return found

        gradients._overtaken = counting


class Case(unittest.TestCase):
    modes = ("off", "exact")

    def setUp(self):
        caught = warnings.catch_warnings()
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)
        warnings.filterwarnings("ignore", message=".*the plan is for mode")
        warnings.filterwarnings("ignore", message=".*with parameters on the CPU")

    def ours(self, params, overlap, **options):
        optimizer = zf_runtime.AdamW(params, **{"lr": 1e-2, **options}, overlap=overlap, plan=plan())
        self.addCleanup(optimizer.close)
        return optimizer

    def same(self, program, **options):
        """Runs program(make), which returns tensors and numbers, in both modes. make(params) makes the optimizer."""
        wanted, got = (program(lambda params, mode=mode, **more: self.ours(params, mode, **options, **more))
                       for mode in self.modes)
        self.assertEqual(len(got), len(wanted))
        for number, (mine, theirs) in enumerate(zip(got, wanted)):
            equal = torch.equal(mine, theirs) if isinstance(mine, torch.Tensor) else mine == theirs
            self.assertTrue(equal, f"result {number}: {mine} is not {theirs}")
        return got

    def trained(self, each_step=lambda model, optimizer, step: None, steps=8, model=make_model, zero=True,
                loss=loss_of, **options):
        """Trains in both modes; each_step() is called between backward and step()."""
        def program(make):
            net, losses = model(), []
            optimizer = make(net.parameters())
            for step in range(steps):
                if zero:
                    optimizer.zero_grad()
                found = loss(net, step)
                found.backward()
                each_step(net, optimizer, step)
                optimizer.step()
                losses.append(found.item())
            optimizer.synchronize()
            return [*losses, *values_of(net)]

        return self.same(program, **options)


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
            self.assertNotIn("zf_runtime", repr(twin.__dict__.get("parameters", "")))
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
                optimizer.synchronize()  # as docs/torch.md says
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
                write = unittest.mock.Mock(side_effect=_device._digests.by_torch)

                def digest(tensor, write=write):
                    found = write(tensor)
                    tensor.mul_(0.5)
                    return found

                with unittest.mock.patch.object(_device._digests, "by_torch", digest):
                    if way == "torch":
                        reading, = _device.read_by_torch([gradient], False, True, [to])
                        now = write(gradient)
                    else:
                        reading, = _device.read_on_host([gradient], False, True, [to], True)
                        now = write(gradient).tolist()
                # The copy may have either value; but never may an equal digest stand beside another copy.
                equal = _digests.differing([(now, reading.digest)]) == [False]
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
        place = optimizer._live.arena.of[model[2].bias]
        before = place.grads[0].clone()
        try:
            optimizer._reduced([model[2].bias], [torch.full_like(model[2].bias, 9.0)])
            for copied in optimizer._live.gradients._copied.values():
                copied.event.synchronize()
            self.assertTrue(torch.equal(place.grads[0], before))
        finally:
            os.kill(optimizer.runtime.stats().worker_pid, signal.SIGCONT)

    def test_small_gradients_are_copied_together(self):
        def model():
            torch.manual_seed(1)
            return torch.nn.Sequential(torch.nn.Linear(10, 300), torch.nn.Linear(300, 300), torch.nn.Linear(300, 7))

        with unittest.mock.patch.object(_gradients, "_AT_ONCE", 300_000):
            self.trained(model=model, clip_grad_norm=0.05)
            net = model()
            optimizer, counts = self.ours(net.parameters(), "exact"), []
            for step in range(3):
                optimizer.zero_grad()
                loss_of(net, step).backward()
                counts.append(len(optimizer._live.gradients._copied))
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
                early = len(optimizer._live.gradients._copied)
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
        with self.assertRaisesRegex(ZfError, 'must be "off", "late" or "exact"'):
            zf_runtime.AdamW(make_model().parameters(), overlap=True)


class Attention(torch.nn.Module):
    """out_proj is never called, and its weight is read; the last weight is tied to the first."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Linear(10, 16, bias=False)
        self.attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        self.encoder = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.last = torch.nn.Linear(16, 10, bias=False)
        self.last.weight = torch.nn.Parameter(self.embedding.weight.detach().t().clone())
        self.head = torch.nn.Linear(10, 7)

    def forward(self, inputs):
        hidden = self.embedding(inputs)[None]
        hidden = self.attention(hidden, hidden, hidden, need_weights=False)[0]
        hidden = self.last(self.encoder(hidden)[0])
        return torch.nn.functional.linear(hidden, self.head.weight, self.head.bias)  # the head is not called either


class Checkpointed(torch.nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.parts, self.reentrant = make_model(), reentrant

    def forward(self, inputs):
        for part in self.parts:
            inputs = torch.utils.checkpoint.checkpoint(part, inputs.requires_grad_(), use_reentrant=self.reentrant)
        return inputs


class Shared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Linear(10, 10)
        self.last = torch.nn.Linear(10, 7)

    def forward(self, inputs):
        for _ in range(3):
            inputs = torch.tanh(self.one(inputs))
        return self.last(inputs)


class Models(Case):
    def test_parameters_that_are_read_without_a_call(self):
        def model():
            torch.manual_seed(3)
            return Attention()

        self.trained(model=model)
        self.trained(model=model, clip_grad_norm=0.01)

    def test_activation_checkpoints(self):
        for reentrant in (False, True):
            def model(reentrant=reentrant):
                torch.manual_seed(3)
                return Checkpointed(reentrant)

            self.trained(model=model, clip_grad_norm=0.05)

    def test_a_module_that_is_called_several_times(self):
        def model():
            torch.manual_seed(3)
            return Shared()

        self.trained(model=model)

    def test_parts_that_come_go_and_freeze(self):
        def program(make):
            model, extra = make_model(), torch.nn.Linear(7, 7)
            torch.nn.init.eye_(extra.weight)
            torch.nn.init.zeros_(extra.bias)
            optimizer = make([*model.parameters(), *extra.parameters()])
            for step in range(12):
                for param in model[0].parameters():
                    param.requires_grad_(step not in (2, 3, 7))
                optimizer.zero_grad()
                inputs, targets = batch(step)
                outputs = model(inputs)
                if step % 3 == 2:
                    outputs = extra(outputs)
                torch.nn.functional.mse_loss(outputs, targets).backward()
                optimizer.step()
            optimizer.synchronize()
            counts = [float(optimizer.state[param]["step"]) for param in (*model.parameters(), *extra.parameters())]
            self.assertEqual(counts, [9, 9, 12, 12, 4, 4])
            return values_of(model) + values_of(extra)

        self.same(program)

    def test_two_optimizers_that_step_in_turns(self):
        """As of a GAN: each backward reaches the parameters of both."""
        def program(make):
            torch.manual_seed(4)
            maker, judge = torch.nn.Linear(6, 10), torch.nn.Sequential(torch.nn.Linear(10, 8), torch.nn.Linear(8, 1))
            of_maker, of_judge = make(maker.parameters()), make(judge.parameters())
            for step in range(8):
                noise = torch.randn(20, 6, generator=torch.Generator().manual_seed(step))
                of_judge.zero_grad()
                (judge(maker(noise).detach()).mean() - judge(batch(step)[0]).mean()).backward()
                of_judge.step()
                of_maker.zero_grad()
                (-judge(maker(noise)).mean()).backward()
                of_maker.step()
            return values_of(maker) + values_of(judge)

        self.same(program)

    def test_closures(self):
        def program(make):
            model = make_model()
            optimizer = make(model.parameters())
            losses = []
            for step in range(6):
                def closure(step=step):
                    optimizer.zero_grad()
                    loss = loss_of(model, step)
                    loss.backward()
                    return loss

                losses.append(optimizer.step(closure).item())
            return [*losses, *values_of(model)]

        self.same(program)

    def test_each_step_asks_who_moved_threads(self):
        for mode in (*self.modes, "late"):
            model = make_model()
            optimizer = self.ours(model.parameters(), mode)
            with unittest.mock.patch.object(_moved_threads, "look") as look:
                for step in range(3):
                    loss_of(model, step).backward()
                    optimizer.step()
            self.assertEqual([call.args for call in look.call_args_list], [(1,), (2,), (3,)])

    def test_a_group_that_is_added(self):
        def program(make):
            model = make_model()
            optimizer = make(model[0].parameters())
            for step in range(8):
                if step == 3:
                    optimizer.add_param_group({"params": model[2].parameters(), "lr": 3e-3})
                model.zero_grad()
                loss_of(model, step).backward()
                optimizer.step()
            return values_of(model)

        self.same(program)

    def test_every_type_and_format(self):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            for state in ("fp32",) if dtype is torch.float16 else ("fp32", "bf16", "bf16+split"):
                def program(make, dtype=dtype):
                    model = make_model().to(dtype)
                    optimizer = make(model.parameters())
                    for step in range(5):
                        optimizer.zero_grad()
                        inputs, targets = batch(step)
                        torch.nn.functional.mse_loss(model(inputs.to(dtype)), targets.to(dtype)).backward()
                        optimizer.step()
                    optimizer.synchronize()
                    return values_of(model) + [optimizer.state[param]["exp_avg_sq"].clone()
                                               for param in model.parameters()]

                with self.subTest(dtype=dtype, state=state):
                    self.same(program, state=state, clip_grad_norm=0.05)


class Refused(Case):
    def test_a_gradient_that_nobody_waited_for(self):
        model = make_model()
        optimizer = self.ours(model.parameters(), "exact")

        def bare(step):
            inputs, targets = batch(step)
            hidden = torch.nn.functional.linear(inputs, model[0].weight, model[0].bias)
            return torch.nn.functional.mse_loss(hidden[:, :7], targets)

        loss_of(model, 0).backward()
        optimizer.step()
        loss = bare(1)
        with self.assertRaisesRegex(ZfError, r"bias of Linear of shape \(33,\) got a gradient.*synchronize"):
            loss.backward()
        optimizer.synchronize()
        optimizer.zero_grad()
        bare(2).backward()
        optimizer.step()

    def test_a_graph_over_old_parameters(self):
        model = make_model()
        optimizer = self.ours(model.parameters(), "exact")
        loss = loss_of(model, 0)
        loss.backward(retain_graph=True)
        optimizer.step()
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            loss.backward()

    def test_a_write_while_the_step_is_running(self):
        """Through a list that the program keeps: it stays, as the warning says."""
        model = make_model()
        optimizer = self.ours(model.parameters(), "exact")
        kept = list(model.parameters())
        loss_of(model, 0).backward()
        pid = optimizer.runtime.stats().worker_pid
        os.kill(pid, signal.SIGSTOP)
        optimizer.step()
        kept[1].data.fill_(3.0)
        os.kill(pid, signal.SIGCONT)
        with self.assertWarnsRegex(UserWarning, "1 parameter was written while the step was running.*synchronize"):
            optimizer.synchronize()
        self.assertTrue((kept[1] == 3.0).all())

    def test_a_program_without_modules_waits(self):
        param = torch.nn.Parameter(torch.ones(5))
        optimizer = self.ours([param], "exact")
        with self.assertWarnsRegex(UserWarning, "no module's forward has been seen"):
            for _ in range(3):
                optimizer.zero_grad()
                (param * param).sum().backward()
                optimizer.step()
        theirs = torch.nn.Parameter(torch.ones(5))
        other = self.ours([theirs], "off")
        for _ in range(3):
            other.zero_grad()
            (theirs * theirs).sum().backward()
            other.step()
        self.assertTrue(torch.equal(param, theirs))

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
        self.assertIn("parameters", vars(model))
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
        self.assertGreater(restarts, 0.9 * kills)


if __name__ == "__main__":
    unittest.main()
