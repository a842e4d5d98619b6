"""Trains with DeepSpeed's own CPU Adam and with the native optimizer in mode exact, and compares what a program reads
or writes while a step is under way.

Two engines train side by side. Before the native one's step() its optimizer process is stopped, and goes on a little
later: so step() has returned while nothing was stepped, and each use has to wait.

Says per case and use {"case": {...}, "use": "...", "own": [losses], "native": [losses], "differ": whether what was
read or a master or moment differs afterwards, "hidden": how many of the steps were under way when step() had returned,
"of": steps that were held until then and not skipped, "begun": how often a part of a step began in backward,
"taken_back": how often that was taken back}. "between" names uses: in each second step the next one comes between
backward and step(). Reads the cases from the file in ZERO_CASES: objects like DEFAULTS."""

import collections
import concurrent.futures
import contextlib
import copy
import io
import json
import math
import os
import pathlib
import random
import signal
import threading
import time
import zlib

import report

report.set_rendezvous()

import torch
import zero_pairs
import zf_runtime.deepspeed
from deepspeed import initialize, utils
from model import Block
from torch.utils.checkpoint import checkpoint
from zero_pairs import arena_of, config_of, partitions_of

DEFAULTS = zero_pairs.DEFAULTS | {"uses": [], "random": 0, "seed": 0, "kills": 0, "resume": False, "two": False,
                                  "interrupts": False, "leaves": False, "speculate": False,
                                  "between": [], "bucket": 1 << 20}
WIDTH, WORDS = 32, 64
# One thread for all steps: a fork of CPython 3.11 hangs in the child if a thread ends meanwhile.
GOING_ON = concurrent.futures.ThreadPoolExecutor(1)


def go_on(worker: int, has_returned: threading.Event, delay_s: float):
    has_returned.wait(10 if delay_s else 0)  # a step() that waits would hang
    time.sleep(delay_s)
    os.kill(worker, signal.SIGCONT)


