#!/usr/bin/env python3
"""Compares two builds of zf-tune: plans and fingerprints of machines, and the results of 1,000 steps, bit for bit.

usage: compare.py [--plans] ONE OTHER      two folders with bin/zf-tune, bin/zf-optimizer and lib/libzf_runtime.so.0
  --plans      takes no steps: OTHER runs under an emulator

Prints how much was compared, and what differs. Exits with 1 if anything does.
"""

import hashlib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RANKS = (1, 2, 4, 8)
MODES = ("wait", "overlap")
ISAS = {"scalar": "", "avx2": "avx2", "avx512": "avx512f"} if os.uname().machine == "x86_64" else {
    "scalar": "", "neon": "asimd"}  # and the flag of the CPUs that have them
COUNT, STEPS = 10_007, 1_000  # a count with a rest for every vector length

# Runs in a process of its own, with the build's library. Prints a digest of parameters and moments.
STEPPING = f"""
import hashlib, sys
import numpy as np
from zf_runtime import Group, Runtime, adam_scalars
random = np.random.default_rng(7)
with Runtime(sys.argv[1], groups=[Group({COUNT}, copy_type="bf16")]) as runtime:
    runtime.params(0)[:] = random.standard_normal({COUNT}, dtype=np.float32)
    for step in range({STEPS}):
        runtime.grads(0)[:] = random.standard_normal({COUNT}, dtype=np.float32)
        runtime.wait(runtime.submit(adam_scalars(step + 1, lr=1e-3, weight_decay=0.01)))
    views = (runtime.params(0), runtime.exp_avg(0), runtime.exp_avg_sq(0), runtime.copy(0))
    print(hashlib.sha256(b"".join(view.tobytes() for view in views)).hexdigest())
"""


def without_origin(text: str) -> str:
    """Returns the text without when and by which command a plan was made."""
    return re.sub(r'"command": "[^"]*"|\d{4}-\d\d-\d\dT[\d:]+Z', "", text)


def planned(folder: pathlib.Path, topology: pathlib.Path, ranks: int, mode: str) -> str:
    """Returns the plan of this machine and how the command ended."""
    command = [folder / "bin/zf-tune", "plan", "--topology", topology, "--ranks", str(ranks), "--mode", mode, "-o", "-"]
    done = subprocess.run([*command, "--params", "1B"], capture_output=True, text=True, check=False)
    return without_origin(f"{done.stdout}{done.stderr}{done.returncode}")


def probed(folder: pathlib.Path, topology: pathlib.Path) -> str:
    """Returns the machine with its fingerprint. Raises if the command fails."""
    command = [folder / "bin/zf-tune", "probe", "--topology", topology, "--format", "json"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def stepped(folder: pathlib.Path, isa: str) -> str:
    plan = folder / "compare-plan.json"
    subprocess.run([folder / "bin/zf-tune", "plan", "--ranks", "1", "--params", "1M", "-o", plan], check=True,
                   capture_output=True)
    environment = os.environ | {"ZF_ISA": isa, "PYTHONPATH": str(ROOT / "runtime/python"), "ZF_RUNTIME_LIBRARY":
                                str(folder / "lib/libzf_runtime.so.0")}
    done = subprocess.run([sys.executable, "-c", STEPPING, plan], env=environment, capture_output=True, text=True,
                          check=False)
    plan.unlink()
    if done.returncode != 0:
        sys.exit(f"compare: {folder} makes no step with {isa}: {done.stderr.strip()}")
    return done.stdout


def main() -> None:
    words = sys.argv[1:]
    isas = ISAS if words[:1] != ["--plans"] else ()
    if len(words) != (2 if isas else 3):
        sys.exit(__doc__)
    one, other = (pathlib.Path(name).resolve() for name in words[-2:])
    machines = sorted((ROOT / "tests/machines").glob("*.xml"))
    machines += sorted(pathlib.Path(os.environ.get("ZF_MACHINES_DIR", "/nonexistent")).glob("*.xml"))
    different = 0
    if not machines:
        sys.exit(f"compare: no machines in {ROOT / 'tests/machines'}")

    def compare(what: str, first: str, second: str) -> None:
        nonlocal different
        if first != second:
            different += 1
            print(f"{what}: {hashlib.sha256(first.encode()).hexdigest()[:8]} and "
                  f"{hashlib.sha256(second.encode()).hexdigest()[:8]}")

    for topology in machines:
        compare(f"{topology.stem}, probe", probed(one, topology), probed(other, topology))
        for ranks in RANKS:
            for mode in MODES:
                compare(f"{topology.stem}, {ranks} ranks, {mode}", planned(one, topology, ranks, mode),
                        planned(other, topology, ranks, mode))
    print(f"{len(machines)} machines, {len(machines) * len(RANKS) * len(MODES)} plans: {different} differ")
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    for isa in isas:
        if ISAS[isa] and ISAS[isa] not in flags:
            print(f"{isa}: not tried, this CPU lacks it")
            continue
        first, second = stepped(one, isa), stepped(other, isa)
        compare(f"{isa}, {STEPS} steps", first, second)
        print(f"{isa}, {STEPS} steps of {COUNT} parameters: {first.strip()[-64:]}")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
