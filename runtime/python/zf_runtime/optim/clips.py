"""Clipping by the optimizer itself: it takes the norm, and multiplies gradients as it reads them."""

from __future__ import annotations

import math
import weakref
from typing import Any, Callable

import torch

from ..errors import ZfError
from .tensors import clipping
from .tensors.engine import Engine


class Clips(torch.optim.Optimizer):
    """What an optimizer knows of the norm of its gradients."""

    _engine: Engine
    _max_norm: float | None = None  # clip_grad_norm of the constructor
    _coefficient: float | None = None  # of clip_grad_norm_(), for the next step of these gradients
    _clipped: Callable[[], torch.Tensor | None] = staticmethod(lambda: None)  # one of them, held weakly
    _grad_norm: float | None = None

    def clip_grad_norm_(self, parameters: Any = None, max_norm: float | None = None, norm_type: float = 2.0,
                        error_if_nonfinite: bool = False, foreach: bool | None = None) -> Any:
        """Stands in for torch.nn.utils.clip_grad_norm_() and for accelerate's method of that name. Returns the norm of
        this optimizer's gradients. The next step() clips them to max_norm; None: to clip_grad_norm of the constructor.

        It does not unscale gradients of a loss scaler, as accelerate's method does for fp16: do that before. It is
        forgotten with the gradients: call it again after the parameters were given other ones.
        `parameters` and foreach change nothing. Raises ZfError for another norm than the second."""
        if float(norm_type) != 2.0:
            raise ZfError(f"norm_type is {norm_type}; this optimizer takes the norm of type 2")
        if not isinstance(max_norm, (int, float, type(None))):
            max_norm = float(max_norm)
        itself = self._itself()
        if itself is not self:
            return itself.clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
        limit = self._max_norm if max_norm is None else max_norm
        clipping.check_max_norm(limit, "max_norm")
        self._coefficient = None
        gradient = self._a_gradient()
        if gradient is not None:
            self._clipped = weakref.ref(gradient)
        norm = self._engine.norm()
        if error_if_nonfinite and not math.isfinite(norm):
            raise RuntimeError(f"the norm of the gradients is {norm}")
        self._grad_norm = norm
        self._coefficient = 1.0 if limit is None else clipping.coefficient(norm, limit)
        return torch.tensor(norm)

    @property
    def grad_norm(self) -> float | None:
        """The norm of all gradients at the last step() or clip_grad_norm_() that took it, before clipping; None:
        none did."""
        norm: float | None = self._itself()._grad_norm
        return norm

    def _itself(self) -> Any:
        """Returns this optimizer. Lightning's and Fabric's wrappers are of subclasses of its class: they find what it
        has, and would keep what a method sets."""
        wrapped = self.__dict__.get("_optimizer")
        return wrapped._itself() if isinstance(wrapped, Clips) else self

    def _take_limit(self, max_norm: float | None) -> tuple[float | None, float]:
        """Returns to which norm this step clips (None: none is taken), and a factor for it: that of clip_grad_norm_(),
        which is for one step."""
        clipping.check_max_norm(max_norm, "max_norm")
        factor, self._coefficient = self._coefficient, None
        if factor is not None and self._clipped() is not self._a_gradient():
            factor = None  # its gradients were dropped, without a step
        if max_norm is not None or factor is None:
            return (self._max_norm if max_norm is None else max_norm), 1.0
        return None, factor

    def _a_gradient(self) -> torch.Tensor | None:
        return next((param.grad for group in self.param_groups for param in group["params"] if param.grad is not None),
                    None)

    @torch._disable_dynamo
    def zero_grad(self, set_to_none: bool = True) -> None:
        """As in torch. It forgets clip_grad_norm_(), too."""
        itself = self._itself()
        itself._coefficient = None
        itself._engine.drop_gradients()
        super().zero_grad(set_to_none)
