"""Writes down what a training job is: a workload file for `zf-tune tune --workload`.

    zf-tune record -- python3 train.py           # the job as it is, also under torchrun and deepspeed

or, in the job:

    with zf_runtime.record.recording("workload.json"):
        train()

It watches backward and the optimizer's steps, in the thread that calls backward first. A few backwards run twice more,
with one thread and with all, into gradients that are thrown away: they tell how parallel training is. The job computes
the same bits as ever. docs/tuning.md says what is measured, and what stays an estimate.
"""

from __future__ import annotations

import contextlib
import os
from typing import Iterator

__all__ = ["DEFAULT_UPDATES", "recording"]

DEFAULT_UPDATES = 20


@contextlib.contextmanager
def recording(path: str | os.PathLike[str] = "workload.json", *, updates: int = DEFAULT_UPDATES) -> Iterator[None]:
    """Records the updates inside, at most `updates` of them, and writes the workload file at the end.

    Needs torch 2.0 or newer. Raises RuntimeError at the end if too few updates were seen, and writes nothing then.
    Writes nothing if the block raises. With several ranks on the node each records, and local rank 0 writes."""
    from ._recorder import Recorder, write

    recorder = Recorder(updates)
    recorder.watch_torch()
    try:
        yield
    finally:
        recorder.stop()
    workload = recorder.workload(ranks=int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    if recorder.job.framework != "native":  # only zf-tune record measures it
        workload["estimates"].append("step_factor")
    if os.environ.get("LOCAL_RANK", "0") == "0":
        write(workload, path)
