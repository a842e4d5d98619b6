"""The files that scripts/release made, on minimal systems without a compiler and without hwloc.

Skips without them: they take long to make, so this only tries what is in build-portable/release.
"""

import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import unittest

from chroot import FOLDER, SOURCE
from files import FilesTest
from steps import ADAMW, STEP

RELEASE = SOURCE / "build-portable/release"
PINNED = SOURCE / "tests/frameworks/requirements.txt"
# What DeepSpeed imports. torch is Debian's, or among these.
NEEDED = ("hjson", "einops", "msgpack", "numpy", "packaging", "psutil", "py-cpuinfo", "pydantic", "pydantic_core",
          "tqdm", "ninja", "annotated-types", "typing-inspection", "typing_extensions", "sympy", "mpmath", "networkx",
          "Jinja2", "MarkupSafe", "fsspec", "filelock", "setuptools")
TUNE = "tune --quiet --budget 10s -o plan.json"


def made(pattern: str) -> pathlib.Path:
    """Returns the one file of a release with this name."""
    pattern = pattern.format(arch=platform.machine())
    found = sorted(RELEASE.glob(pattern))
    if not found:
        raise unittest.SkipTest(f"no {pattern} in {RELEASE}: scripts/release makes it")
    return found[-1]


class Files(FilesTest):
    def assert_plans_and_runs(self, program: str) -> None:
        self.inside(f"{program} {TUNE}")
        plan = json.loads((self.root / "try/plan.json").read_text())
        self.assertEqual(plan["schema"], "zf-plan/2")
        self.assertIn("bound\n", self.inside(f"{program} exec -- echo bound"))

    def wheel(self, suite: str, torch: bool = False) -> None:
        wheel = made("*manylinux*_{arch}.whl")
        self.system(suite, "python3-venv", *(["python3-torch"] if torch else []))
        self.install(suite, wheel)
        shutil.copy(SOURCE / "runtime/python/examples/train_tiny_lm.py", self.root / "try")
        self.assert_plans_and_runs("env/bin/zf-tune")
        (self.root / "try/step.py").write_text(STEP)
        said = self.inside("ZF_PLAN=plan.json env/bin/python step.py").strip()
        self.assertTrue(said)
        self.assertIn(said, wheel.name)
        if torch:
            said = self.inside("env/bin/zf-tune exec -- env/bin/python train_tiny_lm.py --steps 12", 900)
            self.assertIn("maximum difference of the losses, torch and waiting", said)

    def packages(self, python: str, *needed: str) -> list[pathlib.Path]:
        """Returns wheels of DeepSpeed and of these packages for this Python, as tests/frameworks pins them. Skips
        without a package index."""
        folder = FOLDER / f"deepspeed-python{python}"
        lines = [line for line in PINNED.read_text().splitlines() if line.split("==")[0] in needed]
        deepspeed = next(line for line in PINNED.read_text().splitlines() if line.startswith("deepspeed=="))
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
        for command in ([*pip, "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--python-version", python,
                         "--dest", folder, *lines],
                        [*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, deepspeed]):
            fetched = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False,
                                     env=os.environ | {"DS_BUILD_OPS": "0"})
            if fetched.returncode != 0:
                self.skipTest(f"pip cannot fetch DeepSpeed: {fetched.stderr.strip().splitlines()[-1:]}")
        return sorted(folder.glob("*.whl"))

    def deepspeed(self, suite: str, packages: list[pathlib.Path]) -> None:
        """Steps with AdamW, and trains under DeepSpeed with our optimizer process. The system has no compiler."""
        wheel = made("*manylinux*_{arch}.whl")
        self.system(suite, "python3-venv", "python3-torch")
        for path in (*packages, wheel):
            shutil.copy(path, self.root / "try")
        shutil.copy(SOURCE / "tests/bare/zero_job.py", self.root / "try")
        self.inside("python3 -m venv --system-site-packages env && "
                    "env/bin/pip install --quiet --no-index --no-deps --no-compile *.whl", 900)
        (self.root / "try/adamw.py").write_text(ADAMW)
        self.assertLess(float(self.inside("env/bin/python adamw.py")), 1e-5)
        self.inside("env/bin/zf-tune plan --quiet --mode wait --params 10M -o plan.json")
        said = self.inside("export PATH=/try/env/bin:$PATH DS_ACCELERATOR=cpu GLOO_SOCKET_IFNAME=lo && "
                           "zf-tune exec -- python -m zf_runtime.deepspeed zero_job.py 2>&1")
        self.assertIn("no c++ in PATH, so DeepSpeed's deepspeed_shm_comm is not compiled", said)
        self.assertRegex(said, "zf_runtime.deepspeed: optimizer process [0-9]+ steps [0-9]+ parameters in 1 partition")
        first, last = (float(re.search(rf"(?m)^{name} loss ([0-9.]+)$", said)[1]) for name in ("first", "last"))
        self.assertLess(last, first / 2, said)

    def test_adamw_and_deepspeed_without_a_compiler_on_debian_12(self):
        self.deepspeed("bookworm", self.packages("3.11", "torch", *NEEDED))

    def test_adamw_and_deepspeed_without_a_compiler_on_debian_13(self):
        self.deepspeed("trixie", self.packages("3.13", *NEEDED))

    def test_a_wheel_on_debian_11(self):
        self.wheel("bullseye")

    def test_a_wheel_on_debian_12(self):
        self.wheel("bookworm", torch=True)

    def test_a_wheel_on_debian_13(self):
        self.wheel("trixie", torch=True)

    def test_a_wheel_on_debian_sid(self):
        self.wheel("sid", torch=True)

    def test_a_tarball_on_debian_11(self):
        root = self.system("bullseye")
        subprocess.run(["tar", "-C", root / "try", "-xf", made("*-linux-{arch}.tar.xz")], check=True)
        self.assert_plans_and_runs("./zf-tune-*/bin/zf-tune")
        for completion in ("fish/vendor_completions.d/zf-tune.fish", "bash-completion/completions/zf-tune",
                           "zsh/site-functions/_zf-tune"):
            self.inside(f"test -s zf-tune-*/share/{completion}")

    def test_an_rpm_on_debian_11(self):
        root = self.system("bullseye")
        if not shutil.which("rpm"):
            self.skipTest("no rpm here: install it (scripts/packages.txt, release)")
        package = made("*.{arch}.rpm")
        needs = subprocess.run(["rpm", "-qpR", package], capture_output=True, text=True, check=True).stdout
        for need in needs.splitlines():
            self.assertRegex(need, r"^(rpmlib\(|/|ld-linux|lib(c|m|dl|rt|pthread)\.so\.|rtld\()", needs)
        # --nodeps: the empty database knows of no glibc. The files are removed again for the other tests.
        rpm = ["rpm", "--root", root, "--dbpath", "/try/rpm"]
        subprocess.run([*rpm, "-i", "--nodeps", package], check=True)
        try:
            self.assert_plans_and_runs("zf-tune")
        finally:
            subprocess.run([*rpm, "-e", "--nodeps", "zf-tune"], check=True)

    def test_plans_and_steps_are_those_of_this_build(self):
        """This build is by the system's compiler and with its libraries."""
        tree = SOURCE / "build-portable" / platform.machine() / "tree"
        if not tree.exists():
            self.skipTest(f"no {tree}: scripts/wheel makes it")
        build = pathlib.Path(os.environ["ZF_TUNE_BINARY"]).parents[1]
        compared = subprocess.run([sys.executable, "-B", SOURCE / "scripts/portable/compare.py", build, tree],
                                  capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(compared.returncode, 0, compared.stdout + compared.stderr)
        self.assertIn("plans: 0 differ\n", compared.stdout)
