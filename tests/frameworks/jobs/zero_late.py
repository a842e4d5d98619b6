"""Trains with the native optimizer one step late, and compares with DeepSpeed's own engine made one step late by hand.

Says per case {"case": {...}, "late": [losses], "expected": [losses], "differ": elements of the weights, "waited":
whether DeepSpeed's safe_get_full_fp32_param waits for the step that is under way, "restarts": N, "went_on": [losses
after a checkpoint was saved], "resumed": [the same steps, after it was loaded into this engine], "fresh": [the same,
into a new one]}."""

import json
import os
import pathlib
import tempfile

import report

report.set_rendezvous()

import torch
import zf_runtime.deepspeed
from deepspeed.utils import safe_get_full_fp32_param
from zero_pairs import DEFAULTS, arena_of, make_engine, train_steps


def weights_of(engine) -> list[torch.Tensor]:
    """Returns a copy of what the next forward computes with: each parameter, in stage 3 what it is gathered from."""
    return [getattr(param, "ds_tensor", param).detach().flatten().clone() for param in engine.module.parameters()]


def publish(engine, weights: list[torch.Tensor]):
    """Lets the next forward compute with these. In stage 3 small parameters stay gathered."""
    for param, flat in zip(engine.module.parameters(), weights, strict=True):
        if hasattr(param, "ds_tensor"):
            param.ds_tensor.data.copy_(flat)
        if param.numel() > 0:
            param.data.copy_(flat[:param.numel()].view_as(param))


def expected(case) -> tuple[list[str], list[torch.Tensor]]:
    """Returns losses and fp32 weights of DeepSpeed's own engine, if each step's weights are published one step late."""
    zf_runtime.deepspeed.uninstall()
    engine = make_engine(case)
    losses = []
    before = weights_of(engine)
    for step in range(case["steps"]):
        losses += train_steps(engine, case, [step])
        after = weights_of(engine)
        publish(engine, before)
        before = after
    masters = [safe_get_full_fp32_param(param).flatten().clone() for param in engine.module.parameters()]
    engine.destroy()
    return losses, masters


def main():
    for given in json.loads(pathlib.Path(os.environ["ZERO_CASES"]).read_text()):
        case = DEFAULTS | given
        zf_runtime.deepspeed.install("late")
        engine = make_engine(case)
        late = train_steps(engine, case, range(case["steps"]))
        weights = [safe_get_full_fp32_param(param).flatten() for param in engine.module.parameters()]
        waited, restarts = arena_of(engine).runtime.done(), arena_of(engine).runtime.stats().restarts
        with tempfile.TemporaryDirectory() as folder:
            engine.save_checkpoint(folder, tag="late")
            went_on = train_steps(engine, case, range(20, 24))
            engine.load_checkpoint(folder, tag="late")
            resumed = train_steps(engine, case, range(20, 24))
            engine.destroy()
            engine = make_engine(case)
            engine.load_checkpoint(folder, tag="late")
            fresh = train_steps(engine, case, range(20, 24))
            engine.destroy()
        want, masters = expected(case)
        differ = sum(int((a != b).sum()) for a, b in zip(weights, masters, strict=True))
        report.say(case=case, late=late, expected=want, differ=differ, waited=waited, restarts=restarts,
                   went_on=went_on, resumed=resumed, fresh=fresh)
    report.leave_group()


if __name__ == "__main__":
    main()
