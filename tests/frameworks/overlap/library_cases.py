"""Trainer, accelerate and Lightning train with mode exact as with torch's AdamW, whether they clip themselves or let
the optimizer do it; and with torch.compile as with overlap="off". Costs 25 s. Tests optim/overlap/compiled.py."""

import contextlib
import io
import logging
import os
import signal
import tempfile
import threading
import unittest
import warnings

import exact
import pytorch_lightning
import torch
from accelerate import Accelerator
from exact import Counted, batch, loss_of, make_model, values_of
from pytorch_lightning.callbacks import EMAWeightAveraging
from pytorch_lightning.core.optimizer import LightningOptimizer
from transformers import Trainer, TrainingArguments
from zf_runtime import ZfError

CLIP, STEPS = 0.05, 8
WRITTEN = ".*were written between backward"


class Named(torch.nn.Module):
    """A model of the form that the Trainer takes."""

    def __init__(self):
        super().__init__()
        self.model = make_model()

    def forward(self, inputs=None, labels=None):
        outputs = self.model(inputs)
        return {"loss": torch.nn.functional.mse_loss(outputs, torch.tanh(inputs[:, :7])), "logits": outputs}


class Lightning(pytorch_lightning.LightningModule):
    def __init__(self, optimizer_of, clips):
        super().__init__()
        self.model, self.optimizer_of, self.clips = make_model(), optimizer_of, clips
        self.losses, self.norms = [], []

    def training_step(self, step, number):
        loss = loss_of(self.model, int(step))
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return self.optimizer_of(self.parameters())

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        clips = optimizer.clip_grad_norm_ if self.clips else torch.nn.utils.clip_grad_norm_
        self.norms.append(float(clips(self.parameters(), gradient_clip_val)))


