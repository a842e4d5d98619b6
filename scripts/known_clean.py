"""Remembers what a tool found nothing in, by the content of all that it read: tidy.py and headers_alone.py use this.

The files are empty, and their names are the keys. They lie where ccache keeps its own by default, in $XDG_CACHE_HOME or
~/.cache, so a new clone finds what another one has checked. A finding is never remembered.

A key is made of the tool, the flags, a text, and each file that the text includes, however deeply, also where an #if
leaves the include out. The system's headers count all together, by their sizes and times.
"""

import functools
import hashlib
import os
import pathlib
import re
import subprocess
import time

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
UNUSED_DAYS = 30


@functools.cache
def content(path: str) -> tuple[str, list[str]]:
    """Returns the content of a file in one word, and the names that it includes."""
    text = pathlib.Path(path).read_text()
    return hashlib.sha256(text.encode()).hexdigest(), INCLUDE.findall(text)


@functools.cache
def found_in(folder: str, name: str) -> str | None:
    """Returns the real path of an include in this folder; None if it is not there."""
    path = os.path.join(folder, name)
    return os.path.realpath(path) if os.path.isfile(path) else None


def with_includes(text: str, folders: list[str]) -> set[str]:
    """Returns all files that a text includes from these folders and those of the includers."""
    found: set[str] = set()
    left = [path for name in INCLUDE.findall(text) for folder in folders if (path := found_in(folder, name))]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += [other for name in content(path)[1] for folder in (os.path.dirname(path), *folders)
                     if (other := found_in(folder, name))]
    return found


def system_headers(compiler: str) -> str:
    """Returns in one word the state of all headers of the system: where they are, their sizes and times."""
    said = subprocess.run([compiler, "-E", "-v", "-x", "c++", os.devnull], capture_output=True, text=True, check=True,
                          env=os.environ | {"LC_ALL": "C"}).stderr
    state = hashlib.sha256()
    for folder in said.split("<...> search starts here:\n")[1].split("End of search list")[0].split():
        for place, inner, names in os.walk(folder):
            inner.sort()
            for name in sorted(names):
                path = os.path.join(place, name)
                if os.path.exists(path):  # a link may lead nowhere
                    facts = os.stat(path)
                    state.update(f"{path}\0{facts.st_size}\0{facts.st_mtime_ns}\0".encode())
    return state.hexdigest()


class KnownClean:
    def __init__(self, tool: str, compiler: str, root: pathlib.Path, state: list[str]) -> None:
        """Opens what is remembered of a tool. `compiler` says where the system's headers are, and `state` is what else
        all texts depend on, such as the tool's version and rules."""
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        self.folder = pathlib.Path(caches, "zf-tune", tool)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.root = str(root)
        self.state = [*state, system_headers(compiler)]
        oldest = time.time() - UNUSED_DAYS * 86400
        for file in self.folder.iterdir():
            if file.stat().st_mtime < oldest:
                file.unlink(missing_ok=True)

    def key(self, text: str, flags: list[str]) -> str:
        """Returns the key of a text. The same text with the same includes has the same key in another clone."""
        folders = [flag[2:] for flag in flags if flag.startswith("-I")] or ["/"]
        parts = [*self.state, *flags, text]
        for path in sorted(with_includes(text, folders)):
            parts += [path, content(path)[0]]
        return hashlib.sha256("\0".join(part.replace(self.root, ".") for part in parts).encode()).hexdigest()

    def has(self, key: str) -> bool:
        """Tells whether the tool found nothing in what has this key."""
        try:
            os.utime(self.folder / key)  # which keeps it
        except FileNotFoundError:
            return False
        return True

    def add(self, key: str) -> None:
        """Remembers that the tool found nothing."""
        (self.folder / key).touch()
