#!/usr/bin/python3
"""The rooms of the Python package: what each may import, as its sources do and as docs/design.md draws it; and which
tests hold each module.

After a change of rooms, `tests/rooms/python_rooms_test.py --draw` prints the arrows anew.
"""

import ast
import functools
import pathlib
import re
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = SOURCE / "runtime/python/zf_runtime"
TESTS = SOURCE / "tests"
PAGE = SOURCE / "docs/design.md"

# From the ground up: a room may import from those before it. `zf_runtime` is what users import; errors.py is for all.
ROOMS = ["native", "record", "binding", "tensors", "in_place", "backward", "overlap", "optim", "deepspeed",
         "zf_runtime"]


@functools.cache
def modules() -> dict[str, pathlib.Path]:
    """Returns the file of each module, by its dotted name within the package; a package is named as its folder."""
    named = {path: path.relative_to(PACKAGE).with_suffix("").parts for path in PACKAGE.rglob("*.py")}
    return {".".join(part for part in parts if part != "__init__"): path for path, parts in named.items()}


@functools.cache
def imports_of(name: str) -> set[str]:
    """Returns the modules of the package that a module imports, also within its functions."""
    known = modules()
    folder = list(known[name].relative_to(PACKAGE).parts[:-1])
    found = set()
    for node in ast.walk(ast.parse(known[name].read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = ".".join([*folder[:len(folder) - node.level + 1], *(node.module or "").split(".")]).strip(".")
            inner = [f"{base}.{alias.name}".strip(".") for alias in node.names]
            found |= {name for name in inner if name in known} or {base}
    return found - {name}


def room_of(name: str) -> str:
    return modules()[name].parent.name


def uses() -> dict[str, set[str]]:
    """Returns the other rooms from which each room imports."""
    graph: dict[str, set[str]] = {room: set() for room in ROOMS}
    for name in modules():
        for other in imports_of(name):
            if other != "errors":
                graph[room_of(name)].add(room_of(other))
    return {room: others - {room} for room, others in graph.items()}


def arrows() -> list[str]:
    """Returns the arrows of the picture: one per pair of rooms that no longer way connects."""
    graph = uses()

    def reach(room: str) -> set[str]:
        return graph[room] | {far for near in graph[room] for far in reach(near)}

    return [f"{room} --> {other}" for room in reversed(ROOMS) for other in sorted(graph[room], key=ROOMS.index)
            if not any(other in reach(near) for near in graph[room] if near != other)]


def circles() -> list[list[str]]:
    """Returns a way from a module back to itself for each circle that a walk through all imports meets."""
    done, found = set(), []

    def walk(name: str, way: list[str]) -> None:
        if name in way:
            found.append([*way[way.index(name):], name])
        elif name not in done:
            for other in sorted(imports_of(name)):
                walk(other, [*way, name])
            done.add(name)

    for name in sorted(modules()):
        walk(name, [])
    return found


def tested() -> dict[pathlib.Path, set[str]]:
    """Returns the modules that each test names at the end of its docstring: "Tests errors.py, binding/bind.py."."""
    named = {}
    for path in (*TESTS.rglob("*_test.py"), *TESTS.rglob("*_cases.py")):
        end = re.search(r"\bTests\s+[\w/]+\.py\b.*$", ast.get_docstring(ast.parse(path.read_text())) or "", re.DOTALL)
        named[path] = set(re.findall(r"[\w/]+\.py\b", end[0])) if end else set()
    return named


def holds_code(path: pathlib.Path) -> bool:
    """Returns whether a module does anything: an __init__.py may only say what its room is."""
    nodes = ast.parse(path.read_text()).body
    return path.name != "__init__.py" or any(isinstance(node, ast.FunctionDef) for node in nodes)


class PythonRooms(unittest.TestCase):
    def test_no_arrow_runs_up(self):
        for room, others in uses().items():
            for other in others:
                self.assertLess(ROOMS.index(other), ROOMS.index(room), f"{room} imports from {other}")

    def test_no_module_imports_itself_by_a_detour(self):
        self.assertEqual(circles(), [])

    def test_every_folder_is_a_room(self):
        self.assertEqual({path.parent.name for path in PACKAGE.rglob("*.py")}, set(ROOMS))

    def test_each_module_is_named_by_a_test(self):
        there = {str(path.relative_to(PACKAGE)) for path in modules().values()}
        named = tested()
        for test, names in named.items():
            self.assertEqual(names - there, set(), f"{test} names what is not there")
        lacking = {name for name in there if holds_code(PACKAGE / name)} - set().union(*named.values())
        self.assertEqual(lacking, set(), "the docstring of a test that turns red if they are broken ends with: Tests "
                                         "ROOM/NAME.py.")

    def test_modules_are_private_by_folder_and_not_by_name(self):
        names = [path.name for path in PACKAGE.rglob("*.py")]
        self.assertEqual([name for name in names if name.startswith("_") and not name.startswith("__")], [])

    def test_the_picture_in_the_docs_is_the_one_in_the_sources(self):
        drawn = PAGE.read_text().partition("## The Python package")[2].partition("\n## ")[0]
        self.assertEqual(re.findall(r"^ +(\w+ --> \w+)$", drawn, re.MULTILINE), arrows(),
                         "print them anew with: tests/rooms/python_rooms_test.py --draw")
        for room in ROOMS:
            self.assertRegex(drawn, rf"\n\| `{room}` \|", f"{PAGE.name} says what {room} answers")


if __name__ == "__main__":
    if sys.argv[1:] == ["--draw"]:
        print(*arrows(), sep="\n")
        sys.exit(0)
    unittest.main(verbosity=2)
