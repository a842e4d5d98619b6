"""A job for zf-tune record, which says what it has computed: PyTorch's AdamW, or ours waiting, late or exact.

Says {"digest": hash of all losses and parameters}. With --context FILE it records itself. With --hooked it counts the
calls of a hook and keeps the gradient of a tensor that is no leaf; the digest holds both."""

import argparse
import contextlib
import hashlib
import struct

import report
import torch
import zf_runtime
import zf_runtime.record
from model import loss_of, make_batch, make_model

MODES = {"wait": "off", "late": "late", "exact": "exact"}


def optimizer_of(kind: str, params):
    if kind == "torch":
        return torch.optim.AdamW(params, lr=1e-3)
    return zf_runtime.AdamW(params, lr=1e-3, overlap=MODES[kind], runtime_options={"narrow": "no"})


def main():
    parser = argparse.ArgumentParser()
    for name, value in {"steps": 30, "width": 256, "blocks": 2, "tokens": 64, "accumulate": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--optimizer", choices=("torch", *MODES), default="torch")
    parser.add_argument("--context")
    parser.add_argument("--hooked", action="store_true")
    options = parser.parse_args()
    model, batch = make_model(options), make_batch(options)
    optimizer = optimizer_of(options.optimizer, model.parameters())
    digest = hashlib.sha256()

    def step():
        optimizer.zero_grad()
        for _ in range(options.accumulate):
            loss = loss_of(model, batch)
            if options.hooked:
                loss = loss * 1
                loss.retain_grad()
                loss.register_hook(lambda gradient: digest.update(b"called"))
            loss.backward()
            if options.hooked:
                digest.update(loss.grad.numpy().tobytes())
            digest.update(struct.pack("d", loss.item()))
        optimizer.step()

    recording = zf_runtime.record.recording(options.context) if options.context else contextlib.nullcontext()
    with recording:
        report.run_steps(options.steps, step)
    if options.optimizer != "torch":
        optimizer.close()
    for param in model.parameters():
        digest.update(param.detach().numpy().tobytes())
    report.say(digest=digest.hexdigest())


if __name__ == "__main__":
    main()
