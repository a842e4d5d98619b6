"""A job of ZeRO-Offload on the CPU: learns one batch. Prints the first loss and the last one."""

import os

# The process is alone, and meets itself in a file: not every build of torch has libuv.
os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")

import deepspeed
import torch

deepspeed.init_distributed("gloo", init_method=f"file://{os.getcwd()}/rendezvous", rank=0, world_size=1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64))
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
    "train_micro_batch_size_per_gpu": 16, "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}},
    "bf16": {"enabled": True}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}})
inputs, targets = torch.randn(2, 16, 64, dtype=torch.bfloat16)
losses = []
for _ in range(50):
    loss = (engine(inputs) - targets).float().pow(2).mean()
    engine.backward(loss)
    engine.step()
    losses.append(loss.item())
print(f"torch {torch.__version__}, DeepSpeed {deepspeed.__version__}")
print(f"first loss {losses[0]:.4f}\nlast loss {losses[-1]:.4f}")
