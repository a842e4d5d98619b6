"""Compiles every header by itself, with the include paths of its own room only; then the product's headers together.

usage: headers_alone.py BUILD_FOLDER [JOBS]

A header fails if it needs another include before it, or if it includes a header of a room that its own room may not
use. Together they fail if two headers define one name, which a program that includes only one of them does not show.

Nearly all of the time goes into the standard library's headers. So headers that cannot help each other compile are put
in one translation unit (a chain): each has the includes of those before it, and mentions no name that only these
declare. If a chain does not compile, each of its headers is compiled by itself. The names are found without parsing
C++, so a chain can hide a fault, as where a name is declared in an unusual way, but it cannot add one. What compiled is
remembered (known_clean.py).
"""

import concurrent.futures
import dataclasses
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable

from known_clean import KnownClean
from tidy import IDENTIFIER, MACRO, declared

ROOT = pathlib.Path(__file__).resolve().parent.parent
PUBLIC = ROOT / "runtime/include"
JOINED = re.compile(r'^#include "(/[^"]+)"', re.MULTILINE)  # in a file that CMake makes of several sources
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")', re.MULTILINE)
STRICT = ["-Wall", "-Wextra", "-pedantic-errors", "-Werror"]


@dataclasses.dataclass
class Header:
    path: pathlib.Path
    flags: list[str]  # of its folder
    names: set[str]  # that it declares
    words: frozenset[str]
    ours: set[pathlib.Path]  # the headers of this project that it includes
    others: set[str]  # the other headers that it includes
    missing: list[str]  # quoted includes that are in no include path of its folder

    @property
    def meaning(self) -> list[str]:
        """Returns the flags that may change what it means: all but the rooms that its folder may use."""
        return [flag for flag in self.flags if not flag.startswith("-I")]


@dataclasses.dataclass
class Chain:
    headers: list[Header]
    ours: set[pathlib.Path]  # all that is included here, however deeply
    others: set[str]


def compilers(build: pathlib.Path) -> dict[str, str]:
    """Returns the build's compiler for each language."""
    cache = (build / "CMakeCache.txt").read_text()
    found = dict(re.findall(r"^CMAKE_(\w+)_COMPILER:\w+=(.+)$", cache, re.MULTILINE))
    return {"c": found["C"], "c++": found["CXX"]}


def flags_by_folder(build: pathlib.Path) -> dict[pathlib.Path, list[str]]:
    """Returns, for each folder with C++ sources, the flags of one of them.

    Leaves out the input, the output and `-include`: a precompiled header would hide a missing include.
    """
    found: dict[pathlib.Path, list[str]] = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["file"])
        if source.suffix == ".c":
            continue
        if source.is_relative_to(build) and (joined := JOINED.search(source.read_text())):
            source = pathlib.Path(joined[1])
        words = shlex.split(entry["command"])
        flags = [word for word in words if word.startswith(("-I", "-D", "-std=", "-W", "-m", "-f"))]
        for at, word in enumerate(words):
            if word == "-isystem":
                flags.append(f"-isystem{words[at + 1]}")
        found.setdefault(source.parent, flags)
    return found


def read_header(path: pathlib.Path, flags: list[str]) -> Header:
    """Returns what the header declares, mentions and includes."""
    text = path.read_text()
    folders = [path.parent, *(pathlib.Path(flag[2:]) for flag in flags if flag.startswith("-I"))]
    ours, others, missing = set(), set(), []
    for other, quoted in INCLUDE.findall(text):
        found = [folder / quoted for folder in folders if (folder / quoted).exists()]
        if other:
            others.add(other)
        elif found:
            ours.add(found[0].resolve())
        else:
            missing.append(quoted)
    return Header(path, flags, declared([text]) | set(MACRO.findall(text)), frozenset(IDENTIFIER.findall(text)),
                  ours, others, missing)


def known_headers(headers: Iterable[Header]) -> dict[pathlib.Path, Header]:
    """Returns these headers, and those that they include and that are compiled otherwise, such as the public ones."""
    known = {header.path: header for header in headers}
    left = [(path, header) for header in known.values() for path in header.ours]
    while left:
        path, includer = left.pop()
        if path not in known:
            known[path] = read_header(path, includer.flags)
            left += [(included, known[path]) for included in known[path].ours]
    return known


def with_all_it_includes(header: Header, known: dict[pathlib.Path, Header]) -> tuple[set[pathlib.Path], set[str]]:
    """Returns the header and all that it includes, however deeply: the headers of this project, and the others."""
    ours, others, left = set(), set(), [header]
    while left:
        each = left.pop()
        if each.path not in ours:
            ours.add(each.path)
            others |= each.others
            left += [known[path] for path in each.ours]
    return ours, others


