"""Compares ZeRO-2 with DeepSpeed's own CPU Adam, and with the native optimizer in fp32 and with moments in bf16: the
time of engine.step(), and the host memory. A benchmark, not a test.

Engines of all three live in one process and take turns; a ratio is that of two steps of one round. Memory is measured
in a process of each: Pss of all its processes (shared pages once), every 20 ms, minus what it has before the engine."""

import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))

import frameworks_case
from frameworks_case import TUNE, framework_environment, free_port, job, lines_of
from turns import MALLOC, interval, machine
from zf_cli import SOURCE

SIDES = ("own", "fp32", "bf16")
SAMPLE_S = 0.02


def environment(plan: pathlib.Path, **more: str) -> dict[str, str]:
    return framework_environment(PYTHONPATH=str(SOURCE / "runtime/python"), MASTER_PORT=free_port(), ZF_PLAN=str(plan),
                                 ZF_RUNTIME_LIBRARY=str(SOURCE / "build/lib/libzf_runtime.so"), **more)


def said_by(process: subprocess.Popen, path: pathlib.Path) -> list[dict]:
    """Returns what a job that has ended said. Ends this program if it failed."""
    text = path.read_text(errors="replace")
    if process.returncode != 0:
        sys.exit(f"the job failed ({process.returncode}):\n{text[-4000:]}")
    return lines_of(text)


def pss_of(pid: int) -> int:
    """Returns the bytes of a process and of its children, with a share of what others share."""
    try:
        rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        children = [child for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
                    for child in (task / "children").read_text().split()]
    except OSError:  # it has just ended
        return 0
    own = next((int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss:")), 0)
    return own + sum(pss_of(int(child)) for child in children)


def peaks_of(size: list[str], side: str, plan: pathlib.Path) -> tuple[dict[str, int], int]:
    """Returns the peak of each phase above what the process had before the engine, and the number of parameters."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "said")
        with path.open("w") as out:
            process = subprocess.Popen(job("zero_format_steps", "4", *size, side), env=environment(plan),
                                       stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
            peaks: dict[str, int] = {}
            base = 0
            while process.poll() is None:
                lines = lines_of(path.read_text(errors="replace"))
                now = pss_of(process.pid)
                phases = [line["phase"] for line in lines if "phase" in line]
                if not phases:
                    base = max(base, now)
                elif phases[-1] != "end":
                    peaks[phases[-1]] = max(peaks.get(phases[-1], 0), now - base)
                time.sleep(SAMPLE_S)
        said = said_by(process, path)
    return peaks, next(line["parameters"] for line in said if "parameters" in line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"rounds": 20, "width": 2048, "blocks": 6}.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    parser.add_argument("--clip", type=float, default=1.0, help="gradient_clipping, default 1.0; 0: none")
    options = parser.parse_args()
    frameworks_case.need_environment()
    size = [str(options.width), str(options.blocks), str(options.clip)]
    print(f"machine: {machine()}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        plan = pathlib.Path(folder, "plan.json")
        subprocess.run([TUNE, "plan", "--params", "200M", "--framework", "deepspeed-offload", "-q", "-o", plan],
                       check=True)
        compare(options, size, plan)


def compare(options: argparse.Namespace, size: list[str], plan: pathlib.Path):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "said")
        with path.open("w") as out:
            process = subprocess.Popen(job("zero_format_steps", str(options.rounds + 2), *size, *SIDES),
                                       env=environment(plan, **MALLOC), stdout=out, stderr=subprocess.STDOUT,
                                       stdin=subprocess.DEVNULL)
            process.wait()
        said = said_by(process, path)
    steps = {side: [line for line in said if line.get("side") == side and line["round"] >= 2] for side in SIDES}
    for side in SIDES:
        ms = [step["ms"] for step in steps[side]]
        ours = [step["ours_ms"] for step in steps[side] if step["ours_ms"] is not None]
        pairs = zip(steps[side], steps["own"], strict=True)
        mean, low, high = interval([step["ms"] / own["ms"] for step, own in pairs])
        threads = f"; the optimizer's threads {statistics.median(ours):.1f} ms" if ours else ""
        print(f"{side}: engine.step() {statistics.median(ms):.1f} ms, {mean:.3f} of DeepSpeed's own "
              f"({low:.3f} to {high:.3f}){threads}", flush=True)
    for side in SIDES:
        peaks, parameters = peaks_of(size, side, plan)
        print(f"{side}: " + ", ".join(f"{phase} {peak / 2**20:.0f} MiB ({peak / parameters:.1f} B a parameter)"
                                      for phase, peak in peaks.items()), flush=True)


if __name__ == "__main__":
    main()
