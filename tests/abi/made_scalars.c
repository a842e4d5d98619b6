#include "made_scalars.h"

#include <math.h>

zf_scalars made_scalars(unsigned kind, uint64_t step) {
  const double lr = 0.01 + 0.001 * kind;
  const double beta1 = 0.9;
  const double beta2 = 0.99 + 0.001 * kind;
  const double decay = kind >= 2 ? 0.05 : 0.0;
  zf_scalars scalars;
  scalars.beta1 = (float)beta1;
  scalars.one_minus_beta1 = (float)(1.0 - beta1);
  scalars.beta2 = (float)beta2;
  scalars.one_minus_beta2 = (float)(1.0 - beta2);
  scalars.eps = 1e-8f;
  scalars.inv_sqrt_bias2 = (float)(1.0 / sqrt(1.0 - pow(beta2, (double)step)));
  scalars.step_size = (float)(-lr / (1.0 - pow(beta1, (double)step)));
  scalars.mode = kind % 2 == 0 ? ZF_ADAM : ZF_ADAMW;
  scalars.decay = (float)(scalars.mode == ZF_ADAMW ? -lr * decay : decay);
  scalars.grad_scale = 0.5f;
  scalars.seed = 7 + kind;
  scalars.step = step;
  return scalars;
}
