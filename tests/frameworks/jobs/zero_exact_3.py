"""Trains the same model of ZeRO stage 3 twice per case: with DeepSpeed's own CPU Adam, and with the native optimizer in
mode exact. Between steps it does what a program may do.

Says per case: {"case": {...}, "own": [facts], "exact": [facts], "differ": elements of weights, masters and moments,
"restarts": N, "beside": how many steps were not done when step() returned}. Facts are losses and digests of what was
read; equal means equal in every bit. Reads the cases from the file in ZERO_CASES: objects like DEFAULTS. With "hold_ms"
the optimizer process stands still for up to so many milliseconds in each step: what does not wait reads old weights.
"handler" is what a signal handler does last before each step is handed over: "state_dict" or "gather". "alarm" is what
one does while a gather waits: "fork" or "destroy". With "speculate" steps begin in backward: "begun" is how often, and
"taken_back" how often that was taken back. "between" names what the program does between backward and step(): in each
second step the next one."""

import concurrent.futures
import contextlib
import copy
import functools
import json
import os
import pathlib
import random
import shutil
import signal
import tempfile
import time
import zlib

import report

report.set_rendezvous()

import deepspeed
import torch
import torch.distributed
import zero_pairs
import zf_runtime.deepspeed
from deepspeed import utils
from deepspeed.accelerator import get_accelerator
from deepspeed.runtime.superoffload import superoffload_stage3
from deepspeed.runtime.zero.partition_parameters import GatheredParameters, Init
from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3
from torch.utils.checkpoint import checkpoint
from zero_pairs import arena_of, partitions_of
from zf_runtime.optim.overlap import follower

get_accelerator().is_fp16_supported = lambda: True  # PyTorch's CPU kernels have it

DEFAULTS = zero_pairs.DEFAULTS | {
    "stage": 3, "steps": 12, "persist": 200, "offload_param": False, "frozen": False, "tied": False, "external": False,
    "reentrant": None, "do": [], "random": None, "hold_ms": 0, "bucket": 5000, "resume": False, "engines": 1,
    "overflows": [], "kills": False, "handler": None, "alarm": None, "hpz": False, "state": None, "reference": "own",
    "speculate": False, "between": [], "super_offload": False, "scalar": False}
EARLY = 5  # steps: what is begun in backward afterwards is counted apart
CHECKS: list[None] = []  # SuperOffload's for CUDA
superoffload_stage3._validate_superoffload_accelerator = lambda: CHECKS.append(None)
follower.PATIENCE_S = 0.05  # so that a fork says that it waits
# One thread for all: a fork of CPython 3.11 hangs in the child if a thread ends meanwhile.
LATER = concurrent.futures.ThreadPoolExecutor(1)


class Outer(torch.nn.Module):
    """Uses the weight of a module in it directly, without a call of that module."""

    def __init__(self, width: int, is_external: bool):
        super().__init__()
        self.inner = torch.nn.Linear(width, width)
        if is_external:
            deepspeed.zero.register_external_parameter(self, self.inner.weight)
        self.is_external = is_external

    def forward(self, x):
        if self.is_external:
            return torch.nn.functional.linear(x, self.inner.weight)
        return self.inner(x)


class Model(zero_pairs.Model):
    def __init__(self, case):
        super().__init__(case)
        self.width = case["width"]
        self.outer = Outer(case["width"], case["external"])
        self.reentrant = case["reentrant"]
        if case["scalar"]:
            self.scale = torch.nn.Parameter(torch.tensor([1.0]))  # a group: of two ranks, one has no element of it
        if case["tied"]:
            self.blocks[-1].up.weight = self.blocks[0].up.weight
        if self.turns:
            last = self.sometimes
            del self.sometimes
            self.sometimes = last  # the last of the partition
        if case["frozen"]:
            for name, param in self.named_parameters():
                if name.endswith("up.weight" if case["frozen"] is True else "weight") and "sometimes" not in name:
                    param.requires_grad_(False)

    def forward(self, x):
        self.turn += 1
        for block in self.blocks:
            y = checkpoint(block, x, use_reentrant=self.reentrant) if self.reentrant is not None else block(x)
            x = y
        y = self.outer(x) * getattr(self, "scale", 1)
        return y + (self.sometimes(x) if self.turn % 3 in self.turns else 0)


