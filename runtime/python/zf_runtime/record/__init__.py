"""Writes down what a training job is: a workload file for `zf-tune tune --workload`.

    zf-tune record -- python3 train.py           # the job as it is, also under torchrun and deepspeed

or, in the job:

    with zf_runtime.record.recording("workload.json"):
        train()

It watches backward and the optimizer's steps, in the thread that calls backward first. A few backwards run twice more,
with one thread and with all, into gradients that are thrown away: they tell how parallel training is. The job computes
the same bits as ever. docs/workload.md says what is measured, and what stays an estimate.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

__all__ = ["DEFAULT_UPDATES", "recording"]

DEFAULT_UPDATES = 20


@contextlib.contextmanager
def recording(path: str | os.PathLike[str] = "workload.json", *, updates: int = DEFAULT_UPDATES) -> Iterator[None]:
    """Records the updates inside, at most `updates` of them, and writes the workload file at the end.

    Needs torch 2.0 or newer. With several ranks on the node each records, and local rank 0 writes: torchrun, DeepSpeed,
    mpirun and srun say in the environment who it is, and how many there are. Raises RuntimeError at once if the
    launcher gives a rank and no number of ranks, OSError at once if no file can be put at `path`, and RuntimeError at
    the end if too few updates were seen. Writes nothing then, and nothing if the block raises."""
    # zf-tune record has this package alone, and not this function.
    from ..native.environment import local_rank_and_count
    from ..native.whole_file import need_target, write_whole
    from .recorder import Recorder, text_of

    rank, ranks = local_rank_and_count()
    if rank == 0:
        need_target(path)  # refused before the work
    recorder = Recorder(updates)
    recorder.watch_torch()
    try:
        yield
    finally:
        recorder.stop()
    workload = recorder.workload(ranks)
    if recorder.job.framework != "native":  # only zf-tune record measures it
        workload["estimates"].append("step_factor")
    if rank == 0:
        write_whole(path, text_of(workload))
