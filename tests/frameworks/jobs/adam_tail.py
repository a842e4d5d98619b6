"""Steps a vector of a length that is no multiple of 16 with DeepSpeed's own operator and with the native optimizer, in
equal steps. Says {"elements": n, "differ": [indexes]}."""

import deepspeed.ops.op_builder
import report
import torch
import zf_runtime
from zf_runtime.deepspeed import local_step
from zf_runtime.deepspeed.local_step import Powers, Settings
from zf_runtime.native import abi

ELEMENTS, STEPS = 16 * 100 + 6, 5


def main():
    torch.manual_seed(2)
    own = [torch.randn(ELEMENTS), torch.zeros(ELEMENTS), torch.zeros(ELEMENTS)]
    operator = deepspeed.ops.op_builder.CPUAdamBuilder().load()
    operator.create_adam(7001, 1e-3, 0.9, 0.999, 1e-8, 0.01, True, False)
    with zf_runtime.Runtime(groups=[zf_runtime.Group(ELEMENTS)]) as runtime:
        native = [runtime.tensor(0, kind) for kind in (abi.PARAMS, abi.MOMENT_1, abi.MOMENT_2)]
        native[0].copy_(own[0])
        powers = Powers()
        for step in range(1, STEPS + 1):
            gradient = torch.randn(ELEMENTS)
            operator.adam_update(7001, step, 1e-3, 0.9, 0.999, 1e-8, 0.01, True, own[0], gradient, own[1], own[2])
            runtime.tensor(0, abi.GRADS_0).copy_(gradient)
            powers = powers.after(step, (0.9, 0.999))
            runtime.wait(runtime.submit(local_step.scalars(powers, True, Settings(1e-3, 1e-8, 0.01, True))))
        differ = {int(index) for mine, its in zip(own, native) for index in (mine != its).nonzero()}
    report.say(elements=ELEMENTS, differ=sorted(differ))


if __name__ == "__main__":
    main()
