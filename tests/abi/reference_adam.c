#include "reference_adam.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct reference_group reference_group(const zf_group* settings, const float* params) {
  const size_t n = (size_t)settings->elements;
  struct reference_group group = {*settings, calloc(n + 1, 4), calloc(n + 1, 4), calloc(n + 1, 4)};
  if (group.p == NULL || group.m == NULL || group.v == NULL) abort();
  memcpy(group.p, params, n * sizeof(float));
  return group;
}

void reference_step(struct reference_group* group, const float* grads, const zf_scalars* s) {
  for (size_t i = 0; i < group->settings.elements; ++i) {
    float g = grads[i] * s->grad_scale;
    float p = group->p[i];
    if (s->mode == ZF_ADAM && s->decay != 0) g = fmaf(p, s->decay, g);
    const float m = fmaf(g, s->one_minus_beta1, group->m[i] * s->beta1);
    const float v = fmaf(g * g, s->one_minus_beta2, group->v[i] * s->beta2);
    const float u = m / fmaf(sqrtf(v), s->inv_sqrt_bias2, s->eps);
    if (s->mode == ZF_ADAMW && s->decay != 0) p = fmaf(p, s->decay, p);
    group->p[i] = fmaf(u, s->step_size, p);
    group->m[i] = m;
    group->v[i] = v;
  }
}

unsigned short bf16_of(float value) {
  unsigned bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float float_of_bf16(unsigned short half) {
  const unsigned bits = (unsigned)half << 16;
  float value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}
