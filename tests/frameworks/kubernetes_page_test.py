"""What docs/kubernetes.md names is run: the command of its pod, here without a pod, and its example for Ray.

Seen with PyTorch 2.13.0 and Ray 2.60.0 with this machine as its one node; not in Kubernetes."""

import json
import pathlib
import re
import subprocess

from frameworks_case import FrameworkTest, framework_environment, free_port, home_of, job
from ray_case import RAY_PYTHON, RAY_VARIABLES, need_ray
from zf_cli import BINARY, SOURCE, parse_cpus

POD = (SOURCE / "configs/kubernetes/torchrun.yaml").read_text()
EXAMPLE = SOURCE / "runtime/python/examples/ray_cluster.py"


class KubernetesPage(FrameworkTest):
    def test_the_command_of_the_pod_starts_each_rank_on_its_home(self):
        plan = self.make_plan("--ranks", "2")
        words = re.split(r",\s*", re.search(r"command: \[(.*?)\]", POD, re.DOTALL)[1])
        self.assertEqual(words[-2:], ["python3", "train.py"])
        words[1:2] = ["--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}"]
        ended = self.ended(*words[:-2], *job("masks"), ZF_PLAN=str(self.folder / "plan.json"))
        self.assertEqual(len(ended), 2, self.output)
        for rank, its in enumerate(ended):
            self.assert_has_all_of(home_of(plan, rank), its)

    def test_ray_surveys_its_nodes_and_its_workers_are_bound_by_the_plan(self):
        need_ray()
        plan = self.make_plan("--ranks", "2")
        (self.folder / "survey").mkdir()
        environment = framework_environment(
            PYTHONPATH=str(SOURCE / "runtime/python"), HOME=str(self.folder), RAY_DEDUP_LOGS="0", ZF_TUNE_BINARY=BINARY,
            ZF_CLAIMS=str(self.folder / "claims"), ZF_PLAN=str(self.folder / "plan.json"), **RAY_VARIABLES)
        done = subprocess.run([RAY_PYTHON, EXAMPLE, self.folder / "survey", "2"], cwd=self.folder, env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=250, check=False)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said)
        (file,) = pathlib.Path(self.folder, "survey").iterdir()
        node = json.loads(file.read_text())
        self.assertEqual((file.stem, node["machine"]["fingerprint"]), (node["name"], plan["machine"]["fingerprint"]))
        self.assertIn(node["machine"]["fingerprint"][:8], done.stdout, "the survey names the class")
        bound = re.findall(r"zf_runtime\.bind: rank (\d+) \(.*?\) is on CPUs? ([\d,-]+), ", said)
        self.assertEqual({int(rank): parse_cpus(cpus.rstrip(",")) for rank, cpus in bound},
                         {rank: home_of(plan, rank) for rank in (0, 1)}, said)
