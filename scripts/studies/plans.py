"""Makes the plans of the ways that need one, and the command lines of all ways."""

import argparse
import json
import pathlib
import subprocess
import time

import frameworks_case
import matrix
import turns
from frameworks_case import framework_environment, free_port
from matrix import Group
from results import Results
from settings import LIBRARY, output_of
from zf_cli import SOURCE

TUNE_BUDGET = "15s"


def variables() -> dict[str, str]:
    return turns.MALLOC | {"PYTHONPATH": str(SOURCE / "runtime/python"), "ZF_RUNTIME_LIBRARY": LIBRARY}


def words_of(group: Group, arm: str, plan: str) -> list[str]:
    return matrix.command(group, arm, python=frameworks_case.PYTHON, tune=str(frameworks_case.TUNE),
                          jobs=frameworks_case.HERE / "jobs", plan=plan, port=free_port())


def plan_path(results: Results, group: Group, arm: str) -> pathlib.Path:
    return results.path.parent / f"plans-{results.digest}" / f"{group.name()}-{arm}.json"


def is_measured(options: argparse.Namespace, group: Group, arm: str) -> bool:
    """Returns whether this plan comes from a measurement. A plan without one gives both sides all CPUs where training
    waits, and half of them each where it does not, which is a guess."""
    overlaps = "overlap" in matrix.plan_options(group, arm)
    return options.plans == "all" or (options.plans == "overlap" and overlaps)


def make_plan(results: Results, group: Group, arm: str, measured: bool) -> dict:
    """Writes the plan of this way, and returns what is to be said of it. To measure, it records the unbound job and
    tunes for the record."""
    path = plan_path(results, group, arm)
    path.parent.mkdir(parents=True, exist_ok=True)
    tune, environment = str(frameworks_case.TUNE), framework_environment(**variables())
    shown = [*matrix.plan_options(group, arm)]
    if measured:
        workload = path.parent / f"{group.name()}.workload.json"
        if not workload.exists():
            output_of(tune, "record", "--quiet", "--stop", "-o", str(workload), "--",
                      *words_of(group, matrix.UNBOUND, ""), env=environment, timeout=turns.START_TIMEOUT_S)
        shown = ["tune", "-w", "workload.json", "--budget", TUNE_BUDGET, *shown]
        words = [str(workload) if word == "workload.json" else word for word in shown]
        output_of(tune, *words, "--quiet", "--fresh", "-o", str(path), env=environment, timeout=turns.START_TIMEOUT_S)
    else:
        shown = ["plan", *shown]
        output_of(tune, *shown, "--quiet", "-o", str(path), env=environment, timeout=turns.START_TIMEOUT_S)
    plan = json.loads(path.read_text())
    ranks = [f"{rank['training']['cpus']} and {rank['optimizer']['cpus']}" for rank in plan["ranks"]]
    return {"group": group.name(), "arm": arm, "command": f"zf-tune {' '.join(shown)}", "cpus": "; ".join(ranks)}


def need_plans(results: Results, options: argparse.Namespace, group: Group, say) -> dict[str, str]:
    """Makes the plans of this group that are not there. Returns why, for the ways that have none. A plan that failed is
    not tried again in the same study: it would take its time in each block."""
    failed = {}
    for arm in filter(matrix.planned, matrix.arms_of(group)):
        known = results.plan(group, arm)
        if known and "failed" in known:
            failed[arm] = known["failed"]
        elif known is None or not plan_path(results, group, arm).exists():
            started = time.monotonic()
            said = try_plan(results, options, group, arm)
            results.add({"plan": said, "seconds": time.monotonic() - started})
            if "failed" in said:
                failed[arm] = said["failed"]
            say(f"plan for {group.name()}, {matrix.ARMS[arm]}: {said.get('failed') or said['cpus']}, "
                f"{time.monotonic() - started:.0f} s")
    return failed


def try_plan(results: Results, options: argparse.Namespace, group: Group, arm: str) -> dict:
    """Returns what make_plan() says, or {"failed": why}."""
    try:
        return make_plan(results, group, arm, is_measured(options, group, arm))
    except subprocess.TimeoutExpired as error:
        why = f"zf-tune {error.cmd[1]} took longer than {error.timeout:.0f} s"
    except subprocess.CalledProcessError as error:
        why = last_line(error.stderr or str(error))
    return {"group": group.name(), "arm": arm, "failed": f"no plan: {why}"}


def last_line(text: str) -> str:
    """Returns the last line that says something, at most 200 characters of it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"
