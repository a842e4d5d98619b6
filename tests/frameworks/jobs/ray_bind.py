"""For each of the parts that are named, two workers of one Ray bind themselves, and say where they are. In `train` they
are Ray Train's, else actors. If `gpus` is named, each has one of Ray's two GPUs; in `hidden` Ray sets no list of them,
and in `mixed` the first has one, the other none, and both are told their rank."""

import json
import os
import sys
import tempfile

import ray
import report

PARTS = sys.argv[1:]
HIDE = {"env_vars": {"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1"}}


def say_bound(part, rank=None, ranks=None):
    import zf_runtime

    binding = zf_runtime.bind(rank, ranks)
    said = report.facts_of(binding) | {"part": part, "pid": os.getpid(), "rank": binding.rank,
                                       "threads": report.masks_of("self"), "omp": os.environ.get("OMP_NUM_THREADS"),
                                       "visible": os.environ.get("CUDA_VISIBLE_DEVICES")}
    with open(os.environ["SAID"], "a") as file:  # what a worker prints may be lost
        file.write(f"{json.dumps(said)}\n")


@ray.remote
class Worker:
    def bind(self, *told):
        say_bound(*told)

    def wait(self):
        """Returns once both workers live, so that each has its own GPU."""
        return ray.get_gpu_ids()


def start(gpus):
    """Starts Ray, which ends with an error if its own processes need more than 30 s: on a busy machine they do."""
    for attempt in range(3):
        try:
            ray.init(num_cpus=8, num_gpus=gpus, include_dashboard=False, logging_level="ERROR")
        except Exception as error:
            if attempt == 2 or "timed out during startup" not in str(error):
                raise
            ray.shutdown()
        else:
            return


def train(gpus, folder):
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    TorchTrainer(say_bound, train_loop_config="train", torch_config=TorchConfig(backend="gloo"),
                 scaling_config=ScalingConfig(num_workers=2, use_gpu=gpus > 0),
                 run_config=RunConfig(storage_path=folder)).fit()


def act(part, gpus):
    shares = (1, 0) if part == "mixed" else (gpus / 2,) * 2
    workers = [Worker.options(num_gpus=share, runtime_env=HIDE if part == "hidden" else None).remote()
               for share in shares]
    ray.get([worker.wait.remote() for worker in workers])
    told = [(rank, 2) if part == "mixed" else () for rank in range(2)]
    ray.get([worker.bind.remote(part, *its) for worker, its in zip(workers, told)])
    for worker in workers:
        ray.kill(worker)


def main():
    gpus = 2 if "gpus" in PARTS else 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SAID"] = f"{folder}/said"
        start(gpus)
        for part in PARTS:
            train(gpus, folder) if part == "train" else act(part, gpus)
        ray.shutdown()
        with open(os.environ["SAID"]) as file:
            said = [json.loads(line) for line in file]
    for index, one in enumerate(sorted(said, key=lambda one: one["cpus"])):
        report.say(rank=index, ended=one)


if __name__ == "__main__":
    main()
