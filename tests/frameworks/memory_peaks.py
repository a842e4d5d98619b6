"""Holds the forecasts of zf-tune fit against the host memory of real jobs. A benchmark, not a test.

A job runs in a memory cgroup of its own, and memory.stat is read every 10 ms: anon + shmem in cgroup v2, rss +
shmem in v1. What a second run has at its highest, which stops before its model, is taken off. The peak of each phase
is compared with the forecast of that phase, without the reserve.

peaks     measures, and prints a table
limits    runs jobs in a cgroup of 1.08 times (forecast + the run that stops before its model), where they end well,
          and of 0.90 times, where they are killed
peers     prints beside it what DeepSpeed's and accelerate's estimators say of the same jobs
rows      prints tests/unit/fit/measured_jobs.hpp anew, and after it the table of docs/memory.md

Each result is a line of a file: start again to go on."""

import argparse
import contextlib
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))

import frameworks_case
from frameworks_case import PYTHON, TUNE, framework_environment, free_port, job, lines_of
from turns import machine
from zf_cli import SOURCE, remove_group

SAMPLE_S = 0.01
TIMEOUT_S = 900
V1 = pathlib.Path("/sys/fs/cgroup/memory")
V2 = pathlib.Path("/sys/fs/cgroup")
PHASES = ("start", "steady", "checkpoint", "resume")
WIDTH = 2048
BLOCKS = {"70M": 2, "130M": 4, "200M": 6, "400M": 12}
USUAL = ("200M", "400M")
# way[+change ...]:dtype:state[:ranks]
RUNS = ["in-place:fp32:fp32", "in-place:fp32:bf16", "in-place:bf16:fp32", "in-place:bf16:bf16", "in-place:bf16:split",
        "in-place:bf16:bf16+split", "exact:fp32:fp32", "exact:fp32:bf16", "exact:bf16:fp32", "exact:bf16:bf16",
        "exact:bf16:split", "exact:bf16:bf16+split", "late:fp32:fp32", "late:fp32:bf16", "late:bf16:fp32",
        "late:bf16:bf16", "late:bf16:split", "late:bf16:bf16+split", "native-zero1:bf16:fp32",
        "native-zero1:bf16:bf16", "native-zero2:bf16:fp32", "native-zero2:bf16:bf16", "native-zero3:bf16:fp32",
        "native-zero3:bf16:bf16", "torch:fp32:fp32", "torch:bf16:fp32", "zero1:bf16:fp32", "zero2:bf16:fp32",
        "zero2:fp32:fp32", "zero3:bf16:fp32", "zero3:fp32:fp32", "fsdp2:fp32:fp32", "fsdp2:bf16:fp32",
        "in-place-fsdp2:fp32:fp32", "in-place-fsdp2:fp32:bf16", "in-place-fsdp2:bf16:fp32",
        "in-place-fsdp2:bf16:bf16", "in-place-fsdp2:bf16:split", "in-place-fsdp2:bf16:bf16+split",
        "in-place:bf16:fp32:2", "zero1:bf16:fp32:2", "zero2:bf16:fp32:2", "zero3:bf16:fp32:2", "fsdp2:fp32:fp32:2"]
# Smaller jobs: frozen parameters, and sums of gradients in fp32.
CHANGED = {"zero1+sums:bf16:fp32": "70M", "zero2+sums:bf16:fp32": "70M", "zero3+sums:bf16:fp32": "70M",
           "zero2+frozen:bf16:fp32": "70M", "zero2+lora:bf16:fp32": "130M"}
LIMITED = ["in-place:bf16:fp32", "exact:bf16:fp32", "native-zero2:bf16:bf16", "zero2:bf16:fp32", "zero3:bf16:fp32",
           "fsdp2:fp32:fp32"]
LORA = 512
# What a change of a way gives memory_job.py, and zf-tune fit. "exact" and "begun" are for native-zero2 and 3.
CHANGES = {"lora": (["--lora", str(LORA)], []), "frozen": (["--frozen", "1"], []),
           "sums": (["--sums", "fp32"], ["--with", "fp32-accumulation"]),
           "exact": (["--mode", "exact"], ["--mode", "exact"]), "begun": (["--speculate"], ["--with", "speculate"])}
