"""What the tests of the commands share: running zf-tune in a clean environment, and reading what it wrote."""

import errno
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = pathlib.Path(os.environ.get("ZF_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BINARY = os.environ.get("ZF_TUNE_BINARY", str(SOURCE / "build/bin/zf-tune"))
LIBRARY = os.environ.get("ZF_RUNTIME_LIBRARY", str(pathlib.Path(BINARY).parents[1] / "lib/libzf_runtime.so"))
# By these a Python program finds the package, and what it calls.
PACKAGE = {"PYTHONPATH": str(SOURCE / "runtime/python"), "ZF_TUNE_BINARY": BINARY, "ZF_RUNTIME_LIBRARY": LIBRARY}

DONE, RUNTIME_ERROR, USAGE, STALE, INFEASIBLE = 0, 1, 2, 3, 4

# A shell that starts tests in the background has them ignore Ctrl-C, which some of them send.
signal.signal(signal.SIGINT, signal.default_int_handler)

_SLEEPS = ("230", "115", "35")  # the numbers of clock_nanosleep and nanosleep

# What a launcher, or the person at the keyboard, may have set: none of it may leak into a test.
_LAUNCHERS = re.compile(
    r"^(ZF_|LOCAL_|OMPI_|MPI_|MV2_|PMI_|PMIX_|PALS_|JSM_|FLUX_|SLURM_|RANK$|WORLD_SIZE$"
    r"|TORCHELASTIC_|MASTER_|OMP_|GOMP_|MKL_|OPENBLAS_|KMP_|HWLOC_|CUDA_|ROCR_|HIP_|NVIDIA_|ZE_|HABANA_|ASCEND_)"
)


def all_commands() -> list[str]:
    """Returns the names of all commands, in the order of their declaration."""
    return re.findall(r"^Command (\w+)_command\(\);$", (SOURCE / "tuner/commands/commands.hpp").read_text(),
                      re.MULTILINE)


def clean_environment(**extra: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not _LAUNCHERS.match(name)}
    # So wide that no text is broken; tests of widths set their own.
    return kept | {"COLUMNS": "10000"} | extra


def wait_until(is_so, deadline_s=30.0):
    """Waits until is_so() is true. Fails after the deadline."""
    end = time.monotonic() + deadline_s
    while not is_so():
        if time.monotonic() > end:
            raise AssertionError("it never came true")
        time.sleep(0.01)


def remove_group(group: pathlib.Path) -> None:
    """Removes a control group: the last processes leave it a moment after their end."""
    def is_removed() -> bool:
        try:
            group.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True

    wait_until(is_removed)


def parse_cpus(text: str) -> set[int]:
    """Returns the set that a canonical list "0,4-11" names."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        low, _, high = part.partition("-")
        cpus |= set(range(int(low), int(high or low) + 1))
    return cpus


def print_cpus(cpus: set[int]) -> str:
    """Returns the canonical list of a set: parse_cpus(print_cpus(x)) == x."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def validate(plan: dict) -> None:
    """Checks a plan with jsonschema, which knows nothing of the code that writes plans."""
    try:
        import jsonschema
    except ImportError:
        raise unittest.SkipTest("no independent validator: install python3-jsonschema") from None
    jsonschema.validate(plan, json.loads((SOURCE / "configs/plan.schema.json").read_text()))


# A process. Its main thread goes to the CPUs of its first argument. With a name and more CPUs, it has a child
# called so, on these. Both end when their standard input does.
DIVIDED = """
import ctypes, os, subprocess, sys
PR_SET_NAME = 15
main, *child = sys.argv[1:]
if child:
    name, *rest = child
    process = subprocess.Popen([sys.executable, "-c", os.environ["DIVIDED"], *rest], stdout=subprocess.PIPE,
                               env=os.environ | {"NAME": name})
    process.stdout.readline()
if "NAME" in os.environ:
    ctypes.CDLL(None).prctl(PR_SET_NAME, os.environ["NAME"].encode())
os.sched_setaffinity(0, {int(cpu) for cpu in main.split(",")})
print("ready", flush=True)
sys.stdin.read()
"""


def binding_line(home: set[int], training: set[int], framework="unknown", mems="0") -> str:
    """Returns ZF_BINDING of rank 0: one thread per CPU, and the optimizer has what training leaves."""
    return (f"zf-binding/1 rank=0 framework={framework} started_on=home home={print_cpus(home)} "
            f"home_threads={len(home)} training={print_cpus(training)} threads={len(training)} "
            f"optimizer={print_cpus(home - training)} mems={mems} policy=preferred shared=no")


class CommandTest(unittest.TestCase):
    """Every test has an empty current directory of its own."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="zf-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_tune(self, *arguments: str, before=(), timeout=50, preexec_fn=None, **environment: str):
        """Runs zf-tune with these arguments, behind the words of `before` (taskset …). Text, never a terminal."""
        return self.finish(self.start_tune(*arguments, before=before, preexec_fn=preexec_fn, **environment), timeout)

    def start_tune(self, *arguments: str, before=(), preexec_fn=None, start_new_session=False,
                   **environment: str) -> subprocess.Popen:
        """Starts what run_tune() runs, and does not wait. finish() does."""
        return subprocess.Popen(
            [*before, BINARY, *map(str, arguments)],
            cwd=self.folder,
            env=clean_environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=start_new_session,
            preexec_fn=preexec_fn,  # noqa: PLW1509  the tests that give one start no threads
        )

    def start_watch(self, *options: str) -> subprocess.Popen:
        """Starts `verify --watch`, and waits until its first look is over: then it sleeps."""
        watch = self.start_tune("verify", *options)
        wait_until(lambda: pathlib.Path(f"/proc/{watch.pid}/syscall").read_text().split()[0] in _SLEEPS)
        return watch

    @staticmethod
    def finish(process: subprocess.Popen, timeout=50) -> subprocess.CompletedProcess:
        """Waits for the end of what start_tune started, and kills it if it takes longer than the timeout."""
        with process:
            try:
                stdout, stderr = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def start_divided(self, *words: str, **environment: str) -> subprocess.Popen:
        """Starts DIVIDED with these arguments, and waits until it is ready."""
        process = subprocess.Popen([sys.executable, "-c", DIVIDED, *words], cwd=self.folder, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env=clean_environment(DIVIDED=DIVIDED, **environment))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def start_trainer(self, plan: dict, **environment: str) -> subprocess.Popen:
        """Starts a process on the home of rank 0, where it sleeps until it is killed, at the latest after the test."""
        process = subprocess.Popen(["sleep", "infinity"], env=clean_environment(**environment))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        os.sched_setaffinity(process.pid, parse_cpus(plan["ranks"][0]["home"]["cpus"]))
        return process

    def need_two_cpus(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one CPU allowed, and this needs two")

    def assert_exit(self, result, code: int):
        """Checks the exit code. If it is another, prints the command, its folder and files, and both streams."""
        if result.returncode != code:
            files = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))
            self.fail(f"exit code {result.returncode}, not {code}\ncommand: {shlex.join(map(str, result.args))}\n"
                      f"in {self.folder}: {' '.join(files) or 'no files'}\n"
                      f"stdout: {result.stdout}\nstderr: {result.stderr}")

    def assert_refused(self, result, code: int, *named: str):
        """Checks the exit code, one line on stderr that names these things, and nothing on stdout."""
        self.assert_exit(result, code)
        self.assertEqual(result.stdout, "")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for text in named:
            self.assertIn(text, result.stderr)

    def assert_wrote_nothing(self):
        self.assertEqual([path.name for path in self.folder.iterdir()], [])

    def write_files(self, files: dict[str, str | bytes]):
        """Writes files and the folders they are in. Their names are relative to the test's folder."""
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def make_plan(self, *arguments: str, name="plan.json", **keywords) -> dict:
        """Makes a plan without measuring, in the test's folder. It divides homes, unless the arguments say a mode."""
        mode = () if "--mode" in arguments or "--from" in arguments else ("--mode", "overlap")
        result = self.run_tune("plan", "-q", "-o", name, *mode, *arguments, **keywords)
        self.assert_exit(result, DONE)
        return self.read_plan(name)

    def make_node(self, cpus: int, files: dict[str, str] | None = None, name="node") -> tuple[str, str]:
        """Makes a folder with the /proc and /sys of a machine: one package, one NUMA node, no SMT. The names of more
        files are below sys/devices/system/cpu. Returns the options that name it."""
        everything = print_cpus(set(range(cpus)))
        cpu, node = "sys/devices/system/cpu", "sys/devices/system/node"
        texts = {f"{cpu}/{list}": everything for list in ("present", "online", "possible")}
        texts |= {f"{node}/online": "0", f"{node}/has_memory": "0", f"{node}/node0/cpulist": everything,
                  f"{node}/node0/cpumap": f"{(1 << cpus) - 1:x}",
                  f"{node}/node0/meminfo": "Node 0 MemTotal:       1048576 kB"}
        for number in range(cpus):
            texts |= {f"{cpu}/cpu{number}/topology/{file}": text for file, text in {
                "core_id": f"{number}", "physical_package_id": "0", "thread_siblings": f"{1 << number:x}",
                "core_cpus": f"{1 << number:x}", "core_siblings": f"{(1 << cpus) - 1:x}",
                "package_cpus": f"{(1 << cpus) - 1:x}"}.items()}
        texts |= {f"{cpu}/{file}": text for file, text in (files or {}).items()}
        self.write_files({f"{name}/{path}": text + "\n" for path, text in texts.items()})
        return ("--sysroot", name)

    def read_plan(self, name="plan.json") -> dict:
        return json.loads((self.folder / name).read_text())

    def assert_shares_cpus(self, plan: dict):
        """Checks a plan on CPUs that neighbours share: both sides of a rank have all of its home, which may overlap."""
        for rank in plan["ranks"]:
            self.assertLessEqual(parse_cpus(rank["home"]["cpus"]), parse_cpus(plan["allocation"]["cpus"]))
            self.assertEqual(rank["training"]["cpus"], rank["home"]["cpus"])
            self.assertEqual(rank["optimizer"]["cpus"], rank["home"]["cpus"])
            self.assertGreaterEqual(rank["optimizer"]["threads"], 1)

    def assert_sound(self, plan: dict, allowed: set[int] | None = None):
        """Checks the promises of every plan once more."""
        validate(plan)
        taken: set[int] = set()
        if plan["allocation"].get("shared_cpus"):
            self.assert_shares_cpus(plan)
            return
        for rank in plan["ranks"]:
            training, pool = parse_cpus(rank["training"]["cpus"]), parse_cpus(rank["optimizer"]["cpus"])
            self.assertTrue(training and pool, "an empty side")
            home = parse_cpus(rank["home"]["cpus"])
            self.assertEqual(bool(training & pool), rank["shared"])
            self.assertLessEqual(training | pool, home)
            if rank["shared"]:
                self.assertEqual(training, home)
            self.assertFalse(taken & home, "two ranks on one CPU")
            taken |= home
        self.assertLessEqual(taken, parse_cpus(plan["allocation"]["cpus"]))
        if allowed is not None:
            self.assertLessEqual(taken, allowed)
