"""Refuses a torch that is too old, before anything is imported that needs a newer one."""

import torch

# With 2.3.1, the only cases that failed were those of torch.compile and of torch's own fused=True on the CPU, which is
# new in 2.4.
if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 4):
    raise ImportError(f"zf_runtime.AdamW and Adam need torch 2.4 or newer, and this is torch {torch.__version__}")
