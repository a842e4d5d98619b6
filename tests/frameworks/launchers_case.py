"""Starts ranks as a user would: by torchrun, accelerate, DeepSpeed's launcher and Open MPI."""

import os

from frameworks_case import PYTHON, FrameworkTest, cores_of, free_port

MPI_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class LaunchersTest(FrameworkTest):
    def deepspeed(self, ranks: int, *command: str, **variables: str) -> list[dict]:
        program = command[1:] if command[0] == PYTHON else ["--no_python", *command]
        return self.ended("deepspeed", "--num_gpus", str(ranks), "--master_port", free_port(), *program, **variables)

    def torchrun(self, ranks: int, *command: str) -> list[dict]:
        return self.ended("torchrun", "--nproc-per-node", str(ranks), "--master-addr", "127.0.0.1", "--master-port",
                          free_port(), "--no-python", *command)

    def accelerate(self, ranks: int, *command: str) -> list[dict]:
        # Several ranks on one node without a GPU: only its launcher for several GPUs starts them, as torchrun would.
        # The one for the CPU sets OMP_NUM_THREADS without torchrun's mark, so exec takes the number for the user's.
        threads = ["--num_cpu_threads_per_process", str(cores_of(os.sched_getaffinity(0)))]
        how = ["--cpu", *threads] if ranks == 1 else ["--multi_gpu", "--main_process_port", free_port()]
        return self.ended("accelerate", "launch", *how, "--num_processes", str(ranks), "--num_machines", "1",
                          "--mixed_precision", "no", "--dynamo_backend", "no", "--no_python", *command)

    def mpirun(self, ranks: int, *command: str, bind_to="none") -> list[dict]:
        self.need_program("mpirun")
        return self.ended("mpirun", "--bind-to", bind_to, "--oversubscribe", "-n", str(ranks), *command, **MPI_AS_ROOT)
