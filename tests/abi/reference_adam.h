/* A second implementation of Adam, written from docs/arithmetic.md, one element after the other. */
#ifndef ZF_TESTS_ABI_REFERENCE_ADAM_H
#define ZF_TESTS_ABI_REFERENCE_ADAM_H

#include <stddef.h>

#include "zf_runtime.h"

/* Arrays of one group, the running powers of its betas (1 before the first step), and the number of its last
 * step. */
struct reference_group {
  zf_group settings;
  float* p;
  float* m;
  float* v;
  float beta1_power;
  float beta2_power;
  unsigned long long step;
};

struct reference_group reference_group(const zf_group* settings, const float* params);

/* Takes the next step. */
void reference_step(struct reference_group* group, const float* grads, float grad_scale);

/* Takes the step with this number, from 1. After a jump the powers are float(pow(beta, number)). */
void reference_step_number(struct reference_group* group, const float* grads, float grad_scale,
                           unsigned long long number);

/* Converts to bf16 bits, rounding to nearest even, and back, exactly. */
unsigned short bf16_of(float value);
float float_of_bf16(unsigned short half);

#endif