def chains(headers: list[Header]) -> list[Chain]:
    """Divides the headers into chains."""
    known = known_headers(headers)
    included = {header.path: with_all_it_includes(header, known) for header in headers}
    result: list[Chain] = []
    for header in sorted(headers, key=lambda each: (len(included[each.path][1]), each.path)):
        ours, others = included[header.path]
        fitting = [chain for chain in result
                   if chain.others <= others and chain.headers[0].meaning == header.meaning and
                   not any(known[path].names & header.words for path in chain.ours - ours)]
        if fitting:
            chain = max(fitting, key=lambda each: len(each.others))
        else:
            chain = Chain([], set(), set())
            result.append(chain)
        chain.headers.append(header)
        chain.ours |= ours
        chain.others |= others
    return result


@dataclasses.dataclass
class Compiler:
    programs: dict[str, str]  # by language
    known: KnownClean


def compile_text(compiler: Compiler, language: str, flags: list[str], text: str) -> str:
    """Returns the errors of the compiler; empty if the text compiles."""
    program = compiler.programs[language]
    key = compiler.known.key(text, [language, *flags])
    if compiler.known.has(key):
        return ""
    result = subprocess.run([program, *flags, "-fsyntax-only", "-x", language, "-"], input=text, text=True,
                            capture_output=True, check=False, env=os.environ | {"LC_ALL": "C"})
    if result.returncode != 0:
        return result.stderr or f"{program} ended with {result.returncode}\n"
    compiler.known.add(key)
    return ""


def compile_headers(compiler: Compiler, headers: list[Header]) -> str:
    """Returns the errors of the compiler for these headers, one after the other; empty if they compile."""
    flags = list(dict.fromkeys(flag for header in headers for flag in header.flags))
    return compile_text(compiler, "c++", flags, "".join(f'#include "{header.path}"\n' for header in headers))


def check_chain(compiler: Compiler, headers: list[Header]) -> str:
    """Returns what is wrong with the headers of a chain; empty if nothing is."""
    errors = compile_headers(compiler, headers)
    if not errors:
        return ""
    if len(headers) == 1:
        return f"{headers[0].path}: does not compile alone (c++)\n{errors}"
    return "".join(check_chain(compiler, [header]) for header in headers)


def check_public(compiler: Compiler, language: str, standard: str, header: pathlib.Path) -> str:
    """Returns what is wrong with a header for other people's programs; empty if nothing is."""
    errors = compile_text(compiler, language, [standard, "-Wconversion", *STRICT], f'#include "{header}"\n')
    return f"{header}: does not compile alone ({language}, {standard})\n{errors}" if errors else ""


def check_together(compiler: Compiler, headers: list[Header]) -> str:
    """Returns why the headers cannot all be included by one source; empty if they can."""
    errors = compile_headers(compiler, headers)
    return f"the headers do not compile together\n{errors}" if errors else ""


def main() -> int:
    build = pathlib.Path(sys.argv[1]).resolve()
    jobs = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    programs = compilers(build)
    versions = [subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
                for program in programs.values()]
    compiler = Compiler(programs, KnownClean("headers", programs["c++"], ROOT, versions))
    folders = flags_by_folder(build)

    headers, complaints = [], []
    for path in sorted(path for room in ("runtime", "tuner", "tests") for path in (ROOT / room).rglob("*.hpp")):
        if path.parent == PUBLIC:
            continue
        if path.parent not in folders:
            complaints.append(f"{path}: there is no source in its folder, so nothing says how to compile it\n")
            continue
        headers.append(read_header(path, folders[path.parent]))
        complaints += [f'{path}: "{name}" is in none of its include paths\n' for name in headers[-1].missing]

    product = [header for header in headers if not header.path.is_relative_to(ROOT / "tests")]
    work = [functools.partial(check_together, compiler, product)]
    work += [functools.partial(check_chain, compiler, chain.headers) for chain in chains(headers)]
    for header in sorted(PUBLIC.glob("*.hpp")):
        work.append(functools.partial(check_public, compiler, "c++", "-std=c++20", header))
    for header in sorted(PUBLIC.glob("*.h")):  # for C and C++ programs alike
        work += [functools.partial(check_public, compiler, "c", "-std=c99", header),
                 functools.partial(check_public, compiler, "c++", "-std=c++11", header)]

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        complaints += pool.map(lambda check: check(), work)
    print("".join(complaints), file=sys.stderr, end="")
    return 1 if any(complaints) else 0


if __name__ == "__main__":
    sys.exit(main())
