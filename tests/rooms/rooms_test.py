#!/usr/bin/python3
"""The rooms of the house: what each may use, as the build enforces it and as the sources use it.

docs/rooms.md shows the tuner's rooms; a test here holds the picture against the sources. After a change of rooms,
`tests/rooms/rooms_test.py --draw` prints the picture anew.
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ZF_TUNE_BINARY", SOURCE / "build/bin/zf-tune")).parents[1]

RUNTIME = ["base", "os", "launchers", "plan", "engine", "ipc", "worker", "abi"]
# From the ground up. A room may use the rooms before it, as far as CMake links them.
TUNER = ["text", "children", "compare", "machine", "inspect", "homes", "planning", "launch", "measure", "simulate",
         "search", "trial", "exports", "report", "commands"]

# A library with types of its own, the header by which it is known, and the only rooms that may include it.
HOMES_OF_LIBRARIES = [
    ("hwloc", r"hwloc", {"machine"}),
    ("oneTBB", r"(oneapi/)?tbb", {"measure"}),
    ("cxxopts", r"cxxopts", {"commands"}),
    ("libnuma", r"numa(if)?\.h", {"os"}),
]


def folder_of(room: str) -> pathlib.Path:
    return SOURCE / ("runtime" if room in RUNTIME else "tuner") / room


def sources_of(room: str) -> list[pathlib.Path]:
    return sorted(path for path in folder_of(room).rglob("*") if path.suffix in (".cpp", ".hpp"))


def includes_of(path: pathlib.Path) -> list[str]:
    return re.findall(r'^#include ["<]([^">]+)[">]', path.read_text(), re.MULTILINE)


def used_rooms(room: str) -> dict[str, int]:
    """Returns the other rooms that a room's sources include, with the number of include lines."""
    used: dict[str, int] = {}
    for source in sources_of(room):
        for header in includes_of(source):
            other = header.split("/")[0]
            if other != room and other in RUNTIME + TUNER and "/" in header:
                used[other] = used.get(other, 0) + 1
    return used


def levels(graph: dict[str, set[str]]) -> dict[str, int]:
    """Counts the rooms below each, in the longest chain. Raises RecursionError if there is a circle."""
    def level(room: str) -> int:
        return max((level(other) + 1 for other in graph[room]), default=0)
    return {room: level(room) for room in graph}


def tuner_graph() -> dict[str, set[str]]:
    return {room: {other for other in used_rooms(room) if other in TUNER} for room in TUNER}


def picture() -> str:
    """Draws the rooms of the tuner as a Mermaid graph: an arrow per pair of rooms that no longer way connects."""
    graph = tuner_graph()

    def reach(room: str) -> set[str]:
        return graph[room] | {far for near in graph[room] for far in reach(near)}

    lines = ["graph TD"]
    for room in reversed(TUNER):
        for other in sorted(graph[room], key=TUNER.index):
            if not any(other in reach(near) for near in graph[room] if near != other):
                lines.append(f"  {room} --> {other}")
    return "\n".join(lines)


