"""Makes system calls fail as they do in sandboxes and on older kernels (x86-64)."""

import ctypes
import os

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NO_FILTERS = 99  # the exit status of a process in which nothing could be refused

CALLS = {
    "clone": 56, "clone3": 435, "eventfd2": 290, "flock": 73, "fork": 57, "fsync": 74, "futex": 202,
    "get_mempolicy": 239, "getdents64": 217, "getpid": 39, "getrandom": 318, "inotify_init1": 294, "ioctl": 16,
    "linkat": 265, "madvise": 28, "mbind": 237, "membarrier": 324, "memfd_create": 319, "mlock": 149, "mmap": 9,
    "move_pages": 279, "openat2": 437, "perf_event_open": 298, "pidfd_open": 434, "pidfd_send_signal": 424,
    "pipe2": 293, "prctl": 157, "prlimit64": 302, "readlink": 89, "rename": 82, "sched_getaffinity": 204,
    "sched_setaffinity": 203, "sched_setscheduler": 144, "sched_yield": 24, "set_mempolicy": 238, "setpgid": 109,
    "setpriority": 141, "statx": 332, "sysinfo": 99, "timerfd_create": 283, "uname": 63, "vfork": 58, "write": 1,
}


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]


class _Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(_Instruction))]


def refusing(error: int, *names: str):
    """Returns a function for subprocess's preexec_fn: from there on, these calls fail with `error`."""

    def refuse():
        words = [_Instruction(LOAD_WORD, 0, 0, 0)]
        for name in names:
            words += [_Instruction(JUMP_IF_EQUAL, 0, 1, CALLS[name]), _Instruction(RETURN, 0, 0, ERRNO | error)]
        words.append(_Instruction(RETURN, 0, 0, ALLOW))
        program = _Program(len(words), (_Instruction * len(words))(*words))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or \
                libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
            os._exit(NO_FILTERS)

    return refuse