BELOW, ABOVE = 0.90, 1.08
# How zf-tune fit calls each way.
FIT = {"torch": ["torch"], "in-place": ["in-place"], "exact": ["native", "--mode", "exact"],
       "late": ["native", "--mode", "overlap"], "fsdp2": ["fsdp2"], "in-place-fsdp2": ["fsdp2-in-place"]}
FIT |= {f"{ours}zero{stage}": [framework, "--stage", str(stage)] for stage in (1, 2, 3)
        for ours, framework in (("", "deepspeed-offload"), ("native-", "native"))}


class Group:
    """A memory cgroup for one job. limit: in bytes; 0: none."""

    def __init__(self, name: str, limit: int = 0):
        self.is_v1 = V1.is_dir()
        self.path = (V1 if self.is_v1 else V2) / f"zf-{name}-{os.getpid()}"
        self.path.mkdir()
        if limit:
            (self.path / ("memory.limit_in_bytes" if self.is_v1 else "memory.max")).write_text(str(limit))
        self._stat = os.open(self.path / "memory.stat", os.O_RDONLY)
        self._fields = (b"total_rss", b"total_shmem") if self.is_v1 else (b"anon", b"shmem")

    def bytes(self) -> int:
        found = dict(line.split() for line in os.pread(self._stat, 1 << 14, 0).splitlines())
        return sum(int(found[field]) for field in self._fields)

    def kills(self) -> int:
        """Returns how many processes the kernel has killed for lack of memory."""
        text = (self.path / ("memory.oom_control" if self.is_v1 else "memory.events")).read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))

    def close(self) -> None:
        os.close(self._stat)
        remove_group(self.path)


