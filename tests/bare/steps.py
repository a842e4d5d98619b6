"""What the tests of files run in their environments."""

# A step of the optimizer process. It needs no NumPy. Prints the library's version.
STEP = """import zf_runtime
with zf_runtime.Runtime(groups=[zf_runtime.Group(5)]) as runtime:
    runtime.wait(runtime.submit(zf_runtime.adam_scalars(1)))
print(zf_runtime.library_version())
"""

# Steps in place, and torch's beside them. Prints the largest difference.
ADAMW = """import torch, zf_runtime
torch.manual_seed(0)
ours = torch.nn.Parameter(torch.randn(1000))
theirs = torch.nn.Parameter(ours.detach().clone())
one, other = zf_runtime.AdamW([ours]), torch.optim.AdamW([theirs])
for _ in range(10):
    ours.grad = torch.randn(1000)
    theirs.grad = ours.grad.clone()
    one.step()
    other.step()
print(float((ours - theirs).abs().max()))
"""
