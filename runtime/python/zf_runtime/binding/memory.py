"""Where this process's memory lies, and where the calling thread's next pages go."""

from __future__ import annotations

import ctypes
import os
import platform

from . import cpu_lists

# set_mempolicy(2). The C library has no function for it, and libnuma may not be installed.
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
_PREFERRED, _PREFERRED_MANY = 1, 5


def prefer(nodes: frozenset[int]) -> str:
    """Sets the memory policy of the calling thread, and of threads that it starts later. Returns why it was refused;
    empty if it was not. Kernels before 5.15 take one preferred node: they get the first."""
    number = _SET_MEMPOLICY.get(platform.machine())
    if number is None:
        return f"set_mempolicy is not known on {platform.machine()}"
    refused = _set_mempolicy(number, _PREFERRED_MANY if len(nodes) > 1 else _PREFERRED, nodes)
    if refused == 22 and len(nodes) > 1:  # EINVAL
        refused = _set_mempolicy(number, _PREFERRED, frozenset([min(nodes)]))
    if not refused:
        return ""
    return f"set_mempolicy(preferred, {cpu_lists.text_of(nodes)}) was refused: {os.strerror(refused)}"


def share_elsewhere(nodes: frozenset[int]) -> float | None:
    """Returns the share of this process's own memory that lies on other nodes; None if the kernel does not say, as
    without NUMA. Pages of files are not counted: they lie where any process read them first."""
    try:
        with open("/proc/self/numa_maps") as file:
            lines = file.readlines()
    except OSError:
        return None
    total = elsewhere = 0
    for line in lines:
        words = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
        if "anon" not in words and not words.get("file", "").startswith("/memfd:"):
            continue
        page = int(words.get("kernelpagesize_kB", "4"))
        pages = {int(name[1:]): int(count) * page for name, count in words.items()
                 if name.startswith("N") and name[1:].isdigit()}
        total += sum(pages.values())
        elsewhere += sum(count for node, count in pages.items() if node not in nodes)
    return elsewhere / total if total else None


def _set_mempolicy(number: int, mode: int, nodes: frozenset[int]) -> int:
    """Returns the error number; 0 if there was no error."""
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    words = (ctypes.c_ulong * (max(nodes) // bits + 1))()
    for node in nodes:
        words[node // bits] |= 1 << node % bits
    libc = ctypes.CDLL(None, use_errno=True)
    # The kernel reads one bit fewer than the last number says.
    failed = libc.syscall(ctypes.c_long(number), ctypes.c_long(mode), words, ctypes.c_ulong(max(nodes) + 2))
    return ctypes.get_errno() if failed else 0
