"""Says where the modules lie that benchmarks share with tests, and the package. Import it first."""

import os
import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / folder)
                for folder in ("tests/frameworks/jobs", "tests/frameworks", "tests/cli", "runtime/python")]


def need_plan():
    """Ends a benchmark of the optimizer process if no plan gives one: DeepSpeed then steps in place."""
    if not os.environ.get("ZF_PLAN"):
        sys.exit("ZF_PLAN is not set: make a plan by `zf-tune plan --mode overlap -o plan.json`, and set its path")
