/* A second implementation of Adam, written from docs/arithmetic.md, one element after the other. */
#ifndef ZF_TESTS_ABI_REFERENCE_ADAM_H
#define ZF_TESTS_ABI_REFERENCE_ADAM_H

#include <stddef.h>

#include "zf_runtime.h"

/* Arrays of one group. */
struct reference_group {
  zf_group settings;
  float* p;
  float* m;
  float* v;
};

struct reference_group reference_group(const zf_group* settings, const float* params);

/* Takes a step. */
void reference_step(struct reference_group* group, const float* grads, const zf_scalars* scalars);

/* Converts to bf16 bits, rounding to nearest even, and back, exactly. */
unsigned short bf16_of(float value);
float float_of_bf16(unsigned short half);

#endif
