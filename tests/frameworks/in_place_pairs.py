"""Compares step() of zf_runtime.AdamW with that of torch's own, on tensors of the same kind; and DeepSpeedCPUAdam's in
place with its own operator's. A benchmark, not a test.

One process has both sides and times them in turns: a pair is one step of each, right after each other's gradients were
made again, and gives one ratio. Every second pair has the other order. regimes.py says which pairs count, and how many
there are.

usage: in_place_pairs.py [JOB...]     jobs: those of BARS; all by default"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "cli"), str(HERE / "jobs"), str(SOURCE / "runtime/python")]

# The bars of each job: ours ÷ the other side, at most, in the regime above and in the one below.
BARS = {"loop": (0.92, 0.98), "large": (1.0, 1.0), "many": (0.80, 0.80), "tiny": (0.30, 0.30),
        "passive": (0.80, 0.80), "one-each": (1.2, 1.2), "half": (0.70, 0.70), "half-plain": (None, None),
        "iteration": (1.01, 1.01), "fsdp": (0.93, 0.93), "fsdp-foreach": (0.40, 0.40),
        "deepspeed": (None, None)}


class Sides:
    """Two ways to step the same kind of job. Each has tensors of its own, and `work` makes its gradients."""

    def __init__(self, work, ours, other, check=lambda: None):
        self.work, self.steps = work, {"ours": ours, "other": other}
        self.check = check  # raises AssertionError after a block of pairs

    def time(self, name: str, whole: bool) -> float:
        """Returns the seconds of one step, or of the whole iteration."""
        begin = time.perf_counter()
        self.work(name)
        if not whole:
            begin = time.perf_counter()
        self.steps[name]()
        return time.perf_counter() - begin


def tensors(sizes, dtype=None):
    """Returns parameters of these sizes, with gradients."""
    import torch

    made = [torch.nn.Parameter(torch.randn(size, dtype=dtype)) for size in sizes]
    for param in made:
        param.grad = torch.randn(param.shape, dtype=dtype) * 1e-3
    return made


def plain(sizes) -> Sides:
    """Tensors alone. What stands before a step is a product of matrices on torch's threads, as in training."""
    import torch
    import zf_runtime

    square = torch.randn(512, 512)
    return Sides(lambda name: square @ square, zf_runtime.AdamW(tensors(sizes)).step,
                 torch.optim.AdamW(tensors(sizes), fused=True).step)


def loop() -> Sides:
    """A training loop of 27M parameters (jobs/model.py): forward and backward before each step."""
    import torch
    import zf_runtime
    from model import arguments, training_of

    sys.argv[1:] = ["--width=512", "--blocks=13", "--tokens=128"]
    options = arguments()
    made = {name: training_of(options, 0) for name in ("ours", "other")}
    optimizers = {"ours": zf_runtime.AdamW(made["ours"][0].parameters(), lr=1e-3),
                  "other": torch.optim.AdamW(made["other"][0].parameters(), lr=1e-3, fused=True)}

    def work(name):
        model, next_loss = made[name]
        optimizers[name].zero_grad()
        next_loss(model).backward()

    return Sides(work, optimizers["ours"].step, optimizers["other"].step)


def one_each() -> Sides:
    """60 optimizers of one parameter of 256 Ki elements."""
    import torch
    import zf_runtime

    def stepper(make):
        optimizers = [make([param]) for param in tensors([1 << 18] * 60)]
        return lambda: [optimizer.step() for optimizer in optimizers]

    square = torch.randn(512, 512)
    return Sides(lambda name: square @ square, stepper(zf_runtime.AdamW),
                 stepper(lambda params: torch.optim.AdamW(params, fused=True)))


def half(plain_half: bool) -> Sides:
    """27M bf16 parameters. The other side has fp32 masters that torch's fused AdamW steps, and copies from them; or it
    steps the bf16 parameters themselves, and so keeps no master."""
    import torch
    import zf_runtime

    sizes = [270_000] * 100
    ours, other = (tensors(sizes, torch.bfloat16) for _ in range(2))
    if plain_half:
        step = torch.optim.AdamW(other, fused=True).step
    else:
        masters = [torch.nn.Parameter(param.detach().float()) for param in other]
        fused = torch.optim.AdamW(masters, fused=True)
        for master in masters:
            master.grad = torch.empty_like(master)

        @torch.no_grad()
        def step():
            torch._foreach_copy_([master.grad for master in masters], [param.grad for param in other])
            fused.step()
            torch._foreach_copy_([param.data for param in other], masters)

    square = torch.randn(512, 512)
    return Sides(lambda name: square @ square, zf_runtime.AdamW(ours).step, step)