class Net(torch.nn.Module):
    """Has what reads parameters in its own way: tied weights, checkpoints, attention, LoRA, a bare parameter."""

    def __init__(self, seed: int):
        super().__init__()
        torch.manual_seed(seed)
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        self.attention = torch.nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.blocks = torch.nn.ModuleList(Block(WIDTH) for _ in range(3))
        self.frozen = torch.nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.lora = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4, bias=False), torch.nn.Linear(4, WIDTH, bias=False))
        self.scale = torch.nn.Parameter(torch.ones(2, WIDTH // 2))

    def forward(self, words):
        x = self.words(words)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        x = checkpoint(self.blocks[0], x, use_reentrant=False)
        x = checkpoint(self.blocks[1], x, use_reentrant=True) if self.training else self.blocks[1](x)
        x = self.blocks[2](x)
        x = (x + self.frozen(x) + self.lora(x)) * self.scale.view(-1)
        return torch.nn.functional.linear(x, self.words.weight)


def make_engine(case, seed=1):
    model = Net(seed)
    params = [param for param in model.parameters() if param.requires_grad]
    groups = [{"params": params}] if case["groups"] == 1 else [
        {"params": [param for param in params if param.dim() > 1], "weight_decay": 0.1},
        {"params": [param for param in params if param.dim() == 1], "weight_decay": 0.0, "lr": 2e-3}]
    config = config_of(case)
    config["zero_optimization"]["reduce_bucket_size"] = case["bucket"]  # a small one lets gradients come in backward
    engine, *_ = initialize(model=model, model_parameters=groups, config=config, dist_init_required=True)
    return engine


def loss_of(model, number: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * number + report.rank())
    text = torch.randint(WORDS, (2, 9), generator=generator)
    return torch.nn.functional.cross_entropy(model(text[:, :-1]).float().flatten(0, 1), text[:, 1:].flatten())


class Trainer:
    def __init__(self, case, kind: str, seed=1):
        self.case, self.number, self.hidden, self.steps = case, 0, 0, 0
        zf_runtime.deepspeed.uninstall()
        if kind == "native":
            zf_runtime.deepspeed.install("exact", speculate=case["speculate"], chunk_bytes=4096, max_restarts=1 << 20)
        self.engine = make_engine(case, seed)
        self.arena = arena_of(self.engine)
        self.counts = collections.Counter()
        for name in ("speculate", "take_back") if self.arena is not None else ():
            self.count(name)

    def count(self, name: str):
        call = getattr(self.arena.runtime, name)

        def counted(*args, **keywords):
            self.counts[name] += 1
            return call(*args, **keywords)

        setattr(self.arena.runtime, name, counted)

    def between(self) -> list[str]:
        """Does what is to come between backward and step(). Returns what was read."""
        names = self.case["between"]
        if not names or self.number % 2:
            return []
        read = BEFORE_STEP[names[self.number // 2 % len(names)]](self.engine)
        return [f"{zlib.crc32(each.detach().reshape(-1).view(torch.uint8).numpy().tobytes()):08x}" for each in read]

    def train(self, steps: int, delay_s=0.01, *, waits=False) -> list[str]:
        """Trains. The optimizer process goes on so long after each step(), or after its beginning if that waits."""
        losses = []
        for _ in range(steps):
            for part in range(self.case["accumulation"]):
                loss = loss_of(self.engine, self.number)
                self.number += 1
                self.engine.backward(loss)
                if part == self.case["accumulation"] - 1:
                    losses += self.between()
                if self.arena is None or part < self.case["accumulation"] - 1:
                    self.engine.step()
                else:
                    self.step(delay_s, waits)
                losses.append(loss.item().hex())
        return losses

    def step(self, delay_s: float, waits: bool):
        worker = self.arena.runtime.stats().worker_pid
        os.kill(worker, signal.SIGSTOP)
        has_returned = threading.Event()
        if waits:
            has_returned.set()
        GOING_ON.submit(go_on, worker, has_returned, delay_s)
        self.engine.step()
        stats = self.arena.runtime.stats()
        if delay_s and not self.engine.optimizer.overflow:  # else it may be done by now, or is skipped
            self.hidden, self.steps = self.hidden + (stats.completed < stats.submitted), self.steps + 1
        has_returned.set()

    def state(self) -> list[torch.Tensor]:
        zero = self.engine.optimizer
        return [tensor.detach().clone() for flat in partitions_of(zero)
                for tensor in (flat, zero.optimizer.state[flat]["exp_avg"], zero.optimizer.state[flat]["exp_avg_sq"])]


def params_of(engine) -> list[torch.Tensor]:
    return [param for param in engine.module.parameters() if param.requires_grad]


def linked_of(engine) -> list[torch.Tensor]:
    """Returns the parameters of the first group: DeepSpeed's functions find the moments of no other."""
    return [param for param in params_of(engine) if param.dim() > 1]


def evaluated(engine):
    engine.module.eval()
    with torch.no_grad():
        loss = loss_of(engine.module, 99)
    engine.module.train()
    return [loss]


def in_a_thread(engine):
    found = []
    thread = threading.Thread(target=lambda: found.extend(evaluated(engine)))
    thread.start()
    thread.join()
    return found


def in_a_child(engine):
    ours, its = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(its, b"".join(bytes(param.detach().reshape(-1).view(torch.uint8).tolist()[:64])
                               for param in params_of(engine)))
        os._exit(0)
    os.waitpid(child, 0)
    return [torch.tensor(list(os.read(ours, 1 << 16)))]


def saved(engine):
    file = io.BytesIO()
    torch.save(engine.module.state_dict(), file)
    file.seek(0)
    return list(torch.load(file).values())


def tensors_in(value) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value.clone()]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for each in values for tensor in tensors_in(each)]


def written(change):
    def use(engine):
        with torch.no_grad():
            change(engine)
        return [param.detach().clone() for param in params_of(engine)]

    return use


def set_masters(engine):
    for param in params_of(engine):
        utils.safe_set_full_fp32_param(param, utils.safe_get_full_fp32_param(param) * 0.75)


def set_moments(engine):
    for param in linked_of(engine):
        moment = utils.safe_get_full_optimizer_state(param, "exp_avg")
        utils.safe_set_full_optimizer_state(param, moment * 0.5, "exp_avg")


def state_of(engine, name):
    return [engine.optimizer.optimizer.state[flat][name].clone() for flat in partitions_of(engine.optimizer)]


ALONE = {  # what a rank may do by itself
    "forward": lambda engine: [loss_of(engine, 98).detach()],
    "evaluation": evaluated, "another thread": in_a_thread, "a forked child": in_a_child, "torch.save": saved,
    "all": lambda engine: [param.detach().clone() for param in params_of(engine)],
    "the last first": lambda engine: [param.float().sum() for param in reversed(params_of(engine))],
    "a view": lambda engine: [params_of(engine)[3].data.view(-1)[:5].clone()],
    "vector": lambda engine: [torch.nn.utils.parameters_to_vector(params_of(engine)).detach()],
    "state_dict": lambda engine: tensors_in(engine.module.state_dict()),
    "flat": lambda engine: [flat.clone() for flat in engine.optimizer.bit16_groups_flat],
    "gradient, and evaluation": lambda engine: [*torch.autograd.grad(
        params_of(engine)[0].float().square().sum(), params_of(engine)[:1]), *evaluated(engine)],
    "as_strided": lambda engine: [params_of(engine)[0].data.as_strided((300,), (1,), 2048).clone()],
    "storage": lambda engine: [torch.tensor(list(params_of(engine)[0].untyped_storage()))],
    "numpy": lambda engine: [torch.tensor(param.detach().float().numpy().copy()) for param in params_of(engine)],
    "deepcopy": lambda engine: [param.detach() for param in copy.deepcopy(engine.module).parameters()],
    "masters": lambda engine: [flat.detach().clone() for flat in partitions_of(engine.optimizer)],
    "moments": lambda engine: state_of(engine, "exp_avg") + state_of(engine, "exp_avg_sq"),
    "optimizer's state_dict": lambda engine: tensors_in(engine.optimizer.state_dict()),
    "nothing": lambda engine: []}
TOGETHER = {
    "fp32 params": lambda engine: [utils.safe_get_full_fp32_param(param) for param in params_of(engine)],
    "fp32 moments": lambda engine: [utils.safe_get_full_optimizer_state(param, "exp_avg_sq")
                                    for param in linked_of(engine)],
    "write weights": written(lambda engine: [param.mul_(0.5) for param in params_of(engine)]),
    "write one": written(lambda engine: params_of(engine)[-1].data.mul_(0.5)),
    "write masters": written(set_masters), "write moments": written(set_moments),
    "write state": written(lambda engine: [each.mul_(0.5) for each in [
        engine.optimizer.optimizer.state[flat]["exp_avg"] for flat in partitions_of(engine.optimizer)]]),
    "publish masters": written(lambda engine: engine.optimizer.update_lp_params()),
    "refresh masters": written(lambda engine: engine.optimizer.refresh_fp32_params())}
USES = ALONE | TOGETHER
BEFORE_STEP = USES | {
    "write masters themselves": written(lambda engine: [flat.mul_(0.5) for flat in partitions_of(engine.optimizer)]),
    "write gradients themselves": written(lambda engine: [flat.grad.mul_(0.5)
                                                          for flat in partitions_of(engine.optimizer)]),
    "another backward": lambda engine: [engine.backward(loss_of(engine, 97)).detach()],
    "another lr": written(lambda engine: [group.update(lr=group["lr"] / 2)
                                          for group in engine.optimizer.optimizer.param_groups]),
    "gradients": lambda engine: [utils.safe_get_full_grad(param) for param in params_of(engine)],
    "write gradients": written(lambda engine: utils.safe_set_full_grad(
        params_of(engine)[0], utils.safe_get_full_grad(params_of(engine)[0]) * 0.5))}


def differs(pair) -> bool:
    return any(not torch.equal(a, b) for a, b in zip(*pair, strict=True))


def say(case, use, trainers, losses, read=((), ())):
    native = trainers[1]
    report.say(case=case, use=use, own=losses[0], native=losses[1], hidden=native.hidden, of=native.steps,
               differ=differs(read) or differs([trainer.state() for trainer in trainers]),
               restarts=native.arena.runtime.stats().restarts, begun=native.counts["speculate"],
               taken_back=native.counts["take_back"])
    native.hidden = native.steps = 0


def each_use(case, trainers):
    for use in USES if case["uses"] == ["all"] else case["uses"]:
        losses, read = zip(*((trainer.train(2), USES[use](trainer.engine)) for trainer in trainers))
        losses = [before + trainer.train(2) for before, trainer in zip(losses, trainers)]
        say(case, use, trainers, losses, read)


def at_random(case, trainers):
    """Each rank uses what it likes, when it likes: one may be far behind the other."""
    moments = random.Random(report.rank() + case["random"] + 10 * case["seed"])
    for number in range(case["random"]):
        use, delay_s = moments.choice(sorted(ALONE)), moments.choice((0, 0.001, 0.02))
        losses, read = zip(*((trainer.train(1, delay_s), ALONE[use](trainer.engine)) for trainer in trainers))
        time.sleep(moments.choice((0, 0, 0.01)))
        say(case, f"random {number}: {use}", trainers, losses, read)


def kill_later(worker: int, delay_s: float):
    time.sleep(delay_s)
    with contextlib.suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL)


def killed(case, trainers):
    """Kills the optimizer process up to 3 ms after every second step() has returned. Where steps begin in backward,
    also up to 10 ms after each other backward has begun."""
    moments, losses = random.Random(7), collections.defaultdict(list)
    for number in range(2 * case["kills"]):
        for trainer in trainers:
            for _ in range(case["accumulation"]):
                loss = loss_of(trainer.engine, trainer.number)
                trainer.number += 1
                if trainer.arena is not None and case["speculate"] and number % 2 == 0:
                    GOING_ON.submit(kill_later, trainer.arena.runtime.stats().worker_pid, moments.uniform(0, 0.01))
                trainer.engine.backward(loss)
                trainer.engine.step()
            if trainer.arena is not None and number % 2:
                time.sleep(moments.uniform(0, 0.003))
                os.kill(trainer.arena.runtime.stats().worker_pid, signal.SIGKILL)
            losses[trainer].append(loss.item().hex())
    say(case, "kills", trainers, list(losses.values()))


def resumed(case, trainers):
    """Saves while a step is under way, and loads in all directions, into engines that have trained other steps."""
    folder = f"{os.environ['ZERO_CASES']}.saved"  # of all ranks
    for trainer, kind in zip(trainers, ("own", "native")):
        trainer.train(3)
        trainer.engine.save_checkpoint(folder, tag=kind)
    want = [trainer.train(3) for trainer in trainers]
    number = trainers[0].number
    say(case, "saved", trainers, want)
    for tag in ("own", "native"):
        for trainer in trainers:
            trainer.train(2)
            trainer.engine.load_checkpoint(folder, tag=tag)
            trainer.number = number - 3 * case["accumulation"]
        losses = [trainer.train(3) for trainer in trainers]
        say(case, f"resumed from {tag}", trainers, losses)
        for loss, wanted in zip(losses[0], want[0]):  # with powers of beta that DeepSpeed has calculated anew
            assert math.isclose(float.fromhex(loss), float.fromhex(wanted), rel_tol=1e-3)


def interrupted(case, trainers):
    """Ctrl-C in step(), before and after the optimizer process is given the step: it is not done, or done."""
    own, native = trainers
    losses = [[], []]
    for is_given in (False, True):
        zero, speculation = own.engine.optimizer, native.arena.speculation
        ours, name = (native.arena.runtime, "submit") if speculation is None else (speculation, "decide")
        original = getattr(ours, name)

        def interrupt(*args, is_given=is_given, submit=original, **keywords):
            if is_given:
                submit(*args, **keywords)
            raise KeyboardInterrupt

        for found, trainer in zip(losses, trainers):
            loss = loss_of(trainer.engine, trainer.number)
            trainer.engine.backward(loss)
            trainer.number += 1
            if trainer is native:
                setattr(ours, name, interrupt)
            elif not is_given:
                zero.scaled_global_norm = interrupt
            with contextlib.suppress(KeyboardInterrupt):
                trainer.engine.step()
            vars(ours).pop(name, None)
            vars(zero).pop("scaled_global_norm", None)
            found += [loss.item().hex(), evaluated(trainer.engine)[0].item().hex()]
    losses = [found + trainer.train(2) + in_a_hook(trainer) for found, trainer in zip(losses, trainers)]
    say(case, "interrupted", trainers, losses)
    handles = [trainer.engine.optimizer.optimizer.register_step_pre_hook(lambda *_: None) for trainer in trainers]
    say(case, "hooks before the step", trainers, [trainer.train(2, 0.05, waits=True) for trainer in trainers])
    for handle in handles:
        handle.remove()


def in_a_hook(trainer) -> list[str]:
    """Ctrl-C in a hook behind the step of the last group: those before it are done, and their weights are new."""
    groups = len(trainer.engine.optimizer.bit16_groups)
    optimizer, calls = trainer.engine.optimizer.optimizer, []
    of_all_groups = optimizer.param_groups

    def hook(*_):
        calls.append(None)
        if len(calls) == groups:
            raise KeyboardInterrupt

    handle = optimizer.register_step_post_hook(hook)
    loss = loss_of(trainer.engine, trainer.number)
    trainer.engine.backward(loss)
    trainer.number += 1
    with contextlib.suppress(KeyboardInterrupt):
        trainer.engine.step()
    handle.remove()
    optimizer.param_groups = of_all_groups  # DeepSpeed itself has put those of one group in their place
    return [loss.item().hex(), evaluated(trainer.engine)[0].item().hex(), *trainer.train(2)]


def side_by_side(case, trainers):
    """Two engines of each kind take turns."""
    others = [Trainer(case, kind, seed=2) for kind in ("own", "native")]
    losses = [[], [], [], []]
    for _ in range(6):
        for found, trainer in zip(losses, (*trainers, *others)):
            found.extend(trainer.train(1))
    say(case, "two engines", trainers, losses[:2])
    say(case, "the other engines", others, losses[2:])
    for trainer in others:
        trainer.engine.destroy()


def main():
    for given in json.loads(pathlib.Path(os.environ["ZERO_CASES"]).read_text()):
        case = DEFAULTS | given
        trainers = [Trainer(case, kind) for kind in ("own", "native")]
        for wanted, part in (("uses", each_use), ("random", at_random), ("kills", killed), ("resume", resumed),
                             ("two", side_by_side), ("interrupts", interrupted)):
            if case[wanted]:
                part(case, trainers)
        if case["leaves"]:  # the last step is under way, and the others have it not yet
            trainers[1].train(1, delay_s=0.2 * report.rank())
        else:
            for trainer in trainers:
                trainer.engine.destroy()
    report.leave_group()


if __name__ == "__main__":
    main()
