"""A job of several ranks that goes on after a death: kept_ranks.py WRAP OVERLAP OUTPUT [RANK:SECONDS]. WRAP: ddp, or
fsdp for FSDP2. In its first life that rank is killed some seconds after its first step. Rank 0 writes a digest of the
results to OUTPUT."""

import hashlib
import os
import pathlib
import subprocess
import sys
import warnings

import torch
import zf_runtime
from torch.distributed.fsdp import fully_shard

STEPS = 20
wrap, overlap, output, *dies = sys.argv[1:]
warnings.simplefilter("ignore")
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank, life = torch.distributed.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
torch.manual_seed(1 + life)  # other first values, which must not count
model = net = torch.nn.Sequential(torch.nn.Linear(31, 67), torch.nn.Tanh(), torch.nn.Linear(67, 5))
if wrap == "ddp":
    net = torch.nn.parallel.DistributedDataParallel(model)
else:
    mesh = torch.distributed.init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for module in (model[0], model[2], model):
        fully_shard(module, mesh=mesh)
killer = None
with zf_runtime.AdamW(model.parameters(), lr=0.01, overlap=overlap, keep="ranks") as optimizer:
    step = int(optimizer.kept.note) if optimizer.kept else 0
    print(f"rank {rank} begins behind step {step}", flush=True)
    while step < STEPS:
        batch = torch.randn(3, 31, generator=torch.Generator().manual_seed(2 * step + rank))
        net(batch).square().mean().backward()
        step += 1
        optimizer.note = b"%d" % step
        optimizer.step(max_norm=0.5)
        optimizer.zero_grad()
        if killer is None and life == 0 and dies and dies[0].split(":")[0] == str(rank):
            killer = subprocess.Popen(["sh", "-c", f"sleep {dies[0].split(':')[1]}; kill -KILL {os.getpid()}"])
    if killer is not None:
        killer.wait()
    whole = [param.full_tensor() if wrap == "fsdp" else param for param in model.parameters()]
    torch.distributed.barrier()  # no rank dies any more
if rank == 0:
    digest = hashlib.sha256(b"".join(param.detach().numpy().tobytes() for param in whole))
    pathlib.Path(output).write_text(digest.hexdigest())