def fsdp(other: str) -> Sides:
    """A rank of FSDP2 with one thread: 27M parameters in 13 blocks, sharded by two."""
    import torch
    import zf_runtime
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")

    def sharded(make):
        model = torch.nn.Sequential(*(torch.nn.Linear(1440, 1440) for _ in range(13)))
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
        optimizer = make(model.parameters())
        return model, optimizer

    sides = {"ours": sharded(zf_runtime.AdamW),
             "other": sharded(lambda params: torch.optim.AdamW(params, **{other: True}))}

    def work(name):
        model, optimizer = sides[name]
        optimizer.zero_grad()
        model(torch.randn(8, 1440)).square().mean().backward()
        torch.distributed.barrier()

    return Sides(work, sides["ours"][1].step, sides["other"][1].step)


def deepspeed() -> Sides:
    """DeepSpeedCPUAdam by hand, 50M parameters: the same bits after each block."""
    import torch
    import zf_runtime.deepspeed
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    def made():
        torch.manual_seed(1)
        params = tensors([500_000] * 100)
        return params, DeepSpeedCPUAdam(params, lr=1e-3, weight_decay=0.01)

    other_params, other = made()
    zf_runtime.deepspeed.install()
    params, ours = made()

    def check():
        assert all(map(torch.equal, params, other_params)), "the bits differ"

    square = torch.randn(512, 512)
    return Sides(lambda name: square @ square, ours.step, other.step, check)


JOBS = {"loop": loop, "passive": loop, "iteration": loop, "large": lambda: plain([1_280_000] * 100),
        "many": lambda: plain([65536] * 400), "tiny": lambda: plain([1000] * 2000), "one-each": one_each,
        "half": lambda: half(False), "half-plain": lambda: half(True), "fsdp": lambda: fsdp("fused"),
        "fsdp-foreach": lambda: fsdp("foreach"), "deepspeed": deepspeed}


def serve(job: str) -> None:
    """Times pairs as they are asked for on stdin: a line with the number of pairs gives one line of ratios."""
    sides, whole = JOBS[job](), job == "iteration"
    for _ in range(5):
        for name in ("ours", "other"):
            sides.time(name, whole)
    for line in sys.stdin:
        for name in ("ours", "other"):  # not counted: what ran between the blocks has emptied the caches
            sides.time(name, whole)
        pairs = []
        for number in range(int(line)):
            order = ("ours", "other") if number % 2 == 0 else ("other", "ours")
            pairs.append({name: sides.time(name, whole) for name in order})
        sides.check()
        print("PAIRS " + json.dumps(pairs), flush=True)


def start(job: str) -> list[subprocess.Popen]:
    """Starts the process of a job, or both ranks."""
    from frameworks_case import PYTHON, framework_environment, free_port

    ranks = 2 if job.startswith("fsdp") else 1
    common = {"PYTHONPATH": str(SOURCE / "runtime/python"), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(),
              "WORLD_SIZE": str(ranks), "ZF_TUNE": "off",
              "ZF_RUNTIME_LIBRARY": str(SOURCE / "build/lib/libzf_runtime.so")}
    if job == "deepspeed":
        common["ZF_TUNE"] = "on"  # off, install() does nothing
    if job == "passive":
        common["OMP_WAIT_POLICY"] = "passive"
    if ranks == 2:
        common["OMP_NUM_THREADS"] = "1"
    return [subprocess.Popen([PYTHON, __file__, "--serve", job], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, env=framework_environment(RANK=str(rank), LOCAL_RANK=str(rank), **common))
            for rank in range(ranks)]


def block_of(processes: list[subprocess.Popen]) -> list[dict[str, float]]:
    """Returns the pairs of a block. Of two ranks the slower one counts, step by step."""
    from regimes import PAIRS_OF_A_BLOCK

    for process in processes:
        print(PAIRS_OF_A_BLOCK, file=process.stdin, flush=True)
    found = []
    for process in processes:
        line = next(line for line in process.stdout if line.startswith("PAIRS "))
        found.append(json.loads(line.removeprefix("PAIRS ")))
    return [{name: max(pair[name] for pair in ranks) for name in ("ours", "other")} for ranks in zip(*found)]


def measure(job: str) -> None:
    from regimes import measured

    processes = start(job)
    try:
        found = measured(lambda: block_of(processes), "ours", "other")
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for regime in found:
        print(regime.line(job, "ours", "other", BARS[job][0 if regime.wide else 1], 1e3), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=f"of {', '.join(BARS)}")
    parser.add_argument("--serve", metavar="JOB", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve)
    from frameworks_case import need_environment
    from turns import machine

    need_environment()
    unknown = sorted(set(options.jobs) - set(BARS))
    if unknown:
        parser.error(f"there is no job {', '.join(unknown)}: there are {', '.join(BARS)}")
    print(f"machine: {machine()}; load {os.getloadavg()[0]:.1f}")
    for job in options.jobs or BARS:
        measure(job)


if __name__ == "__main__":
    main()
