"""The loop of DeepSpeed in docs/recovery.md: kept_zero.py FOLDER. FOLDER has cases.json, a list of objects like
DEFAULTS. In each case a rank is killed some seconds after a step: "dies" is [rank, step, seconds], or one of PLACES
instead of seconds. All ranks are started again. Then they go on, and afterwards train the same again, without keep and
without a death. "loads": both go on from a checkpoint that the first life has written behind its second step.

Each rank says {"case": number, "begins": the step that it begins behind}, and at the end of a case {"case": ...,
"kept": digest, "calm": digest} of weights, masters, moments and all that counts."""

import hashlib
import json
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import types

import report

report.set_rendezvous()

import torch
import zf_runtime.deepspeed
from deepspeed import initialize
from deepspeed.utils import safe_get_full_fp32_param
from zero_pairs import DEFAULTS as OF_PAIRS
from zero_pairs import Model, config_of
from zf_runtime.native.runtime import Runtime
from zf_runtime.optim.overlap.ranks import Ranks

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/recovery.md"
LOOP = re.search(r"```python\n(zf_runtime.deepspeed.install.*?)```", PAGE.read_text(), re.DOTALL)[1]
#: Where a step can be interrupted, as the rank that dies sees it.
PLACES = {"before prepare": (Runtime, "prepare"), "behind prepare": (Runtime, "prepare"),
          "behind meet": (Ranks, "meet"), "behind go": (Runtime, "go")}
DEFAULTS = OF_PAIRS | {"steps": 12, "clip": 0.5, "overflow": None, "scheduler": True, "dies": None, "loads": False,
                       "hpz": 1}


def make_engine(case, seed: int):
    config = config_of(case)
    if case["scheduler"]:
        config["scheduler"] = {"type": "WarmupDecayLR", "params": {"total_num_steps": 30, "warmup_num_steps": 5}}
    if case["dtype"] == "fp16":
        config["fp16"] |= {"initial_scale_power": 8, "loss_scale_window": 3}
    if case["stage"] == 3:
        config["zero_optimization"] |= {"stage3_param_persistence_threshold": 200, "stage3_prefetch_bucket_size": 5000,
                                        "zero_hpz_partition_size": case["hpz"]}
    model = Model(case)
    if seed:  # first values that must not count
        for param in model.parameters():
            param.data.normal_(generator=torch.Generator().manual_seed(seed))
    return initialize(model=model, model_parameters=list(model.parameters()), config=config,
                      dist_init_required=True)[0]


class Batches:
    """Gives the loop its batches. A killer may come."""

    def __init__(self, case, dies=None, checkpoint=None):
        """checkpoint: where one is written to."""
        self.case, self.dies, self.checkpoint, self.engine = case, dies, checkpoint, None
        self.killer = None

    def __call__(self, step: int, part: int):
        case = self.case
        if self.checkpoint is not None and (step, part) == (2, 0):
            self.engine.save_checkpoint(str(self.checkpoint))
        dies_now = self.dies and self.dies[0] == report.rank() and step == self.dies[1]
        if dies_now and self.dies[2] in PLACES:
            die_at(self.dies[2])
        elif dies_now and self.killer is None:
            self.killer = subprocess.Popen(["sh", "-c", f"sleep {self.dies[2]}; kill -KILL {os.getpid()}"])
        if self.killer is not None and step == case["steps"] - 1:
            self.killer.wait()
        batch = torch.randn(8, case["width"])  # by the random state that the loop notes
        if step == case["overflow"]:
            batch[0, 0] = float("inf")
        return batch.to(next(self.engine.module.parameters()).dtype)


def die_at(place: str):
    """Kills this rank when it is at this place."""
    owner, name = PLACES[place]
    call = getattr(owner, name)

    def call_and_die(*args, **keywords):
        if place.startswith("behind"):
            call(*args, **keywords)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, call_and_die)


