"""Programs that train a model of FSDP2 shards, each as a dict of what it does. See fsdp_cases.py.

program(options, mode) runs one in mode "off" or "exact" on all ranks, and returns what it has computed and read."""

import contextlib
import copy
import os
import random
import signal
import threading

import torch
import torch.distributed as dist
import zf_runtime
from exact import Counted, is_under_way, plan
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

BF16 = torch.bfloat16
WORDS, WIDTH, HIDDEN = 19, 12, 33  # two ranks have shards of other sizes, and of one bias the second has less


class Block(nn.Module):
    def __init__(self, recomputes):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.scale = nn.Parameter(torch.ones(1))  # the second rank has nothing of it
        self.recomputes = recomputes

    def forward(self, x):
        if self.recomputes:
            return x + checkpoint(self.own, x, use_reentrant=False)
        return x + self.own(x)

    def own(self, x):
        return self.scale * self.down(torch.tanh(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, blocks, recomputes):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block(recomputes) for _ in range(blocks))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def make_model(blocks=3, wrap="blocks", recomputes="", dtype=torch.float32, tied=False, frozen=False, reshard=None,
               mixed=False, offload=False, prefetch=False, dimension=0, hybrid=False, ignored=False, compiled=False,
               **_):
    torch.manual_seed(1)
    model = Model(blocks, recomputes == "inside").to(dtype)
    if tied:
        model.head.weight = model.words.weight
    if frozen:
        model.blocks[0].requires_grad_(False)
        model.words.requires_grad_(tied)
    shape, names = ((2, 1), ("copies", "shards")) if hybrid else ((dist.get_world_size(),), ("shards",))
    options = {"mesh": dist.init_device_mesh("cpu", shape, mesh_dim_names=names), "reshard_after_forward": reshard}
    if mixed:
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=BF16, reduce_dtype=torch.float32)
    if offload:
        options["offload_policy"] = CPUOffloadPolicy(pin_memory=False)
    if dimension:
        from torch.distributed.tensor import Shard

        options["shard_placement_fn"] = lambda param: Shard(1) if param.shape[1:] == (WIDTH,) else None
    if ignored:
        options["ignored_params"] = {each.scale for each in model.blocks}
    for block in model.blocks if wrap != "root" else ():
        if recomputes == "outside":
            from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

            block.down = checkpoint_wrapper(block.down)
        for layer in (block.up, block.down) if wrap == "layers" else ():
            fully_shard(layer, **options)
        if compiled:
            block.compile(backend="eager")
        fully_shard(block, **options)
    fully_shard(model, **options)
    if prefetch and wrap != "root":
        for first, second in zip([model, *model.blocks], model.blocks):
            first.set_modules_to_forward_prefetch([second])
    return model


def groups_of(model, groups):
    if not groups:
        return model.parameters()
    flat = [param for param in model.parameters() if param.ndim == 1]
    return [{"params": flat, "weight_decay": 0.0, "betas": (0.8, 0.95)},
            {"params": [param for param in model.parameters() if param.ndim > 1], "weight_decay": 0.1, "lr": 2e-2}]


def loss_of(model, number):
    tokens = torch.randint(WORDS, (4, 8), generator=torch.Generator().manual_seed(10 * number + dist.get_rank()))
    return nn.functional.cross_entropy(model(tokens[:, :-1]).float().flatten(0, 1), tokens[:, 1:].flatten())


# ---- what a program reads or writes behind step() ----

def every(read):
    return lambda model, *_: [read(param) for param in model.parameters()]


def gathered(model, *_):
    model.unshard()
    found = [param.detach().clone() for param in model.parameters()]
    model.reshard()
    return found


def averaged(model, optimizer, kept):
    for name, param in model.named_parameters():
        kept.setdefault(name, param.detach().clone()).lerp_(param.detach(), 0.1)
    return [value.to_local() for value in kept.values()]


def written(change):
    @torch.no_grad()
    def write(model, *_):
        for param in model.parameters():
            change(param)
        return []

    return write


def saved(model, *_):
    return [value.to_local().clone() for value in model.state_dict().values()]


def saved_whole(model, optimizer, _):
    options = torch.distributed.checkpoint.state_dict.StateDictOptions(full_state_dict=True)
    found = get_model_state_dict(model, options=options)
    states = get_optimizer_state_dict(model, optimizer, options=options)["state"]
    return [*found.values(), *(states[name][key] for name in states for key in ("exp_avg", "exp_avg_sq"))]


def moments(model, optimizer, _):
    states = optimizer.state_dict()["state"].values()
    return [state[name].to_local().clone() for state in states for name in ("exp_avg", "exp_avg_sq")]


def evaluated(model, *_):
    model.eval()
    with torch.no_grad():
        found = loss_of(model, 1000)
    model.train()
    return [found]


def drawn(model, *_):
    """Adds up in another process group call, which all ranks make."""
    total = sum(param.to_local().float().sum() for param in model.parameters())
    dist.all_reduce(total)
    return [total]


AFTER = {
    "nothing": lambda *_: [],
    "evaluated": evaluated, "saved": saved, "saved whole": saved_whole, "moments": moments, "averaged": averaged,
    "gathered": gathered, "drawn": drawn,
    "to_local": every(lambda param: param.to_local().detach().clone()),
    "local of a view": every(lambda param: param.detach().unsqueeze(0).to_local().clone()),
    "full_tensor": every(lambda param: param.full_tensor().detach().clone()),
    "product": every(lambda param: (param * 2).sum().full_tensor().detach()),
    "norm": every(lambda param: torch.linalg.vector_norm(param).full_tensor().detach()),
    "copied": every(lambda param: copy.deepcopy(param.detach()).to_local()),
    "text": every(lambda param: torch.tensor(list(str(param).encode()))),
    "data": every(lambda param: param.data.to_local().clone()),
    "array": every(lambda param: torch.from_numpy(param.detach().to_local().float().numpy().copy())),
    "multiplied": written(lambda param: param.mul_(0.999)),
    "written in its shard": written(lambda param: param.to_local().add_(1e-3)),
    "written by data": written(lambda param: param.data.mul_(0.999)),
}


