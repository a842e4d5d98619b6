"""What the jobs have in common: they say on stdout how long each step took, and where their threads may run.

Each fact is one line, `JOB {json}`, written at once, so that the lines of several ranks do not mix:
  {"rank": 0, "step": 3, "ms": 12.5}                  a step, without the steps before it
  {"rank": 0, "step": 3, "ms": 12.5, "loss": "0x1p+1"}   the same of a job that says its losses
  {"rank": 0, "step": 3, "ms": 12.5, "optimizer_ms": 4.5}  the same of a job that times its optimizer's step, too
  {"rank": 0, "ended": {"arguments": [...], "omp": "2", "binding": "...", "threads": {"TID": "0-1"},
                        "torch_threads": 2, "children": [{"pid": 7, "command": "...", "threads": {...}}]}}
"""

import atexit
import json
import os
import pathlib
import sys
import time


def rank() -> int:
    """Returns the rank that the launcher gave this process, else 0."""
    return int(os.environ.get("RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0")))


def world_size() -> int:
    return int(os.environ.get("WORLD_SIZE", os.environ.get("OMPI_COMM_WORLD_SIZE", "1")))


def set_rendezvous():
    """Sets what torch.distributed looks for, where the launcher did not: Open MPI's, and no launcher at all."""
    for name, value in (("RANK", rank()), ("WORLD_SIZE", world_size()), ("LOCAL_RANK", rank()),
                        ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500")):
        os.environ.setdefault(name, str(value))


def say(**facts):
    sys.stdout.flush()
    os.write(1, f"JOB {json.dumps({'rank': rank()} | facts)}\n".encode())


_said_with_step: dict[str, float] = {}  # of the step under way


def timed_optimizer(step):
    """Calls the step of an optimizer. run_steps() says how long that took."""
    started = time.perf_counter_ns()
    step()
    _said_with_step["optimizer_ms"] = (time.perf_counter_ns() - started) / 1e6


def run_steps(steps: int, step):
    """Runs step() that many times, and says how long each took, and the loss if step() returns one."""
    for index in range(steps):
        _said_with_step.clear()
        started = time.perf_counter_ns()
        loss = step()
        said = {} if loss is None else {"loss": loss.item().hex()}
        say(step=index, ms=(time.perf_counter_ns() - started) / 1e6, **said, **_said_with_step)


def masks_of(pid: int | str) -> dict[str, str]:
    """Returns the CPUs that each thread of a process may run on; nothing for a process that has ended."""
    masks = {}
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
        try:
            status = (task / "status").read_text()
        except OSError:
            continue
        masks[task.name] = _field(status, "Cpus_allowed_list")
    return masks


def children_of(pid: int) -> list[dict]:
    """Returns the children of a process, and theirs."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "status").read_text()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if _field(status, "PPid") == str(pid):
            child = int(folder.name)
            found += [{"pid": child, "command": command, "threads": masks_of(child)}, *children_of(child)]
    return found


def facts_of(binding) -> dict:
    """Returns what zf_runtime.bind() did."""
    return {"bound": bool(binding), "source": binding.source, "plan": binding.plan, "cpus": sorted(binding.cpus),
            "moved": binding.moved, "errors": binding.errors, "text": str(binding)}


def say_ended(own_rank: int | None = None, **more):
    """Says where all threads of this process, and of its children, may run now."""
    where = {"arguments": sys.argv[1:], "omp": os.environ.get("OMP_NUM_THREADS"),
             "binding": os.environ.get("ZF_BINDING"), "main": str(os.getpid()), "threads": masks_of("self"),
             "children": children_of(os.getpid())}
    say(rank=rank() if own_rank is None else own_rank, ended=where | more)


def leave_group():
    """Ends a process of torch.distributed: destroys its groups, calls what atexit knows, and never returns.

    Python is not finalized. A thread of gloo drops an operation's tensors some time after its wait() has returned, and
    in a Python that is being finalized this aborts the process: "terminate called without an active exception", and
    SIGABRT. See docs/deepspeed.md, "Trouble"."""
    import torch.distributed
    torch.distributed.destroy_process_group()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _field(status: str, name: str) -> str:
    return next(line.split(":", 1)[1].strip() for line in status.splitlines() if line.startswith(f"{name}:"))