class Run:
    """One of RUNS with a number of blocks."""

    def __init__(self, spec: str, size: str):
        self.spec, self.size = spec, size
        way, self.dtype, self.state, *ranks = spec.split(":")
        self.way, *self.changes = way.split("+")
        self.ranks = int(ranks[0]) if ranks else 1
        self.blocks = BLOCKS[size]

    @property
    def shapes(self) -> dict[str, list[int]]:
        """Returns the parameters of the job's model: see Block of jobs/model.py."""
        each = {"norm.weight": [WIDTH], "norm.bias": [WIDTH], "up.weight": [4 * WIDTH, WIDTH], "up.bias": [4 * WIDTH],
                "down.weight": [WIDTH, 4 * WIDTH], "down.bias": [WIDTH]}
        if "lora" in self.changes:
            each |= {"a.weight": [LORA, WIDTH], "b.weight": [WIDTH, LORA]}
        return {f"{block}.{name}": shape for block in range(self.blocks) for name, shape in each.items()}

    @property
    def parameters(self) -> int:
        return sum(map(math.prod, self.shapes.values()))

    @property
    def trained(self) -> int:
        """Returns how many of the parameters are trained: see make_model() of jobs/memory_job.py."""
        if "lora" in self.changes:
            return self.blocks * 2 * LORA * WIDTH
        return self.parameters * (self.blocks - ("frozen" in self.changes)) // self.blocks

    def words(self, *options: str) -> list[str]:
        words = job("memory_job", self.way, "--dtype", self.dtype, "--state", self.state, "--width", str(WIDTH),
                    "--blocks", str(self.blocks), *(word for change in self.changes for word in CHANGES[change][0]),
                    *options)
        if self.ranks == 1:
            return words
        return [PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", str(self.ranks), "--master-port",
                free_port(), *words[1:]]

    def forecast(self) -> dict[str, int]:
        """Returns the bytes of each phase that zf-tune fit says, without a reserve."""
        with tempfile.TemporaryDirectory() as folder:
            header = json.dumps({name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}
                                 for name, shape in self.shapes.items()}).encode()
            pathlib.Path(folder, "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
            framework, *more = FIT[self.way]
            more += [word for change in self.changes for word in CHANGES[change][1]]
            said = subprocess.run([TUNE, "fit", "--model", folder, "--dtype", self.dtype, "--state", self.state,
                                   "--trainable", str(self.trained), "--ranks", str(self.ranks), "--device", "cpu",
                                   "--pinned", "no", "--reserve", "0G", "--memory", "1TiB", "--format", "json",
                                   "--framework", framework, *more],
                                  check=True, stdout=subprocess.PIPE, text=True)
        return {name: phase["bytes"] for name, phase in json.loads(said.stdout)["phases"].items()}

    def plan(self, folder: str) -> pathlib.Path:
        path = pathlib.Path(folder, "plan.json")
        mode = {"exact": "exact", "late": "overlap"}.get(self.changes[0] if self.changes else self.way, "wait")
        subprocess.run([TUNE, "plan", "--ranks", str(self.ranks), "--mode", mode, "-q", "-o", path], check=True)
        return path


def run(words: list[str], plan: pathlib.Path, limit: int = 0) -> dict:
    """Runs a job. Returns its peak in each phase, its status, and how many of its processes were killed for memory."""
    variables = framework_environment(PYTHONPATH=str(SOURCE / "runtime/python"), MASTER_PORT=free_port(),
                                      ZF_PLAN=str(plan), ZF_RUNTIME_LIBRARY=str(SOURCE / "build/lib/libzf_runtime.so"))
    with contextlib.ExitStack() as stack:
        group = Group("peaks", limit)
        stack.callback(group.close)
        said = stack.enter_context(tempfile.TemporaryFile())
        enter = ["/bin/sh", "-c", f'echo $$ >"{group.path}/cgroup.procs" && exec "$@"', "sh"]
        process = subprocess.Popen([*enter, *words], env=variables, stdin=subprocess.DEVNULL, stdout=said,
                                   stderr=subprocess.STDOUT)
        stack.callback(process.kill)
        samples: list[tuple[float, int]] = []
        deadline = time.monotonic() + TIMEOUT_S
        while process.poll() is None:
            samples.append((time.monotonic(), group.bytes()))
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(SAMPLE_S)
        kills = group.kills()
        said.seek(0)
        text = said.read().decode(errors="replace")
    marks: dict[str, list[float]] = {}
    for line in lines_of(text):
        if "phase" in line:
            marks.setdefault(line["phase"], []).append(line["s"])
    begins = sorted((min(times), name) for name, times in marks.items())
    peaks: dict[str, int] = {}
    for (begin, name), (end, _) in zip(begins, [*begins[1:], (float("inf"), "")], strict=True):
        inside = [size for at, size in samples if begin <= at < end]
        if inside:
            peaks[name] = max(inside)
    return {"status": process.returncode, "kills": kills, "peaks": peaks, "said": text[-3000:]}


def measure(each: Run) -> dict:
    """Returns the bytes of each phase above those of a run that stops before its model."""
    with tempfile.TemporaryDirectory() as folder:
        plan = each.plan(folder)
        runs = {kind: run(each.words("--folder", folder, *more), plan)
                for kind, more in {"stop": ["--stop"], "whole": [], "resume": ["--resume"]}.items()}
    for kind, done in runs.items():
        if done["status"] != 0:
            sys.exit(f"{each.spec} ({kind}) ended with {done['status']}:\n{done['said']}")
    base = max(runs["stop"]["peaks"].values())
    peaks = runs["whole"]["peaks"] | {"resume": runs["resume"]["peaks"]["resume"]}
    return {"base": base, "found": {name: peaks[name] - base for name in PHASES}}


def limit(each: Run, base: int, factor: float) -> dict:
    """Runs a job, and what resumes it, in a cgroup of so much of what it needs by the forecast."""
    size = int(factor * (max(each.forecast().values()) + base))
    with tempfile.TemporaryDirectory() as folder:
        plan = each.plan(folder)
        done = {}
        for kind, more in {"whole": [], "resume": ["--resume"]}.items():
            # What the resumed job loads is written without a limit if the job was killed before.
            done[kind] = run(each.words("--folder", folder, *more), plan, size)
            if done[kind]["kills"] > 0 and kind == "whole" and factor < 1:
                break
    return {"limit": size, "kills": {kind: one["kills"] for kind, one in done.items()},
            "status": {kind: one["status"] for kind, one in done.items()},
            "phase": {kind: list(one["peaks"])[-1] for kind, one in done.items() if one["peaks"]},
            "said": "" if factor < 1 else [one["said"][-500:] for one in done.values() if one["status"] != 0]}


def bar_of(way: str) -> float:
    """Returns the largest error that a forecast may have."""
    is_ours = way.startswith("native") or way in ("in-place", "exact", "late", "in-place-fsdp2")
    return 0.03 if is_ours else 0.05


def errors_of(result: dict) -> dict[str, float]:
    forecast = Run(result["spec"], result["size"]).forecast()
    return {name: forecast[name] / result["found"][name] - 1 for name in PHASES}


def print_peaks(results: list[dict]) -> None:
    print("| job | size | " + " | ".join(f"{name}, GiB" for name in PHASES) + " | peak, error |")
    print("| --- | --- |" + " --- |" * (len(PHASES) + 1))
    worst: dict[str, float] = {}
    for result in results:
        errors, found = errors_of(result), result["found"]
        peak = max(Run(result["spec"], result["size"]).forecast().values()) / max(found.values()) - 1
        cells = " | ".join(f"{found[name] / 2**30:.2f} ({100 * errors[name]:+.1f} %)" for name in PHASES)
        print(f"| {result['spec']} | {result['size']} | {cells} | {100 * peak:+.1f} % |")
        way = result["spec"].split(":")[0]
        worst[way] = max(worst.get(way, 0), abs(peak), *map(abs, errors.values()))
    print(f"\n{len(results)} runs; the largest error of any phase: "
          + ", ".join(f"{way} {100 * error:.1f} %" for way, error in worst.items()))


def read_lines(path: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


# What others say: of DeepSpeed the bytes of a node's host memory and of one GPU's, which here is the host's, too; of
# accelerate the highest of what it says of a training with Adam.
OTHERS = """
import json, sys
import deepspeed
from accelerate.commands.estimate import estimate_training_usage
from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs as stage_3
from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs as stage_2
for line in sys.stdin:
    job = json.loads(line)
    params, ranks = job["params"], job["ranks"]
    if job["way"].startswith("zero"):
        name = "DeepSpeed"
        host, device, *_ = (stage_3(params, job["layer"], ranks, 1, True, False, False) if job["way"] == "zero3" else
                            stage_2(params, ranks, 1, True))
        said = host + ranks * device
    else:
        name = "accelerate"
        said = ranks * max(estimate_training_usage(4 * params, {"fp32": "float32", "bf16": "bfloat16"}[job["dtype"]])
                           .values())
    print("SAID", json.dumps([name, said]))
"""


def peers(results: list[dict]) -> None:
    """Prints the peak of each job beside what others say of its memory."""
    runs = [(Run(result["spec"], result["size"]), max(result["found"].values())) for result in results]
    runs = [(each, peak) for each, peak in runs if each.way in ("torch", "zero1", "zero2", "zero3", "fsdp2")]
    jobs = [{"way": each.way, "dtype": each.dtype, "ranks": each.ranks, "params": each.parameters,
             "layer": 8 * WIDTH * WIDTH} for each, _ in runs]
    said = subprocess.run([PYTHON, "-c", OTHERS], input="\n".join(map(json.dumps, jobs)), env=framework_environment(),
                          check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    others = [json.loads(line.split("SAID ", 1)[1]) for line in said.splitlines() if "SAID " in line]
    print("| job | size | peak, GiB | zf-tune fit | other | its error |\n| --- | --- | --- | --- | --- | --- |")
    for (each, peak), (name, theirs) in zip(runs, others, strict=True):
        ours = max(each.forecast().values())
        print(f"| {each.spec} | {each.size} | {peak / 2**30:.2f} | {100 * (ours / peak - 1):+.1f} % | {name} | "
              f"{100 * (theirs / peak - 1):+.1f} % |", flush=True)


def rows(results: list[dict]) -> None:
    """Prints what was measured as the unit tests read it."""
    print("""// What real jobs needed: host memory in each phase, less that of a job that stops before its model.
// Made by tests/frameworks/memory_peaks.py; docs/memory.md says how and where.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "fit/fit_job.hpp"
#include "fit/memory_item.hpp"

namespace zf {

struct MeasuredJob {
  const char* name;
  StepMethod stepper;
  int stage;
  Mode mode;
  ParameterType type;
  StateFormat state;
  int ranks;
  std::uint64_t blocks;
  std::array<std::uint64_t, kFitPhases> bytes;  ///< by FitPhase
  std::string_view change = "";                 ///< of measured_model(), or "sums": fp32-accumulation
};

inline constexpr auto kMeasuredJobs = std::to_array<MeasuredJob>({""")
    for result in results:
        each = Run(result["spec"], result["size"])
        framework, *more = FIT[each.way]
        options = dict(zip(more[::2], more[1::2], strict=True))
        print(f'    {{"{each.spec} {each.size}", StepMethod::{framework.replace("-", "_")}, '
              f'{options.get("--stage", 0)}, Mode::{options.get("--mode", "wait")}, ParameterType::{each.dtype}, '
              f'StateFormat::{each.state.replace("+", "_")}, {each.ranks}, {each.blocks}, '
              f'{{{", ".join(str(result["found"][name]) for name in PHASES)}}}'
              f'{"".join(f", {chr(34)}{change}{chr(34)}" for change in each.changes)}}},')
    print("});\n\n}  // namespace zf")


def table(results: list[dict]) -> None:
    """Prints the peak of each job, and the error of the phase where the forecast is worst."""
    cells: dict[str, dict[str, str]] = {}
    for result in results:
        worst = 100 * max(errors_of(result).values(), key=abs)
        cells.setdefault(result["spec"], {})[result["size"]] = (
            f"{max(result['found'].values()) / 2**30:.2f}|{worst:+.1f}")
    for spec, sizes in cells.items():
        mark = "*" if spec in LIMITED else ""
        columns = sizes if spec in CHANGED else USUAL
        print("|".join(["", spec + mark, *(sizes.get(size, "|") for size in columns), ""]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["peaks", "limits", "peers", "rows"])
    parser.add_argument("runs", nargs="*", metavar="WAY:DTYPE:STATE[:RANKS]", help="default: all, or for limits six")
    parser.add_argument("--size", action="append", choices=BLOCKS, help="may be given again (default: 200M, 400M)")
    parser.add_argument("--results", default="memory-peaks.jsonl", metavar="FILE")
    options = parser.parse_args()
    frameworks_case.need_environment()
    results = pathlib.Path(options.results)
    wanted = [Run(spec, size) for size in options.size or USUAL
              for spec in options.runs or (LIMITED if options.what == "limits" else RUNS)]
    if not options.runs and options.what != "limits":
        wanted += [Run(*one) for one in CHANGED.items()]
    if options.what != "rows":
        print(f"machine: {machine()}", flush=True)
    known = {(one["spec"], one["size"]): one for one in read_lines(results)}
    if options.what == "peaks":
        for each in wanted:
            if (each.spec, each.size) in known:
                continue
            one = {"spec": each.spec, "size": each.size, **measure(each)}
            known[each.spec, each.size] = one
            with results.open("a") as out:
                out.write(json.dumps(one) + "\n")
            print(f"{each.spec} {each.size}: " + ", ".join(f"{name} {100 * error:+.1f} %"
                                                          for name, error in errors_of(one).items()), flush=True)
        print_peaks([known[each.spec, each.size] for each in wanted])
    elif options.what == "rows":
        found = [known[each.spec, each.size] for each in wanted if (each.spec, each.size) in known]
        rows(found)
        table(found)
    elif options.what == "peers":
        peers([known[each.spec, each.size] for each in wanted if (each.spec, each.size) in known])
    else:
        for each in wanted:
            for factor in (ABOVE, BELOW):
                done = limit(each, known[each.spec, each.size]["base"], factor)
                print(f"{each.spec} {each.size} at {factor:.2f}: {json.dumps(done)}", flush=True)


if __name__ == "__main__":
    main()
