"""Runs a bash script beside a real Slurm: on this machine, in namespaces of its own, or in a guest.

Nothing of it outlives the call: the daemons end with the process namespace, the file systems with the mount
namespace, and the control groups that slurmd made are removed. /run, /etc, /dev and /opt are private copies.
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import guest
from permissions import need_namespaces
from zf_cli import BINARY, SOURCE, clean_environment

HERE = pathlib.Path(__file__).resolve().parent
KIT = SOURCE / "scripts/slurm"
BUILD = pathlib.Path(BINARY).parents[1]
HOME = "/opt/zf-lab"  # where the lab finds all it was given; root's, for all to read
# What slurm.conf names, and what Slurm loads unasked.
PLUGINS = ("*_none", "auth_munge", "cred_munge", "cgroup_v[12]", "gpu_generic", "gres_gpu", "hash_*", "launch_slurm",
           "prep_script", "priority_basic", "proctrack_cgroup", "proctrack_linuxproc", "route_default",
           "sched_backfill", "select_cons_tres", "serializer_json", "task_affinity", "task_cgroup")
DAEMONS = ("munged", "slurmctld", "slurmd", "slurmstepd")
CLIENTS = ("srun", "sbatch", "sinfo", "squeue", "scontrol", "scancel")
PLUGIN_FOLDER = pathlib.Path("/usr/lib/x86_64-linux-gnu/slurm-wlm")
CGROUPS = pathlib.Path("/sys/fs/cgroup")
NAMESPACES = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--uts")

CONFINED = "TaskPlugin=task/cgroup,task/affinity\nProctrackType=proctrack/cgroup\n"
UNCONFINED = "TaskPlugin=task/none\nProctrackType=proctrack/linuxproc\n"


def kit_conf(*, prolog="prolog", epilog="epilog", task_prolog="task-prolog") -> str:
    """The lines of slurm.conf that docs/slurm.md asks for."""
    folder = f"{HOME}/slurm"
    return f"Prolog={folder}/{prolog}\nEpilog={folder}/{epilog}\nTaskProlog={folder}/{task_prolog}\n"


@dataclasses.dataclass
class Lab:
    """What to put beside the script: lines of slurm.conf, files by their names there, what confines jobs.

    A busy machine, or an emulated processor, may take ten times as long as a node. So the kit's scripts have more time
    than as shipped. `deadline` is that of the settings ("": the default, 0.7 s). The kit's settings and slurm.conf may
    take `reading` seconds to read, each (as shipped: 0.3). `first` runs in a guest before the daemons."""

    conf: str = ""
    confined: bool = True
    more: dict[str, str | pathlib.Path] = dataclasses.field(default_factory=dict)
    deadline: str = "5"
    reading: str = "3"
    first: str = ""

    def files(self, cgroup: str) -> dict[str, str | pathlib.Path]:
        """Everything of the lab, by its place: a text, or the file it is a copy of."""
        files: dict[str, str | pathlib.Path] = {
            f"{HOME}/lab.sh": HERE / "lab.sh",
            f"{HOME}/bin/zf-tune": pathlib.Path(BINARY),
            f"{HOME}/bin/zf-optimizer": BUILD / "bin/zf-optimizer",
            f"{HOME}/bin/test-rank": BUILD / "bin/test-rank",
            f"{HOME}/lib/libzf_runtime.so.0": (BUILD / "lib/libzf_runtime.so.0").resolve(),
            f"{HOME}/slurm.conf": self.conf + (CONFINED if self.confined else UNCONFINED),
            "/etc/zf-tune/slurm.conf": f"program={HOME}/bin/zf-tune\n",
        }
        if self.confined:
            files[f"{HOME}/cgroup.conf"] = f"CgroupAutomount=no\nConstrainCores=yes\nConstrainRAMSpace=no\n{cgroup}"
        files |= {f"{HOME}/slurm/{path.name}": path for path in KIT.iterdir()}
        common = (KIT / "common.sh").read_text()
        assert "bounded 0.3 " in common
        files[f"{HOME}/slurm/common.sh"] = common.replace("bounded 0.3 ", f"bounded {self.reading} ")
        files |= self.more
        if self.deadline:
            files["/etc/zf-tune/slurm.conf"] += f"deadline={self.deadline}\n"
        return files

    def run_here(self, script: str, timeout_s=120) -> subprocess.CompletedProcess:
        """On this machine; cgroup v1."""
        with tempfile.TemporaryDirectory(prefix="zf-lab-") as folder:
            root = pathlib.Path(folder)
            files = self.files("CgroupPlugin=cgroup/v1\n")
            files |= {f"{HOME}/script": script, f"{HOME}/isolate.sh": HERE / "isolate.sh"}
            for path, content in files.items():
                _put(root / path.lstrip("/"), content)
            try:
                return subprocess.run(
                    ["unshare", *NAMESPACES,
                     "bash", HERE / "isolate.sh", folder, f"{HOME}/lab.sh", f"{HOME}/script"],
                    env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                    timeout=timeout_s, check=False)
            finally:
                _remove_cgroups()

    def run_in_guest(self, script: str, *, shape="2ht", timeout_s=300) -> subprocess.CompletedProcess:
        """In a guest of this shape; cgroup v2."""
        files = self.files("CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n") | {f"{HOME}/script": script}
        texts = {path: content for path, content in files.items() if isinstance(content, str)}
        copies = [(content, path) for path, content in files.items() if not isinstance(content, str)]
        ours = [path for path, _ in copies if path.parent in (BUILD / "bin", BUILD / "lib")]
        plugins = [path for name in PLUGINS for path in PLUGIN_FOLDER.glob(f"{name}.so")]
        tools = ["bash", "timeout", "logger", "setsid", "setpriv", "numactl", "stat", "env", "unshare"]
        programs = [*DAEMONS, *CLIENTS, *tools, *plugins, *ours]
        return guest.run(f"{_GUEST_SET_UP}{self.first}\nbash {HOME}/lab.sh {HOME}/script", shape=shape,
                         programs=programs, files=copies, texts=texts, timeout_s=timeout_s)


# Slurm looks at the system's name, and needs the controllers below the root.
_GUEST_SET_UP = """
echo NAME=guest >/etc/os-release
mkdir -p /sys/fs/cgroup/system.slice
for controller in cpuset cpu memory pids; do
  for group in . system.slice; do echo +$controller >/sys/fs/cgroup/$group/cgroup.subtree_control; done
done
"""


def need_slurm() -> None:
    """Skips the test where no Slurm can be started."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("a Slurm of its own needs root")
    for program in (*DAEMONS, "busybox"):
        if shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
            raise unittest.SkipTest(f"no {program} here: install slurm-wlm, munge and busybox-static")


def need_isolation() -> None:
    """Skips the test where Lab.run_here() cannot be used."""
    need_namespaces(*NAMESPACES)
    if not (CGROUPS / "cpuset/tasks").exists():
        raise unittest.SkipTest("no cgroup v1 cpuset controller is mounted here")


def _put(path: pathlib.Path, content: str | pathlib.Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        path.write_text(content)
        path.chmod(0o755 if content.startswith("#!") else 0o644)
    else:
        shutil.copy(content, path)


def _remove_cgroups() -> None:
    """What slurmd leaves when it is killed: the groups of its jobs, innermost first."""
    for top in CGROUPS.glob("*/slurm_lab*"):
        for folder, _, _ in os.walk(top, topdown=False):
            os.rmdir(folder)