def make_engine(case):
    torch.manual_seed(1)
    model = Model(case)
    config = zero_pairs.config_of(case)
    config["zero_optimization"] |= {
        "stage3_param_persistence_threshold": case["persist"], "stage3_prefetch_bucket_size": case["bucket"],
        "stage3_gather_16bit_weights_on_model_save": True, "reduce_bucket_size": 5000}
    if case["offload_param"]:
        config["zero_optimization"]["offload_param"] = {"device": "cpu"}
    if case["hpz"]:
        config["zero_optimization"]["zero_hpz_partition_size"] = 2
    groups = [group | {"params": [param for param in group["params"] if param.requires_grad
                                  and param is not getattr(model, "scale", None)]}
              for group in zero_pairs.groups_of(model, case)]
    if case["scalar"]:
        groups.append({"params": [model.scale]})
    if case["super_offload"]:
        for number, group in enumerate(groups):
            group |= {"eps": 10.0 ** -(6 + number), "weight_decay": 0.1 * number, "bias_correction": number != 1}
        config["zero_optimization"]["offload_optimizer"]["super_offload"] = case["super_offload"] == "config"
    engine, *_ = deepspeed.initialize(model=model, model_parameters=groups, config=config, dist_init_required=True)
    return engine


def digest(*tensors) -> str:
    crc = 0
    for tensor in tensors:
        crc = zlib.crc32(tensor.detach().contiguous().view(torch.uint8).numpy().tobytes(), crc)
    return f"{crc:08x}"


def partitions_of_weights(engine) -> list:
    return [param.ds_tensor for param in params_of(engine)]


def gathered(engine) -> list:
    return [param.data for param in params_of(engine) if param.ds_status.name == "AVAILABLE"]


def params_of(engine) -> list:
    return list(engine.module.parameters())


def trained(engine) -> list:
    return [param for param in params_of(engine) if param.requires_grad]


