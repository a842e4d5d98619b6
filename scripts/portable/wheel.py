#!/usr/bin/env python3
"""Makes a wheel from an installed tree and the Python package. Equal trees give equal bytes.

usage: wheel.py TREE PLATFORM FOLDER      (e.g. build-portable/x86_64/tree manylinux_2_28_x86_64 build-portable/release)

TREE has bin, lib, include and share. pip puts them into the environment as they are; a link in it becomes a file,
because a wheel has none. Prints the wheel's path. SOURCE_DATE_EPOCH gives the time of its files.
"""

import base64
import csv
import hashlib
import io
import os
import pathlib
import re
import sys
import time
import zipfile

import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def version() -> str:
    """Returns the version: CMakeLists.txt has it, and nothing else does."""
    found = re.search(r"project\(zf-tune VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert found
    return found[1]


def pythons(classifiers: list[str]) -> str:
    """Returns the range from the oldest to the newest CPython among the classifiers: the tests run no other. A build
    from source takes newer ones, too."""
    minors = [int(found[1]) for line in classifiers if (found := re.fullmatch(r".*:: Python :: 3\.([0-9]+)", line))]
    return f">=3.{min(minors)},<3.{max(minors) + 1}"


def metadata() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version()}",
             f"Summary: {project['description']}", "License: Apache-2.0", "License-File: LICENSE",
             *(f"Classifier: {line}" for line in project["classifiers"]),
             f"Requires-Python: {pythons(project['classifiers'])}"]
    for extra, needs in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {need}; extra == '{extra}'" for need in needs]
    readme = (ROOT / project["readme"]).read_text()
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", readme])


class Wheel:
    def __init__(self, path: pathlib.Path):
        seconds = max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800)  # a zip file begins in 1980
        self.time = time.gmtime(seconds)[:6]
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.record: list[tuple[str, str, str]] = []

    def add(self, name: str, data: bytes, runs: bool = False) -> None:
        info = zipfile.ZipInfo(name, self.time)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (0o100755 if runs else 0o100644) << 16
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append((name, f"sha256={digest}", str(len(data))))

    def add_tree(self, folder: pathlib.Path, under: str, skipped: str = "") -> None:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path.name != skipped:
                self.add(f"{under}/{path.relative_to(folder)}", path.read_bytes(), os.access(path, os.X_OK))

    def close(self, name: str) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*self.record, (name, "", "")])
        self.add(name, text.getvalue().encode())
        self.zip.close()


def main() -> None:
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    tree, tag, folder = pathlib.Path(sys.argv[1]), f"py3-none-{sys.argv[2]}", pathlib.Path(sys.argv[3])
    name = f"zf_tune-{version()}"
    info = f"{name}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{tag}.whl"
    wheel = Wheel(path)
    wheel.add_tree(ROOT / "runtime/python/zf_runtime", "zf_runtime")
    # The library's full name is for other systems' package managers: two links to it would be two more copies.
    wheel.add_tree(tree, f"{name}.data/data", skipped=f"libzf_runtime.so.{version()}")
    wheel.add(f"{info}/METADATA", metadata().encode())
    wheel.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: zf-tune\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    wheel.add_tree(tree / "share/doc/zf-tune/licences", f"{info}/licenses")
    wheel.add(f"{info}/LICENSE", (ROOT / "LICENSE").read_bytes())
    wheel.close(f"{info}/RECORD")
    print(path)


if __name__ == "__main__":
    main()
