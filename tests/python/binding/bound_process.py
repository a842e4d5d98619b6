"""What the tests of zf_runtime.bind() share: an interpreter of its own that binds itself, and says what came of it."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import support

CPUS = sorted(os.sched_getaffinity(0))
BINDING = ("zf-binding/1 rank={rank} framework={framework} started_on=home home={home} home_threads={threads} "
           "training={training} threads=1 optimizer={home} mems= policy=preferred shared={shared}")
# What a launcher, Ray or a person may have set.
_OTHERS = re.compile(r"^(ZF_|LOCAL_|OMP_|MKL_|OPENBLAS_|KMP_|GOMP_|CUDA_|ROCR_|HIP_|NVIDIA_|SLURM_|OMPI_|TORCHELASTIC_"
                     r"|RAY_|MASTER_)")
PRELUDE = """
import json, os, sys, threading
from zf_runtime import bind
def said(binding, **more):
    print(json.dumps({"bound": bool(binding), "rank": binding.rank, "source": binding.source, "plan": binding.plan,
        "cpus": sorted(binding.cpus), "moved": binding.moved, "left": [[t.name, sorted(t.cpus)] for t in binding.left],
        "threads": binding.threads, "notes": list(binding.notes), "errors": list(binding.errors), "text": str(binding),
        "now": sorted(os.sched_getaffinity(0)), "masks": masks(),
        "zf": {name: value for name, value in os.environ.items() if name.startswith(("ZF_", "OMP_"))}} | more))
def masks():
    return sorted([sorted(mask) for mask in map(mask_of, os.listdir("/proc/self/task")) if mask])
def mask_of(tid):
    try:
        return os.sched_getaffinity(int(tid))
    except ProcessLookupError:  # it has ended meanwhile
        return None
"""


def cpu_list(cpus) -> str:
    return ",".join(map(str, cpus))


def binding_line(cpus, rank=0, framework="unknown", training=None) -> str:
    """Returns ZF_BINDING of a rank on these CPUs."""
    return BINDING.format(rank=rank, framework=framework, home=cpu_list(cpus), threads=len(cpus),
                          training=cpu_list(training or cpus), shared="no" if training else "yes")


class BoundProcess(unittest.TestCase):
    def setUp(self):
        if len(CPUS) < 2:
            self.skipTest("one CPU allowed, and this needs two")
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="zf-bind-test-")))

    def make_plan(self, *options: str, name="plan.json") -> dict:
        path = self.folder / name
        subprocess.run([support.TUNE, "plan", "-q", "-o", path, *options], check=True, timeout=60)
        return json.loads(path.read_text())

    def environment(self, **variables: str) -> dict[str, str]:
        """Returns variables for a process that binds itself, without those that others have set."""
        clean = {name: value for name, value in os.environ.items() if not _OTHERS.match(name)}
        return clean | {"PYTHONPATH": str(support.PACKAGE), "ZF_TUNE_BINARY": support.TUNE,
                        "ZF_RUNTIME_LIBRARY": os.environ["ZF_RUNTIME_LIBRARY"],
                        "ZF_CLAIMS": str(self.folder / "claims")} | variables

    def run_python(self, program: str, before=(), prelude=PRELUDE, **variables: str) -> list[dict]:
        """Runs a program that calls said(). Returns what it said."""
        ran = subprocess.run([*before, sys.executable, "-B", "-c", prelude + program], cwd=self.folder,
                             env=self.environment(**variables), capture_output=True, text=True, timeout=200,
                             check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.stderr = ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def bind(self, arguments="", **keywords) -> dict:
        said, = self.run_python(f"said(bind({arguments}))", **keywords)
        return said

    def assert_bound(self, said: dict, cpus):
        self.assertTrue(said["bound"], said["text"])
        self.assertEqual((said["cpus"], said["errors"]), (list(cpus), []), said["text"])
        self.assertEqual(said["masks"], [list(cpus)] * len(said["masks"]))

    def assert_not_bound(self, said: dict, *words: str):
        self.assertFalse(said["bound"], said["text"])
        self.assertEqual(len(said["errors"]), 1)
        self.assertNotIn("ZF_BINDING", said["zf"])
        for word in words:
            self.assertIn(word, said["errors"][0])
