"""Times engine.step() of ZeRO-2 with DeepSpeed's own CPU Adam and with the native one in several state formats.

Usage: zero_format_steps.py ROUNDS WIDTH BLOCKS CLIP SIDE...     (SIDE: own, fp32 or bf16)

All engines live in one process and take turns. Says {"side": ..., "round": N, "ms": of engine.step(), "ours_ms": of the
optimizer's threads in it} per step, and {"parameters": N}. With one SIDE it also saves a checkpoint at the end, and
says {"phase": ...} when it begins a phase: format_pairs.py looks at the memory meanwhile."""

import sys
import tempfile
import time

import report

report.set_rendezvous()

import torch
import zf_runtime.deepspeed
from zero_pairs import DEFAULTS, Model, arena_of, loss_of, make_engine


def engine_of(case: dict, side: str):
    zf_runtime.deepspeed.uninstall()
    if side != "own":
        zf_runtime.deepspeed.install(state=side)
    return make_engine(case)


def main():
    rounds, width, blocks, clip, *sides = sys.argv[1:]
    case = DEFAULTS | {"dtype": "bf16", "clip": float(clip), "width": int(width), "blocks": int(blocks)}
    with torch.device("meta"):
        report.say(parameters=sum(param.numel() for param in Model(case).parameters()))
    report.say(phase="start")
    engines = {side: engine_of(case, side) for side in sides}
    report.say(phase="steps")
    for number in range(int(rounds)):
        for side in sides if number % 2 == 0 else reversed(sides):
            engine = engines[side]
            engine.backward(loss_of(engine, case, number, 0, 0))
            begin = time.perf_counter()
            engine.step()
            ms = 1e3 * (time.perf_counter() - begin)
            arena = arena_of(engine)
            ours = None if arena is None else arena.runtime.stats().last_step_ns / 1e6
            report.say(side=side, round=number, ms=ms, ours_ms=ours)
    if len(sides) == 1:
        report.say(phase="checkpoint")
        with tempfile.TemporaryDirectory() as folder:
            engines[sides[0]].save_checkpoint(folder)
    report.say(phase="end")
    for engine in engines.values():
        engine.destroy()
    report.leave_group()


if __name__ == "__main__":
    main()
