"""A script of accelerate's as its pages show them: prepare(), accelerator.backward(), optimizer.step(). `accelerate
launch` alone says that DeepSpeed trains.

Says per step {"loss": hexadecimal}, and where it ended."""

import report

report.set_rendezvous()

import torch
from accelerate import Accelerator
from model import arguments, loss_of, make_model
from torch.utils.data import DataLoader


def without_shm_comm():
    """Lets DeepSpeed not compile its collective for several ranks on one node. Only one rank runs here."""
    import deepspeed
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def main():
    options = arguments(width=64)
    without_shm_comm()
    accelerator = Accelerator()
    model = make_model(options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(torch.randn(options.steps * 8, options.width), batch_size=8)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        loss = loss_of(model, batch.to(next(model.parameters()).dtype))
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        report.say(loss=loss.item().hex())
    zero = getattr(model, "optimizer", None)
    report.say_ended(engine=type(model).__name__, optimizer=type(zero).__name__,
                     inner=type(getattr(zero, "optimizer", None)).__name__)
    report.leave_group()


if __name__ == "__main__":
    main()
