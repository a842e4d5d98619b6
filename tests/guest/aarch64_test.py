"""The AArch64 programs of scripts/release in a guest with an AArch64 kernel: plans, binding, the optimizer process."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from initramfs import Initramfs

SOURCE = pathlib.Path(os.environ["ZF_SOURCE_DIR"])
CACHE = pathlib.Path(os.environ["ZF_GUEST_CACHE"]) / "aarch64"
BUILD = SOURCE / "build-portable/aarch64"
GLIBC = pathlib.Path("/usr/aarch64-linux-gnu/lib")
# tests/abi/NAME.c, and what belongs to it.
PROGRAMS = {"steps_test": ["reference_adam.c"], "kill_test": ["cpuset.c", "single_steps.c"], "death_test": [],
            "norm_test": ["reference_adam.c"], "moment_sets_test": ["reference_adam.c"],
            "progress_test": ["reference_adam.c"]}
INIT = """#!/bin/busybox sh
export PATH=/bin HOME=/root LANG=C.UTF-8 TERM=dumb LD_LIBRARY_PATH=/lib
mkdir -p /dev /proc /sys /tmp /root
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/shm
for folder in /dev/shm /tmp; do mount -t tmpfs tmpfs $folder; done
cd /tmp
sh /command </dev/null >/dev/console 2>&1
echo "exit $?" >/dev/console
poweroff -f
"""
COMMAND = f"""set -e
zf-tune probe
zf-tune plan --quiet --params 1M -o plan.json
zf-tune exec -- sh -c 'echo bound to $ZF_BINDING'
export ZF_OPTIMIZER=/bin/zf-optimizer ZF_KILLS=10
for test in {" ".join(PROGRAMS)}; do
  /test/$test >said 2>&1 || {{ cat said; exit 1; }}
  cat said
  echo passed $test
done
"""


class AArch64(unittest.TestCase):
    def programs(self, folder: pathlib.Path) -> None:
        """Compiles the programs of tests/abi with the compiler of the portable build."""
        for name, others in PROGRAMS.items():
            subprocess.run([BUILD / "tools/cc", "-O1", "-std=c11", "-D_GNU_SOURCE", "-ffp-contract=off",
                            f"-I{BUILD}/tree/include", f"{name}.c", *others, "support.c", f"-L{BUILD}/tree/lib",
                            "-lzf_runtime", "-lm", "-lpthread", "-o", folder / name], cwd=SOURCE / "tests/abi",
                           check=True)

    def initramfs(self, programs: pathlib.Path) -> bytes:
        files = Initramfs()
        files.add_text("/init", INIT, 0o755)
        files.add_text("/command", COMMAND)
        files.add_file(CACHE / "busybox", "/bin/busybox")
        for name in ("sh", "cat", "echo", "mount", "mkdir", "poweroff"):
            files.add_link(f"/bin/{name}", "busybox")
        for name in ("ld-linux-aarch64.so.1", "libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1",
                     "libgcc_s.so.1"):  # pthread_cancel() of a test needs the last one
            files.add_file(GLIBC / name, f"/lib/{name}")
        for name in ("libzf_runtime.so.0", "zf-tune/libnuma.so.1"):
            files.add_file(BUILD / "tree/lib" / name, f"/lib/{name}")
        for name in ("zf-tune", "zf-optimizer"):
            files.add_file(BUILD / "tree/bin" / name, f"/bin/{name}")
        for name in PROGRAMS:
            files.add_file(programs / name, f"/test/{name}")
        return files.bytes()

    def boot(self, folder: pathlib.Path) -> str:
        """Returns what the guest said. Its times mean nothing: every instruction is emulated."""
        (folder / "initrd").write_bytes(self.initramfs(folder))
        subprocess.run(["qemu-system-aarch64", "-M", "virt", "-cpu", "neoverse-n1", "-smp", "2", "-m", "1536",
                        "-kernel", CACHE / "vmlinuz", "-initrd", folder / "initrd", "-append",
                        "console=ttyAMA0 panic=-1 quiet", "-nodefaults", "-display", "none", "-no-reboot", "-serial",
                        f"file:{folder}/said"], check=True, timeout=1500, stdin=subprocess.DEVNULL)
        return (folder / "said").read_text(errors="replace").replace("\r", "")

    def test_its_optimizer_process_steps_and_is_killed_and_its_plan_binds(self):
        for program, package in (("qemu-system-aarch64", "qemu-system-arm"), ("apt-get", "apt")):
            if not shutil.which(program):
                self.skipTest(f"no {program} here: install {package}")
        if not (GLIBC / "libc.so.6").exists():
            self.skipTest("no glibc for AArch64 here: install g++-aarch64-linux-gnu")
        if not (BUILD / "tree/bin/zf-tune").exists():
            self.skipTest(f"no AArch64 build in {BUILD}: scripts/wheel aarch64 makes it")
        fetched = subprocess.run([SOURCE / "tests/guest/aarch64.sh", CACHE], capture_output=True, text=True,
                                 check=False)
        if fetched.returncode != 0:
            self.skipTest(f"no AArch64 kernel for a guest: {fetched.stderr.strip().splitlines()[-1:]}")
        with tempfile.TemporaryDirectory(prefix="zf-aarch64-") as made:
            folder = pathlib.Path(made)
            self.programs(folder)
            said = self.boot(folder)
        print(said)
        self.assertRegex(said, "(?m)^exit 0$")
        self.assertRegex(said, "(?m)^bound to .* home=0-1 ")
        self.assertEqual(re.findall("(?m)^passed (.*)$", said), list(PROGRAMS))


if __name__ == "__main__":
    unittest.main()
