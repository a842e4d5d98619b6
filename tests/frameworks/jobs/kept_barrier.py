"""Measures how long ranks wait for each other in each step with keep=, where all come at once. Rank 0 says {"us":
median, "most": of 95 %}. torchrun --standalone --nproc-per-node 2 kept_barrier.py"""

import statistics
import time

import report
import torch
from zf_runtime.optim.overlap.ranks import Ranks

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
ranks, took = Ranks(), []
for step in range(3000):
    began = time.perf_counter_ns()
    ranks.meet(step)
    took.append((time.perf_counter_ns() - began) / 1000)
if report.rank() == 0:
    report.say(us=round(statistics.median(took)), most=round(statistics.quantiles(took, n=20)[-1]))
torch.distributed.destroy_process_group()
