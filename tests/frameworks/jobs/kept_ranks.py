"""The loop of docs/recovery.md in several ranks: kept_ranks.py WRAP OVERLAP OUTPUT [RANK:SECONDS]. WRAP: ddp, or fsdp
for FSDP2. In its first life that rank is killed some seconds after its first step. Rank 0 writes a digest of the
results to OUTPUT."""

import hashlib
import os
import pathlib
import pickle
import re
import subprocess
import sys
import types
import warnings

import torch
import zf_runtime
from torch.distributed.fsdp import fully_shard

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/recovery.md"
LOOP = re.search(r"```python\n(model = .*?)```", PAGE.read_text(), re.DOTALL)[1]
STEPS = 20
wrap, overlap, output, *dies = sys.argv[1:]
killers: list[subprocess.Popen] = []


def make_model():
    model = torch.nn.Sequential(torch.nn.Linear(31, 67), torch.nn.Dropout(0.1), torch.nn.Linear(67, 5))
    if wrap == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    mesh = torch.distributed.init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for module in (model[0], model[2], model):
        fully_shard(module, mesh=mesh)
    return model


def make_optimizer(params, **given):
    optimizer = zf_runtime.AdamW(params, **given | {"overlap": overlap, "lr": 0.01, "clip_grad_norm": 0.5})
    print(f"rank {rank} begins behind step {optimizer.kept.step if optimizer.kept else 0}", flush=True)
    torch.manual_seed(rank)
    return optimizer


def batch_of(step):
    if step > 0 and life == 0 and dies and dies[0].split(":")[0] == str(rank) and not killers:
        killers.append(subprocess.Popen(["sh", "-c", f"sleep {dies[0].split(':')[1]}; kill -KILL {os.getpid()}"]))
    if step == STEPS - 1 and killers:
        killers[0].wait()
    return torch.randn(3, 31, generator=torch.Generator().manual_seed(2 * step + rank))


warnings.simplefilter("ignore")
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank, life = torch.distributed.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
torch.manual_seed(1 + life)  # other first values, which must not count
names = {"torch": torch, "pickle": pickle, "zf_runtime": types.SimpleNamespace(AdamW=make_optimizer),
         "Model": make_model, "batch_of": batch_of, "steps": STEPS}
exec(compile(LOOP, str(PAGE), "exec"), names)
whole = [param.full_tensor() if wrap == "fsdp" else param for param in names["model"].parameters()]
if rank == 0:
    digest = hashlib.sha256(b"".join(param.detach().numpy().tobytes() for param in whole))
    pathlib.Path(output).write_text(digest.hexdigest())
torch.distributed.destroy_process_group()  # else a thread of gloo may abort at the exit, and all begin anew
