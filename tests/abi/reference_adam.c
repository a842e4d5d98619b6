#include "reference_adam.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct reference_group reference_group(const zf_group* settings, const float* params) {
  const size_t n = (size_t)settings->elements;
  struct reference_group group = {*settings, calloc(n + 1, 4), calloc(n + 1, 4), calloc(n + 1, 4), 1.0f, 1.0f,
                                  0};
  if (group.p == NULL || group.m == NULL || group.v == NULL) abort();
  memcpy(group.p, params, n * sizeof(float));
  return group;
}

void reference_step(struct reference_group* group, const float* grads, float grad_scale) {
  reference_step_number(group, grads, grad_scale, group->step + 1);
}

void reference_step_number(struct reference_group* group, const float* grads, float grad_scale,
                           unsigned long long number) {
  const zf_group* const s = &group->settings;
  if (number == group->step + 1) {
    group->beta1_power *= s->beta1;
    group->beta2_power *= s->beta2;
  } else {
    group->beta1_power = (float)pow((double)s->beta1, (double)number);
    group->beta2_power = (float)pow((double)s->beta2, (double)number);
  }
  group->step = number;
  const float bias1 = s->bias_correction ? 1.0f - group->beta1_power : 1.0f;
  const float bias2 = s->bias_correction ? 1.0f / sqrtf(1.0f - group->beta2_power) : 1.0f;
  const float step_size = -s->lr / bias1;
  for (size_t i = 0; i < s->elements; ++i) {
    float g = grads[i] * grad_scale;
    float p = group->p[i];
    if (s->mode == ZF_ADAM && s->weight_decay > 0) g = fmaf(p, s->weight_decay, g);
    const float m = fmaf(g, 1.0f - s->beta1, group->m[i] * s->beta1);
    const float v = fmaf(g * g, 1.0f - s->beta2, group->v[i] * s->beta2);
    const float u = m / fmaf(sqrtf(v), bias2, s->eps);
    if (s->mode == ZF_ADAMW && s->weight_decay > 0) p = fmaf(p, -s->lr * s->weight_decay, p);
    group->p[i] = fmaf(u, step_size, p);
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
