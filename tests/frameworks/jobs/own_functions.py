"""Asks the installed DeepSpeed itself which CPUs it would give to whom, on machines that are not here.

Reads a JSON list of cases from standard input and writes a JSON list of answers. A case has the words of a `deepspeed`
command, the text of a configuration, and the machine: "cores", and "nodes", a list of CPUs per NUMA node. An answer has
for each rank the thread count and the memory option of the launcher, its mask, and the CPUs of the two sides. Only what
these functions read of the machine is imitated: numactl's output, psutil's masks, and the gathering of all masks.
"""

import contextlib
import json
import re
import sys
import types
from typing import ClassVar
from unittest import mock

import hjson
import torch
from deepspeed.launcher import runner
from deepspeed.runtime.config_utils import dict_raise_error_on_duplicate_keys
from deepspeed.runtime.superoffload import superoffload_utils
from deepspeed.runtime.zenflow import zenflow_utils
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
from deepspeed.utils import numa

OPTIMIZER_PID = 4242


class ImitatedProcess:
    """Stands for psutil's process. Only its mask is asked. The training process has the pid None."""

    masks: ClassVar[dict] = {}

    def __init__(self, pid=None):
        self.pid = pid

    def cpu_affinity(self, cpus=None):
        if cpus is None:
            return sorted(self.masks[self.pid])
        self.masks[self.pid] = set(cpus)


def hardware(nodes: list) -> bytes:
    """Returns what `numactl --hardware` prints of the CPUs."""
    lines = [f"available: {len(nodes)} nodes (0-{len(nodes) - 1})"]
    lines += [" ".join([f"node {number} cpus:", *map(str, cpus)]) for number, cpus in enumerate(nodes)]
    return "\n".join(lines).encode()


def parse_cpus(text: str) -> list:
    return [cpu for part in text.split(",") for low, high in [(part.split("-") * 2)[:2]]
            for cpu in range(int(low), int(high) + 1)]


def imitated(module, cores: int):
    """Gives a module a psutil with the masks and the count of cores of a case."""
    psutil = types.SimpleNamespace(**vars(module.psutil))
    psutil.Process = ImitatedProcess
    psutil.cpu_count = lambda logical=True: cores
    return mock.patch.object(module, "psutil", psutil)


def by_launcher(words: list, case: dict) -> list:
    arguments = runner.parse_args([*words[1:], "train.py"])
    assert words[0] == "deepspeed" and arguments.bind_cores_to_rank
    with contextlib.ExitStack() as stack:
        stack.enter_context(imitated(numa, case["cores"]))
        stack.enter_context(mock.patch.object(numa, "check_for_numactl_pkg", lambda: True))
        stack.enter_context(mock.patch.object(numa.subprocess, "check_output", lambda command: hardware(case["nodes"])))
        return [numa.get_numactl_cmd(arguments.bind_core_list, arguments.num_gpus, rank)
                for rank in range(arguments.num_gpus)]


def by_zenflow(masks: list, fraction: float, cores: int):
    def all_gather(outputs, own):
        for output, mask in zip(outputs, masks):
            output.copy_(torch.tensor(mask))  # fails for another length, as a real one does

    for rank, mask in enumerate(masks):
        ImitatedProcess.masks = {None: set(mask)}
        dist = types.SimpleNamespace(get_rank=lambda rank=rank: rank, get_world_size=lambda: len(masks),
                                     all_gather=all_gather)
        with imitated(zenflow_utils, cores), mock.patch.object(zenflow_utils, "dist", dist):
            optimizer, training = zenflow_utils._compute_zf_pt_affinity(
                types.SimpleNamespace(pt_reserved_cores_perc=fraction))
        yield training, optimizer


def by_superoffload(masks: list, fraction: float, cores: int):
    for mask in masks:
        ImitatedProcess.masks = {None: set(mask), OPTIMIZER_PID: set(mask)}
        its = types.SimpleNamespace(cpuadam_process=types.SimpleNamespace(pid=OPTIMIZER_PID))
        with imitated(superoffload_utils, cores):
            superoffload_utils.SuperOffloadCPUOptimizer._set_cpu_affinity(its, fraction)
        yield sorted(ImitatedProcess.masks[None]), sorted(ImitatedProcess.masks[OPTIMIZER_PID])


def sides_of(masks: list, config: str, cores: int) -> list:
    read = hjson.loads(config, object_pairs_hook=dict_raise_error_on_duplicate_keys)
    zero = DeepSpeedZeroConfig(**read["zero_optimization"])
    if zero.zenflow is not None and zero.zenflow.overlap_step:
        return list(by_zenflow(masks, zero.zenflow.pt_reserved_cores_perc, cores))
    if zero.offload_optimizer.super_offload:
        return list(by_superoffload(masks, zero.offload_optimizer.cpuadam_cores_perc, cores))
    return [(mask, mask) for mask in masks]


def answer(case: dict) -> list:
    launched = by_launcher(case["command"], case)
    masks = [parse_cpus(words[words.index("-C") + 1]) for _, words in launched]
    sides = sides_of(masks, case["config"], case["cores"])
    return [{"threads": threads, "memory": re.findall(r"-[mp] \S+", " ".join(words)), "mask": mask,
             "training": training, "optimizer": optimizer}
            for (threads, words), mask, (training, optimizer) in zip(launched, masks, sides)]


json.dump([answer(case) for case in json.load(sys.stdin)], sys.stdout)
