"""Trains with the native optimizer one step late, and compares with a plain loop that is one step late.

Says per case {"case": {...}, "late": [losses], "expected": [losses], "differ": elements of the weights, "waited":
whether DeepSpeed's safe_get_full_fp32_param waits for the step that is under way, "resumed": [losses after a checkpoint
was loaded into this engine], "fresh": [the same, into a new one]}."""

import json
import os
import pathlib
import tempfile

import report

report.set_rendezvous()

import torch
import zf_runtime.deepspeed
from deepspeed.ops.op_builder import CPUAdamBuilder
from deepspeed.utils import safe_get_full_fp32_param
from zero_pairs import DEFAULTS, Model, arena_of, config_of, loss_of, make_engine, train_steps


def expected(case) -> tuple[list[str], list[torch.Tensor]]:
    """Returns losses and fp32 weights of a loop that publishes each step's weights one step late. It steps with
    DeepSpeed's own operator."""
    operator, settings = CPUAdamBuilder().load(), config_of(case)["optimizer"]["params"]
    operator.create_adam(7000, settings["lr"], 0.9, 0.999, 1e-8, settings["weight_decay"], True, False)
    model = Model(case).to({"fp32": torch.float32, "bf16": torch.bfloat16}[case["dtype"]])
    masters = [param.detach().float().flatten().clone() for param in model.parameters()]
    moments = [(torch.zeros_like(flat), torch.zeros_like(flat)) for flat in masters]
    losses = []
    for step in range(case["steps"]):
        loss = loss_of(model, case, step, 0, 0)
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        losses.append(loss.item().hex())
        with torch.no_grad():
            for param, flat in zip(model.parameters(), masters):
                param.copy_(flat.view_as(param))
            for flat, gradient, (first, second) in zip(masters, gradients, moments):
                operator.adam_update(7000, step + 1, settings["lr"], 0.9, 0.999, 1e-8, settings["weight_decay"], True,
                                     flat, gradient.float().flatten(), first, second)
    return losses, masters


def main():
    for case in json.loads(pathlib.Path(os.environ["ZERO_CASES"]).read_text()):
        case = DEFAULTS | case
        zf_runtime.deepspeed.install("late")
        engine = make_engine(case)
        late = train_steps(engine, case, range(case["steps"]))
        weights = [safe_get_full_fp32_param(param).flatten() for param in engine.module.parameters()]
        waited = arena_of(engine)._ticket == 0
        want, masters = expected(case)
        differ = sum(int((a != b).sum()) for a, b in zip(weights, masters, strict=True))
        with tempfile.TemporaryDirectory() as folder:
            engine.save_checkpoint(folder, tag="late")
            train_steps(engine, case, range(3))
            engine.load_checkpoint(folder, tag="late")
            resumed = train_steps(engine, case, range(20, 24))
            engine.destroy()
            engine = make_engine(case)
            engine.load_checkpoint(folder, tag="late")
            fresh = train_steps(engine, case, range(20, 24))
            engine.destroy()
        report.say(case=case, late=late, expected=want, differ=differ, waited=waited, resumed=resumed, fresh=fresh)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
