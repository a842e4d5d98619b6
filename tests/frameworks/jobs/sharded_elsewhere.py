"""Shards layers by FSDP2 as for a GPU with CPUOffloadPolicy, where there is none: the shards and what steps them are
real, and gathers and averages take the time of their copies, and no CPU."""

import time
import types

import torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp._fully_shard import _fsdp_param_group
from torch.distributed.tensor import DTensor

GPU_TO_HOST_BYTES_PER_S = 25e9


def _copied(shards):
    time.sleep(sum(shard.nbytes for shard in shards) / GPU_TO_HOST_BYTES_PER_S)


def _gathered(_, params, group):
    for param in params:
        param.init_all_gather_outputs([param._orig_size.numel()], [param.orig_dtype], 1, param.device)
        param.alloc_all_gather_outputs()
    _copied([param._sharded_param_data for param in params])


def _averaged(params, gradients, group, stream, *_):
    parts = [gradient.chunk(torch.distributed.get_world_size())[torch.distributed.get_rank()] for gradient in gradients]
    _copied(parts)
    for param, part in zip(params, parts, strict=True):
        param.sharded_param.grad = param.to_sharded_dtensor(part)
        for hook in (param.sharded_param._post_accumulate_grad_hooks or {}).values():
            hook(param.sharded_param)
    return None, stream.record_event(), stream, stream.record_event(), None, None, None


def shard(model):
    """Shards each layer of a model over all ranks. Afterwards no gather of this process reads anything."""
    for layer in (*model, model):
        fully_shard(layer)
    assert all(isinstance(param, DTensor) for param in model.parameters())
    group = _fsdp_param_group.FSDPParamGroup
    # A group of one rank would copy by itself.
    group._all_gather_process_group = property(lambda _: types.SimpleNamespace(size=lambda: 2))
    _fsdp_param_group.foreach_all_gather = lambda *_: _fsdp_param_group.AllGatherResult(None, None, None, [], [], [])
    _fsdp_param_group.foreach_all_gather_copy_out = _gathered
    _fsdp_param_group.foreach_reduce = _averaged
