"""Saves and loads checkpoints of ZeRO-Offload in all four directions: DeepSpeed's own CPU Adam and the native
optimizer.

Says per case {"case": {...}, "resumed": {"own-own": [losses], "own-native": [...], "native-own": ..., "native-native":
...}}. Each list is what an engine of the second kind computes after it has loaded what one of the first kind had saved.
For ZenFlow with overlap_step: {"case": {...}, "moments": tensors of moments in the checkpoint, "differ": their elements
that arrive changed in the arena, "steps": the step's number before and at the first step after the load}."""

import json
import os
import pathlib
import tempfile

import report

report.set_rendezvous()

import zf_runtime.deepspeed
from zero_pairs import DEFAULTS, arena_of, make_engine, train_steps

KINDS = ("own", "native")


def install(kind: str):
    zf_runtime.deepspeed.uninstall()
    if kind == "native":
        zf_runtime.deepspeed.install()


def zenflow(case, folder):
    """Saves and loads ZenFlow's state. Its own optimizer process saves no moments."""
    for kind in KINDS:
        install(kind)
        engine = make_engine(case)
        train_steps(engine, case, range(case["steps"]))
        engine.save_checkpoint(folder, tag=kind)  # waits for the step that is under way
        arena = arena_of(engine)
        saved = [moments.clone() for slot in arena.slots for moments in slot.moments] if arena is not None else []
        last = arena.runtime.step(0) if arena is not None else 0
        engine.destroy()
    install("native")
    loaded, numbers = [], []
    submit = zf_runtime.deepspeed.zenflow.FlatArena.submit

    def looking(arena, buffer):
        if not loaded:
            loaded.extend(moments.clone() for slot in arena.slots for moments in slot.moments)
            numbers.append(arena._noted[0].scalars[-1])
        submit(arena, buffer)

    for kind in reversed(KINDS):
        engine = make_engine(case)
        train_steps(engine, case, range(3))  # the checkpoint takes the place of a state that exists
        zf_runtime.deepspeed.zenflow.FlatArena.submit = looking
        engine.load_checkpoint(folder, tag=kind)
        train_steps(engine, case, range(case["steps"], 2 * case["steps"]))
        engine.destroy()
    differ = sum(int((a != b).sum()) for a, b in zip(saved, loaded, strict=True))
    report.say(case=case, moments=len(saved), differ=differ, steps=[last, *numbers])


def main():
    for given in json.loads(pathlib.Path(os.environ["ZERO_CASES"]).read_text()):
        case = DEFAULTS | given
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
                    train_steps(engine, case, range(2))  # the checkpoint takes the place of a state that exists
                    engine.load_checkpoint(folder, tag=saved)
                    resumed[f"{saved}-{kind}"] = train_steps(engine, case, range(case["steps"], 2 * case["steps"]))
                    engine.destroy()
        report.say(case=case, resumed=resumed)
    report.leave_group()


if __name__ == "__main__":
    main()
