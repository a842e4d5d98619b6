"""Where the tests find the Ray of scripts/ray-env."""

import pathlib
import unittest

from frameworks_case import FOLDER

RAY_FOLDER = FOLDER.parent / "ray-env"
RAY_PYTHON = str(RAY_FOLDER / "bin/python")
# Ray's workers are 15 steps nicer than its other processes, and beside another test would hardly run.
RAY_VARIABLES = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}


def need_ray():
    if not (RAY_FOLDER / "stamp").exists():
        missing = pathlib.Path(f"{RAY_FOLDER}.missing")
        raise unittest.SkipTest(missing.read_text().strip() if missing.exists() else "no ray-env: run scripts/ray-env")
