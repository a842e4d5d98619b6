"""Trains the same model twice per case, with DeepSpeed's own CPU Adam and with the native optimizer, in one process.

Says per case: {"case": {...}, "own": [losses], "native": [losses], "differ": elements, "of": elements, "restarts": N,
"stepped": how many partitions that process has stepped, "begun": how often a part of a step began in backward, "left":
whether it exists after engine.destroy(), "pinned": [bytes that DeepSpeed has pinned when each engine is made]}; or
{"case": {...}, "refused": "..."} if DeepSpeed refuses amsgrad. Losses are hexadecimal, so that equal means equal in
every bit. Reads the cases from the file in ZERO_CASES: a JSON list of objects like DEFAULTS. Runs on DeepSpeed's
accelerator, as zero_steps.py does."""

import gc
import json
import os
import pathlib
import signal

import report

report.set_rendezvous()

import deepspeed
import deepspeed.runtime.zenflow.engine_stage3
import torch
import zf_runtime.deepspeed
from deepspeed import utils
from deepspeed.accelerator import get_accelerator
from deepspeed.runtime.zero import stage3, stage_1_and_2
from deepspeed.runtime.zero.offload_states import offload_adam_states, reload_adam_states
from deepspeed.utils.pin_memory import get_active_native_pinned_memory
from model import Block
from zf_runtime.deepspeed import layout

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


class OnCpu:
    """Stands in for torch where a module of DeepSpeed's names CUDA and means the accelerator."""

    def __getattr__(self, name):
        found = getattr(torch, name)
        if name not in ("zeros", "tensor"):
            return found
        return lambda *args, device=None, **more: found(*args, device="cpu" if device == "cuda" else device, **more)


if not torch.cuda.is_available():
    deepspeed.runtime.zenflow.engine_stage3.torch = OnCpu()
    get_accelerator().is_fp16_supported = lambda: True  # PyTorch computes in fp16 on every CPU

DEFAULTS = {"stage": 2, "dtype": "fp32", "clip": 0.0, "groups": 1, "accumulation": 1, "steps": 40, "width": 32,
            "blocks": 2, "kill_at": None, "sometimes": [], "sub_groups": False, "zenflow": False, "overlap": False,
            "select_interval": 1000, "betas": "", "pin_memory": False, "amsgrad": False, "half_states": False,
            "muon": False,
            "needs": "", "lacks": "", "sequential": False, "set_gradient": False, "spikes": {}, "moves": [],
            "mode": "wait", "speculate": False}
PIECES = {"exact": {"chunk_bytes": 4096}}  # so that a small model has several
BETAS = {"A": (0.9, 0.999), "B": (0.8, 0.99), "C": (0.85, 0.995)}
READERS = dict(layout.READERS)


class Model(torch.nn.Module):
    def __init__(self, case):
        super().__init__()
        torch.manual_seed(1)
        self.blocks = torch.nn.Sequential(*(Block(case["width"]) for _ in range(case["blocks"])))
        self.turns = case["sometimes"]  # of three
        if self.turns:
            self.sometimes = torch.nn.Linear(case["width"], case["width"])
        self.turn = 0

    def forward(self, x):
        self.turn += 1
        y = self.blocks(x)
        if self.turn % 3 in self.turns:
            y = y + self.sometimes(x)
        return y


def groups_of(model, case) -> list[dict]:
    params = list(model.parameters())
    if case["betas"]:  # a group for each letter
        return [{"params": params[at::len(case["betas"])], "betas": BETAS[letter]}
                for at, letter in enumerate(case["betas"])]
    if case["groups"] == 1:
        return [{"params": params}]
    flat = [p for p in params if p.dim() == 1]
    other = [p for p in params if p.dim() != 1]
    return [{"params": other, "weight_decay": 0.1}, {"params": flat, "weight_decay": 0.0, "lr": 2e-3}]


