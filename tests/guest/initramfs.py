"""A file system in memory, for a guest to start with: busybox, our programs with their libraries, nothing else."""

import os
import pathlib
import re
import shutil
import stat
import subprocess

# Folders of the root that are links into /usr, as Debian has them.
_MERGED = ("bin", "sbin", "lib", "lib64")

# Those of busybox that would stand in the way of util-linux's.
_LEFT_OUT = {"taskset", "lscpu", "unshare", "nsenter", "setpriv", "nproc"}


class Initramfs:
    """What the kernel unpacks before it starts /init: a cpio archive in its "newc" form, all of it root's."""

    def __init__(self):
        self._parts: list[bytes] = []
        self._present = {"/"}
        for folder in _MERGED:
            self.add_folder(f"/usr/{folder}")
            self._present.add(f"/{folder}")
            self._append(folder, f"usr/{folder}".encode(), stat.S_IFLNK | 0o777)

    def add(self, path: str, content: bytes, mode: int) -> None:
        """A file, folder or link with the folders above it; the first one added under a name stays."""
        if path.split("/")[1] in _MERGED:
            path = "/usr" + path
        if path in self._present:
            return
        if (parent := os.path.dirname(path)) not in self._present:
            self.add_folder(parent)
        self._present.add(path)
        self._append(path.lstrip("/"), content, mode)

    def add_folder(self, path: str) -> None:
        self.add(path, b"", stat.S_IFDIR | 0o755)

    def add_text(self, path: str, text: str, mode: int = 0o644) -> None:
        self.add(path, text.encode(), stat.S_IFREG | mode)

    def add_link(self, path: str, target: str) -> None:
        self.add(path, target.encode(), stat.S_IFLNK | 0o777)

    def add_file(self, source: str | pathlib.Path, path: str | None = None) -> None:
        """A file of this machine, links followed; under its own name unless another is given."""
        self.add(path or str(source), pathlib.Path(source).read_bytes(), os.stat(source).st_mode)

    def add_programs(self, *names: str | pathlib.Path) -> None:
        """Programs by path, or as PATH finds them, and shared objects; with every library they load."""
        found = []
        for name in map(str, names):
            path = shutil.which(name) or name
            if not os.path.exists(path):
                raise FileNotFoundError(f"{name}: no such program")
            found.append(path)
        for path in found + libraries_of(found):
            self.add_file(path)

    def add_busybox(self) -> None:
        busybox = shutil.which("busybox")
        if busybox is None:
            raise FileNotFoundError("busybox: install busybox-static")
        self.add_file(busybox, "/bin/busybox")
        applets = subprocess.run([busybox, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        for applet in applets:
            if applet not in _LEFT_OUT:
                self.add_link(f"/bin/{applet}", "busybox")

    def bytes(self) -> bytes:
        trailer = _entry(0, "TRAILER!!!", b"", 0)
        return b"".join([*self._parts, trailer])

    def _append(self, name: str, content: bytes, mode: int) -> None:
        self._parts.append(_entry(len(self._parts) + 1, name, content, mode))


def _entry(inode: int, name: str, content: bytes, mode: int) -> bytes:
    encoded = name.encode() + b"\0"
    fields = [inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0]
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + encoded) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def libraries_of(paths: list[str]) -> list[str]:
    """Every shared library that these load, the dynamic loader too, by ldd."""
    if not paths:
        return []
    said = subprocess.run(["ldd", *paths], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return sorted(set(re.findall(r"^\t(?:\S+ => )?(/\S+) \(0x", said.stdout, re.MULTILINE)))
