#!/usr/bin/env python3
"""Runs a command with what Docker leaves a process by default: few capabilities, and its filter of system calls.

usage: docker_like.py [--no-new-privs] [--user NUMBER] -- COMMAND [ARGUMENTS...]
  --no-new-privs  as `docker run --security-opt no-new-privileges`; always so if a user other than root starts it
  --user NUMBER   becomes this user and group, as `docker run --user NUMBER:NUMBER`

Root also loses the capabilities that Docker does not give. Namespaces, control groups and mounts stay as they are.
The filter is Docker's profiles/seccomp/default.json, which Debian has in golang-github-docker-docker-dev; another
place of it goes into ZF_DOCKER_PROFILE. Exit status 77: the profile or libseccomp is not here, or the kernel refuses
the filter.
"""

import argparse
import ctypes
import errno
import json
import os
import platform
import re
import sys

SKIPPED = 77
PROFILE = "/usr/share/gocode/src/github.com/docker/docker/profiles/seccomp/default.json"
LAST_CAP = "/proc/sys/kernel/cap_last_cap"

# What `docker run` gives (moby's oci/caps/defaults.go), with the numbers of linux/capability.h.
CAPABILITIES = {
    "CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_FOWNER": 3, "CAP_FSETID": 4, "CAP_KILL": 5, "CAP_SETGID": 6,
    "CAP_SETUID": 7, "CAP_SETPCAP": 8, "CAP_NET_BIND_SERVICE": 10, "CAP_NET_RAW": 13, "CAP_SYS_CHROOT": 18,
    "CAP_MKNOD": 27, "CAP_AUDIT_WRITE": 29, "CAP_SETFCAP": 31,
}
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 38, 47, 4
CLONE_NEWNS = 0x00020000
CAPABILITY_VERSION_3 = 0x20080522

# seccomp.h: the attribute that sets no-new-privs, the actions, the comparisons, and the architectures below one.
FILTER_SETS_NO_NEW_PRIVS = 3
ACTIONS = {"SCMP_ACT_ALLOW": 0x7FFF0000, "SCMP_ACT_ERRNO": 0x00050000}
COMPARISONS = {"SCMP_CMP_NE": 1, "SCMP_CMP_LT": 2, "SCMP_CMP_LE": 3, "SCMP_CMP_EQ": 4, "SCMP_CMP_GE": 5,
               "SCMP_CMP_GT": 6, "SCMP_CMP_MASKED_EQ": 7}
ARCHITECTURES = {"x86_64": ("amd64", "SCMP_ARCH_X86_64"), "aarch64": ("arm64", "SCMP_ARCH_AARCH64")}


class Comparison(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int),
                ("datum_a", ctypes.c_uint64), ("datum_b", ctypes.c_uint64)]


def skip(reason: str):
    print(f"skipped: {reason}", file=sys.stderr)
    sys.exit(SKIPPED)


def call(function, *arguments) -> None:
    """Calls a function of the C library that returns -1 and sets errno on failure."""
    if function(*arguments) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), function.__name__)


def profile() -> dict:
    path = os.environ.get("ZF_DOCKER_PROFILE", PROFILE)
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        skip(f"no profile of Docker ({error}): install golang-github-docker-docker-dev")


def libseccomp() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError as error:
        skip(f"no libseccomp ({error}): install libseccomp2")
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    library.seccomp_arch_resolve_name.restype = ctypes.c_uint32
    library.seccomp_arch_add.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    library.seccomp_attr_set.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32]
    library.seccomp_rule_add_array.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint,
                                               ctypes.POINTER(Comparison)]
    library.seccomp_load.argtypes = [ctypes.c_void_p]
    return library


def succeeded(result: int, unless: int = 0) -> None:
    """Checks a result of libseccomp, which is 0 or a negative errno."""
    if result not in (0, -unless):
        sys.exit(f"docker_like.py: libseccomp cannot make the filter: {os.strerror(-result)}")


def kernel_version() -> tuple[int, int]:
    major, minor = re.match(r"(\d+)\.(\d+)", platform.release()).groups()
    return int(major), int(minor)


