"""A second implementation of Adam and AdamW in NumPy, bit for bit as docs/arithmetic.md says."""

import numpy as np

F = np.float32


def fma(a, b, c):
    """a·b + c rounded once to fp32. The product of two fp32 is exact in fp64, the sum is rounded to odd
    there, and such a sum rounds to fp32 as the exact one would (Boldo and Melquiond, 2008)."""
    product = np.multiply(a, b, dtype=np.float64)
    c = np.asarray(c, dtype=np.float64)
    total = product + c
    high = total - product
    error = (product - (total - high)) + (c - high)
    is_even = (total.view(np.int64) & 1) == 0
    odd = np.nextafter(total, np.copysign(np.inf, error))
    return np.where((error != 0) & is_even, odd, total).astype(F)


class ReferenceGroup:
    def __init__(self, params):
        self.p = params.copy()
        self.m = np.zeros_like(self.p)
        self.v = np.zeros_like(self.p)

    def step(self, grads, scalars):
        """scalars: zf_runtime.Scalars."""
        factors = {name: F(value) for name, value in scalars._asdict().items() if isinstance(value, float)}
        decay, adamw = factors["decay"], scalars.mode == 1
        g = grads * factors["grad_scale"]
        if not adamw and decay != 0:
            g = fma(self.p, decay, g)
        self.m = fma(g, factors["one_minus_beta1"], self.m * factors["beta1"])
        self.v = fma(g * g, factors["one_minus_beta2"], self.v * factors["beta2"])
        update = self.m / fma(np.sqrt(self.v), factors["inv_sqrt_bias2"], factors["eps"])
        if adamw and decay != 0:
            self.p = fma(self.p, decay, self.p)
        self.p = fma(update, factors["step_size"], self.p)
