"""Saves and loads checkpoints of ZeRO-Offload in all four directions: DeepSpeed's own CPU Adam and the native optimizer.

Says per case {"case": {...}, "resumed": {"own-own": [losses], "own-native": [...], "native-own": ..., "native-native": ...}}.
Each list is what an engine of the second kind computes after it has loaded what one of the first kind had saved. For ZenFlow
with overlap_step: {"case": {...}, "moments": how many tensors of moments arrive, "differ": elements of weights and moments
that arrive changed}, for what the native optimizer saved; and the losses after that, and after a checkpoint of DeepSpeed's."""

import json
import os
import pathlib
import tempfile

import report

report.set_rendezvous()

import torch
import zf_runtime.deepspeed
from zero_pairs import DEFAULTS, make_engine, train_steps

KINDS = ("own", "native")


def install(kind: str):
    zf_runtime.deepspeed.uninstall()
    if kind == "native":
        zf_runtime.deepspeed.install()


def state_of(engine) -> list[torch.Tensor]:
    """Returns copies of the weights and of all moments, in an order of names."""
    zero = engine.optimizer
    tensors = []
    for flat in zero.single_partition_of_fp32_groups:
        state = zero.optimizer.state[flat]
        tensors += [flat.detach().clone(), *(state[name].clone() for name in sorted(state) if torch.is_tensor(state[name]))]
    return tensors


def zenflow(case, folder):
    """Saves and loads ZenFlow's state. Its own optimizer process saves no moments."""
    for kind in KINDS:
        install(kind)
        engine = make_engine(case)
        train_steps(engine, case, range(case["steps"]))
        engine.save_checkpoint(folder, tag=kind)  # waits for the step that is under way
        saved = state_of(engine)
        engine.destroy()
    install("native")
    losses = []
    for kind in reversed(KINDS):
        engine = make_engine(case)
        engine.load_checkpoint(folder, tag=kind)
        if kind == "native":
            loaded = state_of(engine)
        losses.append(train_steps(engine, case, range(case["steps"], 2 * case["steps"])))
        engine.destroy()
    differ = sum(int((a != b).sum()) for a, b in zip(saved, loaded, strict=True))
    report.say(case=case, moments=len(loaded) - case["groups"], differ=differ, losses=losses)


def main():
    for case in json.loads(pathlib.Path(os.environ["ZERO_CASES"]).read_text()):
        case = DEFAULTS | case
        if case["overlap"]:
            with tempfile.TemporaryDirectory() as folder:
                zenflow(case, folder)
            continue
        with tempfile.TemporaryDirectory() as folder:
            for kind in KINDS:
                install(kind)
                engine = make_engine(case)
                train_steps(engine, case, range(case["steps"]))
                engine.save_checkpoint(folder, tag=kind)
                engine.destroy()
            resumed = {}
            for saved in KINDS:
                for kind in KINDS:
                    install(kind)
                    engine = make_engine(case)
                    engine.load_checkpoint(folder, tag=saved)
                    resumed[f"{saved}-{kind}"] = train_steps(engine, case, range(case["steps"], 2 * case["steps"]))
                    engine.destroy()
        report.say(case=case, resumed=resumed)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
