"""What the study compares: jobs, ways to start them, numbers of ranks, and sizes of the model. Starts nothing.

A group is one job with so many ranks and one size. The ways of a group (Arm) are what is compared with each other."""

import dataclasses
import itertools
import pathlib

UNBOUND, FUSED, BIND, PLAN = "unbound", "unbound-fused", "bind_cores_to_rank", "plan"
IN_PLACE, WAIT, LATE = "ours-in-place", "ours-waiting", "ours-late"
ARMS = {
    UNBOUND: "unbound",
    FUSED: "unbound, fused=True",
    BIND: "--bind_cores_to_rank",
    PLAN: "plan",
    IN_PLACE: "plan + ours in place",
    WAIT: "plan + ours waiting",
    LATE: "plan + ours late",
}
UPDATE_INTERVAL = 2  # of ZenFlow, as in jobs/deepspeed_job.py


@dataclasses.dataclass(frozen=True)
class Job:
    title: str
    script: str
    options: tuple[str, ...]
    framework: str
    mode: str
    update_interval: int
    impossible: dict[str, str]  # ways that this job has not, and why


@dataclasses.dataclass(frozen=True)
class Size:
    width: int
    layers: int
    tokens: int
    memory_gib: float  # of one rank of the most demanding job: ZenFlow with overlap_step, which has two processes

    def options(self) -> tuple[str, ...]:
        return ("--gpt", "--width", str(self.width), "--blocks", str(self.layers), "--tokens", str(self.tokens),
                "--steps", "1000000")


@dataclasses.dataclass(frozen=True)
class Group:
    job: str
    ranks: int
    size: str

    def name(self) -> str:
        return f"{self.job}-{self.ranks}-{self.size}"


ZENFLOW_LATE = "ZenFlow has its own order of steps: its overlap_step is the late way"
OF_TORCH = {FUSED: "an option of torch's own AdamW",
            IN_PLACE: "zf-optimizer steps ZeRO's partitions in its own memory"}
JOBS = {
    "torch": Job("PyTorch AdamW", "torch_adamw", (), "torch", "wait", 1,
                 {BIND: "an option of DeepSpeed's launcher",
                  WAIT: "where training waits and parameters are on the CPU, ours steps in place"}),
    "zero-2": Job("ZeRO-Offload, stage 2", "deepspeed_job", ("--stage", "2"), "deepspeed-offload", "wait", 1,
                  OF_TORCH),
    "zero-3": Job("ZeRO-Offload, stage 3", "deepspeed_job", ("--stage", "3"), "deepspeed-offload", "wait", 1,
                  OF_TORCH),
    "zenflow": Job("ZenFlow, overlap_step off", "deepspeed_job", ("--zenflow",), "deepspeed-zenflow", "wait",
                   UPDATE_INTERVAL, OF_TORCH | {LATE: ZENFLOW_LATE}),
    # Without --fit_threads its OpenMP threads spin on each other's CPUs, now and then.
    "zenflow-overlap": Job("ZenFlow, overlap_step on", "deepspeed_job", ("--zenflow", "--overlap", "--fit_threads"),
                           "deepspeed-zenflow", "overlap", UPDATE_INTERVAL,
                           OF_TORCH | {WAIT: "with overlap_step on, nothing waits"}),
}
NOT_RUN = {"SuperOffload": "needs a GPU, and PyTorch with CUDA; the pinned environment of this study has neither"}
SIZES = {"small": Size(384, 6, 64, 2.0), "larger": Size(768, 8, 64, 4.7)}
RANKS = (1, 2)


def parameters_of(size: Size) -> int:
    """Returns how many parameters jobs/gpt.py makes of it."""
    vocabulary = 4096
    block = 12 * size.width ** 2 + 13 * size.width
    return size.layers * block + (2 * vocabulary + size.tokens + 2) * size.width


def groups_of(long: bool) -> list[Group]:
    """Returns what is run: one rank and the small model, or all."""
    ranks, sizes = (RANKS, SIZES) if long else (RANKS[:1], list(SIZES)[:1])
    return [Group(job, count, size) for size, count, job in itertools.product(sizes, ranks, JOBS)]


def chosen(long: bool, only: list[str]) -> list[Group]:
    """Returns the groups of these jobs, and those that are named in full, which --long need not be given for. No name
    means all."""
    groups = groups_of(long)
    return [group for group in groups_of(True)
            if group.name() in only or (group in groups and (not only or group.job in only))]


def arms_of(group: Group) -> list[str]:
    return [arm for arm in ARMS if arm not in JOBS[group.job].impossible]


def planned(arm: str) -> bool:
    """Returns whether this way needs a plan."""
    return arm in (PLAN, IN_PLACE, WAIT, LATE)


def plan_options(group: Group, arm: str) -> list[str]:
    """Returns what zf-tune tune and zf-tune plan are told for this way: see the table of docs/deepspeed.md."""
    job = JOBS[group.job]
    mode = {PLAN: job.mode, IN_PLACE: "wait", WAIT: "wait", LATE: "overlap"}[arm]
    framework = job.framework if arm in (PLAN, IN_PLACE) else "native"
    return ["--ranks", str(group.ranks), "--framework", framework, "--mode", mode,
            "--update-interval", str(job.update_interval)]


def is_same_computation(group: Group, arm: str) -> bool:
    """Returns whether this way promises the losses of the unbound job. (ZenFlow with overlap_step is late in each.)"""
    return arm != LATE or group.job == "zenflow-overlap"


def command(group: Group, arm: str, *, python: str, tune: str, jobs: pathlib.Path, plan: str, port: str) -> list[str]:
    """Returns the command line that a user would type, after docs/deepspeed.md."""
    job = JOBS[group.job]
    is_torch = job.script == "torch_adamw"
    optimizer = {FUSED: ["--fused"], IN_PLACE: ["--in_place"], LATE: ["--ours", "--late"]} if is_torch else {}
    script = [str(jobs / f"{job.script}.py"), *job.options, *SIZES[group.size].options(), *optimizer.get(arm, [])]
    adapter = ["-m", "zf_runtime.deepspeed"] if arm in (WAIT, LATE) and not is_torch else []
    if adapter and arm == LATE and group.job != "zenflow-overlap":
        adapter += ["--late"]
    launcher = _launcher(is_torch, group.ranks, port)
    if not planned(arm):
        bind = ["--bind_cores_to_rank"] if arm == BIND else []
        return [*launcher, *bind, *script] if group.ranks > 1 or bind else [python, *script]
    inner = [tune, "exec", "--plan", plan, "--", python, *adapter, *script]
    if group.ranks == 1:
        return inner
    return [*launcher, "--no-python" if is_torch else "--no_python", *inner]


def _launcher(is_torch: bool, ranks: int, port: str) -> list[str]:
    if is_torch:
        return ["torchrun", "--nproc-per-node", str(ranks), "--master-addr", "127.0.0.1", "--master-port", port]
    return ["deepspeed", "--num_gpus", str(ranks), "--master_port", port]
