"""Runs clang-tidy over every C++ source of a build, several sources at a time.

usage: tidy.py [--no-analyzer] BUILD_FOLDER [JOBS [FOLDER...]]   (FOLDER: runtime, tuner or tests; default: all of them)
  --no-analyzer  leaves out clang's path analyzer (clang-analyzer-*), which takes nearly half of the time

Most of clang-tidy's time goes into the standard library's headers, which it reads once per translation unit. So this
program joins several sources (a batch) to one translation unit where that is possible. If clang-tidy finds something
in a batch, each half of it is checked as a batch, and so on; only findings in a source that is alone count. So a batch
can hide a finding (for example an unused declaration, if another source of the batch uses the same name), but it cannot
add one. ZF_TIDY_VERBOSE=1 says which batches were divided: two sources in them do not go together.

What a source without findings was made of is remembered (known_clean.py), so it is not checked again until it, a header
that it includes, a rule or clang-tidy changes, also in another build folder. Batches are written to BUILD_FOLDER/tidy,
never between the sources: tests that run at the same time read those.
"""

import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable

from known_clean import KnownClean

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("runtime", "tuner", "tests")
FILES_PER_BATCH = 48
MEANT = ("-std", "-m")  # not how it is optimized, and not the warnings, which are the compiler's to give

INCLUDE = re.compile(r'\s*#\s*include\s*([<"][^>"]+[>"])')
CONDITION = re.compile(r"\s*#\s*(if\w*|endif)")
IDENTIFIER = re.compile(r"[A-Za-z_]\w+")
UNNAMED_NAMESPACE = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
STATIC = re.compile(r"^static [^\n]*", re.MULTILINE)
# The name of a type that a line at namespace scope declares.
TYPE = re.compile(r"^(?:template\s*<[^\n]*>\s*)?(?:struct|class|union|enum(?: class)?)\s+"
                  r"(?:alignas\([^)\n]*\)\s*|\[\[[^\]]*\]\]\s*)*(\w+)", re.MULTILINE)
# The name that such a line declares otherwise. It stands before a bracket, an initializer or a semicolon. Test cases
# rarely collide.
DECLARED = re.compile(r"^(?!namespace|using|TEST)(?:[^\s/}#][^\n(={;]*?[\s*&])?(\w+)(?:\[[^\]\n]*\])?(?=\s*[(={;])|"
                      r"^using (\w+) =", re.MULTILINE)
