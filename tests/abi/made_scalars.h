/* Factors of a step for tests: as a program computes them in double, not as the arena does from its settings.
 */
#ifndef ZF_TESTS_ABI_MADE_SCALARS_H
#define ZF_TESTS_ABI_MADE_SCALARS_H

#include "zf_runtime.h"

/* Returns the scalars of step number `step`, of kind 0 to 3: Adam or AdamW, without and with decay. */
zf_scalars made_scalars(unsigned kind, uint64_t step);

#endif