def config_of(case) -> dict:
    zero = {"stage": case["stage"], "offload_optimizer": {"device": "cpu", "pin_memory": case["pin_memory"]}}
    if case["sequential"]:
        zero["stage3_allgather_sequential"] = True
    if case["sub_groups"]:
        zero["sub_group_size"] = 5000
    if case["zenflow"]:
        zero["zenflow"] = {"topk_ratio": 0.1, "select_strategy": "step", "select_interval": case["select_interval"],
                           "update_interval": 2, "full_warm_up_rounds": 2, "overlap_step": case["overlap"]}
    if case["muon"]:
        zero["reduce_scatter"] = False
    if case["speculate"]:
        zero["reduce_bucket_size"] = 5000  # so that gradients come before backward ends
        if case["stage"] == 1:
            zero["overlap_comm"] = True  # else none comes in backward
    config = {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": case["accumulation"],
              "gradient_clipping": case["clip"], "zero_optimization": zero, "steps_per_print": 1 << 30,
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.01}}}
    if case["dtype"] != "fp32":
        config[case["dtype"]] = {"enabled": True}
    if case["amsgrad"]:
        config["optimizer"]["params"]["amsgrad"] = True
    if case["muon"]:
        config["optimizer"]["type"] = "Muon"
    if case["half_states"]:
        config["optimizer"]["params"]["fp32_optimizer_states"] = False
    return config


def make_engine(case):
    model = Model(case)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=groups_of(model, case), config=config_of(case),
                                      dist_init_required=True)
    return engine


def loss_of(model, case, step: int, part: int, rank: int) -> torch.Tensor:
    """Returns the loss of a batch that these numbers determine."""
    torch.manual_seed(1000 * (1 + rank) + 10 * step + part)
    like = next(model.parameters())
    x = torch.randn(8, case["width"], dtype=like.dtype).to(like.device)
    return (model(x).float() - x.float().roll(1, 1)).square().mean()


def partitions_of(zero) -> list[torch.Tensor]:
    return getattr(zero, "fp32_partitioned_groups_flat", None) or zero.single_partition_of_fp32_groups


def move(zero, what: str):
    """Gives other memory to what an optimizer has, as programs do that move states away and back."""
    states = [zero.optimizer.state[flat] for flat in partitions_of(zero)]
    if what == "by deepspeed":
        offload_adam_states(zero.optimizer, "cpu")
        reload_adam_states(zero.optimizer, "cpu")
        return
    for tensor in {"masters": partitions_of(zero), "gradients": [flat.grad for flat in partitions_of(zero)]}.get(
            what, [state[name] for state in states for name in ("exp_avg", "exp_avg_sq")]):
        tensor.data = tensor.data * 0.5 if what == "halved moments" else tensor.data.clone()


def train_steps(engine, case, steps) -> list[str]:
    """Trains for the steps of these numbers, and returns the losses. Kills the optimizer process before the step
    case["kill_at"]. Moves what case["moves"] names before each third step."""
    losses = []
    for step in steps:
        arena = arena_of(engine)
        if step == case["kill_at"] and arena is not None:
            os.kill(arena.runtime.stats().worker_pid, signal.SIGKILL)
        for part in range(case["accumulation"]):
            loss = loss_of(engine, case, step, part, engine.global_rank)
            if spike := case["spikes"].get(str(step)):
                loss = loss + float(spike) * list(engine.module.blocks.parameters())[1].sum()
            engine.backward(loss)
            if case["set_gradient"] and engine.module.turn % 3 not in case["sometimes"]:  # the layer got none
                weight = engine.module.sometimes.weight
                utils.safe_set_full_grad(weight, utils.safe_get_full_grad(weight) + 0.01)
            for what in case["moves"] if step % 3 == 2 else []:
                move(engine.optimizer, what)
            engine.step()
            losses.append(loss.item().hex())
    return losses


def pinned_bytes() -> int:
    """Returns how much memory DeepSpeed has pinned: see DS_PIN_MEMORY_BACKEND."""
    pins = get_active_native_pinned_memory()
    return 0 if pins is None else sum(end - begin for begin, end in pins._ranges.items())