class Actions:
    """What a program may do between two steps. Each returns what it has read. All ranks call them alike."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.saved = None

    def _folder_of(self, engine) -> pathlib.Path:
        return self.folder / str(len(engine.optimizer.fp32_partitioned_groups_flat[0]))

    def evaluate(self, engine, pick) -> str:
        engine.eval()
        with torch.no_grad():
            value = loss_of(engine, pick.randrange(100), 7)
        engine.train()
        return value.item().hex()

    def gather(self, engine, pick) -> str:
        some = pick.sample(params_of(engine), pick.randrange(1, 4))
        with GatheredParameters(some):
            return digest(*some)

    def write(self, engine, pick) -> str:
        """The master keeps its value, so the next step takes this back."""
        param = pick.choice(params_of(engine))
        with GatheredParameters([param], modifier_rank=0):
            if engine.global_rank == 0:
                param.data.mul_(0.75)
        with GatheredParameters([param]):
            return digest(param)

    def safe_get(self, engine, pick) -> str:
        param = pick.choice(trained(engine))
        return digest(utils.safe_get_full_fp32_param(param), utils.safe_get_full_optimizer_state(param, "exp_avg"))

    def safe_set(self, engine, pick) -> str:
        param = pick.choice(trained(engine))
        utils.safe_set_full_fp32_param(param, utils.safe_get_full_fp32_param(param) * 0.9)
        utils.safe_set_full_optimizer_state(param, utils.safe_get_full_optimizer_state(param, "exp_avg_sq") * 2,
                                            "exp_avg_sq")
        return digest(utils.safe_get_full_fp32_param(param))

    def local(self, engine, pick) -> str:
        """By one rank alone: no rank needs another one for this."""
        param = pick.choice(trained(engine))
        return digest(utils.safe_get_local_fp32_param(param)) if engine.global_rank == 0 else ""

    def persistent(self, engine, pick) -> str:
        """Persistent parameters are there, for one rank alone, too."""
        found = engine.optimizer.persistent_parameters
        return digest(*found) if engine.global_rank == 0 and found else ""

    def alone(self, engine, pick) -> str:
        """One rank alone may compute where all is persistent, when DeepSpeed knows the order of modules."""
        zero = engine.optimizer
        if len(zero.persistent_parameters) < len(params_of(engine)) or engine.global_rank:
            return ""
        return self.evaluate(engine, pick) if zero._get_param_coordinator().is_complete_trace() else ""

    def gradient(self, engine, pick) -> str:
        param = pick.choice(trained(engine))
        return digest(utils.safe_get_full_grad(param))

    def refresh(self, engine, pick) -> str:
        """Masters get the rounded weights."""
        engine.optimizer.refresh_fp32_params()
        return digest(*engine.optimizer.fp32_partitioned_groups_flat)

    def state(self, engine, pick) -> str:
        return digest(*engine.optimizer.state_dict()["fp32_flat_groups"])

    def save_16bit(self, engine, pick) -> str:
        saved = engine._zero3_consolidated_16bit_state_dict()
        return digest(*saved.values()) if engine.global_rank == 0 else ""

    def save(self, engine, pick) -> str:
        engine.save_checkpoint(self._folder_of(engine), tag="saved")
        return "saved"

    def load(self, engine, pick) -> str:
        """Goes on from what was saved last."""
        if not (self._folder_of(engine) / "latest").exists():
            return ""
        engine.load_checkpoint(self._folder_of(engine))
        return digest(*engine.optimizer.fp32_partitioned_groups_flat)

    def restore(self, engine, pick) -> str:
        """One rank loads an earlier state into the optimizer while weights are still gathered."""
        self.evaluate(engine, pick)
        saved, self.saved = self.saved, copy.deepcopy(engine.optimizer.state_dict())
        if saved is not None:
            engine.optimizer.load_state_dict([saved])
        return self.evaluate(engine, pick)

    def child(self, engine, pick) -> str:
        """A forked child has the weights of the fork, whatever this process writes; so have those that are gathered."""
        self.evaluate(engine, pick)
        ours, its = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            os.read(ours[0], 1)
            os.write(its[1], digest(*partitions_of_weights(engine), *gathered(engine)).encode())
            os._exit(0)
        self.write(engine, pick)
        os.write(ours[1], b"!")
        seen = os.read(its[0], 8).decode()
        os.waitpid(child, 0)
        for each in (*ours, *its):
            os.close(each)
        return seen

    def lr(self, engine, pick) -> str:
        for group in engine.optimizer.optimizer.param_groups:
            group["lr"] *= 0.5
        return ""

    def second(self, engine, pick) -> str:
        engine.backward(loss_of(engine, pick.randrange(100), 8))
        return ""

    def set_gradient(self, engine, pick) -> str:
        param = pick.choice(trained(engine))
        utils.safe_set_full_grad(param, utils.safe_get_full_grad(param) * 0.5)
        return ""

    def pause(self, engine, pick) -> str:
        """Ranks are not equally fast."""
        if pick.randrange(2) == engine.global_rank:
            time.sleep(0.02)
        return ""


BETWEEN = ("restore", "lr", "second", "set_gradient")  # backward and step()
NAMES = [name for name in vars(Actions) if not name.startswith("_") and name not in BETWEEN]  # all ranks can do these


def loss_of(engine, step: int, part: int) -> torch.Tensor:
    torch.manual_seed(1000 * (1 + engine.global_rank) + 10 * step + part)
    like = next(engine.module.parameters())
    x = torch.randn(8, engine.module.width, dtype=like.dtype)
    return (engine(x).float() - x.float().roll(1, 1)).square().mean()


def actions_of(case, step: int) -> list[str]:
    if case["random"] is None:
        return case["do"]
    pick = random.Random(f"{case['random']} {step}")
    return pick.sample(NAMES, pick.choice((0, 0, 1, 1, 2, 3)))


def train_steps(engine, case, steps, actions) -> list[str]:
    facts = []
    for step in steps:
        for part in range(case["accumulation"]):
            loss = loss_of(engine, step, part)
            facts.append(loss.item().hex())
            if step in case["overflows"]:
                loss = loss * float("nan" if step % 2 else "inf")
            elif step % 4 == 3:
                loss = loss * 100  # a spike
            engine.backward(loss)
            if case["between"] and part == case["accumulation"] - 1 and step % 2:
                name = case["between"][step // 2 % len(case["between"])]
                facts.append(f"{name} {getattr(actions, name)(engine, random.Random(f'{step} {name}'))}")
            engine.step()
        for name in actions_of(case, step):
            facts.append(f"{name} {getattr(actions, name)(engine, random.Random(f'{step} {name}'))}")
    return facts


def signal_to(pid: int, number: int, seconds: float):
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):  # the job may have ended it
        os.kill(pid, number)


def hold(arena, case, stopped: list[int]):
    """Lets the optimizer process stand still, or dies, somewhere in each step."""
    pick = random.Random(5)

    def submit_held(submit, *args, **keywords):
        pid = arena.runtime.stats().worker_pid
        if case["kills"]:
            LATER.submit(signal_to, pid, signal.SIGKILL, pick.random() * 2e-3)
        else:
            os.kill(pid, signal.SIGSTOP)
            LATER.submit(signal_to, pid, signal.SIGCONT, case["hold_ms"] / 1e3 * pick.random())
        ticket = submit(*args, **keywords)
        stopped.append(ticket)
        return ticket

    for name in ("submit", "speculate", "take_back"):
        setattr(arena.runtime, name, functools.partial(submit_held, getattr(arena.runtime, name)))


def interrupt(engine, arena, what: str):
    """Reads the state or the weights where a signal handler may run last before a step is handed over."""
    submit = arena.runtime.submit

    def submit_behind_a_handler(*args, **keywords):
        if what == "gather":
            with GatheredParameters(params_of(engine)):
                pass
        else:
            engine.optimizer.state_dict()
        return submit(*args, **keywords)

    arena.runtime.submit = submit_behind_a_handler


def alarmed(case, kind: str) -> dict:
    """Returns what follows where a signal handler forks or destroys the engine while a gather waits for the optimizer
    process. With DeepSpeed's own optimizer nothing waits, and there is no signal."""
    install(case, kind)
    engine = make_engine(case)
    train_steps(engine, case, range(2), None)
    found, arena = {}, arena_of(engine)
    reading, writing = os.pipe()

    def handler(*_):
        if case["alarm"] == "destroy":
            engine.destroy()
            raise KeyboardInterrupt
        child = os.fork()
        if child == 0:
            os.write(writing, digest(*partitions_of_weights(engine)).encode())
            os._exit(0)
        found["child"] = os.read(reading, 8).decode()
        os.waitpid(child, 0)

    engine.backward(loss_of(engine, 2, 0))
    if arena is not None:
        signal.signal(signal.SIGALRM, handler)
        pid = arena.runtime.stats().worker_pid
        os.kill(pid, signal.SIGSTOP)
    engine.step()
    if arena is not None:
        LATER.submit(signal_to, pid, signal.SIGCONT, 0.4)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
    with contextlib.suppress(KeyboardInterrupt):
        found["loss"] = loss_of(engine, 3, 0).item().hex()
    engine.optimizer.state_dict()
    if arena is not None:
        found["closed"] = arena.runtime.closed
    found["weights"] = digest(*partitions_of_weights(engine))
    if case["alarm"] == "fork" and arena is None:
        found["child"] = found["weights"]
    if "loss" in found:
        engine.destroy()
    return found


