"""Two workers of Ray bind themselves, and say where they are. They are actors, or with `train` Ray Train's; with `gpus`
each has one of Ray's two."""

import json
import os
import sys
import tempfile

import ray
import report

WITH = sys.argv[1:]


def say_bound():
    import zf_runtime

    binding = zf_runtime.bind()
    said = {"pid": os.getpid(), "bound": bool(binding), "rank": binding.rank, "cpus": sorted(binding.cpus),
            "source": binding.source, "text": str(binding), "errors": binding.errors,
            "threads": report.masks_of("self"), "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "omp": os.environ.get("OMP_NUM_THREADS")}
    with open(os.environ["SAID"], "a") as file:  # what a worker prints may be lost
        file.write(f"{json.dumps(said)}\n")


@ray.remote
class Worker:
    def bind(self):
        say_bound()

    def wait(self):
        """Returns once both workers live, so that each has its own GPU."""
        return ray.get_gpu_ids()


def main():
    gpus = 2 if "gpus" in WITH else 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SAID"] = f"{folder}/said"
        ray.init(num_cpus=8, num_gpus=gpus, include_dashboard=False, logging_level="ERROR")
        if "train" in WITH:
            from ray.train import RunConfig, ScalingConfig
            from ray.train.torch import TorchTrainer

            TorchTrainer(say_bound, scaling_config=ScalingConfig(num_workers=2, use_gpu=gpus > 0),
                         run_config=RunConfig(storage_path=folder)).fit()
        else:
            workers = [Worker.options(num_gpus=gpus / 2).remote() for _ in range(2)]
            ray.get([worker.wait.remote() for worker in workers])
            ray.get([worker.bind.remote() for worker in workers])
        ray.shutdown()
        with open(os.environ["SAID"]) as file:
            said = [json.loads(line) for line in file]
    for index, one in enumerate(sorted(said, key=lambda one: one["cpus"])):
        report.say(rank=index, ended=one)


if __name__ == "__main__":
    main()
