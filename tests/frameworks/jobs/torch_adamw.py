"""PyTorch: AdamW in the training process (--fused: torch's fused one; --in_place: zf_runtime's), or with --ours
ours, which waits, or with --late does not. DistributedDataParallel if there are several ranks."""

import report

report.set_rendezvous()

import torch
from model import arguments, training_of


def optimizer_of(options, params):
    if not (options.ours or options.in_place):
        return torch.optim.AdamW(params, lr=1e-3, fused=options.fused or None)
    import zf_runtime

    if options.in_place:
        return zf_runtime.AdamW(params, lr=1e-3)
    return zf_runtime.AdamW(params, lr=1e-3, overlap="late" if options.late else "off")


def main():
    options = arguments(ours=False, in_place=False, late=False, fused=False)
    model, next_loss = training_of(options, report.rank())
    if report.world_size() > 1:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = optimizer_of(options, model.parameters())

    def step():
        loss = next_loss(model)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    report.run_steps(options.steps, step)
    report.say_ended(torch_threads=torch.get_num_threads())
    if report.world_size() > 1:
        report.leave_group()


if __name__ == "__main__":
    main()
