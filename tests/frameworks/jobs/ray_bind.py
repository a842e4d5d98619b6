"""Two workers of Ray bind themselves, and say where they are. They are actors, or with `train` Ray Train's; with `gpus`
each has one of Ray's two; with `mixed` the first has one, and both are told their rank."""

import json
import os
import sys
import tempfile

import ray
import report

WITH = sys.argv[1:]


def say_bound(rank=None, ranks=None):
    import zf_runtime

    binding = zf_runtime.bind(rank, ranks)
    said = {"pid": os.getpid(), "bound": bool(binding), "rank": binding.rank, "cpus": sorted(binding.cpus),
            "source": binding.source, "text": str(binding), "errors": binding.errors,
            "threads": report.masks_of("self"), "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
            "omp": os.environ.get("OMP_NUM_THREADS")}
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


def main():
    gpus = 2 if {"gpus", "mixed"} & set(WITH) else 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SAID"] = f"{folder}/said"
        start(gpus)
        if "train" in WITH:
            from ray.train import RunConfig, ScalingConfig
            from ray.train.torch import TorchConfig, TorchTrainer

            TorchTrainer(say_bound, torch_config=TorchConfig(backend="gloo"),
                         scaling_config=ScalingConfig(num_workers=2, use_gpu=gpus > 0),
                         run_config=RunConfig(storage_path=folder)).fit()
        else:
            shares = (1, 0) if "mixed" in WITH else (gpus / 2,) * 2
            workers = [Worker.options(num_gpus=share).remote() for share in shares]
            ray.get([worker.wait.remote() for worker in workers])
            told = [(rank, 2) if "mixed" in WITH else () for rank in range(2)]
            ray.get([worker.bind.remote(*its) for worker, its in zip(workers, told)])
        ray.shutdown()
        with open(os.environ["SAID"]) as file:
            said = [json.loads(line) for line in file]
    for index, one in enumerate(sorted(said, key=lambda one: one["cpus"])):
        report.say(rank=index, ended=one)


if __name__ == "__main__":
    main()
