"""Looks up in /proc where the threads of a running job may run, and on which NUMA nodes its pages are."""

import collections
import pathlib
import re

PROC = pathlib.Path("/proc")
TRAINER, OPTIMIZER, ZENFLOW = "training", "zf-optimizer", "ZenFlow's optimizer"
LAUNCHERS = ("deepspeed.launcher", "bin/deepspeed", "bin/torchrun", "zf-tune")


def role_of(words: list[str]) -> str | None:
    """Returns what a process of a job does, by its command line; None for launchers and helpers."""
    line = " ".join(words)
    if words and words[0].endswith("zf-optimizer"):
        return OPTIMIZER
    if "multiprocessing.spawn" in line:
        return ZENFLOW
    if any(launcher in line for launcher in LAUNCHERS) or "multiprocessing.resource_tracker" in line:
        return None
    return TRAINER if words and "python" in words[0] else None


def look_up(pids: list[int], proc: pathlib.Path = PROC) -> dict[str, str]:
    """Returns {"threads": "...", "pages": "..."} of these processes. A text is empty if nothing of it could be read."""
    threads: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    pages: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for pid in pids:
        folder = proc / str(pid)
        try:
            words = [word.decode(errors="replace") for word in (folder / "cmdline").read_bytes().split(b"\0")]
            role = role_of(words)
            if role is None:
                continue
            for status in folder.glob("task/*/status"):
                threads[role][_field(status.read_text(), "Cpus_allowed_list")] += 1
            pages[role].update(pages_of((folder / "numa_maps").read_text()))
        except OSError:  # it has ended, or this kernel has no numa_maps
            continue
    return {"threads": threads_text(threads), "pages": pages_text(pages)}


def pages_of(numa_maps: str) -> collections.Counter:
    """Returns the bytes on each NUMA node."""
    found: collections.Counter = collections.Counter()
    for line in numa_maps.splitlines():
        size = re.search(r"kernelpagesize_kB=(\d+)", line)
        for node, count in re.findall(r"\bN(\d+)=(\d+)", line):
            found[int(node)] += int(count) * 1024 * int(size[1] if size else 4)
    return found


def threads_text(threads: dict[str, collections.Counter]) -> str:
    """Returns "training: 9 on 0-1; zf-optimizer: 1 on 0-1, 1 on 1"."""
    return "; ".join(f"{role}: " + ", ".join(f"{count} on {cpus}" for cpus, count in sorted(masks.items()))
                     for role, masks in threads.items() if masks)


def pages_text(pages: dict[str, collections.Counter]) -> str:
    """Returns "training: 0.6 GiB on node 0; zf-optimizer: 0.2 GiB on node 0, 0.1 GiB on node 1"."""
    return "; ".join(f"{role}: " + ", ".join(f"{size / (1 << 30):.1f} GiB on node {node}"
                                             for node, size in sorted(nodes.items()))
                     for role, nodes in pages.items() if nodes)


def _field(status: str, name: str) -> str:
    return next(line.split(":", 1)[1].strip() for line in status.splitlines() if line.startswith(f"{name}:"))
