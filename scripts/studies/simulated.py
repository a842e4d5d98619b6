"""What this machine cannot show (GPUs, several packages, many cores), from zf-tune tune --simulate: formulas, no
measurements. Whatever is made of it says "simulated"."""

import dataclasses
import json
import math
import pathlib
import re
import subprocess
import tempfile

MACHINES = ("xeon-2x16-2gpu", "grace-hopper", "epyc-7742-8gpu-nps4", "xeon-6972p-2")
JOBS = {
    "ZeRO-Offload": ("deepspeed-offload", "wait", 1),
    "SuperOffload": ("superoffload", "backward", 1),
    "ZenFlow, overlap_step on": ("deepspeed-zenflow", "overlap", 4),
    "ours late": ("native", "overlap", 1),
}
AGAINST = re.compile(r"gainst this plan, unbound (?:is|was) (?:faster|slower|a tie|unclear): "
                     r"([+-][0-9.]+) % \(([+-][0-9.]+) to ([+-][0-9.]+) %; minus is faster\)")


@dataclasses.dataclass(frozen=True)
class Simulated:
    """One job on one simulated machine. Ratios are to unbound."""

    machine: str
    cores: int
    packages: int
    ranks: int
    job: str
    chosen: str
    ratio: float
    low: float
    high: float
    half: float | None  # half and half, ZenFlow's default
    most: float | None  # 80/20, SuperOffload's default


def ratio_in(reason: str) -> tuple[float, float, float] | None:
    """Returns plan / unbound and its interval, from what a plan's reason says of unbound / plan; None if it says
    nothing of the kind."""
    found = AGAINST.search(reason)
    if found is None:
        return None
    estimate, low, high = (1 / (1 + float(percent) / 100) if float(percent) > -100 else math.inf
                           for percent in found.groups())
    return estimate, high, low


def simulated_of(plan: dict, machine: str, job: str) -> Simulated | None:
    """Returns what a plan of a simulated machine says of its job; None if the reason has no comparison."""
    found = ratio_in(plan["choice"]["reason"])
    if found is None:
        return None
    controls = {each["label"]: each["period_ns_median"] for each in plan["evidence"]["candidates"]}
    chosen = next(each for each in plan["evidence"]["candidates"] if each["id"] == plan["choice"]["candidate"])
    unbound = controls["unbound"]
    half, most = (controls[name] / unbound if name in controls else None for name in ("half and half", "80/20"))
    return Simulated(machine, plan["machine"]["cores"], plan["machine"]["packages"], plan["workload"]["ranks"], job,
                     chosen["label"], *found, half, most)


def command(machine: str, job: str) -> list[str]:
    """Returns the words after zf-tune, for a user in the source folder."""
    framework, mode, interval = JOBS[job]
    return ["tune", "--simulate", f"configs/machines/{machine}.json", "--framework", framework, "--mode", mode,
            "--update-interval", str(interval)]


def simulate(tune: str, source: pathlib.Path) -> list[Simulated]:
    """Tunes each job on each machine."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for machine in MACHINES:
            for job in JOBS:
                plan = pathlib.Path(folder) / f"{len(found)}.json"
                subprocess.run([tune, *command(machine, job), "--fresh", "--quiet", "-o", str(plan)], cwd=source,
                               check=True, stdin=subprocess.DEVNULL)
                row = simulated_of(json.loads(plan.read_text()), machine, job)
                if row is not None:
                    found.append(row)
    return found
