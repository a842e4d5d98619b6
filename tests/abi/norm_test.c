/* The sum of squares of the gradients is right, knows whether all are finite, and has the same bits on any
 * number of threads. */
#include <math.h>
#include <signal.h>
#include <string.h>

#include "reference_adam.h"
#include "support.h"

enum { GROUPS = 3 };

static zf_runtime* open_groups(enum plan_kind kind, zf_group* groups) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(kind, NULL);
  options.chunk_bytes = 65536;
  for (int i = 0; i < GROUPS; ++i) {
    const zf_group init = ZF_GROUP_INIT;
    groups[i] = init;
  }
  groups[0].elements = 100003;
  groups[1].elements = 70001;
  groups[1].grad_type = ZF_BF16;
  EXPECT(zf_open(&options, groups, GROUPS, &handle), ZF_OK); /* the third one is empty */
  return handle;
}

/* Fills the second gradient buffer. Returns the sum of squares with more bits than a double has. */
static long double write_grads(zf_runtime* handle, size_t group, const zf_group* settings) {
  void* const grads = buffer_of(handle, group, ZF_GRADS_1, NULL);
  long double sum = 0.0L;
  for (size_t i = 0; i < settings->elements; ++i) {
    float value = (float)(i % 1000) / 512.0f - 0.7f;
    if (settings->grad_type == ZF_BF16) {
      const unsigned short half = bf16_of(value);
      ((unsigned short*)grads)[i] = half;
      value = float_of_bf16(half);
    } else {
      ((float*)grads)[i] = value;
    }
    sum += (long double)value * value;
  }
  return sum;
}

static void submit(zf_runtime* handle, uint32_t work) {
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  args.buffer = 1;
  args.work = work;
  const zf_scalars scalars = made_scalars(1, 1);
  if (work == ZF_STEP) args.scalars = &scalars, args.scalar_count = 1;
  EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
}

static double norm_of(zf_runtime* handle, size_t group, int32_t expected_finite) {
  double sum = -1.0;
  int32_t finite = -1;
  EXPECT(zf_norm(handle, group, 1, &sum, &finite), ZF_OK);
  CHECK(finite == expected_finite);
  return sum;
}

static void sums_are_right(enum plan_kind kind, double* sums) {
  zf_group groups[GROUPS];
  long double want[GROUPS];
  zf_runtime* const handle = open_groups(kind, groups);
  CHECK(norm_of(handle, 0, 0) == 0.0); /* before the first: zeros */
  for (size_t i = 0; i < GROUPS; ++i) want[i] = write_grads(handle, i, &groups[i]);
  submit(handle, ZF_NORM);
  EXPECT(zf_wait(handle, 0, -1), ZF_OK);
  for (size_t i = 0; i < GROUPS; ++i) {
    sums[i] = norm_of(handle, i, 1);
    CHECK(fabsl(sums[i] - want[i]) <= 1e-13L * want[i]);
  }
  CHECK(*(float*)buffer_of(handle, 0, ZF_MOMENT_2, NULL) == 0.0f); /* nothing was stepped */

  /* A step with the same gradients may follow at once; a second norm of them may not. */
  CHECK(kill(worker_of(handle), SIGSTOP) == 0);
  submit(handle, ZF_NORM);
  submit(handle, ZF_STEP);
  zf_submit_args again = ZF_SUBMIT_ARGS_INIT;
  again.buffer = 1;
  again.work = ZF_NORM;
  EXPECT(zf_submit(handle, &again, NULL), ZF_ERROR_BUSY);
  again.work = 2;
  EXPECT(zf_submit(handle, &again, NULL), ZF_ERROR_USAGE);
  CHECK(kill(worker_of(handle), SIGCONT) == 0);
  EXPECT(zf_wait(handle, 0, -1), ZF_OK);
  CHECK(norm_of(handle, 0, 1) == sums[0]);
  CHECK(*(float*)buffer_of(handle, 0, ZF_MOMENT_2, NULL) != 0.0f);

  ((float*)buffer_of(handle, 0, ZF_GRADS_1, NULL))[99999] = INFINITY;
  ((unsigned short*)buffer_of(handle, 1, ZF_GRADS_1, NULL))[5] = 0x7fc0; /* NaN */
  submit(handle, ZF_NORM);
  EXPECT(zf_wait(handle, 0, -1), ZF_OK);
  norm_of(handle, 0, 0);
  norm_of(handle, 1, 0);
  norm_of(handle, 2, 1);
  EXPECT(zf_close(handle), ZF_OK);
}

/* If a worker dies during a norm, the next one computes it again. */
static void a_death_is_survived(double wanted) {
  zf_group groups[GROUPS];
  zf_runtime* const handle = open_groups(PLAN_SPLIT, groups);
  write_grads(handle, 0, &groups[0]);
  CHECK(kill(worker_of(handle), SIGSTOP) == 0);
  submit(handle, ZF_NORM);
  CHECK(kill(worker_of(handle), SIGKILL) == 0);
  EXPECT(zf_wait(handle, 0, 10000), ZF_OK);
  CHECK(norm_of(handle, 0, 1) == wanted);
  double sum = 0.0;
  int32_t finite = 0;
  EXPECT(zf_norm(handle, 3, 0, &sum, &finite), ZF_ERROR_USAGE);
  EXPECT(zf_norm(handle, 0, 2, &sum, &finite), ZF_ERROR_USAGE);
  EXPECT(zf_norm(handle, 0, 0, NULL, &finite), ZF_ERROR_USAGE);
  EXPECT(zf_close(handle), ZF_OK);
}

int main(void) {
  double split[GROUPS];
  double shared[GROUPS];
  sums_are_right(PLAN_SPLIT, split);
  sums_are_right(PLAN_SHARED, shared);
  CHECK(memcmp(split, shared, sizeof split) == 0);
  a_death_is_survived(split[0]);
  printf("sums of squares: %.17g, %.17g\n", split[0], split[1]);
  return 0;
}
