"""Models of DTensors, in two processes over gloo: FSDP2, tensor parallelism, and checkpoints that move to another world
size."""

import datetime
import os
import pathlib
import sys
import tempfile
import traceback
import unittest
import warnings

import torch
import torch.distributed as dist
import warm
import zf_runtime
from ports import free_port

HERE = pathlib.Path(__file__)
ROUNDING = {"rtol": 2e-5, "atol": 2e-6}


def make_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(16, 33), torch.nn.LayerNorm(33), torch.nn.Linear(33, 7))


def mesh():
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (dist.get_world_size(),))


def sharded_model(offload=False):
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

    model = make_model()
    options = {"offload_policy": CPUOffloadPolicy(pin_memory=False)} if offload else {}
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh(), **options)
    return model


def parallel_model():
    """Has a norm between two sharded layers: its gradients are Partial."""
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.LayerNorm(16), torch.nn.Linear(16, 32), torch.nn.Linear(32, 16),
                                torch.nn.LayerNorm(16))
    parallelize_module(model, mesh(), {"0": SequenceParallel(use_local_output=True),
                                       "3": SequenceParallel(use_local_output=True),
                                       "1": ColwiseParallel(input_layouts=_shard(1)),
                                       "2": RowwiseParallel(output_layouts=_shard(1))})
    return model


def _shard(dimension):
    from torch.distributed.tensor import Shard

    return Shard(dimension)


def train(model, optimizer, steps, first=0, clip=True, inputs_of=None):
    losses = []
    for step in range(first, first + steps):
        generator = torch.Generator().manual_seed(step if inputs_of else 100 * step + dist.get_rank())
        inputs = inputs_of(generator) if inputs_of else torch.randn(8, 16, generator=generator)
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = (outputs - torch.linspace(-2, 1, outputs.shape[-1])).pow(2).mean()
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        losses.append(loss.item())
    return losses


def full(tensor):
    tensor = tensor.detach()
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).clone()


def same(make, **options):
    """Trains with torch's optimizer and with ours, and compares parameters and moments."""
    results = []
    for optimizer_class in (torch.optim.AdamW, zf_runtime.AdamW):
        model = make()
        optimizer = optimizer_class(model.parameters(), lr=1e-2)
        before = [full(param) for param in model.parameters()]
        train(model, optimizer, 6, **options)
        for param in model.parameters():
            for name in ("exp_avg", "exp_avg_sq"):
                assert type(optimizer.state[param][name]) is type(param.data), name
                assert getattr(optimizer.state[param][name], "placements", ()) == getattr(param, "placements", ()), name
        results.append([full(param) for param in model.parameters()]
                       + [full(optimizer.state[param][name]) for param in model.parameters()
                          for name in ("exp_avg", "exp_avg_sq", "step")])
        assert not any(torch.equal(a, b) for a, b in zip(before, results[-1])), "nothing was trained"
    for theirs, ours in zip(*results):
        torch.testing.assert_close(ours, theirs, **ROUNDING)


def fsdp():
    same(sharded_model)


def fsdp_with_offload():
    same(lambda: sharded_model(offload=True))


def tensor_parallel():
    from torch.distributed.tensor import Partial

    rows = {"inputs_of": lambda generator: torch.randn(2, 8, 16, generator=generator).chunk(2, 1)[dist.get_rank()],
            "clip": False}
    model = parallel_model()
    train(model, torch.optim.SGD(model.parameters(), lr=0), 1, **rows)
    kinds = {type(placement) for param in model.parameters() for placement in param.grad.placements}
    assert any(issubclass(kind, Partial) for kind in kinds), f"no gradient is Partial: {kinds}"
    same(parallel_model, **rows)


def saved_by_two(folder):
    """Saves after 4 steps, and writes what 2 further steps make of it."""
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    model = sharded_model()
    optimizer = zf_runtime.AdamW(model.parameters(), lr=1e-2)
    before = [full(param) for param in model.parameters()]
    get_state_dict(model, optimizer)  # steps with lr 0 and no gradient to make the states
    assert all(torch.equal(full(param), old) for param, old in zip(model.parameters(), before))
    train(model, optimizer, 4)
    states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
    checkpoint.save(states, checkpoint_id=folder)
    wanted = [full(param) for param in model.parameters()] + [full(optimizer.state[param]["exp_avg"])
                                                             for param in model.parameters()]
    again = sharded_model()
    other = zf_runtime.AdamW(again.parameters(), lr=5.0)
    states = dict(zip(("model", "optimizer"), get_state_dict(again, other)))
    checkpoint.load(states, checkpoint_id=folder)
    set_state_dict(again, other, model_state_dict=states["model"], optim_state_dict=states["optimizer"])
    assert train(model, optimizer, 2, 4) == train(again, other, 2, 4)
    if dist.get_rank() == 0:
        torch.save(wanted, f"{folder}/wanted.pt")


def loaded_by_one(folder):
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    for optimizer_class in (zf_runtime.AdamW, torch.optim.AdamW):
        model = sharded_model()
        optimizer = optimizer_class(model.parameters(), lr=5.0)
        states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
        checkpoint.load(states, checkpoint_id=folder)
        set_state_dict(model, optimizer, model_state_dict=states["model"], optim_state_dict=states["optimizer"])
        found = [full(param) for param in model.parameters()] + [full(optimizer.state[param]["exp_avg"])
                                                                for param in model.parameters()]
        for mine, yours in zip(found, torch.load(f"{folder}/wanted.pt")):
            assert torch.equal(mine, yours)
        counts = {optimizer.state[param]["step"].item() for param in model.parameters()}
        assert counts == {5.0}, f"not 4 and the one of the first get_state_dict(): {counts}"
        assert optimizer.param_groups[0]["lr"] == 1e-2
        train(model, optimizer, 2)


def launch(folder, names, ranks=2):
    """Starts ranks that run these functions one after the other. Each leaves in the folder what went wrong."""
    env = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": str(ranks)}
    return warm.run_ranks([sys.executable, "-B", str(HERE), folder, *names], warm.TORCH, ranks, cwd=os.getcwd(),
                          env=env, timeout=120)[1]


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Costs 15 s: two ranks run all cases but the last, which is of one rank."""
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.said = launch(folder.name, [function.__name__ for function in OF_TWO])

    def went_well(self, function, ranks=2):
        for rank in range(ranks):
            result = self.folder / f"{function.__name__}.{rank}"
            self.assertTrue(result.exists(), self.said)
            self.assertEqual(result.read_text(), "")

    def test_fsdp2_with_clipping(self):
        self.went_well(fsdp)

    def test_fsdp2_with_cpu_offload_and_clipping(self):
        self.went_well(fsdp_with_offload)

    def test_a_tensor_parallel_model_whose_norms_have_partial_gradients(self):
        self.went_well(tensor_parallel)

    def test_a_distributed_checkpoint_of_two_ranks_is_loaded_by_one(self):
        self.went_well(saved_by_two)
        self.said = launch(str(self.folder), ["loaded_by_one"], ranks=1)
        self.went_well(loaded_by_one, ranks=1)


OF_TWO = (fsdp, fsdp_with_offload, tensor_parallel, saved_by_two)


def main(folder, names):
    warnings.filterwarnings("error", message="zf_runtime")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    for name in names:
        try:
            globals()[name](folder) if name.endswith(("_two", "_one")) else globals()[name]()
            wrong = ""
        except BaseException:
            wrong = traceback.format_exc()
        pathlib.Path(folder, f"{name}.{dist.get_rank()}").write_text(wrong)
        if wrong:
            return  # the other rank may be elsewhere
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