def applies(rule: dict, arch: str) -> bool:
    """Tells whether a rule of the profile counts for this architecture, this kernel and Docker's capabilities."""
    includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
    if ("arches" in includes and arch not in includes["arches"]) or arch in excludes.get("arches", ()):
        return False
    if not set(includes.get("caps", ())) <= set(CAPABILITIES) or set(excludes.get("caps", ())) & set(CAPABILITIES):
        return False
    for of, wanted in ((includes, True), (excludes, False)):
        if "minKernel" in of and (kernel_version() >= tuple(map(int, of["minKernel"].split(".")))) != wanted:
            return False
    return True


def action(name: str, error: int | None) -> int:
    """Returns libseccomp's number of an action. An error that the profile does not name is EPERM."""
    return ACTIONS[name] | (1 if error is None else error) if name == "SCMP_ACT_ERRNO" else ACTIONS[name]


def load_filter(no_new_privs: bool) -> None:
    """Loads Docker's filter for this process and all that it starts."""
    rules, library = profile(), libseccomp()
    if platform.machine() not in ARCHITECTURES:
        skip(f"the names of the architecture {platform.machine()} in Docker's profile are not known")
    arch, token = ARCHITECTURES[platform.machine()]
    context = library.seccomp_init(action(rules["defaultAction"], rules.get("defaultErrnoRet")))
    if not context:
        sys.exit("docker_like.py: libseccomp makes no filter")
    for entry in rules["archMap"]:
        for sub in entry["subArchitectures"] or () if entry["architecture"] == token else ():
            name = sub.removeprefix("SCMP_ARCH_").lower().encode()
            library.seccomp_arch_add(context, library.seccomp_arch_resolve_name(name))
    succeeded(library.seccomp_attr_set(context, FILTER_SETS_NO_NEW_PRIVS, int(no_new_privs)))
    for rule in rules["syscalls"]:
        if not applies(rule, arch):
            continue
        compared = [Comparison(one["index"], COMPARISONS[one["op"]], one["value"], one.get("valueTwo", 0))
                    for one in rule.get("args") or ()]
        # Two comparisons of one argument are two rules, as in runc: libseccomp takes one of each.
        repeated = len({one.arg for one in compared}) < len(compared)
        for comparisons in [[one] for one in compared] if repeated else [compared]:
            for name in rule["names"]:
                number = library.seccomp_syscall_resolve_name(name.encode())
                if number != -1:  # -1: a call that this libseccomp does not know
                    # A rule that only repeats the default action is refused, and changes nothing.
                    succeeded(library.seccomp_rule_add_array(
                        context, action(rule["action"], rule.get("errnoRet")), number, len(comparisons),
                        (Comparison * len(comparisons))(*comparisons)), unless=errno.EACCES)
    result = library.seccomp_load(context)
    if result != 0:
        skip(f"the kernel refuses the filter: {os.strerror(-result)}")


def drop_capabilities(libc: ctypes.CDLL) -> None:
    """Leaves this process and what it starts Docker's capabilities at most. None is inheritable or ambient."""
    with open(LAST_CAP, encoding="ascii") as file:
        last = int(file.read())
    for number in set(range(last + 1)) - set(CAPABILITIES.values()):
        call(libc.prctl, PR_CAPBSET_DROP, number, 0, 0, 0)
    call(libc.prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    kept = sum(1 << number for number in CAPABILITIES.values())
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    # Effective, permitted and inheritable: the lower 32 bits of each, then the upper.
    call(libc.capset, header, (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0))


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--no-new-privs", action="store_true")
    parser.add_argument("--user", type=int)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()

    libc = ctypes.CDLL(None, use_errno=True)
    root = os.geteuid() == 0
    if options.no_new_privs:
        call(libc.prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # The filter comes first, as in runc: without no-new-privs only who has CAP_SYS_ADMIN may load one.
    load_filter(no_new_privs=options.no_new_privs or not root)
    if root:
        drop_capabilities(libc)
    if libc.unshare(CLONE_NEWNS) == 0 or ctypes.get_errno() != errno.EPERM:
        sys.exit("docker_like.py: the filter is not in force: it allows namespaces")
    if options.user is not None:
        os.setgroups([])
        os.setresgid(options.user, options.user, options.user)
        os.setresuid(options.user, options.user, options.user)
    os.execvp(options.command[0], options.command)


if __name__ == "__main__":
    main()
