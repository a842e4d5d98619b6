#!/usr/bin/env python3
"""Runs a command in a throw-away Linux of several NUMA nodes: QEMU without KVM, no network, no root.

As a module: run(...), for tests. As a program, to look around:

    tests/guest/guest.py --shape 2ht --program build/bin/zf-tune --program numactl -- \
        'numactl -H; '$PWD'/build/bin/zf-tune probe'

The exit code is the command's; 124 when it took too long, 125 when the guest died. Times mean nothing in there:
every instruction is emulated.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from initramfs import Initramfs
from shapes import SHAPES, Shape, qemu_words

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("ZF_GUEST_CACHE", HERE.parents[1] / "build/guest"))
TIMED_OUT, DIED = 124, 125
END = "end of output\n"  # init.sh writes it behind the command's output and errors, until it is ended


def run(command: str, *, shape="2n", programs=(), files=(), texts=None, timeout_s=180) -> subprocess.CompletedProcess:
    """Runs a shell command line in a guest of this shape, as its root, in the folder /guest.

    programs: names or paths, put under the same path with all their libraries. files: (path here, path there).
    texts: {path there: text}. What the command wrote, and its exit code, come back as from subprocess.run.
    """
    initramfs = Initramfs()
    for source, target in files:
        initramfs.add_file(source, target)
    for path, text in (texts or {}).items():
        initramfs.add_text(path, text, 0o755 if text.startswith("#!") else 0o644)
    initramfs.add_text("/command", command + "\n")
    initramfs.add_programs(*programs)
    initramfs.add_text("/init", (HERE / "init.sh").read_text(), 0o755)
    initramfs.add_text("/etc/passwd", "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
    initramfs.add_text("/etc/group", "root:x:0:\nnogroup:x:65534:\n")
    initramfs.add_text("/etc/hosts", "127.0.0.1 localhost guest\n")
    initramfs.add_busybox()
    with tempfile.TemporaryDirectory(prefix="zf-guest-") as folder:
        return _boot(SHAPES[shape], initramfs.bytes(), pathlib.Path(folder), timeout_s, command)


def kernel() -> pathlib.Path:
    """The kernel's image, fetched once. Skips the test where it cannot be had."""
    image = CACHE / "vmlinuz"
    fetched = subprocess.run([HERE / "kernel.sh", image], capture_output=True, text=True, check=False)
    if fetched.returncode != 0:
        raise unittest.SkipTest(f"no kernel for a guest: {fetched.stderr.strip().splitlines()[-1]}")
    return image


def need() -> None:
    """Skips the test where no guest can run."""
    for program, package in (("qemu-system-x86_64", "qemu-system-x86"), ("busybox", "busybox-static")):
        if not any(os.access(f"{folder}/{program}", os.X_OK) for folder in os.environ["PATH"].split(":")):
            raise unittest.SkipTest(f"no {program} here: install {package}")
    kernel()


def _boot(shape: Shape, initrd: bytes, folder: pathlib.Path, timeout_s: float, command: str):
    (folder / "initrd").write_bytes(initrd)
    ports = [folder / name for name in ("messages", "stdout", "stderr", "status")]
    words = ["qemu-system-x86_64", "-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max,vendor=GenuineIntel"]
    words += [*qemu_words(shape), "-kernel", str(kernel()), "-initrd", str(folder / "initrd"), "-append"]
    words += ["console=ttyS0 panic=-1 quiet loglevel=4 mitigations=off tsc=unstable no_timer_check "
              f"zf_cpus={shape.cpus} {shape.kernel_words}"]
    words += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    words += ["-qmp", f"unix:{folder}/qmp,server=on,wait=off"]
    for port in ports:
        port.touch()
        words += ["-serial", f"file:{port}"]
    # It ends with us, however we end.
    machine = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *words], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        code = _attend(machine, shape, folder, time.monotonic() + timeout_s)
    finally:
        machine.kill()
        complaints = machine.communicate()[1]
    messages, stdout, stderr, _ = (port.read_text(errors="replace").partition(END)[0] for port in ports)
    if code in (TIMED_OUT, DIED):
        stderr += f"{complaints}{messages[-2000:]}\nguest: {'took too long' if code == TIMED_OUT else 'died'}\n"
    return subprocess.CompletedProcess(command, code, stdout, stderr)


def _attend(machine: subprocess.Popen, shape: Shape, folder: pathlib.Path, deadline: float) -> int:
    """Plugs in CPUs when the guest is ready for them; waits until all output is here; the command's exit code."""
    unplugged = list(shape.plugged)
    while machine.poll() is None:
        if time.monotonic() > deadline:
            return TIMED_OUT
        if unplugged and "ready" in (folder / "status").read_text():
            _plug(folder, unplugged)
            unplugged = []
        ended = [line.split() for line in (folder / "status").read_text().splitlines(keepends=True)
                 if line.startswith("exit ") and line.endswith("\n")]
        if ended and all(END in (folder / name).read_text(errors="replace") for name in ("stdout", "stderr")):
            return int(ended[0][1])
        time.sleep(0.05)
    return DIED


def _plug(folder: pathlib.Path, cpus: list[tuple[int, int, int]]) -> None:
    """The order in which CPUs come is the order of their numbers. A guest may notice two at once the wrong way round,
    so the next one comes when the guest has said that it has the one before."""
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as connection:
        connection.settimeout(10)
        connection.connect(str(folder / "qmp"))
        stream = connection.makefile("rw")
        stream.readline()
        _ask(stream, "qmp_capabilities")
        for count, (package, core, thread) in enumerate(cpus, 1):
            _ask(stream, "device_add", driver="max-x86_64-cpu",
                 **{"socket-id": package, "die-id": 0, "core-id": core, "thread-id": thread})
            deadline = time.monotonic() + 30
            while (folder / "status").read_text().count("present") < count:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the guest has not noticed CPU {package}, {core}, {thread}")
                time.sleep(0.02)


def _ask(stream, what: str, **arguments) -> None:
    stream.write(json.dumps({"execute": what, "arguments": arguments}) + "\n")
    stream.flush()
    while True:
        answer = json.loads(stream.readline())
        if "error" in answer:
            raise RuntimeError(f"QEMU refused {what} {arguments}: {answer['error']['desc']}")
        if "return" in answer:
            return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="2n", choices=sorted(SHAPES))
    parser.add_argument("--program", action="append", default=[], help="a program to bring along, with its libraries")
    parser.add_argument("--file", action="append", default=[], metavar="HERE:THERE", help="a file to bring along")
    parser.add_argument("--timeout", type=float, default=180, help="seconds")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    command = options.command[0] if len(options.command) == 1 else shlex.join(options.command)
    files = [tuple(pair.split(":", 1)) for pair in options.file]
    programs = [os.path.abspath(name) if "/" in name else name for name in options.program]
    result = run(command, shape=options.shape, programs=programs, files=files, timeout_s=options.timeout)
    sys.stdout.write(result.stdout)
    sys.stderr.write(result.stderr)
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
