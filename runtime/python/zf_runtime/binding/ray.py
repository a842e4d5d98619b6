"""What Ray knows of this process. Ray is asked only if the job has imported it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

# The lists of GPUs that a process may see, by who reads them.
LISTS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def is_worker() -> bool:
    """Returns whether this process is a worker of Ray, which runs tasks or an actor."""
    worker: Any = getattr(sys.modules.get("ray._private.worker"), "global_worker", None)
    return worker is not None and bool(worker.connected) and worker.mode == sys.modules["ray"].WORKER_MODE


def train_rank() -> tuple[int, int] | None:
    """Returns the local rank, and the number of ranks on this node, in a function that Ray Train runs; else None."""
    train = sys.modules.get("ray.train")
    if train is None or not is_worker():
        return None
    try:
        context = train.get_context()
        rank, ranks = context.get_local_rank(), context.get_local_world_size()
    except Exception:  # not in such a function: the type of the error differs between Ray's versions
        return None
    return (int(rank), int(ranks)) if rank is not None and ranks is not None else None


def gpu_lists(ranks: int | None, variables: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Returns the variables with the GPUs of this worker, and what they are: "process" if Ray has given it these alone,
    "nothing" if it has no whole GPU, and nor has any of its kind, "others" if these may have some. Outside a worker
    returns "" and the variables as they are."""
    if not is_worker():
        return "", dict(variables)
    ray = sys.modules["ray"]
    share = ray.get_runtime_context().get_assigned_resources().get("GPU", 0)
    without = {name: value for name, value in variables.items() if name not in LISTS}
    if share >= 1:
        name = next((name for name in LISTS if name in own_variables(variables)), LISTS[0])
        lists = {name: ",".join(map(str, ray.get_gpu_ids()))}
        if "ROCR_VISIBLE_DEVICES" in variables:  # Ray's own, within which HIP counts
            lists = {"ROCR_VISIBLE_DEVICES": variables["ROCR_VISIBLE_DEVICES"]} | lists
        return "process", without | lists
    # All workers of Ray Train have the same.
    return "nothing" if ranks == 1 or train_rank() is not None or not _node_has_gpus() else "others", without


def _node_has_gpus() -> bool:
    """Returns whether Ray has GPUs on this worker's node, also if that cannot be found out."""
    ray = sys.modules["ray"]
    try:
        own = ray.get_runtime_context().get_node_id()
        return any(node["NodeID"] == own and node["Resources"].get("GPU", 0) > 0 for node in ray.nodes())
    except Exception:  # the type of the error differs between Ray's versions
        return True


def own_threads() -> str | None:
    """Returns the OMP_NUM_THREADS that Ray has set in this worker: its CPUs, or 1. None outside, if it came with the
    process, and if it has another value since."""
    value = os.environ.get("OMP_NUM_THREADS", "")
    if not is_worker() or f"OMP_NUM_THREADS={value}" in _environ(os.getpid()):
        return None
    cpus = sys.modules["ray"].get_runtime_context().get_assigned_resources().get("CPU")
    return value if value == str(max(int(cpus or 1), 1)) else None


def own_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that are about this process. A worker of Ray has those that Ray itself was started with, as
    well: they say which rank the process was that started Ray."""
    raylets = (_environ(os.getppid()) or _environ(os.getpid())) if is_worker() else set()
    return {name: value for name, value in variables.items() if f"{name}={value}" not in raylets}


def _environ(pid: int) -> set[str]:
    """Returns the variables that a process was started with, "NAME=value"; none if they cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return {os.fsdecode(entry) for entry in file.read().split(b"\0")}
    except OSError:
        return set()
