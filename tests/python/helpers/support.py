"""Shared by these tests: the package of the tree, a plan for the present CPUs, and a clean environment."""

import contextlib
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("ZF_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[3]))
TUNE = os.environ.get("ZF_TUNE_BINARY", str(SOURCE / "build/bin/zf-tune"))
PACKAGE = SOURCE / "runtime/python"

os.environ.setdefault("ZF_RUNTIME_LIBRARY", str(SOURCE / "build/lib/libzf_runtime.so"))
sys.path.insert(0, str(PACKAGE))

# Variables that a launcher has set would choose a plan or a rank.
_LAUNCHERS = r"(ZF_(PLAN|RANK|BINDING)|LOCAL_|OMPI_|M(PI|V2)_|PMI|PALS_|JSM_|FLUX_|SLURM_)"
for _name in [name for name in os.environ if re.match(_LAUNCHERS, name)]:
    del os.environ[_name]

_folder = tempfile.TemporaryDirectory(prefix="zf-python-test-")


@functools.cache
def plan(*options: str) -> str:
    """Makes a plan for the CPUs that this process may use, as zf-tune does without measuring."""
    path = os.path.join(_folder.name, "plan.json")
    made = subprocess.run([TUNE, "plan", "--mode", "overlap", "-o", path, *options], capture_output=True, text=True,
                          timeout=60, check=False)
    if made.returncode != 0:
        raise RuntimeError(f"{TUNE} plan failed: {made.stderr}")
    return path


def need(module: str):
    """Returns the module, or skips the test file if it is not installed."""
    try:
        return __import__(module)
    except ImportError as error:
        raise unittest.SkipTest(f"{error} (Debian: python3-{module})") from None


@contextlib.contextmanager
def stand_ins(modules: dict):
    """Lets these modules be imported in place of others; None: that import fails. Unlike patch.dict(), it leaves what
    else is imported meanwhile: torch's modules register operators, which they can do once."""
    before = {name: sys.modules[name] for name in modules if name in sys.modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            sys.modules.pop(name, None)
        sys.modules.update(before)


def process_exists(pid: int) -> bool:
    """Returns whether the process exists, which includes a zombie."""
    return os.path.exists(f"/proc/{pid}")


def mapped_arenas() -> int:
    """Counts the memory maps of this process that are arenas of a runtime."""
    maps = pathlib.Path("/proc/self/maps").read_text()
    return sum("memfd:" in line for line in maps.splitlines())


def without_paths(environment: pathlib.Path) -> dict[str, str]:
    """Returns the variables of a process in a virtual environment, where no variable says where our parts are."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ZF_", "PYTHON"))}
    return clean | {"PATH": f"{environment}/bin:{clean['PATH']}"}


_STEP = """import os, sys, zf_runtime
from zf_runtime.native import library
with zf_runtime.Runtime(sys.argv[1], groups=[zf_runtime.Group(5)]) as runtime:
    runtime.wait(runtime.submit(zf_runtime.adam_scalars(1)))
    print(os.readlink(f"/proc/{runtime.stats().worker_pid}/exe"))
print(library.library()._name)
print(zf_runtime.__file__)
"""


def strangers(environment: pathlib.Path) -> list[str]:
    """Makes a plan and does a step with what was installed into a virtual environment. Returns which of optimizer,
    library and package were found elsewhere."""
    clean, path = without_paths(environment), environment / "plan.json"
    subprocess.run([environment / "bin/zf-tune", "plan", "-q", "-o", path], check=True, env=clean, timeout=60)
    ran = subprocess.run([environment / "bin/python", "-B", "-c", _STEP, path], stdout=subprocess.PIPE, text=True,
                         timeout=60, check=True, cwd=environment, env=clean)
    assert len(ran.stdout.splitlines()) == 3, ran.stdout
    return [found for found in ran.stdout.splitlines() if not pathlib.Path(found).is_relative_to(environment)]
