"""Compiles every header by itself, with the include paths of its own room and no others.

usage: headers_alone.py BUILD_FOLDER [JOBS]

A header that needs another include before it, or that reaches into a room which its own may not use, fails.
"""

import concurrent.futures
import json
import pathlib
import shlex
import subprocess
import sys


def commands_by_folder(build: pathlib.Path) -> dict[pathlib.Path, list[str]]:
    """For each source folder, the compiler and the flags of one of its files, without input and output."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"])
        words = shlex.split(entry["command"])
        flags = [word for word in words if word.startswith(("-I", "-D", "-std=", "-W", "-m", "-f"))]
        for at, word in enumerate(words):
            if word == "-isystem":
                flags += [word, words[at + 1]]
        compiler = "cc" if source.suffix == ".c" else "c++"
        found.setdefault(source.parent, [compiler, *flags])
    return found


def compile_alone(header: pathlib.Path, command: list[str]) -> str:
    language = "c" if command[0] == "cc" else "c++"
    result = subprocess.run(
        [*command, "-fsyntax-only", "-x", language, "-include", str(header), "/dev/null"],
        capture_output=True,
        text=True,
    )
    return "" if result.returncode == 0 else f"{header}: does not compile alone ({language})\n{result.stderr}"


def main() -> int:
    build = pathlib.Path(sys.argv[1]).resolve()
    jobs = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    root = pathlib.Path(__file__).resolve().parent.parent
    commands = commands_by_folder(build)

    public = root / "runtime/include"
    work = []
    for header in sorted(path for room in ("runtime", "tuner", "tests") for path in (root / room).rglob("*.hpp")):
        if header.parent == public:
            continue
        if header.parent not in commands:
            print(f"{header}: no source beside it, so nothing says how to compile it", file=sys.stderr)
            return 1
        work.append((header, commands[header.parent]))
    for header in sorted(public.glob("*.hpp")):
        work.append((header, ["c++", "-std=c++20", "-Wall", "-Wextra", "-Wconversion", "-pedantic-errors"]))
    for header in sorted(public.glob("*.h")):  # for C and C++ programs alike
        work.append((header, ["cc", "-std=c99", "-Wall", "-Wextra", "-pedantic-errors"]))
        work.append((header, ["c++", "-std=c++11", "-Wall", "-Wextra", "-pedantic-errors"]))

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        complaints = [text for text in pool.map(lambda item: compile_alone(*item), work) if text]
    print(*complaints, sep="\n", file=sys.stderr, end="")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
