"""What two blocks must have in common to be compared: machine, versions, programs, and how they were measured."""

import argparse
import dataclasses
import hashlib
import os
import pathlib
import platform
import subprocess

import frameworks_case
import matrix
import turns
from frameworks_case import framework_environment
from zf_cli import SOURCE, clean_environment

LIBRARY = os.environ.get("ZF_RUNTIME_LIBRARY", str(SOURCE / "build/lib/libzf_runtime.so"))


def output_of(*words: str, **keywords) -> str:
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
                          **keywords).stdout.strip()


def digest_of_files(*paths: pathlib.Path) -> str:
    """Returns a digest of these files and of all Python files in these folders."""
    digest = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def versions() -> dict[str, str]:
    code = "import importlib.metadata as m; print(m.version('torch'), m.version('deepspeed'))"
    torch, deepspeed = output_of(frameworks_case.PYTHON, "-c", code, env=framework_environment()).split()
    return {"PyTorch": torch, "DeepSpeed": deepspeed, "Python": platform.python_version(),
            "zf-tune": output_of(str(frameworks_case.TUNE), "--version", env=clean_environment()).splitlines()[0],
            "Linux": platform.release()}


def settings_of(options: argparse.Namespace) -> dict:
    """Returns all that two blocks must have in common to be compared."""
    memory_kib = int(pathlib.Path("/proc/meminfo").read_text().split()[1])
    binaries = [frameworks_case.TUNE, frameworks_case.TUNE.parent / "zf-optimizer", pathlib.Path(LIBRARY)]
    return {"schema": "zf-study/1",
            "machine": {"processor": turns.processor(), "cpus": sorted(os.sched_getaffinity(0)),
                        "memory_gib": round(memory_kib / (1 << 20), 1),
                        "nodes": len(list(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*")))},
            "versions": versions(),
            "programs": digest_of_files(*binaries, SOURCE / "runtime/python", frameworks_case.HERE / "jobs",
                                        frameworks_case.HERE / "turns.py", pathlib.Path(matrix.__file__)),
            "sizes": {name: dataclasses.asdict(size) for name, size in matrix.SIZES.items()},
            "variables": turns.MALLOC, "passes": options.passes, "turn_s": options.turn_s, "plans": options.plans,
            "others": options.others / 100}
