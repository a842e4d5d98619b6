"""Saves and loads checkpoints of ZeRO-Offload in all four directions: DeepSpeed's own CPU Adam and the native optimizer.

Says per case {"case": {...}, "resumed": {"own-own": [losses], "own-native": [...], "native-own": ..., "native-native": ...}}.
Each list is what an engine of the second kind computes after it has loaded what one of the first kind had saved."""

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


def main():
    for case in json.loads(pathlib.Path(os.environ["ZERO_CASES"]).read_text()):
        case = DEFAULTS | case
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