def flags_of(room: str) -> tuple[str, list[str]]:
    """Returns the compiler, the include paths and the standard that the build gives to a source of this room."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        if pathlib.Path(entry["file"]).parent == folder_of(room):
            words = shlex.split(entry["command"])
            while not re.search(r"(c\+\+|g\+\+|clang\+\+)[^/]*$", words[0]):
                words.pop(0)  # a compiler cache
            flags = [word for word in words if word.startswith(("-I", "-std=", "-D"))]
            for at, word in enumerate(words):
                if word == "-isystem":
                    flags += [word, words[at + 1]]
            return words[0], flags
    raise AssertionError(f"{room}: the build has no source in it")


def compiles(room: str, header: str) -> subprocess.CompletedProcess:
    """Compiles one include with the flags of a room, without precompiled headers."""
    compiler, flags = flags_of(room)
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "include_only.cpp"
        source.write_text(f'#include "{header}"\n')
        return subprocess.run([compiler, *flags, "-fsyntax-only", str(source)], capture_output=True, text=True,
                              env=os.environ | {"LC_ALL": "C"})


def one_header(room: str) -> str:
    header = next(path for path in sources_of(room) if path.suffix == ".hpp")
    return f"{room}/{header.relative_to(folder_of(room))}"


class Rooms(unittest.TestCase):
    def assert_hidden(self, room: str, header: str) -> None:
        result = compiles(room, header)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(f"{header}: No such file or directory", result.stderr)

    def test_an_include_against_the_direction_does_not_compile(self):
        upward = [(room, above) for number, room in enumerate(TUNER) for above in TUNER[number + 1:]]
        for room, other in upward + [("base", "os"), ("os", "launchers"), ("os", "plan"), ("os", "engine"),
                                     ("launchers", "plan"), ("engine", "launchers"), ("plan", "engine"),
                                     ("engine", "plan"), ("ipc", "os"), ("ipc", "engine"), ("abi", "engine"),
                                     ("worker", "machine"), ("plan", "text"), ("abi", "homes")]:
            with self.subTest(room=room, includes=other):
                self.assert_hidden(room, one_header(other))

    def test_an_include_along_the_direction_compiles(self):
        """A test of the test above: it could not fail if nothing compiled."""
        for room, other in [("os", "base"), ("launchers", "os"), ("plan", "launchers"), ("engine", "os"),
                            ("worker", "engine"), ("abi", "plan"), ("machine", "text"), ("launch", "planning"),
                            ("search", "measure"), ("search", "compare"), ("commands", "report")]:
            with self.subTest(room=room, includes=other):
                result = compiles(room, one_header(other))
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_no_arrow_runs_back_and_there_is_no_circle(self):
        graph = tuner_graph()
        for room, others in graph.items():
            for other in others:
                self.assertLess(TUNER.index(other), TUNER.index(room), f"{room} uses {other}")
        self.assertEqual(levels(graph)["text"], 0)
        for room in RUNTIME:
            self.assertEqual({other for other in used_rooms(room) if other in TUNER}, set(), room)

    def test_each_library_has_one_home(self):
        """Its own header is included there alone, and so are headers of that room that bring it along."""
        for library, header, homes in HOMES_OF_LIBRARIES:
            with self.subTest(library=library):
                brings = {f"{room}/{source.name}" for room in RUNTIME + TUNER for source in sources_of(room)
                          if source.suffix == ".hpp" and any(re.match(header, name) for name in includes_of(source))}
                including = {room for room in RUNTIME + TUNER for source in sources_of(room)
                             for name in includes_of(source) if re.match(header, name) or name in brings}
                self.assertEqual(including, homes)

    def test_the_picture_in_the_docs_is_the_one_in_the_sources(self):
        page = (SOURCE / "docs/rooms.md").read_text()
        self.assertIn(picture(), page, "print it anew with: tests/rooms/rooms_test.py --draw")

    def test_the_slurm_plugin_needs_neither_tbb_nor_a_parser_of_options(self):
        plugins = list((BUILD / "lib").glob("zf_tune.so"))
        if not plugins:
            self.skipTest("libslurm-dev is not installed, so the plugin is not built")
        said = subprocess.run(["readelf", "--dynamic", str(plugins[0])], capture_output=True, text=True, check=True)
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", said.stdout)
        self.assertIn("libc.so.6", needed)
        self.assertFalse([name for name in needed if "tbb" in name], needed)
        symbols = subprocess.run(["nm", "--demangle", str(plugins[0])], capture_output=True, text=True, check=True)
        self.assertIn("zf::", symbols.stdout)
        self.assertNotIn("cxxopts::", symbols.stdout)
        self.assertNotIn("tbb::", symbols.stdout)


if __name__ == "__main__":
    if sys.argv[1:] == ["--draw"]:
        print(picture())
        sys.exit(0)
    unittest.main(verbosity=2)
