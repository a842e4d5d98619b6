"""A job that binds itself and trains for --seconds: torch, AdamW, and data loaders with workers that begin and end;
with --deepspeed ZeRO-Offload. It looks who moved its threads, as an optimizer of ours does, and says its number of
steps."""

import report

report.set_rendezvous()

import os
import sys
import time

import torch
import zf_runtime
from model import arguments, make_model, training_of
from zf_runtime.binding import moved_threads


class Batches(torch.utils.data.Dataset):
    def __init__(self, options):
        self.shape = (options.tokens, options.width)

    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.randn(self.shape)


def deepspeed_steps(options):
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    model, next_loss = training_of(options, 0)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_micro_batch_size_per_gpu": options.tokens, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": False}},
        "steps_per_print": 1 << 30}, dist_init_required=True)
    while True:
        engine.backward(next_loss(engine))
        engine.step()
        yield


def loader_steps(options):
    model = make_model(options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    while True:
        for batch in torch.utils.data.DataLoader(Batches(options), batch_size=None, num_workers=2):
            (model(batch) - 1).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            yield


def main():
    rank, ranks = int(os.environ["BOUND_RANK"]), 2
    binding = zf_runtime.bind(rank=rank, ranks=ranks)
    options = arguments(seconds=10, deepspeed=False)
    print("bound" if binding else str(binding), flush=True)
    end, moved, steps = time.monotonic() + options.seconds, [], 0
    for _ in deepspeed_steps(options) if options.deepspeed else loader_steps(options):
        steps += 1
        moved += moved_threads.look(steps)
        time.sleep(0.05)  # the machine may have other work
        if time.monotonic() > end:
            break
    report.say(ended={"steps": steps, "moved": [str(one) for one in moved]})
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
