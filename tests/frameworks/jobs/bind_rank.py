"""Binds itself, and says where it and its threads are then. With `threads`: after torch has started 16 of them; without
it needs no package, so it is quick."""

import sys

import report
import zf_runtime


def start_threads():
    import torch

    torch.set_num_threads(16)
    leaf = torch.randn(600, 600, requires_grad=True)
    (leaf @ leaf).sum().backward()
    torch.randn(1 << 22).add_(1)
    assert len(report.masks_of("self")) >= 16, report.masks_of("self")


def use_threads() -> dict:
    import torch

    torch.randn(1 << 22).add_(1)
    return {"torch_threads": torch.get_num_threads(), "regions": [
        [region.threads, sorted(region.cpus)] for region in (binding.region, binding.backward)]}


has_threads = "threads" in sys.argv[1:]
if has_threads:
    start_threads()
binding = zf_runtime.bind(plan="plan.json" if "plan" in sys.argv[1:] else None)
report.say_ended(**report.facts_of(binding), **(use_threads() if has_threads else {}))
