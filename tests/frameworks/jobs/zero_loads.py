"""Loads a checkpoint in every way that DeepSpeed has into an engine that is training, and compares the native optimizer
with DeepSpeed's own, which in mode late is made one step late by hand.

Per case one engine of each kind trains; that of DeepSpeed's saves on the way. Then, for each way to load: both train,
both load while the native optimizer's last step is under way, and both train on.

Says per case and way {"case": {...}, "load": "weights", "module" or "full", "own": [losses after the load], "native":
[the same], "loaded": elements that differ right after the load, "differ": the same after the last step, "of": elements,
"waited": whether the native load waited for that step, "refused": [what DeepSpeed's own load raised, and the native
one's]}. The elements are weights, masters and moments."""

import contextlib
import json
import os
import pathlib
import signal
import tempfile
import time

import report

report.set_rendezvous()

import torch
import zf_runtime.deepspeed
from zero_late import publish, weights_of
from zero_pairs import DEFAULTS, arena_of, make_engine, train_steps

LOADS = {"weights": {"load_optimizer_states": False}, "module": {"load_module_only": True},
         "module weights": {"load_module_only": True, "load_optimizer_states": False}, "full": {}}
STEPS = 4  # between two loads; even, so that ZenFlow hands a step over in the last of them


def state_of(engine, case) -> list[torch.Tensor]:
    """Returns copies of the weights, the masters and the moments, without waiting for a step."""
    zero = engine.optimizer
    flats = getattr(zero, "fp32_partitioned_groups_flat", None) or zero.single_partition_of_fp32_groups
    names = [] if case["overlap"] else ["exp_avg", "exp_avg_sq"]  # ZenFlow's process keeps its moments to itself
    moments = [zero.optimizer.state[flat][name] for flat in flats for name in names]
    return weights_of(engine) + [tensor.detach().clone() for tensor in (*flats, *moments)]


def overlaps(case) -> bool:
    return case["mode"] == "late" or case["overlap"]


@contextlib.contextmanager
def waiting_for_stopped(arena):
    """Stops the optimizer process, idle as it is, until it is waited for, or until the end of the block. Yields a
    list that has an entry for each wait."""
    arena.wait()
    worker, wait, waits = arena.runtime.stats().worker_pid, arena.runtime.wait, []

    def noted(*args, **keywords):
        waits.append(1)
        os.kill(worker, signal.SIGCONT)
        return wait(*args, **keywords)

    os.kill(worker, signal.SIGSTOP)
    arena.runtime.wait = noted
    try:
        yield waits
    finally:
        del arena.runtime.wait
        os.kill(worker, signal.SIGCONT)


class Trainer:
    """An engine that trains. DeepSpeed's own is made one step late by hand, if the case is."""

    def __init__(self, case, kind: str):
        self.case, self.native = case, kind == "native"
        zf_runtime.deepspeed.uninstall()
        if self.native:
            zf_runtime.deepspeed.install(case["mode"])
        self.engine = make_engine(case)
        self.by_hand = case["mode"] == "late" and not self.native
        self.newest = weights_of(self.engine)  # what is published next, by hand
        self.step = 0

    def train(self, steps: int) -> list[str]:
        losses = []
        for _ in range(steps):
            losses += train_steps(self.engine, self.case, [self.step])
            self.step += 1
            if self.by_hand:
                before, self.newest = self.newest, weights_of(self.engine)
                publish(self.engine, before)
        return losses

    def load(self, folder: str, way: str) -> dict:
        """Trains, and loads while the last step is under way: the optimizer process is stopped from before that step
        until it is waited for, or until the load has ended. Returns whether the load did, and what was raised."""
        self.train(STEPS - 1)
        arena = arena_of(self.engine)
        stopped = arena is not None and overlaps(self.case)
        with waiting_for_stopped(arena) if stopped else contextlib.nullcontext([]) as waits:
            self.train(1)
            if self.case["overlap"] and not self.native:
                time.sleep(0.3)  # DeepSpeed's load does not wait for its optimizer process
            under_way, refused = stopped and not waits, ""
            try:
                self.engine.load_checkpoint(folder, **LOADS[way])
            except Exception as error:
                refused = f"{type(error).__name__}: {error}"
        if self.by_hand:
            published = weights_of(self.engine)
            if self.case["stage"] < 3:  # the weights in the checkpoint may be older than its masters
                self.engine.optimizer.update_lp_params()
            self.newest = weights_of(self.engine)
            publish(self.engine, published)
        return {"waited": under_way and bool(waits), "refused": refused}

    def state(self) -> list[torch.Tensor]:
        """Returns the state when the step that is under way has ended."""
        arena = arena_of(self.engine)
        if arena is not None:
            arena.wait()
        return state_of(self.engine, self.case)


def differ(pair) -> int:
    return sum(int((a != b).sum()) for a, b in zip(*pair, strict=True))


def compare(case, folder: str):
    trainers = [Trainer(case, kind) for kind in ("own", "native")]
    for trainer in trainers:
        trainer.train(STEPS)
    trainers[0].engine.save_checkpoint(folder)
    for way in case["loads"]:
        loads = [trainer.load(folder, way) for trainer in trainers]
        loaded = differ([state_of(trainer.engine, case) for trainer in trainers])
        own, native = (trainer.train(STEPS) for trainer in trainers)
        states = [trainer.state() for trainer in trainers]
        report.say(case=case, load=way, own=own, native=native, loaded=loaded, differ=differ(states),
                   of=sum(map(torch.numel, states[0])), waited=loads[1]["waited"],
                   refused=[load["refused"] for load in loads])
    for trainer in trainers:
        trainer.engine.destroy()


def main():
    for given in json.loads(pathlib.Path(os.environ["ZERO_CASES"]).read_text()):
        with tempfile.TemporaryDirectory() as folder:
            compare(DEFAULTS | {"mode": "wait", "loads": list(LOADS)} | given, folder)
    report.leave_group()


if __name__ == "__main__":
    main()
