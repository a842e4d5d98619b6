"""Compiles one include per line below with the flags of the room it is put into.

usage: rooms_test.py BUILD_FOLDER
"""

import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]

# Room, a header, and whether that room may include it. Each room has a line that may: a test of the test.
EXPECTATIONS = [
    ("runtime/base", "base/id_set.hpp", True),
    ("runtime/base", "os/affinity.hpp", False),
    ("runtime/os", "base/cpu_list.hpp", True),
    ("runtime/os", "plan/plan.hpp", False),
    ("runtime/os", "engine/pool.hpp", False),
    ("runtime/plan", "os/file.hpp", True),
    ("runtime/plan", "engine/pool.hpp", False),
    ("runtime/plan", "tuner/topology.hpp", False),
    ("runtime/engine", "os/affinity.hpp", True),
    ("runtime/engine", "plan/plan.hpp", False),
    ("runtime/engine", "tuner/topology.hpp", False),
    ("runtime/ipc", "base/error.hpp", True),
    ("runtime/ipc", "os/affinity.hpp", False),
    ("runtime/ipc", "engine/pool.hpp", False),
    ("runtime/worker", "engine/pool.hpp", True),
    ("runtime/worker", "plan/plan.hpp", True),
    ("runtime/worker", "tuner/topology.hpp", False),
    ("runtime/abi", "plan/plan.hpp", True),
    ("runtime/abi", "engine/pool.hpp", False),
    ("runtime/abi", "tuner/topology.hpp", False),
    ("tuner", "engine/pool.hpp", True),
    ("tuner", "tuner/topology.hpp", True),
]


def flags_of(room: str, commands: list[dict]) -> list[str]:
    """Include paths and standard that the build gives to a source of this room."""
    for entry in commands:
        if pathlib.Path(entry["file"]).parent == SOURCE / room:
            words = shlex.split(entry["command"])
            flags = [word for word in words if word.startswith(("-I", "-std="))]
            for at, word in enumerate(words):
                if word == "-isystem":
                    flags += [word, words[at + 1]]
            return flags
    sys.exit(f"{room}: the build has no source in it")


def main() -> int:
    build = pathlib.Path(sys.argv[1])
    commands = json.loads((build / "compile_commands.json").read_text())
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for room, header, may in EXPECTATIONS:
            source = pathlib.Path(folder) / "include_only.cpp"
            source.write_text(f'#include "{header}"\n')
            command = ["c++", *flags_of(room, commands), "-fsyntax-only", str(source)]
            result = subprocess.run(command, capture_output=True, text=True)
            compiles = result.returncode == 0
            # A header that is gone would pass for a forbidden one.
            exists = any((SOURCE / parent / header).is_file() for parent in ("runtime", "."))
            if compiles != may or not exists:
                failures += 1
                print(f"{room} includes {header}: {'compiles' if compiles else 'does not compile'}"
                      f"{'' if exists else ', and there is no such header'}\n{result.stderr}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
