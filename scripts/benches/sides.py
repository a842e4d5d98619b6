"""The jobs of pairs.py with all sides in one process, which times their steps as it is asked to.

usage: sides.py JOB SMALLER     A line with a number of pairs on stdin gives one line of pairs, in milliseconds.
       sides.py peak SMALLER SIDE     The highest memory of one side of the job backward."""

import functools
import json
import pathlib
import sys
import time

import bench_paths  # noqa: F401

import torch

SMALLER = 1  # all jobs have this part of their tensors or blocks


class Sides:
    """Ways to step the same kind of job. Each has tensors of its own, and `work` makes its gradients."""

    def __init__(self, work, steps, reference="other", check=lambda: None, more=lambda name: {}):
        self.work, self.steps, self.reference = work, steps, reference
        self.check = check  # raises AssertionError after a block of pairs
        self.more = more  # what else is known of the last step of a side

    def time(self, name: str, whole: bool) -> float:
        """Returns the milliseconds of one step, or of the whole iteration."""
        begin = time.perf_counter()
        self.work(name)
        if not whole:
            begin = time.perf_counter()
        self.steps[name]()
        return 1e3 * (time.perf_counter() - begin)

    def pair(self, number: int, whole: bool) -> dict[str, float]:
        """Times one step of each side. Another side begins the next pair, and every second has the other order."""
        pair = {}
        for name in list(self.steps) if number % 2 == 0 else reversed(self.steps):
            pair[name] = self.time(name, whole)
            pair |= self.more(name)
        return pair


