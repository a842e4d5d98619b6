"""The examples of docs/torch.md run as they stand there, each in a process of its own.

Seen with PyTorch 2.13.0, accelerate 1.15.0, transformers 5.24.0, Lightning 2.6.6."""

import re
import subprocess
import textwrap
import unittest

from frameworks_case import PYTHON, framework_environment, free_port, need_environment
from zf_cli import SOURCE, CommandTest

# What an example finds: a model, its data and its loss. At the end four steps of ours must have trained the model.
BEFORE = """
import torch
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.GELU(), torch.nn.Linear(64, 4))
batches = [(torch.randn(16, 8), torch.randn(16, 4)) for _ in range(4)]
data = torch.utils.data.DataLoader(batches, batch_size=None)
loss_of = torch.nn.functional.mse_loss
trained, before = model, [param.detach().clone() for param in model.parameters()]
"""
LANGUAGE_MODEL = """
from transformers import GPT2Config, GPT2LMHeadModel
language_model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=16, n_layer=1, n_head=1))
texts = [{"input_ids": torch.arange(16), "labels": torch.arange(16)} for _ in range(8)]
trained, before = language_model, [param.detach().clone() for param in language_model.parameters()]
"""
AFTER = """
def whole(param):
    return param.to_local() if hasattr(param, "to_local") else param
changed = sum(not torch.equal(old, whole(new)) for old, new in zip(before, trained.parameters(), strict=True))
assert changed == len(before), f"{changed} of {len(before)} parameters changed"
"""
IN_PLACE = """
from zf_runtime.native import local_calls
print("steps", local_calls.engine().statistics().steps)
"""
IN_ITS_PROCESS = """
print("steps", {int(entry["step"]) for entry in optimizer.state_dict()["state"].values()})
"""


def examples() -> dict[str, str]:
    """Returns the code of each example of the page, by the first word of the line before it."""
    page = (SOURCE / "docs/torch.md").read_text()
    found = re.findall(r"^([^\n]+):\n\n```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return {re.search(r"PyTorch|accelerate|Trainer|Lightning|CPUOffloadPolicy|Exact|backward", words)[0]: code
            for words, code in found}


class TorchPage(CommandTest):
    def run_example(self, name: str, before: str = "", count: str = IN_PLACE) -> None:
        need_environment()
        code = BEFORE + before + textwrap.dedent(examples()[name]) + AFTER + count
        environment = framework_environment(
            PYTHONPATH=str(SOURCE / "runtime/python"), MASTER_ADDR="127.0.0.1", MASTER_PORT=free_port(), RANK="0",
            WORLD_SIZE="1", LOCAL_RANK="0", ZF_TUNE="off")
        done = subprocess.run([PYTHON, "-c", code], cwd=self.folder, env=environment, capture_output=True, text=True,
                              timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"steps \{?4\b")

    def test_every_example_has_a_test(self):
        self.assertEqual(len(examples()), (SOURCE / "docs/torch.md").read_text().count("```python"))
        tests = [name for name in dir(self) if name.endswith("_trains")]
        self.assertEqual(len(tests), len(examples()))

    def test_plain_pytorch_trains(self):
        self.run_example("PyTorch")

    def test_fsdp2_trains(self):
        self.run_example("CPUOffloadPolicy")

    def test_accelerate_trains(self):
        self.run_example("accelerate")
        self.assertTrue((self.folder / "checkpoint").is_dir())

    def test_the_trainer_of_transformers_trains(self):
        self.run_example("Trainer", LANGUAGE_MODEL)

    def test_lightning_trains(self):
        self.run_example("Lightning")

    def test_a_step_beside_forward_trains(self):
        self.run_example("Exact", count=IN_ITS_PROCESS)

    def test_a_step_in_backward_trains(self):
        self.run_example("backward", count=IN_ITS_PROCESS)


if __name__ == "__main__":
    unittest.main()
