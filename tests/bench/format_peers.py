"""Compares the step of each state format with other optimizers that save memory, on bf16 parameters and gradients on a
CPU. A benchmark, not a test.

All sides have parameters of their own and step in turns, in one process; each round begins with another side. Printed
are the medians with their quartiles, their ratios to ours with fp32, and the bytes that each side keeps per parameter,
the parameter included. A side whose package is missing is left out, with a line.

usage: format_peers.py [--params N] [--rounds N]     with ZF_RUNTIME_LIBRARY, and zf_runtime in PYTHONPATH"""

import argparse
import statistics
import sys
import time
from typing import Callable

import torch
import zf_runtime

SETTINGS = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.1}


def parameter(count: int, dtype: torch.dtype = torch.bfloat16) -> torch.nn.Parameter:
    """Returns one parameter with a gradient of its type."""
    made = torch.nn.Parameter(torch.randn(count, dtype=dtype))
    made.grad = torch.randn(count, dtype=dtype) * 1e-3
    return made


def ours(state: str) -> Callable[[torch.nn.Parameter], torch.optim.Optimizer]:
    return lambda param: zf_runtime.AdamW([param], state=state, **SETTINGS)


def deepspeed_all_bf16(param: torch.nn.Parameter) -> torch.optim.Optimizer:
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    return DeepSpeedCPUAdam([param], adamw_mode=True, fp32_optimizer_states=False, **SETTINGS)


def bitsandbytes_8bit(param: torch.nn.Parameter) -> torch.optim.Optimizer:
    import bitsandbytes

    return bitsandbytes.optim.AdamW8bit([param], **SETTINGS)


def deepspeed_fp32(param: torch.nn.Parameter) -> torch.optim.Optimizer:
    """Steps an fp32 master from an fp32 gradient, as DeepSpeed's offload does. The copy to bf16 is not counted."""
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    return DeepSpeedCPUAdam([parameter(param.numel(), torch.float32)], adamw_mode=True, **SETTINGS)


SIDES = {
    "ours, fp32": ours("fp32"), "ours, bf16": ours("bf16"), "ours, split": ours("split"),
    "ours, bf16+split": ours("bf16+split"),
    "torch fused, all bf16": lambda param: torch.optim.AdamW([param], fused=True, **SETTINGS),
    "DeepSpeed, all bf16": deepspeed_all_bf16, "DeepSpeed, fp32": deepspeed_fp32,
    "bitsandbytes, 8 bit": bitsandbytes_8bit}
REFERENCE = "ours, fp32"


def bytes_kept(optimizer: torch.optim.Optimizer) -> int:
    """Returns the bytes of all parameters and states."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    states = [value for state in optimizer.state.values() for value in state.values()
              if isinstance(value, torch.Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in (*params, *states))


def begun(params: int) -> dict[str, torch.optim.Optimizer]:
    """Returns the sides that can step here, after their first step."""
    found = {}
    for name, make in SIDES.items():
        try:
            optimizer = make(parameter(params))
            optimizer.step()
        except Exception as error:
            if name.startswith("ours"):
                raise
            # Whatever a package that is missing or broken raises.
            print(f"format_peers: without {name}: {type(error).__name__}: {error}", file=sys.stderr)
        else:
            found[name] = optimizer
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--params", type=int, default=16 << 20)
    options.add_argument("--rounds", type=int, default=15)
    given = options.parse_args()
    sides = begun(given.params)
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(given.rounds):
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            begin = time.perf_counter()
            sides[name].step()
            seconds[name].append(time.perf_counter() - begin)
    print(f"{given.params} parameters, {torch.get_num_threads()} threads, {given.rounds} rounds")
    reference = statistics.median(seconds[REFERENCE])
    for name, optimizer in sides.items():
        low, median, high = statistics.quantiles(seconds[name], n=4)
        print(f"{name:22} {median * 1e3:9.2f} ms ({low * 1e3:.2f} to {high * 1e3:.2f})  {median / reference:6.2f}  "
              f"{bytes_kept(optimizer) / given.params:5.1f} bytes")


if __name__ == "__main__":
    main()
