"""The examples of docs/bind.md run as they stand there: two ranks share no CPU, and a notebook's kernel is bound.

Seen with PyTorch 2.13.0, accelerate 1.15.0, Ray 2.60.0; not in Jupyter, nor in Kubernetes (but see tests/guest)."""

import os
import re
import shlex
import subprocess
import unittest

from frameworks_case import PYTHON, framework_environment, free_port, need_environment
from ray_case import RAY_PYTHON, RAY_VARIABLES, need_ray
from zf_cli import BINARY, SOURCE, CommandTest, parse_cpus

PAGE = (SOURCE / "docs/bind.md").read_text()


def examples() -> dict[str, tuple[str, str]]:
    """Returns the words and the code of each section that has code in Python or YAML, by its heading."""
    found = {}
    for section in PAGE.split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        words, _, rest = re.sub("```(python|yaml)\n", "```code\n", text).partition("```code\n")
        if rest:
            found[heading] = (words, rest.partition("```")[0])
    return found


class BindPage(CommandTest):
    def setUp(self):
        need_environment()
        super().setUp()
        self.need_two_cpus()

    def run_example(self, *words: str, script: str = "", **variables: str) -> dict[int, set[int]]:
        """Runs a command, where train.py is the script. Returns where each rank is, by what bind() printed."""
        (self.folder / "train.py").write_text(script)
        environment = framework_environment(PYTHONPATH=str(SOURCE / "runtime/python"), ZF_TUNE_BINARY=BINARY,
                                            HOME=str(self.folder), ZF_CLAIMS=str(self.folder / "claims"),
                                            PET_MASTER_ADDR="127.0.0.1",
                                            PET_MASTER_PORT=free_port(), RAY_DEDUP_LOGS="0") | variables
        done = subprocess.run(words, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = re.findall(r"zf_runtime\.bind: rank (\d+) \(.*?\) is on CPUs? ([\d,-]+), ", done.stdout + done.stderr)
        return {int(rank): parse_cpus(cpus.rstrip(",")) for rank, cpus in said}

    def assert_two_ranks(self, homes: dict[int, set[int]]):
        self.assertEqual(sorted(homes), [0, 1])
        self.assertTrue(homes[0] and homes[1])
        self.assertEqual(homes[0] & homes[1], set())

    def command_of(self, heading: str) -> list[str]:
        return shlex.split(re.search(r"`([^`]+ train\.py)`", examples()[heading][0])[1])

    def test_every_example_has_a_test(self):
        self.assertEqual(len(examples()), len(re.findall(r"```(?:python|yaml)", PAGE)))
        tests = [name for name in dir(self) if name.endswith("_binds")]
        self.assertEqual(len(tests), len(examples()))

    def test_torchrun_binds(self):
        self.assert_two_ranks(self.run_example(*self.command_of("torchrun"), script=examples()["torchrun"][1]))

    def test_accelerate_binds(self):
        """Its launcher for several GPUs also starts ranks where there is none; they then must be told so."""
        self.assert_two_ranks(self.run_example(*self.command_of("accelerate"), script=examples()["accelerate"][1],
                                               ACCELERATE_USE_CPU="true"))

    def test_ray_binds(self):
        need_ray()
        self.assert_two_ranks(self.run_example(RAY_PYTHON, "train.py", script=examples()["Ray"][1], **RAY_VARIABLES))

    def test_kubernetes_binds(self):
        """Only the command, in this machine's own control group."""
        code = ("import json, sys, yaml; pod = yaml.safe_load(sys.argv[1])\n"
                "assert list(pod['resources']) == ['limits']\nprint(json.dumps(pod['command']))")
        read = subprocess.run([PYTHON, "-c", code, examples()["Kubernetes"][1]], capture_output=True, text=True,
                              timeout=60, check=True)
        words = re.findall(r'"([^"]+)"', read.stdout)
        self.assert_two_ranks(self.run_example(*words, script=examples()["torchrun"][1]))

    def test_a_notebook_binds(self):
        homes = self.run_example(PYTHON, "train.py", script=examples()["Notebooks"][1])
        self.assertEqual(homes, {0: os.sched_getaffinity(0)})


if __name__ == "__main__":
    unittest.main()
