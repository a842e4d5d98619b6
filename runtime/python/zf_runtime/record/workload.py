"""Makes a workload of what was seen. Pure. docs/workload.md describes the fields."""

from __future__ import annotations

import collections
import dataclasses
import statistics
from collections.abc import Iterable
from typing import Any

from .timeline import Update

#: fewer undisturbed updates than this tell nothing
LEAST_UPDATES = 3
#: the first of these still allocate, compile and warm caches
WARM_UP = 2

# The estimates of docs/workload.md, for jobs on a GPU that this recorder cannot look into.
LAUNCH_NS = 6000
HOST_BYTES_PER_PARAM = 14
COPY_BYTES_PER_PARAM = 2
COPY_BYTES_PER_S = 12_000_000_000


@dataclasses.dataclass
class Replay:
    """One backward, run again with one thread and with all threads."""

    one_ns: int
    all_ns: int


@dataclasses.dataclass
class Exact:
    """What counts in mode exact besides."""

    first_group_share: float  #: the first share of the parameters that forward waits for
    last_gradient_ns: int  #: from the begin of step() until the step is handed over


@dataclasses.dataclass
class Seen:
    """All that the recorder saw of one rank."""

    name: str
    framework: str
    mode: str
    threads: int  #: OpenMP threads of the job
    updates: list[Update]
    replays: list[Replay]
    cuda: bool = False
    launches: int = 0  #: GPU kernels of an update; 0: not known
    gpu_ns: int = 0  #: time of these kernels
    exact: Exact | None = None  #: of mode exact
    step_seen: bool = True  #: False if the steps run in another process, so that their time was not seen


class TooLittle(RuntimeError):
    """The job did not show enough to make a workload of it. The text says what is missing."""


def usable(updates: list[Update]) -> list[Update]:
    """Returns the updates that count: warm, undisturbed, and with the usual number of backwards."""
    warm = [update for update in updates[WARM_UP:] if update.backwards > 0 and not update.disturbed]
    usual = collections.Counter(update.backwards for update in warm).most_common(1)
    return [update for update in warm if update.backwards == usual[0][0]]


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def parallel_share(replays: list[Replay], threads: int) -> float | None:
    """Returns which part of the time with all threads is parallel work. If t is that time and p the part, one thread
    takes (1 - p) * t + p * t * threads. The shortest times count, because others on the machine only make them longer.
    Returns None if there is only one thread, or if nothing was replayed."""
    if threads < 2 or not replays:
        return None
    one = min(replay.one_ns for replay in replays)
    many = min(replay.all_ns for replay in replays)
    return min(1.0, max(0.0, (one / many - 1) / (threads - 1)))


def workload_of(seen: Seen, ranks: int = 1) -> dict[str, Any]:
    """Returns the document of a workload file. Raises TooLittle."""
    updates = usable(seen.updates)
    # Training is timed without an optimizer beside it, where that can be had, and periods as the job has them.
    alone = [update for update in updates if update.alone] or updates
    usual = [update for update in updates if not update.alone] or updates
    if min(len(alone), len(usual)) < LEAST_UPDATES:
        raise TooLittle(f"{len(seen.updates)} optimizer step{'' if len(seen.updates) == 1 else 's'} seen, "
                        f"{len(updates)} usable: let the job run longer")
    training_ns = _median(update.training_ns for update in alone)
    backward_ns = _median(update.backward_ns / update.backwards for update in alone)
    forward_ns = _median(update.forward_ns / update.backwards for update in alone)
    params = max(update.params for update in updates)
    demand, estimates = (_on_gpu if seen.cuda else _on_cpus)(seen, training_ns, params)
    share = forward_ns / training_ns
    if 0 < share < 1:
        demand["forward_share"] = round(share, 4)
    else:
        estimates.append("training.forward_share")
    if seen.exact is not None:
        demand["first_group_share"] = round(seen.exact.first_group_share, 4)
        demand["last_gradient_ns"] = seen.exact.last_gradient_ns
    if seen.mode == "overlap" and seen.framework != "native":  # it was timed beside the step
        estimates += [name for name in ("training.launch_ns", "training.parallel_ns")
                      if name not in estimates and demand.get(name.split(".")[1])]
    recorded = {"updates": len(updates), "threads": seen.threads,
                "period_ns": round(_median(update.period_ns for update in usual)), "training_ns": round(training_ns),
                "forward_ns": round(forward_ns), "backward_ns": round(backward_ns)}
    if seen.step_seen:
        recorded["step_ns"] = round(_median(update.step_ns for update in updates if update.step_ns > 0))
    if seen.replays:
        recorded["backward_one_thread_ns"] = min(replay.one_ns for replay in seen.replays)
        recorded["backward_all_threads_ns"] = min(replay.all_ns for replay in seen.replays)
    return {"schema": "zf-workload/2", "name": seen.name, "params": params * ranks, "ranks": ranks,
            "update_interval": updates[0].backwards, "mode": seen.mode, "framework": seen.framework,
            "training": demand, "estimates": estimates, "recorded": recorded,
            "source": f"recorded by zf-tune: medians of {len(updates)} updates"}


def _on_cpus(seen: Seen, training_ns: float, params: int) -> tuple[dict[str, Any], list[str]]:
    """Returns the demand of a job without a GPU, and the names of its estimates. Such a job copies nothing and launches
    nothing: its serial part counts as one launch. Its work on gradients is a part of its computing."""
    share = parallel_share(seen.replays, seen.threads)
    estimates = [] if share is not None else ["training.launch_ns", "training.parallel_ns"]
    if share is None:
        share = 1.0 if seen.threads > 1 else 0.0
    demand = {"launches": 1, "launch_ns": round((1 - share) * training_ns), "gpu_ns": 0,
              "parallel_ns": round(share * training_ns * seen.threads), "host_bytes": 0, "gradient_bytes": 0,
              "parameter_bytes": 0, "copy_bytes_per_s": 0}
    return demand, estimates


def _on_gpu(seen: Seen, training_ns: float, params: int) -> tuple[dict[str, Any], list[str]]:
    estimates = ["training.launch_ns", "training.host_bytes", "training.gradient_bytes", "training.parameter_bytes",
                 "training.copy_bytes_per_s"]
    if seen.launches == 0:
        estimates += ["training.launches", "training.gpu_ns"]
    backwards = usable(seen.updates)[0].backwards
    launches = seen.launches / backwards if seen.launches else training_ns / LAUNCH_NS / 2
    gpu_ns = seen.gpu_ns / backwards if seen.launches else training_ns
    demand = {"launches": max(1, round(launches)), "launch_ns": LAUNCH_NS, "gpu_ns": round(gpu_ns), "parallel_ns": 0,
              "host_bytes": HOST_BYTES_PER_PARAM * params, "gradient_bytes": COPY_BYTES_PER_PARAM * params,
              "parameter_bytes": COPY_BYTES_PER_PARAM * params, "copy_bytes_per_s": COPY_BYTES_PER_S}
    return demand, estimates
