"""DeepSpeed on CPU, by the options: ZeRO-Offload (DeepSpeedCPUAdam in the training process), or ZenFlow."""

import os

import report

report.set_rendezvous()

import deepspeed
import torch
from model import arguments, training_of

# A collective for several ranks on one node. Only one rank runs here, and compiling it takes as long as the optimizer.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False

# ZenFlow's slow optimizer runs once in this many steps.
UPDATE_INTERVAL = 2


def zero_optimization(options) -> dict:
    zero = {"stage": options.stage, "offload_optimizer": {"device": "cpu", "pin_memory": False}}
    if options.zenflow:
        zero["zenflow"] = {"topk_ratio": 0.1, "select_strategy": "step", "select_interval": 4 * UPDATE_INTERVAL,
                           "update_interval": UPDATE_INTERVAL, "full_warm_up_rounds": 2,
                           "overlap_step": options.overlap}
    return zero


def fit_threads():
    """Takes as many OpenMP threads as the main thread has CPUs, once ZenFlow has divided them: ZenFlow moves only the
    main thread, and sets OMP_NUM_THREADS too late. Otherwise the threads spin on each other's CPUs, now and then."""
    cpus = len(os.sched_getaffinity(0))
    if torch.get_num_threads() != cpus:
        torch.set_num_threads(cpus)


def main():
    options = arguments(stage=2, zenflow=False, overlap=False, fit_threads=False)
    model, next_loss = training_of(options, report.rank())
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_micro_batch_size_per_gpu": 1 if options.gpt else options.tokens,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
        "zero_optimization": zero_optimization(options),
        "steps_per_print": 1 << 30,
    }, dist_init_required=True)

    def step():
        loss = next_loss(engine)
        engine.backward(loss)
        report.timed_optimizer(engine.step)
        if options.fit_threads:
            fit_threads()
        return loss

    report.run_steps(options.steps, step)
    report.say_ended(torch_threads=torch.get_num_threads(), optimizer=type(engine.optimizer).__name__,
                     inner=type(getattr(engine.optimizer, "optimizer", None)).__name__)
    report.leave_group()


if __name__ == "__main__":
    main()
