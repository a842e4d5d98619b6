"""Compares iterations of a torch job without a GPU that has all CPUs: zf_runtime.AdamW / torch's fused
AdamW. A benchmark, not a test.

A pair is one process of each, side by side, in turns: turns.py says how, and why both keep the memory that they free. A
pair gives one ratio: the geometric mean over its turns. At the end come the geometric mean of the pairs' ratios, and
the 95 % interval of Student's t of their logarithms. The results file keeps each pair: start again to go on."""

import argparse
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))

import frameworks_case
from frameworks_case import job
from paired_jobs import add_result, in_order_of, read_results, run_pair
from turns import MALLOC, JobFailed, interval, machine, ratio_of
from zf_cli import SOURCE

BAR = 1.02
SIDES = {"torch": ["--fused"], "ours": ["--ours"]}
# No plan: ours has one thread on each CPU, too.
VARIABLES = MALLOC | {"ZF_TUNE": "off", "PYTHONPATH": str(SOURCE / "runtime/python"),
                      "ZF_RUNTIME_LIBRARY": str(SOURCE / "build/lib/libzf_runtime.so")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"pairs": 20, "turns": 4, "width": 512, "blocks": 13, "tokens": 128}.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default {value}")
    parser.add_argument("--seconds", type=float, default=1.5, help="of a turn, default 1.5")
    parser.add_argument("--results", default="step-pairs.jsonl", metavar="FILE",
                        help="one line per pair; goes on from what is there (default: step-pairs.jsonl)")
    options = parser.parse_args()
    frameworks_case.need_environment()

    size = [f"--{name}={getattr(options, name)}" for name in ("width", "blocks", "tokens")]
    commands = {side: job("torch_adamw", *size, "--steps", "1000000", *words) for side, words in SIDES.items()}
    results = pathlib.Path(options.results)
    done = [result for result in read_results(results) if result["size"] == size]
    print(f"machine: {machine()}")
    print(f"job: {' '.join(commands['torch'])}", flush=True)
    for pair in range(len(done), options.pairs):
        found = run_pair(in_order_of(pair, commands), VARIABLES, options.turns, options.seconds)
        done.append({"size": size, "turns": found})
        add_result(results, done[-1])
        print(f"pair {pair + 1}: " + ", ".join(f"{side} {statistics.median(ms):.1f} ms" for side, ms in found.items()),
              file=sys.stderr, flush=True)
    mean, low, high = interval([ratio_of(pair["turns"]["ours"], pair["turns"]["torch"]) for pair in done])
    medians = {side: statistics.median(ms for pair in done for ms in pair["turns"][side]) for side in SIDES}
    verdict = "within" if high <= BAR else "not within"
    print(f"{len(done)} pairs: torch {medians['torch']:.1f} ms, ours {medians['ours']:.1f} ms, "
          f"ours / torch {mean:.3f}, 95 % interval {low:.3f} to {high:.3f}: {verdict} {BAR}")
    print(f"machine: {machine()}")


if __name__ == "__main__":
    try:
        main()
    except JobFailed as failed:
        sys.exit(str(failed))
