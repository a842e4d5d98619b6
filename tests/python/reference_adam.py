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
    def __init__(self, params, settings):
        self.p = params.copy()
        self.m = np.zeros_like(self.p)
        self.v = np.zeros_like(self.p)
        self.powers = [F(1), F(1)]
        self.settings = settings

    def step(self, grads, grad_scale=1.0):
        s = self.settings
        lr, eps, decay = F(s.lr), F(s.eps), F(s.weight_decay)
        beta1, beta2 = F(s.betas[0]), F(s.betas[1])
        self.powers = [self.powers[0] * beta1, self.powers[1] * beta2]
        bias1, bias2 = F(1), F(1)
        if s.bias_correction:
            bias1 = F(1) - self.powers[0]
            bias2 = F(1) / np.sqrt(F(1) - self.powers[1])
        g = grads * F(grad_scale)
        if s.mode == "adam" and decay > 0:
            g = fma(self.p, decay, g)
        self.m = fma(g, F(1) - beta1, self.m * beta1)
        self.v = fma(g * g, F(1) - beta2, self.v * beta2)
        update = self.m / fma(np.sqrt(self.v), bias2, eps)
        if s.mode == "adamw" and decay > 0:
            self.p = fma(self.p, -lr * decay, self.p)
        self.p = fma(update, -lr / bias1, self.p)
