"""Two ranks of DistributedDataParallel: its reducer takes gradients after the hooks, so that they are stepped late."""

import torch
import zf_runtime
from case import BIG, SMALL, Case, adamw, bits_of, loss_of, make_model
from ports import free_port
from zf_runtime.native import planned


def train(rank, overlap, width, wrapped_first, found):
    model = make_model(width)
    optimizer = None if wrapped_first else adamw(model.parameters(), overlap)
    trained = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = optimizer or adamw(model.parameters(), overlap)
    for step in range(3):
        optimizer.zero_grad()
        loss_of(trained, 10 * step + rank).backward()
        optimizer.step()
    found.append(bits_of(model, optimizer))


def refused(optimizer):
    try:
        optimizer.step()
    except zf_runtime.ZfError as error:
        assert "written or dropped" in str(error), error
    else:
        raise AssertionError("gradients that are not reduced were stepped unseen")


def reduced_by_hand(rank):
    model = make_model(BIG)
    optimizer = adamw(model.parameters(), "backward")
    loss_of(model, rank).backward()
    for param in model.parameters():
        if param.grad is not None:
            torch.distributed.all_reduce(param.grad)
    refused(optimizer)


def wrapped_late(rank):
    """One that comes when backward has begun to step is found by what its reducer writes."""
    model = make_model(BIG)
    optimizer = adamw(model.parameters(), "backward")
    optimizer._engine._has_looked = True
    trained = torch.nn.parallel.DistributedDataParallel(model)
    loss_of(trained, rank).backward()
    refused(optimizer)


def run_rank(rank, port):
    import warnings

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    for width in (SMALL, BIG):
        for wrapped_first in (True, False):
            found = []
            train(rank, "off", width, wrapped_first, found)
            planned._said.clear()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                train(rank, "backward", width, wrapped_first, found)
            assert all(map(torch.equal, *found)), (width, wrapped_first)
            assert any("DistributedDataParallel" in str(each.message) for each in caught), caught
    reduced_by_hand(rank)
    wrapped_late(rank)
    # No DistributedDataParallel is left: the last owner of a group joins threads of gloo, which wait for its GIL.
    torch.distributed.destroy_process_group()


class Ddp(Case):
    def test_two_ranks(self):
        torch.multiprocessing.start_processes(run_rank, (int(free_port()),), nprocs=2, start_method="fork")
