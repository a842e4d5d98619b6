"""Two optimizers over the same parameters: each steps what the other one has left, whatever runs beside training. Tests
optim/tensors/others.py."""

import itertools
import os
import signal
import threading

import case
import torch
import zf_runtime
from models import make_model, parameters_of
from zf_runtime import ZfWorkerDied


def hold(optimizer):
    """Lets the optimizer process stand still for a while."""
    pid = optimizer.runtime.stats().worker_pid
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(0.1, os.kill, (pid, signal.SIGCONT)).start()


class Two(case.AdamWTest):
    def of(self, model, mode):
        """mode None: in place."""
        params = list(model.parameters())
        return zf_runtime.AdamW(params, lr=1e-2) if mode is None else self.ours(params, mode, lr=1e-2)

    def trained(self, modes, dtype):
        """Steps with two optimizers in turns, and with a third that is made while the step of the second may be under
        way."""
        model = make_model(dtype)
        optimizers = [self.of(model, mode) for mode in modes[:2]]
        for step in range(3):
            self.give(model, step)
            for optimizer in optimizers:
                if optimizer.overlap != "off" and step == 2:
                    hold(optimizer)
                optimizer.step()
        optimizers.append(self.of(model, modes[2]))
        optimizers[2].step()
        for optimizer in optimizers:
            optimizer.synchronize()
        return [parameters_of(model), *(optimizer.state[param][name] for optimizer in optimizers
                                        for param in model.parameters() for name in ("step", "exp_avg", "exp_avg_sq"))]

    def give(self, model, seed):
        """Makes gradients, after a forward that shows which modules read parameters."""
        with torch.no_grad():
            model(torch.ones(1, 10, dtype=model[0].weight.dtype))
        random = torch.Generator().manual_seed(seed)
        for param in model.parameters():
            param.grad = torch.randn(param.shape, generator=random).to(param.dtype)

    def test_each_steps_what_the_others_have_left(self):
        """The bits are those of three in place."""
        for dtype in (torch.float32, torch.bfloat16):
            wanted = self.trained((None, None, None), dtype)
            for first, second in itertools.product(("exact", "late"), ("exact", "late", "off", None)):
                with self.subTest(dtype=dtype, first=first, second=second):
                    self.assert_bits(self.trained((first, second, first), dtype), wanted)

    def test_others_over_other_parameters_are_not_waited_for(self):
        model, other = make_model(), make_model()
        a, b = self.of(model, "late"), self.of(other, None)
        for each in (model, other):
            self.give(each, 1)
        a.step()
        b.step()
        self.assertIsNotNone(a._engine.opened.overlap.turn)
        self.assertEqual(a._engine.opened.overlap.turn.publishing.is_set, False)

    def test_one_whose_process_died_does_not_stop_the_other(self):
        """As in a notebook, where a new optimizer is made."""
        model, whole = make_model(), make_model()
        dead = self.ours(model.parameters(), "late", runtime_options={"max_restarts": 0})
        self.give(model, 1)
        dead.step()
        dead.synchronize()
        pid = dead.runtime.stats().worker_pid
        os.kill(pid, signal.SIGSTOP)  # so that this step is still under way when it dies
        dead.step()
        os.kill(pid, signal.SIGKILL)
        model.load_state_dict(whole.state_dict())
        for each in (model, whole):
            optimizer = self.of(each, "late" if each is model else None)
            self.give(each, 2)
            optimizer.step()
            optimizer.synchronize()
        self.assert_bits(parameters_of(model), parameters_of(whole))
        with self.assertRaises(ZfWorkerDied):
            dead.synchronize()
        with self.assertRaises(ZfWorkerDied):
            dead.close()