def train(case, kind: str, folder: pathlib.Path) -> tuple[list[str], list, dict]:
    install(case, kind)
    if case["super_offload"] and kind == "exact":  # the reference is plain ZeRO-3
        case = case | {"super_offload": "config"}
    engines = [make_engine(case | {"width": case["width"] // (1 + number)}) for number in range(case["engines"])]
    beside, stopped, counts = [], [], {"speculate": 0, "take_back": 0}
    for engine in engines:
        arena = arena_of(engine)
        if arena is not None:
            for name in counts:
                count_calls(arena.runtime, name, counts)
            if case["hold_ms"] or case["kills"]:
                hold(arena, case, stopped)
            if case["handler"]:
                interrupt(engine, arena, case["handler"])
            count_steps_beside(engine, arena, beside)
    actions = Actions(folder)
    facts = []
    early = 0
    for step in range(case["steps"]):
        early = counts["speculate"] if step < EARLY else early
        for engine in engines:
            facts += train_steps(engine, case, [step], actions)
    engine = engines[0]
    with GatheredParameters(params_of(engine)):
        state = [param.detach().clone() for param in params_of(engine)]
    engine.optimizer.state_dict()  # waits for the step that is under way
    for flat in partitions_of(engine.optimizer):
        moments = engine.optimizer.optimizer.state[flat]
        state += [flat.detach().clone(), moments["exp_avg"].clone(), moments["exp_avg_sq"].clone()]
    arena = arena_of(engine)
    found = {"restarts": arena.runtime.stats().restarts if arena else 0, "beside": sum(beside),
             "mode": arena.mode if arena else "", "begun": counts["speculate"], "taken_back": counts["take_back"],
             "begun_later": counts["speculate"] - early, "class": type(engine.optimizer).__name__,
             "checks": len(CHECKS)}
    for engine in engines:
        engine.destroy()
    return facts, state, found


def count_calls(runtime, name: str, counts: dict):
    call = getattr(runtime, name)

    def counted(*args, **keywords):
        counts[name] += 1
        return call(*args, **keywords)

    setattr(runtime, name, counted)


def count_steps_beside(engine, arena, beside: list[bool]):
    step = engine.optimizer.step

    def counted(*args, **keywords):
        step(*args, **keywords)
        stats = arena.runtime.stats()
        beside.append(stats.completed < stats.submitted)

    engine.optimizer.step = counted


def functions() -> dict[str, object]:
    """Returns those of the classes that gathers and new engines call."""
    return {f"{kind.__name__}.{name}": value for kind in (Init, DeepSpeedZeroOptimizer_Stage3)
            for name, value in vars(kind).items() if callable(value)}


OWN = functions()


def install(case, kind: str):
    zf_runtime.deepspeed.uninstall()
    assert functions() == OWN, {name for name, value in functions().items() if value is not OWN.get(name)}
    if kind != "own":
        zf_runtime.deepspeed.install(kind, state=case["state"], speculate=case["speculate"] and kind == "exact",
                                     chunk_bytes=4096, max_restarts=1000)


def resume(case, folder) -> dict:
    """Returns what each kind computes after it has loaded what each kind had saved."""
    for kind in ("own", "exact"):
        install(case, kind)
        engine = make_engine(case)
        train_steps(engine, case, range(case["steps"]), None)
        engine.save_checkpoint(folder, tag=kind)
        engine.destroy()
    resumed = {}
    for saved in ("own", "exact"):
        for kind in ("own", "exact"):
            install(case, kind)
            engine = make_engine(case)
            train_steps(engine, case, range(2), None)  # the checkpoint takes the place of a state that exists
            engine.load_checkpoint(folder, tag=saved)
            resumed[f"{saved}-{kind}"] = train_steps(engine, case, range(case["steps"], 2 * case["steps"]), None)
            engine.destroy()
    return resumed


def shared_folder() -> pathlib.Path:
    """Returns a new folder, the same for all ranks."""
    names = [tempfile.mkdtemp()] if int(os.environ.get("RANK", "0")) == 0 else [None]
    if torch.distributed.is_initialized():
        torch.distributed.broadcast_object_list(names)
    return pathlib.Path(names[0])


def main():
    deepspeed.init_distributed()
    if report.world_size() > 1:
        torch.set_num_threads(1)  # as under torchrun
    for given in json.loads(pathlib.Path(os.environ["ZERO_CASES"]).read_text()):
        case = DEFAULTS | given
        folder = shared_folder()
        if case["resume"]:
            report.say(case=given, resumed=resume(case, folder))
        elif case["alarm"]:
            report.say(case=given, **{kind: alarmed(case, kind) for kind in ("own", "exact")})
        else:
            own, own_state, _ = train(case, case["reference"], folder)
            torch.distributed.barrier()
            shutil.rmtree(folder, ignore_errors=True)
            torch.distributed.barrier()
            folder.mkdir(exist_ok=True)
            torch.distributed.barrier()
            exact, state, found = train(case, "exact", folder)
            differ = sum(int(((a != b) & ~(a.isnan() & b.isnan())).sum())
                         for a, b in zip(own_state, state, strict=True))
            first = next((number for number, pair in enumerate(zip(own, exact)) if pair[0] != pair[1]), None)
            report.say(case=given, own=own, exact=exact, differ=differ, first=first, **found)
        torch.distributed.barrier()
        shutil.rmtree(folder, ignore_errors=True)
    report.leave_group()


if __name__ == "__main__":
    main()
