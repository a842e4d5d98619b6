"""Trains tiny GPTs in each state format and says whether their losses differ. Goes on where it was interrupted.

First fp32 runs against itself with another order of summation. If their difference spreads too far with these seeds, no
format runs: start again with more --seeds. What is held against what, and when a format is called harmless, stands in
conclude.py and was fixed before the first result."""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
sys.path[:0] = [str(SOURCE / "tests/frameworks"), str(SOURCE / "tests/cli")]

import conclude
from picture import picture
from ways import ORDER, REFERENCE, WAYS

RUN_TIMEOUT_S = 3600


def digest() -> str:
    """Returns a digest of what decides a result: how it trains, and the package and library that step."""
    files = [HERE / name for name in ("gpt.py", "language.py", "train.py", "ways.py")]
    files += sorted((SOURCE / "runtime/python/zf_runtime").rglob("*.py"))
    files.append(pathlib.Path(os.environ["ZF_RUNTIME_LIBRARY"]))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def read(file: pathlib.Path, key: str) -> conclude.Results:
    """Returns the results of this digest in the file."""
    lines = file.read_text().splitlines() if file.exists() else []
    found = [json.loads(line) for line in lines]
    return {(result["way"], result["seed"]): result for result in found if result["key"] == key}


def train(way: str, seed: int) -> dict:
    """Trains one model in a process of its own. Raises RuntimeError if it fails."""
    run = subprocess.run([sys.executable, "-B", HERE / "train.py", way, str(seed)], capture_output=True, text=True,
                         timeout=RUN_TIMEOUT_S, check=False)
    if run.returncode != 0:
        raise RuntimeError(f"{way}, seed {seed}: {run.stderr.strip().splitlines()[-1:]}")
    return json.loads(run.stdout)


def run_missing(ways: list[str], seeds: int, file: pathlib.Path, key: str) -> conclude.Results:
    """Trains what the file lacks, as many at a time as there are CPUs. Returns all results."""
    have = read(file, key)
    missing = [(way, seed) for seed in range(1, seeds + 1) for way in ways if (way, seed) not in have]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        runs = [pool.submit(train, way, seed) for way, seed in missing]
        for number, run in enumerate(concurrent.futures.as_completed(runs), 1):
            with file.open("a") as lines:
                lines.write(json.dumps({**run.result(), "key": key}) + "\n")
            print(f"study-formats: {number} of {len(missing)}", file=sys.stderr, flush=True)
    return read(file, key)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=5, help="runs of each way (default: 5)")
    options.add_argument("--results", type=pathlib.Path, default=SOURCE / "build/formats.jsonl")
    options.add_argument("--picture", type=pathlib.Path, help="an SVG to write")
    given = options.parse_args()
    key = digest()
    results = run_missing([REFERENCE, ORDER], given.seeds, given.results, key)
    if conclude.needs_seeds(results):
        found = conclude.difference(results, ORDER)
        print(f"study-formats: another order of summation alone makes {found.mean:+.2f} % +- {found.half:.2f} %, and "
              f"the second may be {conclude.SPREAD} % at most: use more than --seeds {given.seeds}", file=sys.stderr)
        return 1
    results = run_missing(list(WAYS), given.seeds, given.results, key)
    print(conclude.table(results))
    if given.picture:
        given.picture.write_text(picture(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
