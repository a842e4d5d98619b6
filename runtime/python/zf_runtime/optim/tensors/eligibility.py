"""Says why the engine does not take a parameter, and how tensors are found to be of a kind that it took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import torch

from ...errors import ZfError
from ...native import abi

KEPT = (torch.float32, torch.bfloat16, torch.int16)  # of moments, masters and low bits
TYPES = {torch.float32: abi.F32, torch.bfloat16: abi.BF16, torch.float16: abi.F16}


def refuse_device(param: torch.Tensor) -> None:
    """Raises ZfError for a parameter on a GPU."""
    if param.device.type not in ("cpu", "meta"):
        raise ZfError(f"a parameter is on {param.device}, and this optimizer steps parameters on the CPU, in place: "
                      "use torch.optim.AdamW(fused=True) for it, or a zf_runtime.AdamW that is made with it")


def refuse_sparse(param: torch.Tensor) -> None:
    """Raises ZfError if the parameter has a sparse gradient."""
    if param.grad.layout is not torch.strided:
        raise ZfError(f"a parameter of shape {list(param.shape)} has a sparse gradient, which Adam does not support: "
                      "use torch.optim.SparseAdam for it, or sparse=False where the gradient is made")


def is_sharded(tensor: Any) -> bool:
    return hasattr(tensor, "_local_tensor") and hasattr(tensor, "_spec")


def local_of(tensor: Any) -> Any:
    """Returns what this rank has of a DTensor; any other value is returned as it is."""
    return _arrived(tensor._local_tensor) if is_sharded(tensor) else tensor


def placed(grad: torch.Tensor, param: torch.Tensor) -> torch.Tensor:
    """Returns the gradient where the parameter is. The norms of tensor-parallel models have Partial gradients."""
    if is_sharded(param) and is_sharded(grad) and grad.placements != param.placements:
        return grad.redistribute(placements=param.placements)
    return grad


def plain_tensors(param: torch.Tensor, grad: torch.Tensor, moments: list[Any]) -> tuple[str, list[Any]]:
    """Returns why these are no plain tensors, or "", and the tensors, or the local shards of DTensors."""
    tensors = [param, grad, *moments]
    if is_sharded(param):
        if not all(is_sharded(tensor) and tensor.device_mesh == param.device_mesh
                   and tensor.placements == param.placements for tensor in tensors):
            return "sharded otherwise than their gradients or moments", []
        tensors = [_arrived(tensor._local_tensor) for tensor in tensors]
        if len({tensor.shape for tensor in tensors}) > 1 and all(tensor.numel() == 0 for tensor in tensors):
            tensors = [tensor.reshape(tensors[0].shape) for tensor in tensors]
    for tensor in tensors:
        cls = type(tensor)
        if cls is not torch.Tensor and cls is not torch.nn.Parameter and not _inherits_all(cls):
            return f"of type {cls.__name__}", []
    return "", tensors


def _inherits_all(cls: Any) -> bool:
    """Returns whether a subclass leaves to torch what operations do."""
    functions = {getattr(kind.__torch_function__, "__func__", kind.__torch_function__)
                 for kind in (cls, torch.Tensor, torch.nn.Parameter)}
    return len(functions) == 2 and bool(cls.__torch_dispatch__ == torch.Tensor.__torch_dispatch__)


def _arrived(local: torch.Tensor) -> torch.Tensor:
    """Returns a local shard after the collective that makes it."""
    return local.wait() if type(local).__name__ == "AsyncCollectiveTensor" else local


def unsteppable(p: Any, g: Any, moments: list[Any]) -> str:
    """Returns why the engine cannot step plain tensors, or ""."""
    return _of_another_kind(p, g, moments) or _laid_out_otherwise(p, g, moments)


def _of_another_kind(p: Any, g: Any, moments: list[Any]) -> str:
    if p.device.type != "cpu":
        return f"on the device {p.device.type}"
    if p.dtype not in TYPES:
        return f"of {p.dtype}".replace("torch.", "")
    if g.dtype not in TYPES or g.device.type != "cpu" or g.is_neg() or g.is_conj():
        return "with gradients of another kind"
    if any(t.dtype not in KEPT or t.device.type != "cpu" or t.layout is not torch.strided for t in moments):
        return "with moments of another kind"
    return ""


def _laid_out_otherwise(p: Any, g: Any, moments: list[Any]) -> str:
    if g.shape != p.shape or any(t.shape != p.shape for t in moments):
        return "of another shape than their gradients or moments"
    if p.layout is not torch.strided or not (p.is_contiguous() or _dense(p)):
        return "with gaps in their memory"
    if p.numel() > 0 and not have_memory((p, g, *moments)):
        return "without memory, or at odd addresses in it"
    if not all(_lie_alike(t, p) for t in moments):
        return "with moments of other strides"
    return ""


def have_memory(tensors: Sequence[Any]) -> bool:
    """Returns whether all have memory that begins at a multiple of an element's size."""
    return all(t.data_ptr() != 0 and t.data_ptr() % t.element_size() == 0 for t in tensors)


def laid_as(param: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor with its elements in memory in the order of a parameter's: itself, or a copy. It stays as it is
    if the parameter has gaps."""
    if (tensor.shape != param.shape or not param.layout is tensor.layout is torch.strided
            or _lie_alike(tensor, param) or not _dense(param)):
        return tensor
    return torch.empty_like(param, dtype=tensor.dtype, memory_format=torch.preserve_format).copy_(tensor)


def _lie_alike(one: Any, other: Any) -> bool:
    """Returns whether tensors of the same shape have their elements in the same order."""
    return bool(one.is_contiguous() and other.is_contiguous()) or _strides(one) == _strides(other)


def _strides(tensor: torch.Tensor) -> list[int]:
    """Returns the strides that say where elements are: none where there is one element, or none at all."""
    if tensor.numel() == 0:
        return []
    return [stride for stride, length in zip(tensor.stride(), tensor.shape) if length > 1]


def _dense(tensor: torch.Tensor) -> bool:
    """Returns whether the elements fill a range of memory, each once."""
    wanted = 1
    for stride, length in sorted((s, n) for s, n in zip(tensor.stride(), tensor.shape) if n != 1):
        if length != 0 and stride != wanted:
            return bool(tensor.numel() == 0)
        wanted *= length
    return True


def guards(tensors: Sequence[Any]) -> list[Callable[..., bool]]:
    """Returns the check that torch.compile makes before it uses what it has compiled, or nothing if this torch has
    none. It takes 70 ns a tensor, and asking from Python 600. It looks at more than a Form does."""
    try:
        guards = torch._C._dynamo.guards.TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
        return [guards.check] if guards.check(*tensors) else []
    except Exception:  # it is no public part of torch, and may take other arguments one day
        return []


def reach(tensor: torch.Tensor) -> int:
    """Returns over how many bytes a tensor with elements reaches in memory, gaps included."""
    last: int = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride()))
    return (1 + last) * int(tensor.element_size())


def layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Returns what says where and how the elements of a tensor lie."""
    return tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()
