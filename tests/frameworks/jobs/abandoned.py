"""Makes DeepSpeed engines again and again without destroy(), as a notebook does, and says what lives on.

Says per engine: {"engine": n, "processes": optimizer processes, "arenas": arenas mapped, "threads": threads of this
process}, after two steps; and at the end {"held": whether engines that are held still step}."""

import gc
import os

import report

report.set_rendezvous()

import deepspeed
import torch
import zf_runtime.deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
STAGE, MODE = int(os.environ["ZERO_STAGE"]), os.environ["ZERO_MODE"]


def make_model():
    with torch.device("cpu"):
        return torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(3)))


def make_engine(model):
    config = {"train_micro_batch_size_per_gpu": 4, "steps_per_print": 1 << 30, "bf16": {"enabled": True},
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
              "zero_optimization": {"stage": STAGE, "offload_optimizer": {"device": "cpu"}}}
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config,
                                      dist_init_required=True)
    return engine


def train(engine):
    for _ in range(2):
        loss = engine(torch.ones(4, 64, dtype=torch.bfloat16, device=engine.device)).float().square().mean()
        engine.backward(loss)
        engine.step()
    return loss.item()


def facts(number: int):
    gc.collect()
    with open("/proc/self/maps") as maps:
        arenas = {line.split()[4] for line in maps if "memfd:zf-arena" in line}
    children = [each for each in report.children_of(os.getpid()) if "zf-optimizer" in each["command"]]
    report.say(engine=number, processes=len(children), arenas=len(arenas), threads=len(report.masks_of("self")))


def main():
    torch.manual_seed(1)
    zf_runtime.deepspeed.install(MODE, speculate=MODE == "exact")
    model = make_model()
    engine = None
    for number in range(3):
        engine = make_engine(model)
        train(engine)
        facts(number)
        if number == 0:  # the third engine has the model of the second
            model = make_model()
    step = [make_engine(make_model()) for _ in range(2)]  # held by a list that has no name yet
    before = [train(each) for each in [engine, *step]]
    after = [train(each) for each in [engine, *step]]
    report.say(held=all(a != b for a, b in zip(after, before)))
    facts(3)
    report.leave_group()


if __name__ == "__main__":
    main()
