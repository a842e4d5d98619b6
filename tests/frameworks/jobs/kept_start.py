"""Measures how long a new trainer takes from its start to the end of its first step, with what is kept, and with a
checkpoint from the page cache and from the disk: kept_start.py PARAMETERS FOLDER ROUNDS [STATE]. Says per trainer
{"way": ..., "seconds": ..., "of imports": ...}, both since the start of its process. FOLDER gets the checkpoint: 12
bytes a parameter, or less with a STATE, with which weights are bf16. ZF_PLAN names the plan."""

import os
import pathlib
import subprocess
import sys
import time

WIDTH = 2048


def train(way: str, parameters: int, path: pathlib.Path, state: str = "fp32"):
    import report
    import torch
    import zf_runtime

    imported = time.time()
    dtype = torch.float32 if state == "fp32" else torch.bfloat16
    model = torch.nn.Sequential(*(torch.nn.utils.skip_init(torch.nn.Linear, WIDTH, WIDTH, bias=False, dtype=dtype)
                                  for _ in range(parameters // WIDTH**2)))
    optimizer = zf_runtime.AdamW(model.parameters(), overlap="exact", state=state,
                                 keep="start" if way in ("kept", "leave") else None)
    if way == "leave":
        for param in model.parameters():
            param.data.normal_(std=0.02)
    elif way == "kept":
        assert optimizer.kept
    else:
        saved = torch.load(path, mmap=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    model(torch.ones(1, WIDTH, dtype=dtype)).square().mean().backward()
    optimizer.step()
    optimizer.synchronize()
    ended, began = time.time(), float(os.environ["BEGAN"])
    if way == "leave" and not path.exists():
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    if way != "leave":
        report.say(way=way, seconds=round(ended - began, 2), **{"of imports": round(imported - began, 2)})
        optimizer.close()
    sys.stdout.flush()
    os._exit(0)


def main():
    parameters, folder, rounds = int(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    path = folder / "checkpoint.pt"
    for _ in range(rounds):
        for way in ("leave", "kept", "page cache", "disk"):
            if way in ("page cache", "disk"):
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
                    if way == "disk":
                        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    else:
                        while file.read(1 << 24):
                            pass
            subprocess.run([sys.executable, __file__, way, str(parameters), str(path), *sys.argv[4:]], check=True,
                           env={**os.environ, "BEGAN": str(time.time())})


if sys.argv[1].isdigit():
    main()
else:
    train(sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3]), *sys.argv[4:])
