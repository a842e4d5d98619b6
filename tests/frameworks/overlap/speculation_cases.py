"""Where steps begin in backward, every bit and every read is that of overlap="off". Costs 12 s; ZF_KILLS makes it
longer. Tests optim/overlap/speculation.py."""

import copy
import io
import os
import pickle
import random
import signal
import time
import unittest
import unittest.mock

import torch
import zf_runtime
from exact import Case, batch, loss_of, make_model, values_of
from zf_runtime import ZfBusy, ZfError
from zf_runtime.native.runtime import Runtime

NEVER, SOMETIMES, ALWAYS = 10.0, 1.0, 1e-3  # limits: norms are 0.05 to 0.2, those of rare() 100 times that


def begun(optimizer):
    """Returns how many steps are begun and not decided, once those are that will be."""
    speculation = optimizer._engine.opened.speculation if optimizer.overlap == "exact" else None
    if speculation is None:
        return 0
    speculation._do(lambda: None)
    return len(optimizer._engine.opened.arena.begun)


def rare(net, step):
    """Returns losses. Each fourth is much larger."""
    return [loss_of(net, step) * (100 if step % 4 == 3 else 1)]


def bits(tensor):
    return tensor.detach().clone().view(torch.int32)  # NaNs are equal


class Speculated(Case):
    def ours(self, params, overlap, **options):
        return super().ours(params, overlap, **{"speculate": overlap == "exact", **options})

    def run_in(self, mode, between, model, loss, steps, **options):
        net, found, counts = model(), [], []
        optimizer = self.ours(net.parameters(), mode, **options)
        for step in range(steps):
            optimizer.zero_grad()
            for each in loss(net, step):
                each.backward()
            counts.append(begun(optimizer))
            found += between(net, optimizer, step) or ()
            optimizer.step()
            found.append(torch.tensor(optimizer.grad_norm or 0.0))
        optimizer.synchronize()
        states = optimizer.state_dict()["state"]
        found += [value for entry in states.values() for value in entry.values()] + values_of(net)
        return found, counts

    def check(self, between=lambda net, optimizer, step: None, steps=8, model=make_model,
              loss=lambda net, step: [loss_of(net, step)], **options):
        """Trains with and without; between() is called between backward and step(), and may return what it reads.
        Returns how many steps were begun in each backward."""
        (wanted, _), (got, counts) = (self.run_in(mode, between, model, loss, steps, **options)
                                      for mode in ("off", "exact"))
        self.assertEqual(len(got), len(wanted))
        for number, (mine, theirs) in enumerate(zip(got, wanted)):
            self.assertTrue(torch.equal(bits(mine.float()), bits(theirs.float())), (number, mine, theirs))
        return counts

    # ---- clipping ----

    def test_a_step_that_is_not_clipped_is_kept(self):
        speculate, groups = Runtime.speculate, []

        def noting(runtime, factors, given, **more):
            groups.extend(given)
            return speculate(runtime, factors, given, **more)

        for limit in (None, NEVER):
            with unittest.mock.patch.object(Runtime, "take_back") as take_back, \
                    unittest.mock.patch.object(Runtime, "speculate", noting):
                self.assertEqual(self.check(clip_grad_norm=limit), [0] + 7 * [4])
            take_back.assert_not_called()
            self.assertEqual(len(groups), 28)
            groups.clear()

    def test_a_clipped_step_is_taken_back_and_done_again(self):
        def clips(net, optimizer, step):
            optimizer.clip_grad_norm_(max_norm=0.01 if step % 3 == 0 else NEVER)  # the process knows no limit

        self.assertEqual(self.check(clips, 9), [0] + 8 * [4])

    def test_nothing_is_begun_once_the_norm_exceeds_the_limit(self):
        counts = self.check(steps=12, loss=rare, clip_grad_norm=SOMETIMES)
        self.assertEqual([count == 4 for count in counts], [False] + [step % 4 != 3 for step in range(1, 12)])

    def test_nothing_is_begun_after_two_clipped_steps_until_one_is_not(self):
        limits = [NEVER, NEVER, ALWAYS, ALWAYS, ALWAYS, NEVER, NEVER, NEVER]
        given = iter([*limits, *limits])

        def clips(net, optimizer, step):
            optimizer.clip_grad_norm_(max_norm=next(given))

        self.assertEqual(self.check(clips), [0, 4, 4, 4, 0, 0, 4, 4])

    def test_spikes_infinities_and_nans(self):
        for factor in (100.0, float("inf"), float("nan")):
            for limit in (None, SOMETIMES):
                with self.subTest(factor=factor, limit=limit):
                    def loss(net, step, factor=factor):
                        return [loss_of(net, step) * (factor if step == 4 else 1)]

                    self.check(loss=loss, clip_grad_norm=limit)

    def test_a_step_that_is_skipped_is_taken_back(self):
        """The last gradient is NaN, when others have begun."""
        def loss(net, step):
            if step == 4:
                net.hook = net[0].weight.register_hook(lambda gradient: gradient * float("nan"))
            elif step == 5:
                net.hook.remove()
            return [loss_of(net, step)]

        counts = self.check(loss=loss, clip_grad_norm=NEVER)
        self.assertIn(counts[4], (1, 2, 3))

    def test_16_bit_parameters(self):
        for dtype in (torch.bfloat16, torch.float16):
            def loss(net, step, dtype=dtype):
                inputs, targets = batch(step)
                return [torch.nn.functional.mse_loss(net(inputs.to(dtype)), targets.to(dtype)) * (step % 4 == 3 or 0.1)]

            counts = self.check(model=lambda dtype=dtype: make_model().to(dtype), loss=loss, clip_grad_norm=0.05)
            self.assertEqual((counts[5], counts[6]), (4, 4))

    # ---- between backward and step() ----

    def test_other_settings_than_assumed(self):
        def change(net, optimizer, step):
            group = optimizer.param_groups[0]
            if step == 2:
                group["lr"] = 3e-3
            elif step == 4:
                group["betas"] = (0.8, 0.99)
            elif step == 6:
                group["weight_decay"], group["maximize"] = 0.0, True

        self.assertEqual(self.check(change), [0] + 7 * [4])

    def test_another_scale_than_assumed(self):
        found = []
        for mode in ("off", "exact"):
            net = make_model()
            optimizer = self.ours(net.parameters(), mode)
            for step in range(8):
                optimizer.zero_grad()
                loss_of(net, step).backward()
                begun(optimizer)
                optimizer.step(grad_scale=0.5 if step % 4 == 2 else 1.0)
            found.append(values_of(net))
        self.assertTrue(all(map(torch.equal, *found)))

    def test_every_read_finds_the_state_before(self):
        kept = {}

        def by_saving(net, optimizer):
            file = io.BytesIO()
            torch.save(optimizer.state_dict(), file)
            file.seek(0)
            return [torch.load(file)["state"][2]["exp_avg"]]

        def of_a_view(net, optimizer):
            return [kept[id(optimizer)][3:].sum()]

        def after_synchronize(net, optimizer):
            optimizer.synchronize()
            return [torch.from_numpy(optimizer.state[net[0].weight]["exp_avg"].numpy().copy())]

        ways = [lambda net, optimizer: list(optimizer.state_dict()["state"][0].values()),
                lambda net, optimizer: [optimizer.state[net[0].weight]["exp_avg_sq"] + 1],
                lambda net, optimizer: list(pickle.loads(pickle.dumps(optimizer)).state_dict()["state"][1].values()),
                lambda net, optimizer: [torch.stack([each["exp_avg"].norm() for each in optimizer.state.values()])],
                by_saving, of_a_view, after_synchronize]
        for way in ways:
            def read(net, optimizer, step, way=way):
                if step == 0:
                    return None
                kept.setdefault(id(optimizer), optimizer.state[net[0].weight]["exp_avg"])
                return way(net, optimizer) if step % 2 else None

            self.assertEqual(self.check(read), [0] + 7 * [4])

    def test_a_read_behind_a_step_without_gradients_finds_the_state_before(self):
        def read(net, optimizer, step):
            if step % 4 == 2:
                optimizer.zero_grad()  # the program drops the batch
            return [optimizer.state[net[0].weight]["exp_avg"] + 1] if step % 4 == 3 else None

        self.assertEqual(self.check(read, 12)[3::4], [4, 4, 4])

    def test_reads_of_parameters_take_nothing_back(self):
        def read(net, optimizer, step):
            return [*values_of(net), net(batch(99)[0]), *(param.grad.clone() for param in net.parameters())]

        with unittest.mock.patch.object(Runtime, "take_back") as take_back:
            self.assertEqual(self.check(read), [0] + 7 * [4])
        take_back.assert_not_called()

    def test_the_runtime_itself_refuses_to_read(self):
        net = make_model()
        optimizer = self.ours(net.parameters(), "exact")
        for step in range(2):
            optimizer.zero_grad()
            loss_of(net, step).backward()
            self.assertEqual(begun(optimizer), 4 * step)
            if step == 1:
                self.assertRaises(ZfBusy, optimizer.runtime.read_state, 0, 1)
            optimizer.step()

    def test_every_write_counts(self):
        def write(net, optimizer, step):
            param = net[0].weight
            how = step % 6
            with torch.no_grad():
                if how == 1:
                    param.mul_(0.9)
                elif how == 2:
                    param.data.add_(0.1)
                elif how == 3:
                    optimizer.state[param]["exp_avg"].mul_(0.5)
                elif how == 4:
                    optimizer.state[param] = {**optimizer.state[param], "exp_avg_sq": torch.ones_like(param)}
                elif how == 5 and step < 10:
                    param.grad = param.grad * 2

        self.check(write, 18)

    def test_gradients_that_are_dropped(self):
        def drop(net, optimizer, step):
            if step == 2:
                optimizer.zero_grad()
            elif step == 4:
                net[2].bias.grad = None
            elif step == 6:
                optimizer.zero_grad()
                loss_of(net, 50).backward()
            elif step == 8:
                net[0].weight.grad.mul_(0.5)

        # What is accumulated is copied early in the next backward but one; what was written, not for 100 steps.
        self.assertEqual(self.check(drop, 12), [0, 4, 4, 4, 4, 4, 4, 0, 4, 0, 0, 0])

    def test_a_second_backward_takes_back_and_accumulation_is_learned(self):
        """One backward, then three, then one: in the first step with three each one begins and is taken back."""
        counts = self.check(loss=lambda net, step: [loss_of(net, 10 * step + number)
                                                    for number in range(3 if 3 <= step < 6 else 1)], steps=10)
        self.assertEqual(counts[:3], [0, 4, 4])
        self.assertEqual((counts[3], counts[5], counts[9]), (0, 4, 4))

    def test_a_backward_without_a_step(self):
        def again(net, optimizer, step):
            if step in (3, 6):
                optimizer.zero_grad()
                loss_of(net, 40).backward()
                begun(optimizer)
                optimizer.zero_grad()
                loss_of(net, 50).backward()

        self.check(again, 10)

    def test_frozen_and_new_parameters(self):
        def change(net, optimizer, step):
            net[2].weight.requires_grad_(step % 3 != 1)
            if step == 5:
                more = torch.nn.Parameter(torch.ones(3))
                more.grad = torch.ones(3)
                optimizer.add_param_group({"params": [more]})

        self.check(change, 12)

    def test_it_goes_on_from_a_state_that_was_saved_between(self):
        def trained(mode):
            net = make_model()
            optimizer = self.ours(net.parameters(), mode, clip_grad_norm=SOMETIMES)
            for step in range(12):
                optimizer.zero_grad()
                loss_of(net, step).backward()
                begun(optimizer)
                if step == 5:
                    kept = copy.deepcopy((net.state_dict(), optimizer.state_dict()))
                    optimizer.close()
                    net = make_model(seed=2)
                    net.load_state_dict(kept[0])
                    optimizer = self.ours(net.parameters(), mode, clip_grad_norm=SOMETIMES, lr=1.0)
                    optimizer.load_state_dict(kept[1])
                    loss_of(net, step).backward()
                optimizer.step()
            optimizer.synchronize()
            return values_of(net)

        self.assertTrue(all(map(torch.equal, trained("off"), trained("exact"))))

    def test_close_leaves_the_state_before(self):
        def closed(mode):
            net = make_model()
            optimizer = self.ours(net.parameters(), mode)
            for step in range(4):
                optimizer.zero_grad()
                loss_of(net, step).backward()
                begun(optimizer)
                if step < 3:
                    optimizer.step()
            optimizer.close()
            return [*values_of(net), *(value for entry in optimizer.state.values() for value in entry.values())]

        self.assertTrue(all(map(torch.equal, closed("off"), closed("exact"))))

    # ---- what it needs ----

    def test_without_memory_for_the_log_it_says_so_once_and_trains(self):
        init = Runtime.__init__

        def refusing(runtime, *given, groups=(), **more):
            if any(group.speculative for group in groups):
                raise ZfError("no memory", "ZF_ERROR_SYSTEM")
            init(runtime, *given, groups=groups, **more)

        said = "no step begins in backward, since its log has no memory: no memory"
        with unittest.mock.patch.object(Runtime, "__init__", refusing), self.assertWarnsRegex(UserWarning, said):
            self.check()

    def test_other_modes_and_formats_are_refused(self):
        for wrong in ({"overlap": "late"}, {"overlap": "off"}, {"overlap": "exact", "state": "bf16"}):
            with self.assertRaisesRegex(ZfError, "speculate=True needs overlap=\"exact\" and state=\"fp32\""):
                zf_runtime.AdamW(make_model().parameters(), speculate=True, **wrong)

    def test_a_kill_at_any_moment_changes_no_bit(self):
        """ZF_KILLS is how many: in every second step, in backward, before step() or in it."""
        kills, moments = int(os.environ.get("ZF_KILLS", "30")), random.Random(7)
        nets = [torch.nn.Sequential(torch.nn.Linear(10, 3000), torch.nn.Tanh(), torch.nn.Linear(3000, 7))
                for _ in range(2)]
        nets[1].load_state_dict(nets[0].state_dict())
        ours, other = (self.ours(net.parameters(), mode, clip_grad_norm=30.0,
                                 **({"runtime_options": {"max_restarts": 10 * kills}} if mode == "exact" else {}))
                       for net, mode in zip(nets, ("exact", "off")))
        clipped = started = 0
        for step in range(2 * kills):
            factor = 100 if step % 3 == 2 else moments.uniform(0.5, 1.0)
            for net, each in zip(nets[::-1], (other, ours)):
                each.zero_grad()
                (loss_of(net, step) * factor).backward()
            started += begun(ours) if step % 4 == 3 else 0
            if step % 2 == 1:
                time.sleep(moments.uniform(0, 0.002))
                os.kill(ours.runtime.stats().worker_pid, signal.SIGKILL)
                time.sleep(moments.choice((0.0, moments.uniform(0, 0.02))))
            if step % 8 == 5:
                ours.state_dict()
            ours.step()
            other.step()
            clipped += ours.grad_norm > 30.0
            for mine, theirs in zip(values_of(nets[0]), values_of(nets[1])):
                self.assertTrue(torch.equal(mine, theirs), step)
        ours.synchronize()
        self.assertGreater(min(started, clipped), kills // 10)  # else nothing was at stake
        print(f"{kills} kills, {ours.runtime.stats().restarts} restarts; {clipped} of {2 * kills} steps were clipped, "
              f"{started} were begun")


if __name__ == "__main__":
    unittest.main()
