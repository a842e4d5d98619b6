"""What the tests of zf_runtime.bind() share on a node with GPUs, which are mounted over those of this machine."""

import functools
import json
import subprocess
import sys

from mounted_gpus import MOUNT, MountedGpusTest
from zf_cli import PACKAGE, clean_environment

PROGRAM = """
import faulthandler, json, os, sys, time
faulthandler.dump_traceback_later(80, exit=True)  # a hang is to say where
from zf_runtime import bind
from zf_runtime.binding import claims
claims._WAITS_S = 1
if os.environ.get("LATER"):
    os.environ.update(json.loads(os.environ["LATER"]))
if os.environ.get("PLANS"):
    sys.modules["zf_runtime.binding.bind"].PLANS = os.environ["PLANS"]
binding = bind(*map(int, sys.argv[1:]))
print(json.dumps({"bound": bool(binding), "cpus": sorted(binding.cpus), "source": binding.source, "plan": binding.plan,
                  "errors": binding.errors, "text": str(binding),
                  "notes": [note for note in binding.notes if "run fewer ranks" not in note]}), flush=True)
faulthandler.cancel_dump_traceback_later()
sys.stdin.read()
"""
# Starts each rank with variables of its own, and lets them live until all have said what they did. A rank with
# SHELL among its variables sets them in a shell of its own, which stays above it.
LAUNCHER = """
import json, os, subprocess, sys
ranks = []
for words, own in json.loads(sys.argv[1]):
    environment = os.environ | own
    if own.pop("SHELL", ""):
        setting = " ".join(f"{name}={value}" for name, value in own.items() if "LOCAL_" not in name)
        words = ["sh", "-c", f'export {setting}; "$@"; exit', "sh", *words]
        environment = os.environ | {name: value for name, value in own.items() if "LOCAL_" in name}
    ranks.append(subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
print(json.dumps([json.loads(rank.stdout.readline()) for rank in ranks]))
for rank in ranks:
    rank.stdin.close()
    rank.wait(20)
"""


class BoundGpusTest(MountedGpusTest):
    def setUp(self):
        super().setUp()
        self.need_two_cpus()
        self.gpus = self.nvidia(2)
        self.write(*self.gpus)
        self.probe()  # skips where GPUs cannot be mounted

    @functools.cached_property
    def homes(self) -> list[dict]:
        """What bind() does with each GPU alone."""
        return [self.bind(CUDA_VISIBLE_DEVICES=str(gpu)) for gpu in (0, 1)]

    def bind(self, *arguments: int, before=(), **variables: str) -> dict:
        """Runs bind() with these GPUs, and without zf-tune's own variables. Returns what it did."""
        return self.run_json(*before, *self.program(*arguments), **variables)

    def program(self, *arguments: int) -> list[str]:
        return [sys.executable, "-B", "-c", PROGRAM, *map(str, arguments)]

    def run_json(self, *words: str, **variables: str):
        """Runs a program with these GPUs. OPEN and REFUSED: as for MOUNT. Returns what it said."""
        environment = clean_environment(**PACKAGE) | variables
        ran = subprocess.run(["unshare", "--mount", "sh", "-c", MOUNT, "sh", *words], cwd=self.folder, timeout=100,
                             env={"OPEN": "", "REFUSED": ""} | environment, stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, check=False)
        self.assert_exit(ran, 0)
        said = [json.loads(line) for line in ran.stdout.splitlines()]
        return said[0] if len(said) == 1 else said

    def bind_ranks(self, *own: dict[str, str], arguments=None, **variables: str) -> list[dict]:
        """Does the same as start_ranks(). All are bound."""
        said = self.start_ranks(*own, arguments=arguments, **variables)
        self.assertTrue(all(rank["bound"] for rank in said), said)
        return said

    def start_ranks(self, *own: dict[str, str], arguments=None, **variables: str) -> list[dict]:
        """Runs a launcher and its ranks: by torchrun's variables, or with arguments of bind(). `own`: the variables of
        each rank. Returns what each rank did; no two have a CPU in common."""
        ranks = []
        for rank, mine in enumerate(own):
            given = {} if arguments else {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(len(own))}
            ranks.append((self.program(*(arguments[rank] if arguments else ())), given | mine))
        said = self.run_json(sys.executable, "-B", "-c", LAUNCHER, json.dumps(ranks), **variables)
        cpus = [cpu for rank in said for cpu in rank["cpus"]]
        self.assertEqual(len(set(cpus)), len(cpus), "\n".join(rank["text"] for rank in said))
        return said

    def assert_same(self, said: dict, gpu: int):
        self.assertEqual((said["bound"], said["cpus"]), (True, self.homes[gpu]["cpus"]), said["text"])
