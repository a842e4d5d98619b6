"""Compiles every header by itself, with the include paths of its own room only; then the product's headers together.

usage: headers_alone.py BUILD_FOLDER [JOBS]

A header fails if it needs another include before it, or if it includes a header of a room that its own room may not
use. Together they fail if two headers define one name, which a program that includes only one of them does not show.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
JOINED = re.compile(r'^#include "(/[^"]+)"', re.MULTILINE)  # in a file that CMake makes of several sources
STRICT = ["-Wall", "-Wextra", "-pedantic-errors", "-Werror"]


def compilers(build: pathlib.Path) -> dict[str, str]:
    """Returns the build's compiler for each language."""
    cache = (build / "CMakeCache.txt").read_text()
    found = dict(re.findall(r"^CMAKE_(\w+)_COMPILER:\w+=(.+)$", cache, re.MULTILINE))
    return {"c": found["C"], "c++": found["CXX"]}


def flags_by_folder(build: pathlib.Path) -> dict[pathlib.Path, tuple[str, list[str]]]:
    """Returns, for each source folder, the language and the flags of one of its files.

    Leaves out the input, the output and `-include`: a precompiled header would hide a missing include.
    """
    found: dict[pathlib.Path, tuple[str, list[str]]] = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"])
        if source.is_relative_to(build) and (joined := JOINED.search(source.read_text())):
            source = pathlib.Path(joined[1])
        words = shlex.split(entry["command"])
        flags = [word for word in words if word.startswith(("-I", "-D", "-std=", "-W", "-m", "-f"))]
        for at, word in enumerate(words):
            if word == "-isystem":
                flags.append(f"-isystem{words[at + 1]}")
        found.setdefault(source.parent, ("c" if source.suffix == ".c" else "c++", flags))
    return found


def compile_alone(compiler: str, language: str, flags: list[str], header: pathlib.Path) -> str:
    """Returns the errors of the compiler; empty if the header compiles."""
    command = [compiler, *flags, "-fsyntax-only", "-x", language, "-include", str(header), "/dev/null"]
    result = subprocess.run(command, capture_output=True, text=True, check=False,
                            env=os.environ | {"LC_ALL": "C"})
    return "" if result.returncode == 0 else f"{header}: does not compile alone ({language})\n{result.stderr}"


def compile_together(compiler: str, folders: dict[pathlib.Path, tuple[str, list[str]]],
                     headers: list[pathlib.Path]) -> str:
    """Returns the errors of one file that includes all of the headers; empty if it compiles."""
    flags = list(dict.fromkeys(flag for header in headers for flag in folders[header.parent][1]))
    command = [compiler, *flags, "-fsyntax-only", "-x", "c++", "-"]
    text = "".join(f'#include "{header}"\n' for header in headers)
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False,
                            env=os.environ | {"LC_ALL": "C"})
    return "" if result.returncode == 0 else f"the headers do not compile together\n{result.stderr}"


def main() -> int:
    build = pathlib.Path(sys.argv[1]).resolve()
    jobs = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    compiler = compilers(build)
    folders = flags_by_folder(build)

    public = ROOT / "runtime/include"
    work = []
    for header in sorted(path for room in ("runtime", "tuner", "tests") for path in (ROOT / room).rglob("*.hpp")):
        if header.parent == public:
            continue
        if header.parent not in folders:
            print(f"{header}: there is no source in its folder, so nothing says how to compile it", file=sys.stderr)
            return 1
        work.append((*folders[header.parent], header))
    work += [("c++", ["-std=c++20", "-Wconversion", *STRICT], header) for header in sorted(public.glob("*.hpp"))]
    for header in sorted(public.glob("*.h")):  # for C and C++ programs alike
        work += [("c", ["-std=c99", *STRICT], header), ("c++", ["-std=c++11", *STRICT], header)]

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda item: compile_alone(compiler[item[0]], *item), work)
        complaints = [text for text in results if text]
    product = [header for _, _, header in work if header.is_relative_to(ROOT / "tuner")
               or (header.is_relative_to(ROOT / "runtime") and header.parent != public)]
    together = compile_together(compiler["c++"], folders, product)
    complaints += [together] if together else []
    print(*complaints, sep="\n", file=sys.stderr, end="")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
