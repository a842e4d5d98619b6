"""Follows DeepSpeed's rule for the powers of beta, which correct the bias of the moments."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..native.scalars import fp32


class Powers(NamedTuple):
    """The powers of beta after a call of DeepSpeed's operator. It has one pair for all tensors of an optimizer: a step
    after the last one multiplies them, the same step keeps them, and other betas or any other step calculate them
    anew."""

    first: int = 0  #: the step at which they were calculated; each step since has multiplied them
    step: int = 0
    betas: tuple[float, float] = (0.0, 0.0)  #: fp32
    values: tuple[float, float] = (1.0, 1.0)  #: fp32

    def after(self, step: int, betas: tuple[float, float]) -> Powers:
        """Returns the powers after a call for this step."""
        beta1, beta2 = fp32(betas[0]), fp32(betas[1])
        if self._anew(step, (beta1, beta2)):
            return Powers(step, step, (beta1, beta2), (_power(beta1, step), _power(beta2, step)))
        if step == self.step:
            return self._replace(betas=(beta1, beta2))
        power1, power2 = self.values
        return Powers(self.first, step, (beta1, beta2), (fp32(power1 * beta1), fp32(power2 * beta2)))

    def _anew(self, step: int, betas: tuple[float, float]) -> bool:
        """Returns whether DeepSpeed calculates the powers anew for this step. The betas are fp32."""
        if self.first == self.step == 0:  # the powers of step 0 are 1, whatever the betas are
            return step > 1
        return betas != self.betas or step not in (self.step, self.step + 1)


def _power(beta: float, step: int) -> float:
    try:
        return fp32(beta ** step)
    except OverflowError:  # of a beta above 1
        return math.inf