class Pauses:
    """Lets the optimizer process stand still for a moment now and then, and not on all ranks at once: a read that does
    not wait finds old values."""

    def __init__(self, optimizer, seconds=0.01):
        self.optimizer, self.seconds = optimizer, seconds
        self.random = random.Random(dist.get_rank())

    def __call__(self):
        if self.optimizer.overlap == "exact" and self.random.random() < 0.7:
            pid = self.optimizer.runtime.stats().worker_pid
            os.kill(pid, signal.SIGSTOP)
            threading.Timer(self.random.uniform(0, self.seconds), os.kill, (pid, signal.SIGCONT)).start()


def make_optimizer(model, mode, groups=False, clip=None, state="fp32", runtime_options=None, **_):
    more = {} if mode == "off" else {"plan": plan(dist.get_world_size()), "rank": dist.get_rank(),
                                     "runtime_options": runtime_options or {}}
    return zf_runtime.AdamW(groups_of(model, groups), lr=1e-2, overlap=mode, clip_grad_norm=clip, state=state, **more)


def bits_of(model, optimizer):
    """Returns copies of all shards and of their states."""
    found = [getattr(param, "_local_tensor", param).detach().clone() for param in model.parameters()]
    for entry in optimizer.state_dict()["state"].values():
        found += [torch.as_tensor(getattr(value, "_local_tensor", value)).clone() for _, value in sorted(entry.items())]
    return found


def backward(model, step, accumulate=1, syncs=True, explicit=False, **_):
    """Returns the losses of a step."""
    losses = []
    for number in range(accumulate):
        if not syncs:
            model.set_requires_gradient_sync(number == accumulate - 1)
        handle = model.unshard(async_op=True) if explicit else None
        loss = loss_of(model, accumulate * step + number)
        if handle is not None:
            handle.wait()
        loss.backward()
        losses.append(loss.item())
    return losses


def train(model, optimizer, steps, options, first=0):
    """Returns what was computed and read, and in how many steps the step was under way when step() returned."""
    pauses, kept, found, under_way = Pauses(optimizer), {}, [], 0
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20) if options.get("schedule") else None
    for step in range(first, first + steps):
        optimizer.zero_grad(set_to_none=options.get("drops", True))
        found += backward(model, step, **options)
        if options.get("outside"):
            found.append(nn.utils.clip_grad_norm_(model.parameters(), options["outside"]).full_tensor())
        if options.get("asks"):
            optimizer.clip_grad_norm_(max_norm=options["asks"])
        pauses()
        optimizer.step()
        under_way += is_under_way(optimizer)
        found.append(optimizer.grad_norm)
        if schedule is not None:
            schedule.step()
        after = options.get("after")
        if after and step + 1 < first + steps:  # else a master is not rounded to what was written yet with "off"
            found += AFTER[after[step % len(after)]](model, optimizer, kept)
    return found, under_way


def program(options, mode, steps):
    """Returns what a program has computed, in how many steps its step was under way, and how many gradients were copied
    in backward."""
    model = make_model(**options)
    optimizer = make_optimizer(model, mode, **options)
    counted = Counted(optimizer) if mode == "exact" else None
    with optimizer, contextlib.ExitStack():
        found, under_way = train(model, optimizer, steps, options)
        return [*found, *bits_of(model, optimizer)], under_way, counted and counted.early


def equal(one, other):
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one.nan_to_num(77), other.nan_to_num(77))
    return one == other


def differing(got, wanted):
    """Returns which results differ; none if all bits are the same."""
    if len(got) != len(wanted):
        return [f"{len(got)} results, not {len(wanted)}"]
    return [number for number, pair in enumerate(zip(got, wanted)) if not equal(*pair)]


def draw(seed):
    """Returns the options of a program drawn at random, the same ones on every rank."""
    pick = random.Random(seed)
    options = {"blocks": pick.randint(1, 4), "wrap": pick.choice(("blocks", "root", "layers")),
               "recomputes": pick.choice(("", "", "inside", "outside")),
               "dtype": pick.choice((torch.float32, torch.float32, torch.float32, BF16)),
               "tied": pick.random() < 0.3, "frozen": pick.random() < 0.3, "reshard": pick.choice((None, True, False)),
               "mixed": pick.random() < 0.3, "offload": pick.random() < 0.2, "prefetch": pick.random() < 0.3,
               "hybrid": pick.random() < 0.2, "accumulate": pick.choice((1, 1, 2, 3)), "syncs": pick.random() < 0.5,
               "explicit": pick.random() < 0.2, "groups": pick.random() < 0.4, "schedule": pick.random() < 0.3,
               "drops": pick.random() < 0.8, "clip": pick.choice((None, None, 0.05, 1.0)),
               "after": pick.sample(sorted(AFTER), 3) + ["nothing"] * pick.randint(0, 2),
               "state": pick.choice(("fp32", "fp32", "bf16"))}
    if options["clip"] is None and pick.random() < 0.2:
        options["outside"] = 0.5
    return options
