"""Trains with a DeepSpeedCPUAdam of its own, without an engine of DeepSpeed. Says {"losses": [hexadecimal]}."""

import report
import torch
from deepspeed.ops.adam import DeepSpeedCPUAdam


def main():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 48), torch.nn.Tanh(), torch.nn.Linear(48, 16))
    optimizer = DeepSpeedCPUAdam(model.parameters(), lr=1e-2, weight_decay=0.01)
    losses = []
    for _ in range(12):
        inputs = torch.randn(8, 16)
        loss = (model(inputs) - inputs.roll(1, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    report.say(losses=losses)


if __name__ == "__main__":
    main()
