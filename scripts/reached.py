"""Prints the labels of the tests that a change can reach, one a line, for scripts/test --since.

usage: reached.py REV

The change is what the working tree has that the commit REV has not, new files included. A source reaches its own room
and all rooms above it (the arrows of tests/rooms), and what runs the programs made of these. A file that no rule here
knows, such as a CMakeLists.txt, reaches all tests.
"""

import fnmatch
import functools
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tests/rooms"))

import python_rooms_test as python_rooms  # noqa: E402  the path must be known first
import rooms_test as rooms  # noqa: E402

ALL = "all"
SMOKE = "smoke"  # one job each of torch, DeepSpeed and FSDP2

# What steps in a process beside training.
STEPS_BESIDE = {"frameworks.deepspeed", "frameworks.exact_stage_3", "frameworks.kept", "frameworks.overlap"}

# What runs the programs and libraries that a room is part of.
USERS = {
    "commands": {"cli", "study"},
    "worker": {"abi", "python", *STEPS_BESIDE},
    "abi": {"abi", "python", *STEPS_BESIDE, "frameworks.package"},
    "local": {"frameworks.inplace"},
    "launchers": {"frameworks.bind", "frameworks.launchers"},
    "launch": {"frameworks.jobs", "frameworks.launchers", "frameworks.threads", "slurm"},
    "exports": {"frameworks.exports"},
    "fit": {"frameworks.fit"},
}
PYTHON_USERS = {
    "native": {"frameworks.package"},
    "record": {"cli.record", "frameworks.record"},
    "binding": {"frameworks.bind", "frameworks.bind_example", "frameworks.bound_jobs", "frameworks.kubernetes_page",
                "slurm.bound_ranks"},
    "in_place": {"frameworks.inplace", "frameworks.backward"},
    "backward": {"frameworks.backward"},
    "overlap": {"frameworks.overlap"},
    "optim": {"frameworks.example", "frameworks.kept", "frameworks.overlap", "frameworks.torch_page"},
    "deepspeed": {"frameworks.deepspeed", "frameworks.exact_stage_3", "frameworks.kept", "frameworks.package"},
}

# What other files reach; the first pattern counts. {1} is what stands in the place of the first *.
RULES = [
    ("runtime/include/*", {"abi", "python", "rooms", *USERS["abi"]}),
    ("tuner/main.cpp*", {"cli"}),
    ("tuner/spank/*", {"slurm"}),
    ("tests/unit/*/*", {"{1}"}),
    ("tests/cli/*_test.py", {"cli.{1}"}),
    ("tests/frameworks/in_place/*", {"frameworks.inplace"}),
    ("tests/frameworks/backward/*", {"frameworks.backward"}),
    ("tests/frameworks/deepspeed/*", {"frameworks.deepspeed"}),
    ("tests/frameworks/overlap/*", {"frameworks.overlap"}),
    ("tests/frameworks/*_test.py", {"frameworks.{1}"}),
    ("tests/bench/*", {"rooms"}),  # programs that people run
    ("tests/machines/*", {"cli", "homes", "machine", "topology", "gpus", "report"}),
    ("tests/*/*", {"{1}"}),
    ("docs/*", {"docs", "rooms", "study"}),
    ("*.md", {"docs"}),
    ("scripts/slurm/*", {"slurm"}),
    ("scripts/studies/*", {"study"}),
    ("scripts/completions/*", {"cli"}),
    ("scripts/*.cmake", {ALL}),
    ("scripts/packages.txt*", {ALL}),
    ("scripts/frameworks-env*", {"frameworks"}),
    ("scripts/*", {"cli", "rooms"}),
]


def changed_since(revision: str, folder: pathlib.Path | str = SOURCE) -> list[str]:
    """Returns the paths of the files that changed, also those that are gone."""
    def git(*words: str) -> list[str]:
        return subprocess.run(["git", "-C", str(folder), *words], stdout=subprocess.PIPE, text=True,
                              check=True).stdout.split("\0")[:-1]
    return sorted(git("diff", "--name-only", "--no-renames", "-z", revision, "--") +
                  git("ls-files", "--others", "--exclude-standard", "-z"))


def above(room: str, graph: dict[str, set[str]]) -> set[str]:
    """Returns the room and all that use it, directly or by a detour."""
    found = {room}
    while more := {user for user, used in graph.items() if used & found} - found:
        found |= more
    return found


@functools.cache
def reached_from_python(room: str) -> set[str]:
    """Returns the labels that a module in this room of the Python package reaches."""
    users = above(room, python_rooms.uses())
    return {"python", "rooms"}.union(*(PYTHON_USERS.get(room, set()) for room in users))


@functools.cache
def reached_from_room(room: str) -> set[str]:
    """Returns the labels that a source in this room of C++ reaches."""
    users = above(room, rooms.graph_of_uses())
    return (users | {"rooms"}).union(*(USERS.get(room, set()) for room in users))


def reached_from(path: str) -> set[str]:
    """Returns the labels of the tests that this file reaches."""
    if path.endswith("CMakeLists.txt"):
        return {ALL}
    if path.startswith("runtime/python/zf_runtime/"):
        return reached_from_python(pathlib.PurePath(path).parent.name)
    part, _, rest = path.partition("/")
    if part in ("runtime", "tuner") and (room := rest.partition("/")[0]) in rooms.RUNTIME + rooms.TUNER:
        return reached_from_room(room)
    for pattern, labels in RULES:
        if fnmatch.fnmatchcase(path, pattern):
            before, after = pattern.split("*", 1)
            name = path.removeprefix(before).removesuffix(after).partition("/")[0]
            return {label.replace("{1}", name) for label in labels}
    return {ALL}


def labels_of(paths: list[str]) -> set[str]:
    labels = set().union(*map(reached_from, paths))
    return {ALL} if ALL in labels else labels | {SMOKE} if labels else labels


if __name__ == "__main__":
    try:
        print(*sorted(labels_of(changed_since(sys.argv[1]))), sep="\n")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)  # git has said why
