"""What a system may refuse, also to root: in a chroot, in a container, under another kernel.

Each function tries it, and skips the test if it is refused. All tests give the same reason, so that scripts/test can
count them.
"""

import ctypes
import os
import shutil
import subprocess
import unittest

STRANGER = 65534
MPOL_DEFAULT = 0


def need_program(program: str, package: str = "") -> str:
    """Returns the path of a program."""
    path = shutil.which(program)
    if path is None:
        raise unittest.SkipTest(f"no {program} here" + (f": install {package}" if package else ""))
    return path


def need_namespaces(*options: str, at="/") -> None:
    """Skips the test unless `unshare` makes namespaces with these options, and mounts on this path in them."""
    try:
        subprocess.run(["unshare", *options, "mount", "--bind", at, at], stdin=subprocess.DEVNULL, check=True,
                       capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        raise unittest.SkipTest("no unshare or mount here: install util-linux and mount") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip().splitlines()
        reason = said[0] if said else str(error)
        raise unittest.SkipTest(f"namespaces with mounts of their own are refused here: {reason}") from None


def need_device_nodes(folder: str) -> None:
    """Skips the test unless device nodes can be made in a tmpfs of a namespace, and opened there."""
    need_namespaces("--mount")
    command = 'mount -t tmpfs tmpfs "$0" && mknod "$0/null" c 1 3 && : >"$0/null"'
    tried = subprocess.run(["unshare", "--mount", "sh", "-c", command, folder], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        raise unittest.SkipTest(f"device nodes are refused here: {tried.stderr.strip()}")


def need_process_substitution() -> None:
    """Skips the test unless bash has `< <(command)`, which the kit for Slurm uses."""
    tried = subprocess.run(["bash", "-c", ": < <(:)"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if tried.returncode != 0:
        raise unittest.SkipTest("no /dev/fd is here, and bash needs it to read a command's output as a file")


def has_memory_policies() -> bool:
    """Tells whether a process may set its memory policy. Sets that of this one, which has the default already."""
    return ctypes.CDLL("libnuma.so.1").set_mempolicy(MPOL_DEFAULT, None, 0) == 0


def need_memory_policies() -> None:
    """Skips the test where has_memory_policies() is false."""
    if not has_memory_policies():
        raise unittest.SkipTest("memory policies are refused here")


def need_another_user(*words: str) -> None:
    """Skips the test unless a process of another user can be started, and may start this program."""
    try:
        subprocess.run(words or ["true"], user=STRANGER, group=STRANGER, extra_groups=[], stdin=subprocess.DEVNULL,
                       capture_output=True, check=True)
    except (OSError, subprocess.SubprocessError):
        raise unittest.SkipTest("no process of another user can be started here") from None


def need_terminal() -> tuple[int, int]:
    """Returns the descriptors of a new pseudo-terminal: who controls it, and the terminal."""
    try:
        return os.openpty()
    except OSError as error:
        raise unittest.SkipTest(f"no pseudo-terminal can be opened here: {error.strerror}") from None
