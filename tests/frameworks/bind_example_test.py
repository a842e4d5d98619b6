"""The example of docs/launch.md for bind() runs as it stands there: two ranks share no CPU, and a notebook's kernel is
bound. kubernetes_page_test.py runs the one for Ray.

Seen with PyTorch 2.13.0 and accelerate 1.15.0; not in Jupyter."""

import json
import os
import re
import subprocess
import unittest

from frameworks_case import PYTHON, framework_environment, free_port, need_environment
from zf_cli import BINARY, SOURCE, CommandTest

PAGE = (SOURCE / "docs/launch.md").read_text()
EXAMPLE = re.search(r"\n## bind\n.*?```python\n(.*?)```", PAGE, re.DOTALL)[1]
READ_BACK = """
import os
os.write(1, f"\\nON {os.environ.get('LOCAL_RANK', 0)}: {sorted(os.sched_getaffinity(0))}\\n".encode())  # at once
"""
NOTEBOOK = re.search(r"# in a notebook: (bind\(.*\))\n", EXAMPLE)[1]


class BindExample(CommandTest):
    def setUp(self):
        need_environment()
        super().setUp()
        self.need_two_cpus()

    def run_example(self, *words: str, script: str = EXAMPLE, **variables: str) -> dict[int, set[int]]:
        """Runs a command, where train.py is the script. Returns where each rank is at the end."""
        (self.folder / "train.py").write_text(script + READ_BACK)
        environment = framework_environment(PYTHONPATH=str(SOURCE / "runtime/python"), ZF_TUNE_BINARY=BINARY,
                                            HOME=str(self.folder), ZF_CLAIMS=str(self.folder / "claims"),
                                            PET_MASTER_ADDR="127.0.0.1", PET_MASTER_PORT=free_port()) | variables
        done = subprocess.run(words, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = re.findall(r"^ON (\d+): (\[.*\])$", done.stdout, re.MULTILINE)
        return {int(rank): set(json.loads(cpus)) for rank, cpus in said}

    def assert_two_ranks(self, homes: dict[int, set[int]]):
        self.assertEqual(sorted(homes), [0, 1])
        self.assertTrue(homes[0] and homes[1])
        self.assertEqual(homes[0] ^ homes[1], os.sched_getaffinity(0), "each CPU is in one home")

    def test_torchrun_binds(self):
        self.assert_two_ranks(self.run_example("torchrun", "--nproc-per-node", "2", "train.py"))

    def test_accelerate_binds(self):
        """Its launcher for several GPUs also starts ranks where there is none; they then must be told so."""
        self.assert_two_ranks(self.run_example(
            "accelerate", "launch", "--multi_gpu", "--num_processes", "2", "train.py", ACCELERATE_USE_CPU="true",
            script=f"from accelerate import Accelerator\n{EXAMPLE}accelerator = Accelerator()\n"))

    def test_a_notebook_binds(self):
        homes = self.run_example(PYTHON, "train.py", script=f"import zf_runtime\nprint(zf_runtime.{NOTEBOOK})\n")
        self.assertEqual(homes, {0: os.sched_getaffinity(0)})


if __name__ == "__main__":
    unittest.main()