class Libraries(exact.Case):
    def like_torch(self, train):
        """train(optimizer of parameters, whether the optimizer clips) returns losses and norms."""
        wanted = train(lambda params: torch.optim.AdamW(params, lr=1e-2), False)
        for clips in (False, True):
            results = []
            for mode in ("off", "exact"):
                counts = []

                def make(params, mode=mode, counts=counts, clips=clips):
                    optimizer = self.ours(params, mode, clip_grad_norm=CLIP if clips else None)
                    if mode == "exact":
                        counts.append(Counted(optimizer))
                    return optimizer

                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    results.append(train(make, clips))
            self.assertEqual(any("written between" in str(each.message) for each in said), not clips)
            counted, = counts
            self.assertEqual(counted.early > counted.copied, clips, vars(counted))
            self.assertEqual(results[0], results[1])
            for theirs, ours in zip(wanted, results[1]):
                torch.testing.assert_close(torch.tensor(ours), torch.tensor(theirs), rtol=1e-5, atol=1e-7)

    def test_accelerate(self):
        def train(make, clips):
            accelerator, plain = Accelerator(cpu=True), make_model()
            optimizer = make(plain.parameters())
            model, prepared = accelerator.prepare(plain, optimizer)
            losses, norms = [], []
            clip = optimizer.clip_grad_norm_ if clips else accelerator.clip_grad_norm_
            for step in range(STEPS):
                loss = loss_of(model, step)
                accelerator.backward(loss)
                norms.append(float(clip(model.parameters(), CLIP)))
                prepared.step()
                prepared.zero_grad()
                losses.append(loss.item())
            return losses, norms

        self.like_torch(train)

    def test_trainer(self):
        examples = [{"inputs": row, "labels": torch.zeros(1)} for step in range(4) for row in batch(step)[0]]

        def train(make, clips):
            torch.manual_seed(0)
            model = Named()
            optimizer = make(model.parameters())
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
                trainer = Trainer(model, TrainingArguments(
                    folder, use_cpu=True, max_steps=STEPS, report_to="none", logging_steps=1, max_grad_norm=CLIP,
                    gradient_accumulation_steps=2, disable_tqdm=True, save_strategy="no"),
                    train_dataset=examples, optimizers=(optimizer, None))
                if clips:
                    trainer.accelerator.clip_grad_norm_ = optimizer.clip_grad_norm_
                trainer.train()
            logs = [log for log in trainer.state.log_history if "grad_norm" in log]
            self.assertEqual(len(logs), STEPS)
            return [float(log["loss"]) for log in logs], [float(log["grad_norm"]) for log in logs]

        self.like_torch(train)

    def test_lightning(self):
        logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

        def train(make, clips):
            module = Lightning(make, clips)
            pytorch_lightning.Trainer(
                accelerator="cpu", max_steps=STEPS, logger=False, enable_checkpointing=False, gradient_clip_val=CLIP,
                enable_progress_bar=False, enable_model_summary=False).fit(
                    module, torch.utils.data.DataLoader(torch.arange(STEPS), batch_size=None))
            return module.losses, module.norms

        self.like_torch(train)

    def test_lightning_averages_weights_and_logs_norms(self):
        """Its module is never called itself, and its callbacks read parameters after each step."""
        def program(make):
            norms = []

            class Norms(pytorch_lightning.Callback):
                def on_train_batch_end(self, trainer, module, *_):
                    norms.extend(float(param.norm()) for param in module.parameters())

            class Module(pytorch_lightning.LightningModule):
                def __init__(self):
                    super().__init__()
                    self.model = make_model()

                def training_step(self, step, number):
                    return loss_of(self.model, int(step))

                def configure_optimizers(self):
                    return make(self.parameters())

            module = Module()
            pytorch_lightning.Trainer(
                accelerator="cpu", max_steps=STEPS, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                enable_model_summary=False, callbacks=[Norms(), EMAWeightAveraging(decay=0.5)]).fit(
                    module, torch.utils.data.DataLoader(torch.arange(STEPS), batch_size=None))
            return norms + values_of(module)

        self.same(program)

    def test_wrappers_of_lightning_clip_and_close_what_they_wrap(self):
        """As self.optimizers() gives them where optimization is manual: they are of a subclass of ours."""
        def program(make):
            model = make_model()
            optimizer, norms = make(model.parameters()), []
            wrapper = LightningOptimizer(optimizer)
            for step in range(3):
                wrapper.zero_grad()
                loss_of(model, step).backward()
                norms.append(float(wrapper.clip_grad_norm_(max_norm=0.01)))
                optimizer.step()
                self.assertEqual(wrapper.grad_norm, optimizer.grad_norm)
                self.assertAlmostEqual(wrapper.grad_norm, norms[-1], places=6)
            means = [optimizer.state[param]["exp_avg"].abs().sum().item() for param in model.parameters()]
            self.assertLess(sum(means), 0.05)  # 0.4 without clipping
            wrapper.close()
            with self.assertRaisesRegex(ZfError, "closed"):
                optimizer.step()
            return [*norms, *values_of(model)]

        self.same(program)


class Compiled(exact.Case):
    def test_what_is_compiled_before_the_first_step(self):
        ways = {"the model": lambda model: torch.compile(model, backend="eager"),
                "in place": lambda model: model.compile(backend="eager") or model,
                "a part": lambda model: model[0].compile(backend="eager") or model,
                "a function": lambda model: torch.compile(lambda inputs: model(inputs) * 1, backend="eager")}
        warnings.filterwarnings("ignore", message=".*with torch.compile")
        for name, compiled in ways.items():
            def program(make, compiled=compiled):
                plain = make_model()
                model, optimizer, losses = compiled(plain), make(plain.parameters()), []
                for step in range(5):
                    optimizer.zero_grad()
                    loss = loss_of(model, step)
                    loss.backward()
                    pid = optimizer.runtime.stats().worker_pid if optimizer.overlap == "exact" else None
                    if pid and step == 4:  # a read without a wait finds the old values
                        os.kill(pid, signal.SIGSTOP)
                        threading.Timer(0.05, os.kill, (pid, signal.SIGCONT)).start()
                    optimizer.step()
                    losses.append(loss.item())
                return [*losses, *(param.detach().clone() for part in plain for param in part.parameters())]

            with self.subTest(name):
                self.same(program)


if __name__ == "__main__":
    unittest.main()
