"""Says where the modules lie that benchmarks share with tests, and the package. Import it first."""

import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / folder)
                for folder in ("tests/frameworks/jobs", "tests/frameworks", "tests/cli", "runtime/python")]
