"""Binds itself, and says where it and its threads are then. With `threads`: after torch has started 16 of them."""

import sys

import report
import torch
import zf_runtime

if "threads" in sys.argv[1:]:
    torch.set_num_threads(16)
    leaf = torch.randn(600, 600, requires_grad=True)
    (leaf @ leaf).sum().backward()
    torch.randn(1 << 22).add_(1)
    assert len(report.masks_of("self")) >= 16, report.masks_of("self")

binding = zf_runtime.bind(plan="plan.json" if "plan" in sys.argv[1:] else None)
torch.randn(1 << 22).add_(1)
report.say_ended(torch_threads=torch.get_num_threads(), bound=bool(binding), text=str(binding), moved=binding.moved,
                 cpus=sorted(binding.cpus), errors=binding.errors,
                 regions=[[region.threads, sorted(region.cpus)] for region in (binding.region, binding.backward)])
