"""Trains a model of `--blocks` blocks in one of the ways that zf-tune fit knows, and says when each phase begins:
{"phase": "ready" | "start" | "steady" | "checkpoint" | "resume" | "end", "s": of time.monotonic()}. memory_peaks.py
looks at the memory meanwhile.

With --resume the checkpoint in --folder is loaded after the start; without, one is written there at the end.
--stop: ends at "ready", before the model is made.
--frozen: so many blocks are not trained. --lora: none is, but two matrices of this rank beside each.
--sums: DeepSpeed's grad_accum_dtype. --mode, --speculate: of the native optimizer under DeepSpeed."""

import argparse
import importlib
import pathlib
import time

import report

report.set_rendezvous()

import torch
from model import Block

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
WAYS = ("torch", "in-place", "exact", "late", "zero1", "zero2", "zero3", "native-zero1", "native-zero2", "native-zero3",
        "fsdp2", "in-place-fsdp2")
STEPS = 3


def options_of_job() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=WAYS)
    for name, value in {"width": 2048, "blocks": 6, "frozen": 0, "lora": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--sums", choices=DTYPES)
    parser.add_argument("--mode", default="wait")
    parser.add_argument("--speculate", action="store_true")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--state", default="fp32")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--stop", action="store_true")
    parser.add_argument("--local_rank", type=int)
    return parser.parse_args()


def phase(name: str) -> None:
    """Says it when all ranks are there, so that no rank is in another phase."""
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
    report.say(phase=name, s=time.monotonic())


class Adapted(torch.nn.Module):
    """A frozen block beside two small matrices that are trained, as LoRA does it."""

    def __init__(self, width: int, rank: int):
        super().__init__()
        self.block = Block(width).requires_grad_(False)
        self.a = torch.nn.Linear(width, rank, bias=False)
        self.b = torch.nn.Linear(rank, width, bias=False)

    def forward(self, x):
        return self.block(x) + self.b(self.a(x))


def make_model(options) -> torch.nn.Module:
    """Makes the model in its own type: no copy in another one is ever there."""
    torch.manual_seed(1)
    torch.set_default_dtype(DTYPES[options.dtype])
    model = torch.nn.Sequential(*(Adapted(options.width, options.lora) if options.lora else Block(options.width)
                                  for _ in range(options.blocks)))
    model[:options.frozen].requires_grad_(False)
    torch.set_default_dtype(torch.float32)
    return model


def trained_parameters(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def loss_of(model, options) -> torch.Tensor:
    x = torch.randn(8, options.width, dtype=DTYPES[options.dtype])
    return (model(x).float() - 1).square().mean()


class Plain:
    """PyTorch with an optimizer of torch's or ours. Checkpoints are one file, as of torch.save()."""

    def __init__(self, options):
        import zf_runtime

        self.options = options
        self.model = make_model(options)
        params = trained_parameters(self.model)
        if options.way == "torch":
            self.optimizer = torch.optim.AdamW(params, lr=1e-3, fused=True)
        else:
            overlap = "off" if options.way == "in-place" else options.way
            self.optimizer = zf_runtime.AdamW(params, lr=1e-3, state=options.state, overlap=overlap,
                                               runtime_options={})
        self.trained = self.model
        if report.world_size() > 1:
            self.trained = torch.nn.parallel.DistributedDataParallel(self.model)

    def step(self):
        self.optimizer.zero_grad()
        loss_of(self.trained, self.options).backward()
        self.optimizer.step()

    def save(self, folder):
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, folder / "last.pt")

    def load(self, folder):
        saved = torch.load(folder / "last.pt")
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])

    def end(self):
        if hasattr(self.optimizer, "close"):
            self.optimizer.close()


