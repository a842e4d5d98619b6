"""Plain PyTorch: AdamW in the training process; DistributedDataParallel if there are several ranks."""

import report

report.set_rendezvous()

import torch
from model import arguments, loss_of, make_batch, make_model


def main():
    options = arguments()
    model, batch = make_model(options), make_batch(options)
    if report.world_size() > 1:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        loss_of(model, batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    report.run_steps(options.steps, step)
    report.say_ended(torch_threads=torch.get_num_threads())
    if report.world_size() > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
