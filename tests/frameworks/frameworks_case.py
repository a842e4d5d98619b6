"""What the tests of the frameworks share: starting a job as a user would, and reading what it said of itself.

The jobs are in jobs/, the environment is made by scripts/frameworks-env, and docs/launch.md is the rule."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import warm
from ports import free_port
from zf_cli import BINARY, LIBRARY, SOURCE, CommandTest, clean_environment, parse_cpus

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = pathlib.Path(os.environ.get("ZF_FRAMEWORKS_ENV", SOURCE / "build/frameworks-env"))
PYTHON = str(FOLDER / "bin/python")
TUNE = pathlib.Path(BINARY).resolve()


def need_environment():
    if not (FOLDER / "stamp").exists():
        missing = pathlib.Path(f"{FOLDER}.missing")
        raise unittest.SkipTest(missing.read_text().strip() if missing.exists() else
                                f"no {FOLDER.name}: run scripts/frameworks-env")


def framework_environment(**extra: str) -> dict[str, str]:
    """Returns what a job of this environment needs, and nothing of the caller's launcher."""
    lines = (HERE / "environment").read_text().splitlines()
    wanted = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    wanted["TORCH_EXTENSIONS_DIR"] = str(FOLDER / "extensions")
    wanted["TORCHINDUCTOR_CACHE_DIR"] = str(FOLDER / "inductor")
    wanted["PYTHONPYCACHEPREFIX"] = str(FOLDER / "pycache")
    wanted["PATH"] = f"{FOLDER}/bin:{TUNE.parent}:{os.environ['PATH']}"
    kept = {name: value for name, value in clean_environment().items()
            if name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "MASTER_ADDR", "MASTER_PORT")}
    if "OMP_WAIT_POLICY" in os.environ:  # CMakeLists.txt sets it
        wanted["OMP_WAIT_POLICY"] = os.environ["OMP_WAIT_POLICY"]
    return kept | wanted | extra


def job(name: str, *options: str) -> list[str]:
    return [PYTHON, str(HERE / "jobs" / f"{name}.py"), *options]


def lines_of(said: str) -> list[dict]:
    """Returns the facts that a job printed: see jobs/report.py. A launcher may put its own words before a line."""
    return [json.loads(line.split("JOB ", 1)[1]) for line in said.splitlines() if "JOB {" in line]


def cores_of(cpus: set[int]) -> int:
    """Returns how many cores a set of CPUs lies on."""
    folder = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    return len({pathlib.Path(folder.format(cpu)).read_text() for cpu in cpus})


def home_of(plan: dict, rank=0) -> set[int]:
    """Returns both sides of a rank."""
    return parse_cpus(plan["ranks"][rank]["training"]["cpus"]) | parse_cpus(plan["ranks"][rank]["optimizer"]["cpus"])


class FrameworkTest(CommandTest):
    WARM: tuple[str, ...] = ()  # what has been imported where a job begins that has no launcher
    CASES = ""  # the folder of run_cases()

    def setUp(self):
        need_environment()
        super().setUp()
        self.need_two_cpus()

    def need_program(self, name: str):
        if shutil.which(name) is None:
            self.skipTest(f"no {name} here")

    def launch(self, *words: str, timeout=200, **variables: str) -> list[dict]:
        """Runs a launcher to its end. What its ranks said, one list of facts."""
        # Tests run beside each other, and launchers leave folders.
        environment = framework_environment(**{"MASTER_PORT": free_port(), "TMPDIR": str(self.folder)} | variables)
        done = self.run_job(words, environment, timeout)
        self.output = f"\nstdout: {done.stdout}\nstderr: {done.stderr}"
        self.assertEqual(done.returncode, 0, self.output)
        return lines_of(done.stdout)

    def run_job(self, words, environment: dict[str, str], timeout: float) -> subprocess.CompletedProcess:
        modules = self.WARM if words[0] == PYTHON and words[1] != "-m" else ()
        if any(re.match("OMP_|TORCH", name) for name in environment.keys() - framework_environment().keys()):
            modules = ()  # they are read when torch is imported
        return warm.run(words, modules, cwd=self.folder, env=environment, timeout=timeout)

    def run_cases(self, *files: str, modules=warm.TORCH, timeout=280, **variables: str):
        """Runs the cases of some files of CASES in one process: to import torch and to step once costs 6 s."""
        # Threads that spin would keep the CPUs from the tests beside these.
        environment = framework_environment(
            PYTHONPATH=f"{SOURCE / 'runtime/python'}:{HERE}", ZF_RUNTIME_LIBRARY=LIBRARY, ZF_TUNE_BINARY=BINARY,
            OMP_WAIT_POLICY="passive", TMPDIR=str(self.folder), **variables)
        done = warm.run([PYTHON, "-B", "-m", "unittest", "-v", *files], modules, cwd=HERE / self.CASES, env=environment,
                        timeout=timeout)
        print(done.stdout)
        self.assertEqual(done.returncode, 0, f"\n{done.stdout}\n{done.stderr}")
        self.assertNotIn("Ran 0 tests", done.stderr)

    def ended(self, *words: str, **keywords) -> list[dict]:
        """The same, but where each rank ended, by rank."""
        said = [line for line in self.launch(*words, **keywords) if "ended" in line]
        said.sort(key=lambda line: line["rank"])
        self.assertEqual([line["rank"] for line in said], list(range(len(said))), self.output)
        return [line["ended"] for line in said]

    def only(self, *words: str, **keywords) -> dict:
        said = self.ended(*words, **keywords)
        self.assertEqual(len(said), 1, self.output)
        return said[0]

    def masks(self, threads: dict[str, str]) -> dict[str, set[int]]:
        return {thread: parse_cpus(cpus) for thread, cpus in threads.items()}

    def assert_has_all_of(self, home: set[int], ended: dict):
        """Every thread of the job may use the whole home, and there is an OpenMP thread for each of its cores."""
        masks = self.masks(ended["threads"])
        self.assertEqual({thread: mask for thread, mask in masks.items() if mask != home}, {}, f"home is {home}")
        self.assertEqual(ended["omp"], str(cores_of(home)))
        if "torch_threads" in ended:
            self.assertEqual(ended["torch_threads"], cores_of(home))
