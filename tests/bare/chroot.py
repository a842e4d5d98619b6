"""A minimal Debian in a folder, made by debootstrap, in which a copy of this project's files is built and run."""

import contextlib
import fcntl
import filecmp
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest
import urllib.request

SOURCE = pathlib.Path(os.environ["ZF_SOURCE_DIR"])
FOLDER = pathlib.Path(os.environ["ZF_BARE_FOLDER"])  # keeps the systems between runs
MINIMAL = pathlib.Path(os.environ["ZF_BARE_MINIMAL"])  # those that nothing was done to, between checkouts too
ARCHIVE = "http://deb.debian.org/debian"
DOCKER_LIKE = SOURCE / "tests/bare/docker_like.py"

# The user has a number that no real user is likely to have.
USER = 64321
AS_USER = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
# The first command, without measuring.
PLAN = "./scripts/tune plan --params 1B -o ~/plan.json"

CLEAN = ("/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "TERM=dumb", "HOME=/home/user")

# Runs "$@" with /proc and /sys of its own mount namespace. Nothing stays mounted behind it.
MOUNTED = ('mount --make-rprivate / && mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && '
           'mount -t tmpfs tmpfs "$0/dev/shm" && '
           '{ [[ ! -d $0/var/cache/ccache ]] || mount --bind "$(ccache -k cache_dir)" "$0/var/cache/ccache"; } && '
           'cd / && exec "$@"')

# Runs this machine's ccache in another system, with its own libraries. A user who may not write to the cache compiles
# without it.
CCACHE = """#!/bin/sh
export CCACHE_DIR=/var/cache/ccache
[ -w "$CCACHE_DIR" ] || exec "$@"
own=/usr/local/lib/ccache
exec $own/{loader} --library-path $own $own/ccache "$@"
"""


def _sources() -> list[str]:
    """Returns the names of this project's files, committed or not yet."""
    listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        raise unittest.SkipTest("this is no checkout of git, so its own files cannot be told from others")
    return [name for name in listed.stdout.split("\0") if name and (SOURCE / name).is_file()]


def index_of(suite: str) -> bytes:
    """Returns Debian's index of the release, which names all of its packages."""
    try:
        with urllib.request.urlopen(f"{ARCHIVE}/dists/{suite}/InRelease", timeout=60) as index:
            return index.read()
    except (OSError, http.client.HTTPException) as error:
        raise unittest.SkipTest(f"no package archive in reach: {error}") from error


@contextlib.contextmanager
def minimal(suite: str):
    """Yields the root of this release as debootstrap leaves it, to be copied. Skips if it cannot be made here.

    With another index of the release the system is made anew. Other checkouts wait meanwhile."""
    root = MINIMAL / f"{suite}-{hashlib.sha256(index_of(suite)).hexdigest()[:16]}"
    MINIMAL.mkdir(parents=True, exist_ok=True)
    with (MINIMAL / f"{suite}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _make(suite, root, lock)
        yield root


def _make(suite: str, root: pathlib.Path, lock) -> None:
    if root.exists():
        return
    for tool in ("debootstrap", "unshare"):
        if not shutil.which(tool):
            raise unittest.SkipTest(f"no {tool} here: install it (scripts/packages.txt, heavy)")
    if os.geteuid() != 0:
        raise unittest.SkipTest("a system in a folder of its own needs root")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
        raise unittest.SkipTest("unshare --mount is refused here, and a system in a folder needs its own /proc")
    for old in root.parent.glob(f"{suite}-*"):
        shutil.rmtree(old, ignore_errors=True)
    unfinished = root.with_name(f"{root.name}.unfinished")
    # debootstrap mounts /proc in the folder, and leaves it there if it fails. In a mount namespace of its own it leaves
    # nothing behind, so the lines above never reach into a mounted /proc. It holds the lock, too: one that outlives a
    # killed test keeps others waiting, and does not write among what they make.
    made = subprocess.run(["unshare", "--mount", "debootstrap", "--variant=minbase", suite, unfinished, ARCHIVE],
                          capture_output=True, text=True, timeout=600, check=False, pass_fds=[lock.fileno()])
    if made.returncode != 0:
        last = (made.stdout + made.stderr).strip().splitlines()[-1:]
        raise unittest.SkipTest(f"debootstrap cannot make Debian {suite} (no package archive in reach?): {last}")
    unfinished.rename(root)


def copy_of(suite: str, root: pathlib.Path) -> None:
    """Makes a minimal system at this root, whatever was there before. It appears there when it is whole."""
    whole = root
    root = whole.with_name(f"{whole.name}.unfinished")
    for old in (root, whole):
        shutil.rmtree(old, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    with minimal(suite) as kept:
        subprocess.run(["cp", "--archive", "--reflink=auto", kept, root], check=True)
    # How apt reaches the archive here, for example through a proxy, holds inside too.
    for part in pathlib.Path("/etc/apt/apt.conf.d").glob("*"):
        if "Acquire::" in part.read_text(errors="replace"):
            shutil.copy(part, root / "etc/apt/apt.conf.d")
    with (root / "etc/passwd").open("a") as users:
        # An x would be locked to sudo, because /etc/shadow has no line for it.
        users.write(f"user:*:{USER}:{USER}::/home/user:/bin/bash\n")
    with (root / "etc/group").open("a") as groups:
        groups.write(f"user:x:{USER}:\n")
    root.rename(whole)


class Chroot:
    """A system of this release of Debian, with the project's files at /home/user/zf-tune, owned by `user`."""

    def __init__(self, suite: str, fresh: bool = False):
        """A fresh one has no package but those that debootstrap installs. Another keeps what was installed before."""
        self.root = FOLDER / (f"{suite}-fresh" if fresh else suite)
        names = _sources()
        if fresh or not (self.root / "etc/debian_version").exists():
            copy_of(suite, self.root)
        self.project = self.root / "home/user/zf-tune"
        for old in self.project.rglob("*"):
            name = old.relative_to(self.project)
            if old.is_file() and str(name) not in names and name.parts[0] != "build":
                old.unlink()
        for name in names:
            target = self.project / name
            target.parent.mkdir(parents=True, exist_ok=True)
            # A file that has not changed keeps its time, so that a build that is there compiles only the others.
            if not target.exists() or not filecmp.cmp(SOURCE / name, target, shallow=False):
                shutil.copy(SOURCE / name, target)
        self.give_to_user()

    def lend_ccache(self) -> None:
        """Gives this system the ccache of this machine, so that it compiles only what no run before it has compiled."""
        program = shutil.which("ccache")
        if program is None:
            return
        pathlib.Path(subprocess.run([program, "-k", "cache_dir"], capture_output=True, text=True, check=True)
                     .stdout.strip()).mkdir(parents=True, exist_ok=True)
        linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        parts = [program, *re.findall(r"(/\S+) \(0x", linked)]
        for folder in ("usr/local/lib/ccache", "var/cache/ccache"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        for part in parts:
            shutil.copy(part, self.root / "usr/local/lib/ccache")
        wrapper = self.root / "usr/bin/ccache"
        wrapper.write_text(CCACHE.format(loader=pathlib.Path(parts[-1]).name))
        wrapper.chmod(0o755)

    @contextlib.contextmanager
    def hidden(self, *paths: str):
        """Takes files and folders away while it lasts. Each path is a pattern below the root of this system."""
        moved = [path for pattern in paths for path in sorted(self.root.glob(pattern))]
        for path in moved:  # CMake would also find NAME with something behind it
            path.rename(path.with_name("away-" + path.name))
        try:
            yield
        finally:
            for path in moved:
                path.with_name("away-" + path.name).rename(path)

    def give_to_user(self) -> None:
        subprocess.run(["chown", "-R", f"{USER}:{USER}", self.root / "home/user"], check=True)

    def run(self, command: str, timeout: int, before=(), inside=(), **keywords) -> subprocess.CompletedProcess:
        """Runs a shell command in the project's folder. `before` stands before chroot and `inside` behind it."""
        return subprocess.run(
            ["unshare", "--mount", "bash", "-c", MOUNTED, self.root, *before, "chroot", self.root, *CLEAN, *inside,
             "bash", "-c", f"cd /home/user/zf-tune && {command}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout, check=False,
            **keywords)


class BareTest(unittest.TestCase):
    def assert_done(self, result: subprocess.CompletedProcess) -> None:
        self.assertEqual(result.returncode, 0, f"{result.stdout[-6000:]}\n{result.stderr[-6000:]}")

    def assert_plan(self, system: Chroot) -> None:
        home = system.root / "home/user"
        self.assertEqual(json.loads((home / "plan.json").read_text())["schema"], "zf-plan/2")
        for path in home.glob("plan.json*"):  # the next user may not write to the samples of this one
            path.unlink()