class Zero:
    """DeepSpeed, with its own CPU Adam or with the native optimizer."""

    def __init__(self, options):
        import deepspeed

        stage = int(options.way[-1])
        config = {"train_micro_batch_size_per_gpu": 8, "steps_per_print": 1 << 30, "gradient_clipping": 1.0,
                  "zero_optimization": {"stage": stage, "offload_optimizer": {"device": "cpu", "pin_memory": False}},
                  "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}
        if stage == 3:
            config["zero_optimization"]["offload_param"] = {"device": "none"}
        if options.dtype != "fp32":
            config[options.dtype] = {"enabled": True}
        if options.sums:
            config["data_types"] = {"grad_accum_dtype": options.sums}
        if options.way.startswith("native"):
            import zf_runtime.deepspeed

            zf_runtime.deepspeed.install(options.mode, state=options.state, speculate=options.speculate)
        self.options = options
        model = make_model(options)
        self.engine, *_ = deepspeed.initialize(model=model, model_parameters=trained_parameters(model),
                                               config=config, dist_init_required=False)

    def step(self):
        self.engine.backward(loss_of(self.engine, self.options))
        self.engine.step()

    def save(self, folder):
        self.engine.save_checkpoint(folder)

    def load(self, folder):
        self.engine.load_checkpoint(folder)

    def end(self):
        self.engine.destroy()


class Fsdp2:
    """FSDP2 with CPU offload, and checkpoints of torch.distributed.checkpoint."""

    def __init__(self, options):
        from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

        self.options = options
        self.trained = self.model = make_model(options)
        policy = CPUOffloadPolicy(pin_memory=False)
        for block in self.model:
            fully_shard(block, offload_policy=policy)
        fully_shard(self.model, offload_policy=policy)
        if options.way == "fsdp2":
            self.optimizer = torch.optim.AdamW(trained_parameters(self.model), lr=1e-3, fused=True)
        else:
            import zf_runtime

            self.optimizer = zf_runtime.AdamW(trained_parameters(self.model), lr=1e-3, state=options.state)

    step = Plain.step

    def state(self):
        from torch.distributed.checkpoint.state_dict import get_state_dict

        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def save(self, folder):
        import torch.distributed.checkpoint as dcp

        dcp.save(self.state(), checkpoint_id=folder / "dcp")

    def load(self, folder):
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import set_state_dict

        state = self.state()
        dcp.load(state, checkpoint_id=folder / "dcp")
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])

    def end(self):
        pass


def job_class(way: str) -> type:
    return Zero if "zero" in way else Fsdp2 if "fsdp" in way else Plain


def prepare(options) -> None:
    """Imports and starts all that a job has before its model: also what a first step imports, compiles or starts."""
    if "zero" in options.way:
        import deepspeed

        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        deepspeed.init_distributed("gloo")
        if not options.way.startswith("native"):
            importlib.import_module("deepspeed.ops.op_builder").CPUAdamBuilder().load()
    elif "fsdp" in options.way:
        for module in ("torch.distributed.checkpoint.state_dict", "torch.distributed.fsdp"):
            importlib.import_module(module)
        torch.distributed.init_process_group("gloo")
    elif report.world_size() > 1:
        torch.distributed.init_process_group("gloo")
    if options.way not in ("torch", "fsdp2") and not options.way.startswith("zero"):
        importlib.import_module("zf_runtime")
    layer = torch.nn.Linear(64, 64)
    layer(torch.randn(8, 64)).sum().backward()
    torch.optim.AdamW(layer.parameters(), lr=1e-3, fused=True).step()


def main():
    options = options_of_job()
    prepare(options)
    phase("ready")
    if options.stop:
        time.sleep(0.3)
        return
    phase("start")
    job = job_class(options.way)(options)
    if options.resume:
        phase("resume")
        job.load(options.folder)
        for _ in range(STEPS):
            job.step()
    else:
        phase("steady")
        for _ in range(STEPS):
            job.step()
        if options.folder is not None:
            phase("checkpoint")
            job.save(options.folder)
    phase("end")
    job.end()


if __name__ == "__main__":
    main()
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        report.leave_group()
