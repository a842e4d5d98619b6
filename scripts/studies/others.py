"""How much of the CPUs other programs use: their share of the time in which the jobs take turns."""

import os
import pathlib
import time
from collections.abc import Iterable

PROC = pathlib.Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def busy_s(cpus: Iterable[int], stat: str) -> float:
    """Returns the seconds in which these CPUs were not idle, from the text of /proc/stat. Time that a hypervisor gave
    to other guests (steal) counts: another guest used it."""
    names = {f"cpu{cpu}" for cpu in cpus}
    lines = [line.split() for line in stat.splitlines() if line.split(" ", 1)[0] in names]
    user_to_system, irq_to_steal = slice(1, 4), slice(6, 9)
    return sum(int(ticks) for words in lines for ticks in words[user_to_system] + words[irq_to_steal]) / TICKS_PER_S


def used_s(pids: Iterable[int], proc: pathlib.Path = PROC) -> float:
    """Returns the CPU time of these processes so far."""
    ticks = 0
    for pid in pids:
        try:
            fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_S


class Watch:
    """Measures from now on. jobs returns the processes that are not other programs."""

    def __init__(self, jobs=tuple):
        self._jobs, self._cpus = jobs, os.sched_getaffinity(0)
        self._before = self._now()

    def share(self) -> float:
        """Returns the share of the allowed CPUs that others have used since the start: 0 to 1."""
        seconds, busy, used = (after - before for after, before in zip(self._now(), self._before))
        return min(1.0, max(0.0, (busy - used) / (seconds * len(self._cpus))))

    def _now(self) -> tuple[float, float, float]:
        return time.monotonic(), busy_s(self._cpus, (PROC / "stat").read_text()), used_s(self._jobs())


def wait_until_idle(limit: float, minutes: float, say) -> None:
    """Waits until others use at most so large a share, for so long at most."""
    deadline, said = time.monotonic() + 60 * minutes, False
    while time.monotonic() < deadline:
        watch = Watch()
        time.sleep(2)
        share = watch.share()
        if share <= limit:
            return
        if not said:
            say(f"other programs use {share:.0%} of the CPUs: waiting for at most {minutes:.0f} minutes")
            said = True