def train(case) -> tuple[list[str], list, dict]:
    """Returns the losses; the fp32 master weights and moments, those of the first parameter also as DeepSpeed's own
    functions give them; and facts about the optimizer process and pinned memory."""
    gc.collect()
    before = pinned_bytes()
    engine = make_engine(case)
    facts = {"pinned": pinned_bytes() - before, "begun": 0}
    if case["speculate"] and arena_of(engine) is not None:
        count_begun(arena_of(engine).runtime, facts)
    losses = train_steps(engine, case, range(case["steps"]))
    # (DeepSpeed links only the first group that it steps.)
    arena, zero, first = arena_of(engine), engine.optimizer, list(engine.module.parameters())[0 if case["betas"] else 2]
    if case["overlap"]:  # the last step may be under way
        while not zero.zf_op.zenflow_adam_wait(zero.zf_ctrl.data_ptr(), 60):
            pass
    names = [] if case["overlap"] else ["exp_avg", "exp_avg_sq"]  # ZenFlow's process keeps its moments to itself
    state = []
    if not case["moves"] and not case["muon"]:  # DeepSpeed's functions read the memory of before; Muon has no moments
        state = [utils.safe_get_full_fp32_param(first),
                 *(utils.safe_get_full_optimizer_state(first, name) for name in names)]
    for flat in partitions_of(zero):
        moments = zero.optimizer.state.get(flat, {})
        state += [flat.detach(), *(moments[name] for name in names if name in moments)]
    state = [tensor.clone() for tensor in state]
    facts["parameters"] = sum(param.numel() for param in Model(case).parameters())
    stats = arena.runtime.stats() if arena is not None else None
    engine.destroy()
    facts |= {"restarts": stats.restarts if stats is not None else 0,
              "stepped": stats.completed if stats is not None else 0,
              "left": stats is not None and os.path.exists(f"/proc/{stats.worker_pid}")}
    return losses, state, facts


def count_begun(runtime, facts: dict):
    speculate = runtime.speculate

    def counted(*args, **keywords):
        facts["begun"] += 1
        return speculate(*args, **keywords)

    runtime.speculate = counted


def arena_of(engine):
    """Returns the arena that the native optimizer took the engine's partitions into, if it did."""
    zero = engine.optimizer
    operators = (getattr(zero, "zf_op", None), getattr(getattr(zero, "optimizer", None), "ds_opt_adam", None))
    return next((found for found in (getattr(operator, "arena", None) for operator in operators if operator is not None)
                 if found is not None), None)


def remove(name: str):
    """Takes a function from both of DeepSpeed's optimizers, for good, as if this version did not have it."""
    for owner in (stage_1_and_2.DeepSpeedZeroOptimizer, stage3.DeepSpeedZeroOptimizer_Stage3):
        delattr(owner, name)


def main():
    cases = [DEFAULTS | case for case in json.loads(pathlib.Path(os.environ["ZERO_CASES"]).read_text())]
    for case in cases:
        zf_runtime.deepspeed.uninstall()
        if case["lacks"]:
            remove(case["lacks"])
        try:
            own, own_state, own_facts = train(case)
        except RuntimeError as error:
            if not case["amsgrad"]:
                raise
            report.say(case=case, refused=str(error))  # by DeepSpeed itself
            continue
        zf_runtime.deepspeed.install(case["mode"], speculate=case["speculate"], **PIECES.get(case["mode"], {}))
        layout.READERS.update({stage: names + tuple(case["needs"].split()) for stage, names in READERS.items()})
        native, state, facts = train(case)
        facts["pinned"] = [own_facts["pinned"], facts["pinned"]]
        differ = sum(int((a != b).sum()) for a, b in zip(own_state, state, strict=True))
        report.say(case=case, own=own, native=native, differ=differ, of=sum(map(torch.numel, state)), **facts)
    report.leave_group()


if __name__ == "__main__":
    main()
