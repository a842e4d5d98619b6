#!/usr/bin/env python3
"""Prints an SBOM (SPDX 2.3) of the portable build: its libraries with their versions and licences, its files.

usage: sbom.py FOLDER      the folder with the files of a release
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import wheel

HEADERS = ("libfmt-dev", "nlohmann-json3-dev", "libcxxopts-dev")
LICENCES = {"hwloc": "BSD-3-Clause", "numactl": "LGPL-2.1-only", "onetbb": "Apache-2.0", "zlib": "Zlib",
            "libfmt-dev": "MIT", "nlohmann-json3-dev": "MIT", "libcxxopts-dev": "MIT", "ziglang": "MIT",
            "llvm": "Apache-2.0 WITH LLVM-exception"}  # zig's libc++, libc++abi, libunwind and compiler-rt


def libraries() -> list[tuple[str, str]]:
    """Returns name and version of each library that is linked in, and of the compiler."""
    lines = (wheel.ROOT / "scripts/portable/sources.txt").read_text().splitlines()
    found = [(words[0], words[1]) for words in map(str.split, lines) if words[0] != "#"]
    for name in HEADERS:
        asked = ["dpkg-query", "-W", "-f", "${Version}", name]
        found.append((name, subprocess.run(asked, capture_output=True, text=True, check=True).stdout))
    zig = re.search(r"ZF_ZIG=(\S+)", (wheel.ROOT / "scripts/portable/common.sh").read_text())
    assert zig
    return [*found, ("llvm", f"of ziglang {zig[1]}"), ("ziglang", zig[1])]


def licences_of(name: str) -> list[str]:
    """Returns the licences of what a file of the release has in it. The .deb has no library but headers and zlib."""
    parts = [*HEADERS, "zlib"] if name.endswith(".deb") else LICENCES
    return sorted({"Apache-2.0", *(LICENCES[part] for part in parts)})


def file(number: int, path: pathlib.Path) -> dict[str, object]:
    licences = licences_of(path.name)
    return {"SPDXID": f"SPDXRef-File-{number}", "fileName": f"./{path.name}", "fileTypes": ["ARCHIVE"],
            "copyrightText": "NOASSERTION", "licenseConcluded": " AND ".join(licences), "licenseInfoInFiles": licences,
            "checksums": [{"algorithm": kind, "checksumValue": hashlib.new(kind, path.read_bytes()).hexdigest()}
                          for kind in ("SHA1", "SHA256")]}


def package(name: str, version: str, licence: str) -> dict[str, object]:
    return {"SPDXID": f"SPDXRef-{name}", "name": name, "versionInfo": version, "licenseDeclared": licence,
            "licenseConcluded": licence, "downloadLocation": "NOASSERTION", "copyrightText": "NOASSERTION",
            "filesAnalyzed": False}


def relationship(one: str, kind: str, other: str) -> dict[str, str]:
    return {"spdxElementId": f"SPDXRef-{one}", "relationshipType": kind, "relatedSpdxElement": f"SPDXRef-{other}"}


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "0")
    made = time.gmtime(int(epoch))
    files = [path for path in sorted(pathlib.Path(sys.argv[1]).iterdir()) if path.is_file()]
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"zf-tune-{wheel.version()}",
        "documentNamespace": f"https://zf-tune.invalid/spdx/{wheel.version()}-{epoch}",
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", made), "creators": ["Tool: scripts/release"]},
        "packages": [package("zf-tune", wheel.version(), "Apache-2.0"),
                     *(package(name, version, LICENCES[name]) for name, version in libraries())],
        "files": [file(number, path) for number, path in enumerate(files)],
        "relationships": [
            relationship("DOCUMENT", "DESCRIBES", "zf-tune"),
            relationship("ziglang", "BUILD_TOOL_OF", "zf-tune"),
            *(relationship("zf-tune", "DYNAMIC_LINK" if name == "numactl" else "STATIC_LINK", name)
              for name, _ in libraries() if name != "ziglang"),
            *(relationship("DOCUMENT", "DESCRIBES", f"File-{number}") for number in range(len(files)))],
    }
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
