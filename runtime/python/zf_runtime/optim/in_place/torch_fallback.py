"""Steps with torch's own functional adam() what the engine does not take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from ...errors import ZfError
from ..tensors.engine import Entry, ParamGroup

HALF = (torch.bfloat16, torch.float16)


def has_master(param: torch.Tensor, group: ParamGroup) -> bool:
    """Returns whether a parameter is stepped through an fp32 master. A differentiable step has none: its graph leads
    from the old parameter to the new one."""
    return param.dtype in HALF and not group["differentiable"]


def step(params: Sequence[torch.Tensor], states: Sequence[Entry], group: ParamGroup, decoupled: bool,
         grad_scale: float) -> None:
    """Steps parameters of one param_group. grad_scale multiplies every gradient: a copy. Raises what torch raises."""
    if not group.get("bias_correction", True):
        raise ZfError("a param_group has bias_correction=False, which torch's own adam() cannot do: set it to True, or "
                      "give it parameters that the engine takes")
    own = adamw if decoupled else adam
    for param, state in zip(params, states):  # one by one: an interrupt finds one master at most before its parameter
        target, grad = param, param.grad
        if has_master(param, group):
            target, grad = _master(param, state), grad.to(torch.float32)
        if grad_scale != 1:
            grad = grad * grad_scale
        own([target], [grad], [state["exp_avg"]], [state["exp_avg_sq"]],
            [state["max_exp_avg_sq"]] if group["amsgrad"] else [], [state["step"]], foreach=False, fused=False,
            capturable=group["capturable"], differentiable=group["differentiable"],
            has_complex=torch.is_complex(param), amsgrad=group["amsgrad"], beta1=group["betas"][0],
            beta2=group["betas"][1], lr=group["lr"], weight_decay=group["weight_decay"], eps=group["eps"],
            maximize=group["maximize"])
        if target is not param:
            param.copy_(target)


def message(name: str, reasons: Sequence[str], total: int) -> str:
    """Returns the line that says how many parameters torch steps, and why."""
    each = [f"{count} {reason}" for reason, count in Counter(reasons).items()]
    verb, parameters = "is" if len(reasons) == 1 else "are", "parameter" if total == 1 else "parameters"
    return (f"zf_runtime.{name}: {len(reasons)} of {total} {parameters} {verb} stepped by torch's own adam() in the "
            f"same call: {', '.join(each)}")


def _master(param: torch.Tensor, state: Entry) -> torch.Tensor:
    """Returns the fp32 master, after the parameter has won wherever it is not the rounded master."""
    master = state["master"]
    if master.shape != param.shape:
        raise ZfError(f"a parameter has shape {list(param.shape)} and its state {list(master.shape)}: it was replaced "
                      "through .data; remove its state, optimizer.state.pop(parameter), to begin anew")
    master.copy_(torch.where(master.to(param.dtype) == param, master, param.to(torch.float32)))
    return master