def fewer(count: int) -> int:
    return max(1, count // SMALLER)


def tensors(sizes, dtype=None):
    """Returns parameters of these sizes, with gradients."""
    made = [torch.nn.Parameter(torch.randn(size, dtype=dtype)) for size in sizes]
    for param in made:
        param.grad = torch.randn(param.shape, dtype=dtype) * 1e-3
    return made


def two(work, ours, other, check=lambda: None) -> Sides:
    return Sides(work, {"ours": ours, "other": other}, check=check)


def plain(count: int, size: int) -> Sides:
    """Tensors alone. What stands before a step is a product of matrices on torch's threads, as in training."""
    import zf_runtime

    sizes = [size] * fewer(count)
    square = torch.randn(512, 512)
    return two(lambda name: square @ square, zf_runtime.AdamW(tensors(sizes)).step,
               torch.optim.AdamW(tensors(sizes), fused=True).step)


def loop() -> Sides:
    """A training loop of 27M parameters (jobs/model.py): forward and backward before each step."""
    import zf_runtime
    from model import arguments, training_of

    sys.argv[1:] = ["--width=512", f"--blocks={fewer(13)}", "--tokens=128"]
    options = arguments()
    made = {name: training_of(options, 0) for name in ("ours", "other")}
    optimizers = {"ours": zf_runtime.AdamW(made["ours"][0].parameters(), lr=1e-3),
                  "other": torch.optim.AdamW(made["other"][0].parameters(), lr=1e-3, fused=True)}

    def work(name):
        model, next_loss = made[name]
        optimizers[name].zero_grad()
        next_loss(model).backward()

    return two(work, optimizers["ours"].step, optimizers["other"].step)


def gpt(names=("fused", "off", "backward", "tutorial")) -> Sides:
    """Iterations of a small GPT of 23M parameters (jobs/gpt.py). tutorial: an optimizer for each parameter, stepped and
    freed by a hook, as torch's tutorial "How to save memory by fusing the optimizer step into the backward pass"."""
    import zf_runtime
    from model import arguments, training_of

    sys.argv[1:] = ["--gpt", "--width=512", f"--blocks={fewer(6)}", "--tokens=128"]
    options = arguments()
    made = {name: training_of(options, 0) for name in names}
    optimizers = {}
    for name, (model, _) in made.items():
        if name == "tutorial":
            each = {param: torch.optim.AdamW([param], lr=1e-3, fused=True) for param in model.parameters()}

            def hook(param, each=each):
                each[param].step()
                each[param].zero_grad()

            for param in each:
                param.register_post_accumulate_grad_hook(hook)
        elif name == "fused":
            optimizers[name] = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        else:
            optimizers[name] = zf_runtime.AdamW(model.parameters(), lr=1e-3, overlap=name)

    def work(name):
        model, next_loss = made[name]
        loss = next_loss(model)
        loss.backward()

    def step(name):
        if name in optimizers:
            optimizers[name].step()
            optimizers[name].zero_grad()

    return Sides(work, {name: functools.partial(step, name) for name in names}, names[0])


def peak_of(name: str) -> None:
    """Prints the highest memory of a process that has this side of gpt() alone, and before it was made."""
    def peak_mib():
        status = pathlib.Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    import zf_runtime.optim.adam  # noqa: F401

    before, sides = peak_mib(), gpt([name])
    for number in range(6):
        sides.pair(number, True)
    print(f"{name}: VmHWM {peak_mib():.0f} MiB, {peak_mib() - before:.0f} more than before the model was made")


def one_each() -> Sides:
    """60 optimizers of one parameter of 256 Ki elements."""
    import zf_runtime

    def stepper(make):
        optimizers = [make([param]) for param in tensors([1 << 18] * fewer(60))]
        return lambda: [optimizer.step() for optimizer in optimizers]

    square = torch.randn(512, 512)
    return two(lambda name: square @ square, stepper(zf_runtime.AdamW),
               stepper(lambda params: torch.optim.AdamW(params, fused=True)))


def half(plain_half: bool) -> Sides:
    """27M bf16 parameters. The other side has fp32 masters that torch's fused AdamW steps, and copies from them; or it
    steps the bf16 parameters themselves, and so keeps no master."""
    import zf_runtime

    sizes = [270_000] * fewer(100)
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
    return two(lambda name: square @ square, zf_runtime.AdamW(ours).step, step)


def fsdp(other: str) -> Sides:
    """A rank of FSDP2 with one thread: 27M parameters in 13 blocks, sharded by two."""
    import zf_runtime
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")

    def sharded(make):
        model = torch.nn.Sequential(*(torch.nn.Linear(1440, 1440) for _ in range(fewer(13))))
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

    return two(work, sides["ours"][1].step, sides["other"][1].step)


def deepspeed(sizes) -> Sides:
    """DeepSpeedCPUAdam by hand, with our step and with DeepSpeed's own operator, and our AdamW, on tensors of the same
    sizes. Both of DeepSpeedCPUAdam have the same bits after each block."""
    import zf_runtime
    import zf_runtime.deepspeed
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    def made(make):
        torch.manual_seed(1)
        params = tensors(sizes)
        return params, make(params, lr=1e-3, weight_decay=0.01)

    own_params, own = made(DeepSpeedCPUAdam)
    zf_runtime.deepspeed.install()
    params, by_hand = made(DeepSpeedCPUAdam)
    (_, ours), (_, fused) = made(zf_runtime.AdamW), made(functools.partial(torch.optim.AdamW, fused=True))

    def check():
        assert all(map(torch.equal, params, own_params)), "the bits differ"

    square = torch.randn(512, 512)
    return Sides(lambda name: square @ square,
                 {"by hand": by_hand.step, "DeepSpeed": own.step, "AdamW": ours.step, "fused": fused.step}, "fused",
                 check)


def sizes_of_gpt() -> list[int]:
    """Returns the sizes of the parameters of gpt()."""
    from gpt import Gpt

    return [param.numel() for param in Gpt(512, fewer(6), 128).parameters()]


def formats() -> Sides:
    """engine.step() of ZeRO-2, 201M bf16 parameters, with gradient_clipping: DeepSpeed's own CPU Adam, and the native
    one with moments in fp32 and in bf16. Says how long the threads of the native one took, too."""
    import report

    report.set_rendezvous()
    import zf_runtime.deepspeed
    from zero_pairs import DEFAULTS, arena_of, loss_of, make_engine

    case = DEFAULTS | {"dtype": "bf16", "clip": 1.0, "width": max(32, 2048 // SMALLER), "blocks": 6}
    engines = {"own": make_engine(case)}
    for state in ("fp32", "bf16"):
        zf_runtime.deepspeed.uninstall()
        zf_runtime.deepspeed.install(state=state)
        engines[state] = make_engine(case)

    def more(name):
        arena = arena_of(engines[name])
        return {} if arena is None else {f"{name}'s threads": arena.runtime.stats().last_step_ns / 1e6}

    return Sides(lambda name: engines[name].backward(loss_of(engines[name], case, 0, 0, 0)),
                 {name: engine.step for name, engine in engines.items()}, "own", more=more)


SETTINGS = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.1}


def deepspeed_adam(param, dtype):
    """Returns DeepSpeed's optimizer: all in bf16, or with an fp32 master and gradient. It makes no bf16 copy of the
    master."""
    from deepspeed.ops.adam import DeepSpeedCPUAdam

    params = [param] if dtype == torch.bfloat16 else tensors([param.numel()], dtype)
    return DeepSpeedCPUAdam(params, adamw_mode=True, fp32_optimizer_states=dtype == torch.float32, **SETTINGS)


def bitsandbytes_8bit(param):
    import bitsandbytes

    return bitsandbytes.optim.AdamW8bit([param], **SETTINGS)


def bytes_kept(optimizer) -> int:
    """Returns the bytes of all parameters and states."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    states = [value for state in optimizer.state.values() for value in state.values()
              if isinstance(value, torch.Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in (*params, *states))


def peers() -> Sides:
    """Each state format, and other optimizers that save memory, on one tensor of 16.8M bf16 parameters. One that is
    missing is left out, with a line. Says what each keeps per parameter, the parameter included."""
    import zf_runtime

    count = (16 << 20) // SMALLER
    made = {f"ours, {state}": functools.partial(lambda state, param: zf_runtime.AdamW([param], state=state, **SETTINGS),
                                                state) for state in ("fp32", "bf16", "split", "bf16+split")}
    made |= {"torch fused, all bf16": lambda param: torch.optim.AdamW([param], fused=True, **SETTINGS),
             "DeepSpeed, all bf16": lambda param: deepspeed_adam(param, torch.bfloat16),
             "DeepSpeed, fp32": lambda param: deepspeed_adam(param, torch.float32),
             "bitsandbytes, 8 bit": bitsandbytes_8bit}
    steps = {}
    for name, make in made.items():
        try:
            optimizer = make(*tensors([count], torch.bfloat16))
            optimizer.step()
        except Exception as error:  # whatever a package raises that is missing or broken
            if name.startswith("ours"):
                raise
            print(f"without {name}: {type(error).__name__}: {error}", file=sys.stderr)
        else:
            print(f"{name}: {bytes_kept(optimizer) / count:.1f} bytes kept", file=sys.stderr)
            steps[name] = optimizer.step
    return Sides(lambda name: None, steps, "ours, fp32")


JOBS = {"loop": loop, "passive": loop, "iteration": loop, "large": lambda: plain(100, 1_280_000),
        "many": lambda: plain(400, 65536), "tiny": lambda: plain(2000, 1000), "one-each": one_each,
        "half": lambda: half(False), "half-plain": lambda: half(True), "fsdp": lambda: fsdp("fused"),
        "fsdp-foreach": lambda: fsdp("foreach"), "deepspeed": lambda: deepspeed([500_000] * fewer(100)),
        "deepspeed-gpt": lambda: deepspeed(sizes_of_gpt()), "deepspeed-tiny": lambda: deepspeed([1000] * fewer(2000)),
        "formats": formats, "peers": peers, "backward": gpt}


def serve(job: str) -> None:
    """Says which side the others are compared with, and answers each line of stdin with as many pairs."""
    sides, whole = JOBS[job](), job in ("iteration", "backward")
    for number in range(5):
        sides.pair(number, whole)
    print("REFERENCE " + json.dumps(sides.reference), flush=True)
    for line in sys.stdin:
        sides.pair(0, whole)  # not counted: what ran between the blocks has emptied the caches
        pairs = [sides.pair(number, whole) for number in range(int(line))]
        sides.check()
        print("PAIRS " + json.dumps(pairs), flush=True)


if __name__ == "__main__":
    SMALLER = int(sys.argv[2])
    if sys.argv[1] == "peak":
        peak_of(sys.argv[3])
    else:
        serve(sys.argv[1])
