"""A job of several ranks that goes on after a death: kept_ranks.py OUTPUT [RANK:STEP]. The first time, that rank dies
behind that step. Rank 0 writes a digest of the results to OUTPUT."""

import hashlib
import os
import pathlib
import signal
import sys
import warnings

import torch
import zf_runtime

STEPS = 20
warnings.simplefilter("ignore")
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
torch.manual_seed(1 + int(os.environ["TORCHELASTIC_RESTART_COUNT"]))  # other first values, which must not count
model = torch.nn.Sequential(torch.nn.Linear(31, 67), torch.nn.Tanh(), torch.nn.Linear(67, 5))
net = torch.nn.parallel.DistributedDataParallel(model)
with zf_runtime.AdamW(model.parameters(), lr=0.01, overlap="exact", keep="ranks") as optimizer:
    step = int(optimizer.kept.note) if optimizer.kept else 0
    print(f"rank {rank} begins behind step {step}", flush=True)
    while step < STEPS:
        batch = torch.randn(3, 31, generator=torch.Generator().manual_seed(2 * step + rank))
        net(batch).square().mean().backward()
        step += 1
        optimizer.note = b"%d" % step
        optimizer.step()
        optimizer.zero_grad()
        if sys.argv[2:] == [f"{rank}:{step}"] and optimizer.kept is None:
            os.kill(os.getpid(), signal.SIGKILL)
    optimizer.synchronize()
    digest = hashlib.sha256(b"".join(param.detach().numpy().tobytes() for param in model.parameters()))
    torch.distributed.barrier()  # no rank dies any more
if rank == 0:
    pathlib.Path(sys.argv[1]).write_text(digest.hexdigest())
