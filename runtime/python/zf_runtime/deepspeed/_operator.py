"""Stands in for DeepSpeed's compiled CPU Adam operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    import torch

    from ._arena import FlatArena


class CpuAdamOperator:
    """What DeepSpeedCPUAdam calls in the place of its compiled operator. Each optimizer has one.

    A partition that lies in `arena` is stepped by the native optimizer. Everything else goes to DeepSpeed's own
    operator, which `load` compiles and loads at the first such call. So a job whose partitions all lie in the arena
    needs no compiler.
    """

    def __init__(self, load: Callable[[], Any]):
        self.arena: FlatArena | None = None
        self._load = load
        self._compiled: Any = None
        self._created: dict[int, tuple[Any, ...]] = {}

    def create_adam(self, optimizer_id: int, *settings: Any) -> int:
        self._created[optimizer_id] = settings
        if self._compiled is not None:
            self._compiled.create_adam(optimizer_id, *settings)
        return 0

    def destroy_adam(self, optimizer_id: int) -> int:
        self._created.pop(optimizer_id, None)
        if self._compiled is not None:
            self._compiled.destroy_adam(optimizer_id)
        return 0

    def adam_update(self, optimizer_id: int, step: int, lr: float, beta1: float, beta2: float, eps: float,
                    weight_decay: float, bias_correction: bool, params: torch.Tensor, grads: torch.Tensor,
                    exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor) -> int:
        if params.numel() == 0:  # a rank without a part of this group
            return 0
        arena = self.arena
        slot = arena.slot_of(params) if arena is not None else None
        if arena is None or slot is None:
            status: int = self.own.adam_update(optimizer_id, step, lr, beta1, beta2, eps, weight_decay,
                                               bias_correction, params, grads, exp_avg, exp_avg_sq)
            return status
        arena.step(slot, int(step), grads, (exp_avg, exp_avg_sq), lr=float(lr), betas=(float(beta1), float(beta2)),
                   eps=float(eps), weight_decay=float(weight_decay), bias_correction=bool(bias_correction))
        return 0

    @property
    def own(self) -> Any:
        """DeepSpeed's own operator, compiled and loaded."""
        if self._compiled is None:
            self._compiled = self._load()
            for optimizer_id, settings in self._created.items():
                self._compiled.create_adam(optimizer_id, *settings)
        return self._compiled

    def __getattr__(self, name: str) -> Any:
        """Gives everything else that DeepSpeed's operator has, such as adam_rollback."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.own, name)


def deferred(builder: Any) -> type:
    """Returns a class that takes the place of an operator's builder: load() returns a CpuAdamOperator and compiles
    nothing yet."""

    class DeferredBuilder(builder):  # type: ignore[misc]
        def load(self, *args: Any, **keywords: Any) -> CpuAdamOperator:
            return CpuAdamOperator(lambda: builder.load(self, *args, **keywords))

    return DeferredBuilder