TEST_CASE = re.compile(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", re.MULTILINE)
MAIN = re.compile(r"(?<![.>])\b(main|LLVMFuzzerTestOneInput)\(")
USED = re.compile(r"^using (?:\w+::)+(\w+);", re.MULTILINE)
OPENED = re.compile(r"^using namespace ", re.MULTILINE)
MACRO = re.compile(r"^\s*#\s*define (\w+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Source:
    path: pathlib.Path
    text: str
    flags: tuple[str, ...]  # those that change what the source means (MEANT)
    search_paths: tuple[str, ...]
    definitions: tuple[str, ...]
    own_names: frozenset[str]  # names in unnamed namespaces, static names, test cases, macros
    header_names: frozenset[str]  # names that our headers declare and this source mentions, and those of its usings

    def may_join(self, other: "Source") -> bool:
        """Returns whether both sources can be in one translation unit.

        They can if neither declares a name that the other declares too or has from a header. This compares words
        and does not parse C++, so it may be wrong; then the joined source does not compile, and its halves are checked.
        """
        if OPENED.search(self.text) or OPENED.search(other.text):  # to all that stands behind it
            return False
        return not (self.own_names & (other.own_names | other.header_names) or other.own_names & self.header_names)


def declared(texts: Iterable[str]) -> set[str]:
    """Returns the names that the texts declare at namespace scope."""
    return {name for text in texts for kind in (TYPE, DECLARED) for match in kind.finditer(text)
            for name in match.groups() if name}


def read_source(entry: dict[str, str], header_names: set[str]) -> Source:
    """Returns the source of one entry of compile_commands.json."""
    path = pathlib.Path(entry["file"])
    words = iter(shlex.split(entry["command"]))
    flags, search_paths, definitions = [], [], []
    for word in words:
        if word in ("-o", "-c", "-include"):  # -include names a precompiled header, which only the build uses
            next(words)
        elif word == "-isystem":
            search_paths.append(f"-isystem{next(words)}")
        elif word.startswith("-I"):
            search_paths.append(word if len(word) > 2 else f"-I{next(words)}")
        elif word.startswith("-D"):
            definitions.append(word)
        elif word.startswith(MEANT):
            flags.append(word)
    search_paths.append(f"-I{path.parent}")
    text = path.read_text()
    scopes = [match[1] for match in UNNAMED_NAMESPACE.finditer(text)]
    scopes += [match[0].removeprefix("static ") for match in STATIC.finditer(text)]
    own = declared(scopes)
    own |= {f"{suite}_{name}_Test" for suite, name in TEST_CASE.findall(text)}
    own |= set(MACRO.findall(text))
    return Source(path, text, tuple(flags), tuple(search_paths), tuple(definitions), frozenset(own),
                  frozenset(IDENTIFIER.findall(text)) & header_names | frozenset(USED.findall(text)))


def joined(sources: list[Source]) -> str:
    """Returns the text of all sources, one after the other.

    Leaves out an include that an earlier source has too, because clang-tidy would report it as a duplicate. Numbers the
    functions with which programs begin.
    """
    lines, included = [], set()
    for number, source in enumerate(sources):
        here, depth = set(), 0  # includes inside an #if do not count: they may not have been compiled
        for line in MAIN.sub(rf"\1_{number}(", source.text).splitlines():
            condition, include = CONDITION.match(line), INCLUDE.match(line)
            if condition:
                depth += 1 if condition[1].startswith("if") else -1
            if include and depth == 0:
                here.add(include[1])
            lines.append("" if include and include[1] in included else line)
        included |= here
    return "\n".join(lines) + "\n"


def unique(words: Iterable[str]) -> list[str]:
    """Returns the words without repetitions, in the same order."""
    return list(dict.fromkeys(words))


def arguments(sources: list[Source]) -> list[str]:
    """Returns the compiler flags for the joined sources."""
    return [*sources[0].flags, *unique(word for source in sources for word in source.search_paths),
            *unique(word for source in sources for word in source.definitions)]


def area(path: pathlib.Path) -> str:
    """Returns the top folder of a source. All sources of one area have the same rules."""
    return path.relative_to(ROOT).parts[0]


def copy_rules(folder: pathlib.Path) -> None:
    """Makes a folder in `folder` for each area, with the rules (.clang-tidy) that apply to its sources."""
    for rules in [pathlib.Path(".clang-tidy"), *(pathlib.Path(name, ".clang-tidy") for name in ROOMS)]:
        copy = folder / rules
        copy.parent.mkdir(exist_ok=True)
        copy.unlink(missing_ok=True)
        if (ROOT / rules).exists():
            shutil.copyfile(ROOT / rules, copy)


def batches(sources: list[Source]) -> list[list[Source]]:
    """Divides the sources into batches: same rules, same flags, and names that do not collide (may_join).

    The largest batch comes first, so that no long job is left at the end.
    """
    groups = collections.defaultdict(list)
    for source in sorted(sources, key=lambda source: source.path):
        groups[area(source.path), source.path.suffix, source.flags].append(source)
    result = []
    for group in groups.values():
        open_batches: list[list[Source]] = []
        for source in group:
            for batch in open_batches:
                if len(batch) < FILES_PER_BATCH and all(source.may_join(other) for other in batch):
                    batch.append(source)
                    break
            else:
                open_batches.append([source])
        result += open_batches
    return sorted(result, key=lambda batch: -sum(len(source.text) for source in batch))


def tidy(file: pathlib.Path, sources: list[Source], options: list[str]) -> str:
    """Returns the output of clang-tidy for the file; empty if it found nothing."""
    command = ["clang-tidy", "--quiet", *options, str(file), "--", *arguments(sources)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if result.returncode == 0 else result.stdout + result.stderr


def tidy_joined(batch: list[Source], folder: pathlib.Path, options: list[str]) -> str:
    """Returns the output of clang-tidy for the joined sources."""
    folder = folder / area(batch[0].path)  # where the same rules apply
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=batch[0].path.suffix) as file:
        file.write(joined(batch))
        file.flush()
        return tidy(pathlib.Path(file.name), batch, options)


def look_at(batch: list[Source], folder: pathlib.Path, options: list[str], keys: dict[Source, str],
            known: KnownClean) -> str:
    """Returns the findings of a batch; empty if there are none. Then remembers that its sources have none."""
    if len(batch) == 1:
        findings = tidy(batch[0].path, batch, options)
    elif findings := tidy_joined(batch, folder, options):
        if os.environ.get("ZF_TIDY_VERBOSE"):
            print(f"divided: {[str(source.path.relative_to(ROOT)) for source in batch]}\n{findings}", file=sys.stderr)
        middle = len(batch) // 2
        findings = "".join(look_at(half, folder, options, keys, known) for half in (batch[:middle], batch[middle:]))
    if not findings:
        for source in batch:
            known.add(keys[source])
    return findings


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "--no-analyzer"]
    options = ["--checks=-clang-analyzer-*"] if "--no-analyzer" in sys.argv else []
    build = pathlib.Path(words[0]).resolve()
    jobs = int(words[1]) if len(words) > 1 else 1
    areas = words[2:] or ROOMS
    if unknown := sorted(set(areas) - set(ROOMS)):
        sys.exit(f"tidy: no sources in {', '.join(unknown)}; name {', '.join(ROOMS)}")
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    copy_rules(folder)
    entries = {entry["file"]: entry for entry in json.loads((build / "compile_commands.json").read_text())}
    header_names = declared(path.read_text() for name in ("*.hpp", "*.h") for room in ROOMS
                            for path in (ROOT / room).rglob(name))
    sources = [read_source(entry, header_names) for file, entry in entries.items()
               if file.endswith(".cpp") and not pathlib.Path(file).is_relative_to(build)
               and area(pathlib.Path(file)) in areas]
    rules = [path.read_text() for path in (ROOT / ".clang-tidy", *sorted(ROOT.glob("*/**/.clang-tidy")))
             if path.exists() and not path.is_relative_to(build)]
    tool = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
    known = KnownClean("tidy", "c++", ROOT, [tool, *options, *rules, pathlib.Path(__file__).read_text()])
    keys = {source: known.key(source.text, [str(source.path), *arguments([source])]) for source in sources}
    left = [source for source in sources if not known.has(keys[source])]

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda batch: look_at(batch, folder, options, keys, known), batches(left))
        complaints = [text for text in results if text]
    print(*complaints, sep="\n", file=sys.stderr, end="")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
