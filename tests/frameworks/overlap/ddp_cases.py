"""DistributedDataParallel with two ranks: mode exact trains as overlap="off", bit for bit, also where the
optimizer process stands still as forward begins. Costs 10 s. Tests optim/overlap/ddp_hook.py."""

import contextlib
import os
import unittest
import warnings

import exact
import torch
import zf_runtime
from exact import Counted, loss_of, make_model, pause, values_of
from ports import free_port

STEPS = 6


def train(rank, mode, clip, micro_batches, has_hook, plan):
    """Returns parameters, losses, norm, and how many gradients were copied early."""
    model = make_model()
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    if has_hook:
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

        ddp.register_comm_hook(None, allreduce_hook)
    # torch cannot take the hook of the first one back.
    more = {"lr": 1e-2, "overlap": mode, "plan": plan, "runtime_options": {}}  # a process, also on one core
    with zf_runtime.AdamW(model.parameters(), **more) as optimizer:
        loss_of(ddp, rank).backward()
        optimizer.step()
    with zf_runtime.AdamW(model.parameters(), clip_grad_norm=clip, **more) as optimizer:
        counted, losses = Counted(optimizer) if mode == "exact" else None, []
        for step in range(STEPS):
            optimizer.zero_grad()
            pause(optimizer)
            for number in range(micro_batches):
                last = number == micro_batches - 1
                with contextlib.nullcontext() if last else ddp.no_sync():
                    loss = loss_of(ddp, 100 * step + 10 * number + rank)
                    loss.backward()
            optimizer.step()
            losses.append(loss.item())
        optimizer.synchronize()
        return [value.tolist() for value in values_of(model)], losses, optimizer.grad_norm, counted and counted.early


def work(rank, port, settings, plan, queue):
    """A rank. Rank 0 puts its results into the queue."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    for each in settings:
        found = train(rank, *each, plan)
        if rank == 0:
            queue.put(found)
    torch.distributed.destroy_process_group()


class TwoRanks(unittest.TestCase):
    def test_ddp(self):
        cases = [(clip, micro_batches, has_hook) for clip in (None, 0.05) for micro_batches in (1, 4)
                 for has_hook in (False, True)]
        settings = [(mode, *case) for case in cases for mode in ("off", "exact")]
        context = torch.multiprocessing.get_context("fork")  # which has imported torch
        queue = context.Queue()
        port = int(free_port())
        ranks = [context.Process(target=work, args=(rank, port, settings, exact.plan(2), queue))
                 for rank in range(2)]
        for rank in ranks:
            rank.start()
        results = [queue.get(timeout=120) for _ in settings]
        for rank in ranks:
            rank.join(timeout=60)
            self.assertEqual(rank.exitcode, 0)
        for case, wanted, got in zip(cases, results[0::2], results[1::2]):
            with self.subTest(case):
                self.assertEqual(got[:3], wanted[:3])
                self.assertEqual(got[3], 0 if case[2] else STEPS * 4)  # of DDP's averages from the first step on


if __name__ == "__main__":
    unittest.main()
