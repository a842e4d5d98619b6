"""Surveys the nodes of a Ray cluster, and then trains with workers that their node's plan binds.

usage: ray_cluster.py FOLDER WORKERS
"""
import pathlib
import subprocess
import sys
import tempfile

import ray.train.torch
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On


@ray.remote(num_cpus=0)
def survey() -> tuple[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["zf-tune", "survey", "add", folder], check=True)
        (file,) = pathlib.Path(folder).iterdir()
        return file.name, file.read_text()


def train() -> None:
    import zf_runtime
    print(zf_runtime.bind())


folder, workers = sys.argv[1:]
ray.init()
nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
for name, text in ray.get([survey.options(scheduling_strategy=On(node, soft=False)).remote() for node in nodes]):
    pathlib.Path(folder, name).write_text(text)
subprocess.run(["zf-tune", "survey", folder], check=False)  # 3: something is odd
scaling = ray.train.ScalingConfig(num_workers=int(workers))
ray.train.torch.TorchTrainer(train, scaling_config=scaling).fit()
