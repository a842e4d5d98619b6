"""Starts two ranks that are not told at once what bind() has to know: by torch's spawn(), by fork(), or by Lightning.
Each calls bind(), calls it again when it knows, and says where it is at the end."""

import os
import sys

import report
import zf_runtime


def say(rank: int, refused, binding):
    report.say_ended(rank, refused=refused.errors, **report.facts_of(binding))


def spawned(rank: int):
    refused = zf_runtime.bind()
    os.environ |= {"LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}
    say(rank, refused, zf_runtime.bind())


def spawn():
    import torch

    torch.multiprocessing.spawn(spawned, nprocs=2)


def fork():
    for rank in range(2):
        if os.fork() == 0:
            say(rank, zf_runtime.bind(), zf_runtime.bind(rank, 2))
            os._exit(0)
    for _ in range(2):
        os.wait()


def lightning():
    """The first rank starts this script again as the second."""
    refused = zf_runtime.bind()
    import pytorch_lightning
    import torch

    class Module(pytorch_lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def setup(self, stage):
            say(self.trainer.local_rank, refused, zf_runtime.bind())

        def training_step(self, batch, _):
            return self.layer(batch).square().mean()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    pytorch_lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_steps=1, logger=False, barebones=True
                              ).fit(Module(), torch.utils.data.DataLoader(torch.ones(4, 4), batch_size=2))
    assert torch.distributed.get_world_size() == 2


if __name__ == "__main__":
    {"spawn": spawn, "fork": fork, "lightning": lightning}[sys.argv[1]]()
