#!/usr/bin/python3
"""The rooms of the house: what each may use, as the build enforces it and as the sources use it.

docs/design.md shows all rooms; tests here hold the picture against CMake's rooms and against the sources. After a
change of rooms, `tests/rooms/rooms_test.py --draw` prints its arrows anew.
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


def rooms_of(folder: str) -> list[str]:
    """Returns the rooms that CMake builds here, from the ground up: a room may use those before it that it links."""
    return re.findall(r"^zf_room\((\w+)", (SOURCE / folder / "CMakeLists.txt").read_text(), re.MULTILINE)


RUNTIME = rooms_of("runtime")
TUNER = rooms_of("tuner")
PAGE = SOURCE / "docs/design.md"

# A library with types of its own, the header by which it is known, and the only rooms that may include it.
HOMES_OF_LIBRARIES = [
    ("hwloc", r"hwloc", {"topology"}),
    ("oneTBB", r"(oneapi/)?tbb", {"measure"}),
    ("cxxopts", r"cxxopts", {"commands"}),
    ("libnuma", r"numa(if)?\.h", {"os"}),
]


def links_of(folder: str) -> dict[str, set[str]]:
    """Returns the rooms that CMake lets each room of this folder link directly."""
    text = (SOURCE / folder / "CMakeLists.txt").read_text()
    calls = re.findall(r"^zf_room\((\w+)(.*?)\)$", text, re.MULTILINE | re.DOTALL)
    return {room: set(re.findall(r"\bzf_(\w+)", arguments)) & set(RUNTIME + TUNER) for room, arguments in calls}


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


def graph_of_uses() -> dict[str, set[str]]:
    return {room: set(used_rooms(room)) for room in RUNTIME + TUNER}


def arrows() -> list[str]:
    """Returns the arrows of the picture: one per pair of rooms that no longer way connects."""
    graph = graph_of_uses()

    def reach(room: str) -> set[str]:
        return graph[room] | {far for near in graph[room] for far in reach(near)}

    order = RUNTIME + TUNER
    return [f"{room} --> {other}" for room in reversed(order) for other in sorted(graph[room], key=order.index)
            if not any(other in reach(near) for near in graph[room] if near != other)]


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
    """Finds one include with the flags of a room; scripts/headers_alone.py compiles each header."""
    compiler, flags = flags_of(room)
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "include_only.cpp"
        source.write_text(f'#include "{header}"\n')
        return subprocess.run([compiler, *flags, "-M", str(source)], capture_output=True, text=True,
                              check=False, env=os.environ | {"LC_ALL": "C"})


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
        for room, other in [*upward, ("base", "os"), ("os", "launchers"), ("os", "plan"), ("os", "engine"),
                                     ("launchers", "plan"), ("engine", "launchers"), ("plan", "engine"),
                                     ("engine", "plan"), ("ipc", "os"), ("ipc", "engine"), ("ipc", "abi"),
                                     ("plan", "abi"), ("worker", "abi"), ("local", "ipc"), ("abi", "worker"),
                                     ("engine", "local"), ("plan", "local"), ("worker", "local"), ("local", "abi"),
                                     ("worker", "plan"), ("worker", "machine"), ("plan", "text"), ("abi", "homes")]:
            with self.subTest(room=room, includes=other):
                self.assert_hidden(room, one_header(other))

    def test_an_include_along_the_direction_compiles(self):
        """A test of the test above: it could not fail if nothing compiled."""
        for room, other in [("os", "base"), ("launchers", "os"), ("plan", "launchers"), ("engine", "os"),
                            ("worker", "engine"), ("local", "engine"), ("local", "plan"), ("abi", "local"),
                            ("abi", "abi"), ("abi", "plan"), ("abi", "ipc"),
                            ("topology", "text"), ("gpus", "topology"), ("launch", "planning"), ("search", "measure"),
                            ("search", "compare"), ("commands", "report")]:
            with self.subTest(room=room, includes=other):
                result = compiles(room, one_header(other))
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_no_arrow_runs_back_and_there_is_no_circle(self):
        order = RUNTIME + TUNER
        graph = graph_of_uses()
        for room, others in graph.items():
            for other in others:
                self.assertLess(order.index(other), order.index(room), f"{room} uses {other}")
        self.assertEqual(levels(graph)["base"], 0)

    def test_every_source_is_compiled_once_and_by_its_own_room(self):
        """Programs and libraries are made of rooms. They compile nothing of a room again, but a program its main()."""
        compiled: dict[pathlib.Path, list[str]] = {}
        for entry in json.loads((BUILD / "compile_commands.json").read_text()):
            target = re.search(r" -o \S*CMakeFiles/([^/]+)\.dir/", entry["command"])[1]
            compiled.setdefault(pathlib.Path(entry["file"]), []).append(target)
        for room in RUNTIME + TUNER:
            for source in sources_of(room):
                if source.suffix == ".cpp" and source.name != "main.cpp":
                    self.assertEqual(compiled.get(source), [f"zf_{room}"], source)

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
        drawn = PAGE.read_text().partition("## The Python package")[0]
        self.assertEqual(re.findall(r"^ +(\w+ --> \w+)$", drawn, re.MULTILINE), arrows(),
                         "print them anew with: tests/rooms/rooms_test.py --draw")

    def test_a_room_uses_every_room_that_it_links(self):
        """Together with the test above: the arrows in the picture are those of CMake. All others come with a link."""
        links = links_of("runtime") | links_of("tuner")
        self.assertEqual(list(links), RUNTIME + TUNER)
        self.assertEqual(links["os"], {"base"})
        graph = graph_of_uses()
        for room, linked in links.items():
            self.assertEqual(linked - graph[room], set(), f"{room} links these, and includes nothing of them")
        drawn = {room: {arrow.split()[2] for arrow in arrows() if arrow.startswith(f"{room} ")} for room in links}
        for room, others in drawn.items():
            self.assertEqual(others - links[room], set(), f"{room} has arrows to these, and does not link them itself")

    def test_every_folder_with_sources_is_a_room_in_the_picture(self):
        """The plugin for Slurm is a package of its own. Headers for users and the Python package are no rooms."""
        for parent, rooms, others in (("runtime", RUNTIME, {"include", "python"}), ("tuner", TUNER, {"spank"})):
            folders = {path.parent.relative_to(SOURCE / parent).parts[0]
                       for path in (SOURCE / parent).glob("*/**/*.[ch]pp") if "build" not in path.parts}
            self.assertEqual(folders - others, set(rooms))
            self.assertIn(f"  subgraph {parent}\n    {'; '.join(rooms)}\n  end\n", PAGE.read_text())
            for room in rooms:
                self.assertRegex(PAGE.read_text(), rf"\n\| `{room}` \|", f"{PAGE.name} says what {room} answers")

    def test_the_flow_in_the_picture_leads_from_sysroot_to_the_step(self):
        flow = re.findall(r"^ +(\w+)(?:\[.*\])? == .* ==> (\w+)", PAGE.read_text(), re.MULTILINE)
        after: dict[str, list[str]] = {}
        for near, far in flow:
            after.setdefault(near, []).append(far)
        reached, waiting = set(), ["sysroot"]
        while waiting:
            near = waiting.pop()
            if near not in reached:
                reached.add(near)
                waiting += after.get(near, [])
        self.assertIn("step", reached)
        named = {name for pair in flow for name in pair}
        self.assertEqual(named, reached, "every part of the flow follows from sysroot")
        self.assertEqual(named - set(RUNTIME + TUNER), {"sysroot", "file", "step"})

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
        print(*arrows(), sep="\n")
        sys.exit(0)
    unittest.main(verbosity=2)
