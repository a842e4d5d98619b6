"""A minimal system without a compiler, in which a wheel or another file of a release is tried."""

import pathlib
import shutil
import subprocess
import time
import unittest

from chroot import CLEAN, FOLDER, MOUNTED, copy_of
from wheels import DEBIAN_PYTHONS


class FilesTest(unittest.TestCase):
    def system(self, suite: str, *packages: str) -> pathlib.Path:
        """Returns the root of a minimal Debian with these packages and an empty folder /try."""
        root = FOLDER / f"files-{suite}"
        if not (root / "etc/debian_version").exists():
            copy_of(suite, root)
        self.root = root
        lists = root / "var/lib/dpkg/info"  # of some packages with the architecture: libnuma1:amd64.list
        missing = [name for name in packages if not list(lists.glob(f"{name}[.:]*list"))]
        if missing:
            self.inside(f"apt-get update && apt-get install --yes --no-install-recommends {' '.join(missing)}", 900)
        shutil.rmtree(root / "try", ignore_errors=True)
        (root / "try").mkdir()
        for program in ("cc", "c++", "gcc", "hwloc-info"):
            self.assertFalse((root / "usr/bin" / program).exists(), program)
        return root

    def inside(self, command: str, timeout: int = 300) -> str:
        begin = time.monotonic()
        result = subprocess.run(
            ["unshare", "--mount", "bash", "-c", MOUNTED, self.root, "chroot", self.root, *CLEAN, "bash", "-c",
             f"mkdir -p /try && cd /try && {command}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout, check=False)
        self.assertEqual(result.returncode, 0, f"{command}\n{result.stdout[-4000:]}\n{result.stderr[-4000:]}")
        print(f"{self.root.name}, {time.monotonic() - begin:.1f} s: {command}")
        return result.stdout

    def install(self, suite: str, wheel: pathlib.Path) -> None:
        """Installs a wheel into an environment /try/env of the system's CPython, which has to be the one claimed."""
        version = self.inside("python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")'").strip()
        self.assertEqual(version, DEBIAN_PYTHONS[suite], f"Debian {suite} has CPython {version}: name it in "
                         "pyproject.toml's classifiers and in tests/bare/wheels.py")
        shutil.copy(wheel, self.root / "try")
        self.inside(f"python3 -m venv --system-site-packages env && env/bin/pip install --no-index {wheel.name}")
