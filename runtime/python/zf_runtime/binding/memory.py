"""Where this process's memory lies, and where the calling thread's next pages go: by the memory policy that others have
set (numactl, srun --mem-bind), which is kept, else near the home. The rule is that of zf-tune exec
(runtime/plan/given_policy.hpp)."""

from __future__ import annotations

import ctypes
import os
import platform

from . import cpu_lists, rank_home

# set_mempolicy(2) and get_mempolicy(2). The C library has no functions for them, and libnuma may not be installed.
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
_GET_MEMPOLICY = {"x86_64": 239, "aarch64": 236}
_DEFAULT, _PREFERRED, _PREFERRED_MANY = 0, 1, 5
_MODE_FLAGS = 0b111 << 13
_MOST_NODES = 1024  # Linux is built for no more


def is_given_by_others(line: str) -> bool:
    """Returns True if the calling thread has a memory policy, and that is not the preference which `line`, the
    ZF_BINDING that was in force until now, names. False also if the kernel does not say."""
    given = _policy()
    if given is None:
        return False
    mode, nodes = given
    try:
        home = rank_home.parse(line)
    except ValueError:
        return True
    ours = home.kept is None and mode in (_PREFERRED, _PREFERRED_MANY) and home.mems
    return not (ours and nodes in (home.mems, {min(home.mems)}))


def has_policy() -> bool:
    """Returns True if the calling thread has a memory policy; False also if the kernel does not say."""
    return _policy() is not None


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


def _policy() -> tuple[int, frozenset[int]] | None:
    """Returns the mode and the nodes of the calling thread's policy; None if it is the system's default, or unknown."""
    number = _GET_MEMPOLICY.get(platform.machine())
    if number is None:
        return None
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    mode, words = ctypes.c_int(), (ctypes.c_ulong * (_MOST_NODES // bits))()
    # The kernel reads one bit fewer than the number says.
    failed = ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.byref(mode), words,
                                       ctypes.c_ulong(_MOST_NODES + 1), None, ctypes.c_ulong(0))
    kind = mode.value & ~_MODE_FLAGS
    if failed or kind == _DEFAULT:
        return None
    return kind, frozenset(node for node in range(_MOST_NODES) if words[node // bits] >> node % bits & 1)


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
