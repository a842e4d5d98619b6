"""Runs all ways of a group once, side by side in turns."""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import datetime
import time

import look
import matrix
import others
import turns
from matrix import Group
from plans import last_line, need_plans, plan_path, variables, words_of
from results import Results

LOOK_S = 0.6  # of the turn that is not counted, in which threads and pages are looked up
STARTS_AT_ONCE = 2  # most of a start is one thread that imports PyTorch and DeepSpeed


def why_it_failed(text: str) -> str:
    """Returns the line of a failed job that names the error, else its last one."""
    lines = [line.strip() for line in text.splitlines() if "Error" in line or "zf-tune:" in line]
    return last_line("\n".join(lines) or text)


def run_block(results: Results, options: argparse.Namespace, group: Group, block: int, say) -> dict:
    """Makes the plans that are missing, runs all ways of a group with new processes, and returns the line for the
    results."""
    started, date = time.monotonic(), datetime.datetime.now(datetime.timezone.utc)
    failed = need_plans(results, options, group, say)
    facts: dict[str, dict] = {arm: {"failed": why} for arm, why in failed.items()}
    planned_s = time.monotonic() - started
    names = [arm for arm in matrix.arms_of(group) if arm not in failed]
    names = names[block % len(names):] + names[:block % len(names)]  # none is always first
    with contextlib.ExitStack() as stack:
        runners: dict[str, turns.Runner] = {}

        def attempt(arm: str, action):
            """Does this for one way. If it fails, the others go on without it."""
            try:
                return action()
            except turns.JobFailed as error:
                facts[arm] = {"failed": why_it_failed(str(error))}
                (results.path.parent / f"failed-{group.name()}-{arm}.log").write_text(str(error))
                if arm in runners:
                    runners.pop(arm).end()
                say(f"{group.name()}, {matrix.ARMS[arm]} failed: {facts[arm]['failed']}")
                return None

        def start(arm: str):
            words = words_of(group, arm, str(plan_path(results, group, arm)))
            runners[arm] = turns.Runner(words, variables(), group.ranks)
            stack.callback(runners[arm].end)
            facts[arm] = {"start_s": runners[arm].start_s, "turns": []}

        def first_turn(arm: str):
            runners[arm].turn(lambda pids: facts[arm].update(look.look_up(pids)), seconds=LOOK_S)

        with concurrent.futures.ThreadPoolExecutor(STARTS_AT_ONCE) as starters:
            starts = [starters.submit(attempt, arm, lambda arm=arm: start(arm)) for arm in names]
            try:
                for each in starts:
                    each.result()
            except BaseException:  # Ctrl-C: no further ones
                starters.shutdown(cancel_futures=True)
                raise
        there = [arm for arm in names if arm in runners]
        for arm in there:
            attempt(arm, lambda arm=arm: first_turn(arm))
        watch = others.Watch(lambda: [pid for runner in runners.values() for pid in runner.processes()])
        for arm in turns.order_of_turns(there, options.passes):
            if arm in runners:
                ms = attempt(arm, lambda arm=arm: runners[arm].turn(seconds=options.turn_s))
                facts[arm].get("turns", []).append(ms)
        share = watch.share()
        for arm, runner in runners.items():
            losses = runner.losses()
            facts[arm]["losses"] = {str(rank): its[:turns.WARM_UP_STEPS] for rank, its in losses.items()}
    return {"group": dataclasses.asdict(group), "block": block, "arms": facts, "others": share,
            "date": date.isoformat(timespec="seconds"), "seconds": time.monotonic() - started - planned_s}
