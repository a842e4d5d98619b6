"""What Ray knows of this process. Ray is asked only if the job has imported it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple


class GpuShare(NamedTuple):
    """The GPUs that Ray has given to this worker."""

    ids: list[str]
    is_whole: bool  # False: a part of one


def is_worker() -> bool:
    """Returns whether this process is a worker of Ray, which runs tasks or an actor."""
    worker = _worker()
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


def gpus() -> GpuShare | None:
    """Returns the GPUs of this worker, named as in CUDA_VISIBLE_DEVICES; None outside a worker."""
    if not is_worker():
        return None
    ray = sys.modules["ray"]
    share = ray.get_runtime_context().get_assigned_resources().get("GPU", 0)
    return GpuShare([str(gpu) for gpu in ray.get_gpu_ids()], share >= 1)


def node_has_gpus() -> bool:
    """Returns whether Ray has GPUs on this worker's node, also if that cannot be found out."""
    ray = sys.modules["ray"]
    try:
        own = ray.get_runtime_context().get_node_id()
        return any(node["NodeID"] == own and node["Resources"].get("GPU", 0) > 0 for node in ray.nodes())
    except Exception:  # the type of the error differs between Ray's versions
        return True


def default_threads() -> str:
    """Returns the OMP_NUM_THREADS that Ray sets for a worker without one: its CPUs, or 1."""
    cpus = sys.modules["ray"].get_runtime_context().get_assigned_resources().get("CPU")
    return str(max(int(cpus or 1), 1))


def without_inherited(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of this worker without those that Ray itself was started with: they say which rank
    the process was that started Ray."""
    raylets = parents_variables() or variables_at_start()
    return {name: value for name, value in variables.items() if f"{name}={value}" not in raylets}


def parents_variables() -> set[str]:
    """Returns the variables that the parent of this process was started with, "NAME=value"; none if they cannot be
    read."""
    return _environ(os.getppid())


def variables_at_start() -> set[str]:
    """Returns the same of this process."""
    return _environ(os.getpid())


def _environ(pid: int) -> set[str]:
    """Returns the variables that a process was started with; none if they cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return {os.fsdecode(entry) for entry in file.read().split(b"\0")}
    except OSError:
        return set()


def _worker() -> Any:
    private = sys.modules.get("ray._private.worker")
    return None if private is None else getattr(private, "global_worker", None)