def train(case, make, batches: Batches) -> str:
    """Runs the loop of the page over the engine that make() returns. Returns a digest of all that is there at its
    end."""
    found = []

    def initialize(**_):
        engine = batches.engine = make()
        if engine.kept is None:
            torch.manual_seed(7 + report.rank())
        else:
            assert engine.kept.step == engine.global_steps > 0, (engine.kept, engine.global_steps)
            check_weights(engine)
        destroy = engine.destroy
        engine.destroy = lambda: (found.append(digest_of(engine, case)), destroy())
        return engine, None

    exec(compile(LOOP, str(PAGE), "exec"), {
        "zf_runtime": types.SimpleNamespace(deepspeed=types.SimpleNamespace(install=lambda *_, **__: None)),
        "deepspeed": types.SimpleNamespace(initialize=initialize), "torch": torch, "pickle": pickle,
        "Model": lambda: None, "config": None, "batch_of": batches, "steps": case["steps"]})
    return found[0]


def check_weights(engine):
    """Checks that parameters which ZeRO-3 never frees have the values of their masters, before a step gathers them."""
    for param in engine.module.parameters():
        if getattr(param, "ds_persist", False):
            assert torch.equal(param, safe_get_full_fp32_param(param).to(param.dtype)), "it was not gathered"


def digest_of(engine, case) -> str:
    zero, found = engine.optimizer, hashlib.sha256()
    zero.state_dict()  # waits
    for flat in zero.fp32_partitioned_groups_flat if case["stage"] == 3 else zero.single_partition_of_fp32_groups:
        state = zero.optimizer.state[flat]
        for tensor in (flat, state["exp_avg"], state["exp_avg_sq"]):
            found.update(tensor.detach().numpy().tobytes())
        found.update(b"%d" % state["step"])
    with torch.no_grad():
        batch = torch.ones(1, case["width"], dtype=next(engine.module.parameters()).dtype)
        found.update(engine.module(batch).float().numpy().tobytes())
    micro_steps = None if case["loads"] else engine.micro_steps  # DeepSpeed's checkpoints do not have them
    found.update(repr((zero.param_groups[0]["lr"], zero.loss_scale, vars(zero.loss_scaler), engine.global_steps,
                       engine.global_samples, micro_steps, engine.skipped_steps)).encode())
    return found.hexdigest()


def main():
    folder = pathlib.Path(next(word for word in sys.argv[1:] if not word.startswith("--local_rank")))
    torch.set_num_threads(1)
    for number, given in enumerate(json.loads((folder / "cases.json").read_text())):
        case, digests = DEFAULTS | given, {}
        done, died = folder / f"done-{number}-{report.rank()}", folder / f"died-{number}-{report.rank()}"
        if done.exists():
            continue
        for kind in ("kept", "calm"):
            keep = f"case-{number}" if kind == "kept" else None
            zf_runtime.deepspeed.install(case["mode"], speculate=case["speculate"], keep=keep, chunk_bytes=4096)
            lives = len(died.read_text()) if died.exists() else 0
            checkpoint = folder / f"checkpoint-{number}" if case["loads"] else None

            def make(keep=keep, lives=lives, checkpoint=checkpoint, case=case, number=number, died=died):
                engine = make_engine(case, lives if keep else 0)
                if keep:
                    report.say(case=number, begins=engine.global_steps)
                    died.write_text("x" * (lives + 1))
                if checkpoint is not None and lives:
                    engine.load_checkpoint(str(checkpoint))
                    assert engine.global_steps == 2, engine.global_steps
                if checkpoint is not None or not keep:
                    engine.kept = None
                return engine

            digests[kind] = train(case, make, Batches(case, case["dies"] if keep and lives == 0 else None,
                                                      None if lives else checkpoint))
        done.touch()
        report.say(case=number, **digests)
    torch.distributed.barrier()
    sys.stdout.flush()
    os._exit(0)


main()
