"""A small model with data, made the same way every time, and a training loop."""

import torch


def make_model(dtype=torch.float32):
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(10, 33), torch.nn.Tanh(), torch.nn.Linear(33, 7)).to(dtype)


def make_data():
    steps, generator = 64, torch.Generator().manual_seed(5)
    inputs = torch.randn(steps, 20, 10, generator=generator)
    return inputs, torch.tanh(inputs[..., :7] * 2 + 0.3 * torch.randn(steps, 20, 7, generator=generator))


def groups_of(model):
    """Returns param_groups as programs make them: no decay on biases, another lr for the last layer."""
    return [{"params": [model[0].weight], "weight_decay": 0.1},
            {"params": [model[0].bias, model[2].bias], "weight_decay": 0.0, "betas": (0.8, 0.95)},
            {"params": [model[2].weight], "lr": 3e-3, "eps": 1e-6}]


def train(model, optimizer, steps, scheduler=None, first=0):
    """Trains and returns the losses, one for each step."""
    inputs, targets = make_data()
    losses = []
    for step in range(first, first + steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs[step].to(model[0].weight.dtype)).float(), targets[step])
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        losses.append(loss.item())
    return losses


def parameters_of(model):
    return torch.cat([param.detach().float().reshape(-1) for param in model.parameters()])
