"""Times ZeRO-Offload's optimizer step with DeepSpeed's own CPU Adam and with the native optimizer, in turns in one
process.

Two engines train the same model on the same data; with --late a third steps natively and late. Each pair is one
iteration of each; which goes first alternates. So with --late a late iteration follows another in pairs 2, 4, …, and no
late step runs beside the other two in pairs 1, 3, …

Says per pair: {"pair": n, "own": {"step_ms": x, "iteration_ms": y},
"native": {...}}, and at the end whether the losses of the two are equal and the peak of the resident memory in MiB
(--only own or native: one engine alone, for the memory). Runs on DeepSpeed's accelerator: DS_ACCELERATOR, else a GPU if
there is one."""

import gc
import resource
import time

import bench_paths  # noqa: F401

import report

report.set_rendezvous()

import argparse
import json

import deepspeed
import torch
import zf_runtime.deepspeed
from deepspeed.accelerator import get_accelerator
from model import Block

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def make_engine(options):
    torch.manual_seed(1)
    with torch.device("cpu"):
        model = torch.nn.Sequential(*(Block(options.width) for _ in range(options.blocks)))
    config = {"train_micro_batch_size_per_gpu": options.tokens, "gradient_clipping": 1.0, "steps_per_print": 1 << 30,
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.01}},
              "zero_optimization": {"stage": options.stage, "reduce_bucket_size": 20_000_000,
                                    "offload_optimizer": {"device": "cpu", "pin_memory": options.pin}}}
    if options.dtype != "fp32":
        config[options.dtype] = {"enabled": True}
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config,
                                      dist_init_required=True)
    return engine


def now_ns() -> int:
    """Returns the time when the accelerator has done all its work."""
    get_accelerator().synchronize()
    return time.perf_counter_ns()


def iterate(engine, options, number: int) -> tuple[dict, str]:
    torch.manual_seed(number)
    batch = torch.randn(options.tokens, options.width, dtype=next(engine.module.parameters()).dtype).to(engine.device)
    started = now_ns()
    loss = (engine(batch).float() - 1).square().mean()
    engine.backward(loss)
    stepped = now_ns()
    engine.step()
    ended = now_ns()
    return {"step_ms": (ended - stepped) / 1e6, "iteration_ms": (ended - started) / 1e6}, loss.item().hex()


def main():
    parser = argparse.ArgumentParser()
    for name, value in {"pairs": 17, "width": 1024, "blocks": 6, "tokens": 16, "stage": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--only", choices=("own", "native"))
    parser.add_argument("--late", action="store_true")
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--local_rank", type=int)
    options = parser.parse_args()
    engines = {}
    for name in [options.only] if options.only else ["own", "native"] + options.late * ["late"]:
        zf_runtime.deepspeed.uninstall()
        if name != "own":
            zf_runtime.deepspeed.install("late" if name == "late" else "wait")
        engines[name] = make_engine(options)
        gc.collect()
    losses = {name: [] for name in engines}
    for pair in range(options.pairs):
        facts = {}
        for name in sorted(engines, reverse=pair % 2 == 1):
            facts[name], loss = iterate(engines[name], options, pair)
            losses[name].append(loss)
        report.say(pair=pair, **facts)
    losses.pop("late", None)
    report.say(losses_equal=len({json.dumps(each) for each in losses.values()}) == 1,
               parameters=sum(p.numel() for p in next(iter(engines.values())).module.parameters()),
               peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
               shared_mib=shared_mib())
    report.leave_group()


def shared_mib() -> int:
    """Returns how much of this process's memory is shared with the optimizer process."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssShmem")) // 1024


if __name__ == "__main__":
    main()
