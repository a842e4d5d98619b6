"""Trains ZeRO-Offload with moments in bf16: `zf_runtime.deepspeed.install(state="bf16")`.

Says per case {"case": {...}, "own": [losses of DeepSpeed's own], "ours": [...], "went_on": [losses after a checkpoint],
"resumed": [those of an engine that loaded it], "by_own": [those of DeepSpeed's own, which loaded it, too], "types": of
moments in the optimizer's state, as read by safe_get_full_optimizer_state() and in the checkpoint, "same":
whether the last two are the first in every bit, "written": whether a moment that was written is there, "restarts":
N}."""

import json
import os
import pathlib
import tempfile

import report

report.set_rendezvous()

import torch
import zf_runtime.deepspeed
from deepspeed import utils
from zero_pairs import DEFAULTS, arena_of, make_engine, train_steps


def engine_of(case, kind: str):
    zf_runtime.deepspeed.uninstall()
    if kind == "ours":
        zf_runtime.deepspeed.install(state="bf16")
    return make_engine(case)


def moments_in(folder: pathlib.Path, tag: str) -> list[torch.Tensor]:
    """Returns the first moments of a checkpoint."""
    saved, = folder.joinpath(tag).glob("*optim_states.pt")
    state = torch.load(saved, weights_only=False)["optimizer_state_dict"]
    state = state.get("optimizer_state_dict") or state["base_optimizer_state"]
    return [entry["exp_avg"] for entry in state["state"].values()]


def run(case, folder: pathlib.Path) -> dict:
    steps, more = range(case["steps"]), range(case["steps"], 2 * case["steps"])
    engine = engine_of(case, "own")
    said = {"own": train_steps(engine, case, steps)}
    engine.destroy()

    engine = engine_of(case, "ours")
    said["ours"] = train_steps(engine, case, steps)
    zero, param = engine.optimizer, list(engine.module.parameters())[2]
    flats = getattr(zero, "fp32_partitioned_groups_flat", None) or zero.single_partition_of_fp32_groups
    kept = [zero.optimizer.state[flat]["exp_avg"].clone() for flat in flats]
    read = utils.safe_get_full_optimizer_state(param, "exp_avg")
    engine.save_checkpoint(folder, tag="ours")
    saved = moments_in(folder, "ours")
    said["types"] = [str(tensor.dtype) for tensor in (kept[0], read, saved[0])]
    said["same"] = bool(set(read.flatten().tolist()) <= set(torch.cat(kept).float().tolist())
                        and all(torch.equal(a.float(), b) for a, b in zip(kept, saved, strict=True)))
    said["went_on"] = train_steps(engine, case, more)
    utils.safe_set_full_optimizer_state(param, torch.full_like(read, 0.75), "exp_avg")
    said["written"] = bool((utils.safe_get_full_optimizer_state(param, "exp_avg") == 0.75).all())
    said["restarts"] = arena_of(engine).runtime.stats().restarts
    engine.destroy()

    for name, kind in (("resumed", "ours"), ("by_own", "own")):
        engine = engine_of(case, kind)
        train_steps(engine, case | {"kill_at": None}, range(2))  # the checkpoint takes the place of a state that exists
        engine.load_checkpoint(folder, tag="ours")
        said[name] = train_steps(engine, case, more)
        engine.destroy()
    return said


def main():
    for given in json.loads(pathlib.Path(os.environ["ZERO_CASES"]).read_text()):
        case = DEFAULTS | given
        with tempfile.TemporaryDirectory() as folder:
            report.say(case=case, **run(case, pathlib.Path(folder)))
    report.leave_group()


if __name__ == "__main__":
    main()
