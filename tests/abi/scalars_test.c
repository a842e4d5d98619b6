/* A submission with scalars: its steps are those of zf_local_step with the same scalars, bit for bit, in
 * every state format; its step's number is kept; a wrong call gives one clear line and submits nothing.
 * zf_adam_scalars computes what its header says. */
#include <math.h>
#include <signal.h>
#include <string.h>

#include "support.h"

enum { GROUPS = 5, KINDS = 4, STEPS = 5, MOST = 150001 };

static const uint64_t sizes[GROUPS] = {MOST, 1, 4097, 0, 65536};
static const uint64_t numbers[STEPS] = {1, 2, 3, 41, 42}; /* of the steps: they jump once */

/* The arrays of a group, in memory of the program. */
struct arrays {
  float p[MOST];
  uint16_t low[MOST];
  uint16_t high[MOST];
  float m[MOST];
  float v[MOST];
  float g[MOST];
  uint16_t half_g[MOST];
};
static struct arrays arrays[GROUPS];

static int has_bf16(int32_t format) { return format == ZF_STATE_BF16 || format == ZF_STATE_BF16_SPLIT; }
static int is_split(int32_t format) { return format == ZF_STATE_SPLIT || format == ZF_STATE_BF16_SPLIT; }

static zf_runtime* open_groups(enum plan_kind kind, int32_t format, zf_group* groups) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(kind, NULL);
  options.chunk_bytes = 65536;
  for (int i = 0; i < GROUPS; ++i) {
    const zf_group init = ZF_GROUP_INIT;
    groups[i] = init;
    groups[i].elements = sizes[i];
    groups[i].grad_type = i % 2 == 0 ? ZF_F32 : ZF_BF16;
    groups[i].copy_type = is_split(format) ? ZF_BF16 : ZF_NONE;
    groups[i].state_format = format;
    groups[i].first_element = (uint64_t)i << 20;
  }
  EXPECT(zf_open(&options, groups, GROUPS, &handle), ZF_OK);
  return handle;
}

static zf_tensor tensor_of(const zf_group* group, struct arrays* ours, uint32_t scalars) {
  zf_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.p = is_split(group->state_format) ? (void*)ours->low : (void*)ours->p;
  tensor.copy = is_split(group->state_format) ? ours->high : NULL;
  tensor.copy_type = (uint8_t)group->copy_type;
  tensor.g = group->grad_type == ZF_F32 ? (const void*)ours->g : (const void*)ours->half_g;
  tensor.state[0] = ours->m; /* with bf16 moments the first half of them */
  tensor.state[1] = ours->v;
  tensor.elements = group->elements;
  tensor.first_element = group->first_element;
  tensor.grad_type = (uint8_t)group->grad_type;
  tensor.format = (uint16_t)group->state_format;
  tensor.scalars = scalars;
  return tensor;
}

static void begin(zf_runtime* handle, const zf_group* groups) {
  memset(arrays, 0, sizeof arrays);
  for (size_t i = 0; i < GROUPS; ++i) {
    for (uint64_t k = 0; k < sizes[i]; ++k) arrays[i].p[k] = random_float();
    EXPECT(zf_write_state(handle, i, ZF_PARAMS, 0, sizes[i], arrays[i].p), ZF_OK);
    if (!is_split(groups[i].state_format)) continue;
    size_t bytes = 0;
    memcpy(arrays[i].high, buffer_of(handle, i, ZF_COPY, &bytes), 2 * sizes[i]);
    for (uint64_t k = 0; k < sizes[i]; ++k) { /* docs/arithmetic.md: high is rounded, low is what it lacks */
      uint32_t bits = 0;
      memcpy(&bits, &arrays[i].p[k], 4);
      arrays[i].low[k] = (uint16_t)bits;
    }
  }
}

static void fill_gradients(zf_runtime* handle, const zf_group* groups) {
  for (size_t i = 0; i < GROUPS; ++i) {
    for (uint64_t k = 0; k < sizes[i]; ++k) {
      arrays[i].g[k] = random_float();
      arrays[i].half_g[k] = (uint16_t)(0x3800u + random_below(0x400));
    }
    const int is_f32 = groups[i].grad_type == ZF_F32;
    memcpy(buffer_of(handle, i, ZF_GRADS_0, NULL),
           is_f32 ? (const void*)arrays[i].g : (const void*)arrays[i].half_g, (is_f32 ? 4 : 2) * sizes[i]);
  }
}

static void expect_equal(zf_runtime* handle, const zf_group* groups, uint64_t number) {
  for (size_t i = 0; i < GROUPS; ++i) {
    const size_t moment_bytes = (has_bf16(groups[i].state_format) ? 2 : 4) * sizes[i];
    CHECK(memcmp(buffer_of(handle, i, ZF_MOMENT_1, NULL), arrays[i].m, moment_bytes) == 0);
    CHECK(memcmp(buffer_of(handle, i, ZF_MOMENT_2, NULL), arrays[i].v, moment_bytes) == 0);
    if (is_split(groups[i].state_format)) {
      static float values[MOST];
      CHECK(memcmp(buffer_of(handle, i, ZF_COPY, NULL), arrays[i].high, 2 * sizes[i]) == 0);
      EXPECT(zf_read_state(handle, i, ZF_PARAMS, 0, sizes[i], values), ZF_OK);
      for (uint64_t k = 0; k < sizes[i]; ++k) {
        uint32_t bits = 0;
        memcpy(&bits, &values[k], 4);
        CHECK((uint16_t)bits == arrays[i].low[k]);
      }
    } else {
      CHECK(memcmp(buffer_of(handle, i, ZF_PARAMS, NULL), arrays[i].p, 4 * sizes[i]) == 0);
    }
    uint64_t step = 0;
    EXPECT(zf_get_step(handle, i, &step), ZF_OK);
    CHECK(step == number);
  }
}

static void wait_for(zf_runtime* handle) { EXPECT(zf_wait(handle, 0, 60000), ZF_OK); }

/* The arena's steps equal those in place: with a map from groups to scalars, and with scalars for each group,
 * submitted in another order. The optimizer is killed over one step. */
static void equals_in_place(enum plan_kind kind, int32_t format) {
  static const uint32_t of_group[GROUPS] = {3, 0, 1, 3, 2};
  static const uint32_t order[GROUPS] = {4, 2, 0, 1, 3};
  zf_group groups[GROUPS];
  zf_tensor tensors[GROUPS];
  zf_local* local = NULL;
  zf_runtime* const handle = open_groups(kind, format, groups);
  EXPECT(zf_local_open(NULL, &local), ZF_OK);
  begin(handle, groups);
  for (size_t i = 0; i < GROUPS; ++i) tensors[i] = tensor_of(&groups[i], &arrays[i], of_group[i]);
  for (int step = 0; step < STEPS; ++step) {
    zf_scalars scalars[KINDS];
    zf_scalars in_order[GROUPS];
    zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
    zf_local_step_args local_args = ZF_LOCAL_STEP_ARGS_INIT;
    for (unsigned k = 0; k < KINDS; ++k) scalars[k] = made_scalars(k, numbers[step]);
    for (int i = 0; i < GROUPS; ++i) in_order[i] = scalars[of_group[order[i]]];
    fill_gradients(handle, groups);
    args.scalars = scalars;
    args.scalar_count = KINDS;
    args.scalars_of = of_group;
    if (step % 2 == 1) {
      args.groups = order;
      args.n_groups = GROUPS;
      args.scalars = in_order;
      args.scalar_count = GROUPS;
      args.scalars_of = NULL;
    }
    const int is_killed = step == 2;
    if (is_killed) stop_process(worker_of(handle));
    EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
    memset(scalars, 0xff, sizeof scalars); /* the call has copied them */
    memset(in_order, 0xff, sizeof in_order);
    if (is_killed) CHECK(kill(worker_of(handle), SIGKILL) == 0);
    wait_for(handle);
    for (unsigned k = 0; k < KINDS; ++k) scalars[k] = made_scalars(k, numbers[step]);
    local_args.tensors = tensors;
    local_args.tensor_count = GROUPS;
    local_args.scalars = scalars;
    local_args.scalar_count = KINDS;
    EXPECT(zf_local_step(local, &local_args), ZF_OK);
    expect_equal(handle, groups, numbers[step]);
  }
  EXPECT(zf_local_close(local), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
}

/* Each factor is computed in double from the settings and the step alone, and rounded once. */
static void factors_are_those_of_the_header(void) {
  static const uint64_t steps[] = {1, 2, 3, 1000, 123456789, UINT64_C(1) << 62};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; ++i) {
    zf_adam adam = ZF_ADAM_INIT;
    zf_scalars found;
    adam.lr = 3e-4;
    adam.weight_decay = 0.1;
    EXPECT(zf_adam_scalars(&adam, steps[i], &found), ZF_OK);
    const double bias1 = 1.0 - pow(0.9, (double)steps[i]);
    const double bias2 = 1.0 - pow(0.999, (double)steps[i]);
    CHECK(found.beta1 == 0.9f && found.one_minus_beta1 == (float)(1.0 - 0.9));
    CHECK(found.beta2 == 0.999f && found.one_minus_beta2 == (float)(1.0 - 0.999));
    CHECK(found.eps == 1e-8f && found.inv_sqrt_bias2 == (float)pow(bias2, -0.5));
    CHECK(found.step_size == (float)(-3e-4 / bias1) && found.decay == (float)(-3e-4 * 0.1));
    CHECK(found.grad_scale == 1.0f && found.mode == ZF_ADAMW && found.seed == 0 && found.step == steps[i]);
    adam.mode = ZF_ADAM;
    adam.bias_correction = 0;
    EXPECT(zf_adam_scalars(&adam, steps[i], &found), ZF_OK);
    CHECK(found.inv_sqrt_bias2 == 1.0f && found.step_size == -3e-4f && found.decay == 0.1f);
    CHECK(found.mode == ZF_ADAM);
  }
}

static void wrong_settings(void) {
  const zf_adam good = ZF_ADAM_INIT;
  const zf_scalars before = made_scalars(0, 1);
  zf_scalars scalars = before;
  zf_adam adam = good;
#define REFUSED(status, part)                              \
  do {                                                     \
    EXPECT(zf_adam_scalars(&adam, 1, &scalars), status);   \
    expect_error(part);                                    \
    CHECK(memcmp(&scalars, &before, sizeof scalars) == 0); \
    adam = good;                                           \
  } while (0)
  adam.beta1 = 1.0;
  REFUSED(ZF_ERROR_USAGE, "beta1 is 1; it must be in [0, 1)");
  adam.beta2 = -0.1;
  REFUSED(ZF_ERROR_USAGE, "beta2 is -0.1; it must be in [0, 1)");
  adam.lr = NAN;
  REFUSED(ZF_ERROR_USAGE, "lr is nan; it must be finite");
  adam.lr = 1e300;
  REFUSED(ZF_ERROR_USAGE, "lr is 1e+300; it must be small enough for fp32");
  adam.weight_decay = 1e300;
  REFUSED(ZF_ERROR_USAGE, "weight_decay is 1e+300; it must be small enough for fp32");
  adam.reserved = 5;
  REFUSED(ZF_ERROR_USAGE, "reserved is 5; it must be 0");
  adam.eps = -1e-8;
  REFUSED(ZF_ERROR_USAGE, "eps is -1e-08; it must be 0 or more, and finite");
  adam.weight_decay = INFINITY;
  REFUSED(ZF_ERROR_USAGE, "weight_decay is inf; it must be 0 or more, and finite");
  adam.mode = 2;
  REFUSED(ZF_ERROR_USAGE, "mode is 2; it must be ZF_ADAM or ZF_ADAMW");
  adam.struct_size = 0;
  REFUSED(ZF_ERROR_ABI, "zf_adam.struct_size is 0");
#undef REFUSED
  EXPECT(zf_adam_scalars(&good, 0, &scalars), ZF_ERROR_USAGE);
  expect_error("step is 0; it must be 1 to 4611686018427387904");
  EXPECT(zf_adam_scalars(&good, UINT64_MAX, &scalars), ZF_ERROR_USAGE);
  EXPECT(zf_adam_scalars(NULL, 1, &scalars), ZF_ERROR_USAGE);
  EXPECT(zf_adam_scalars(&good, 1, NULL), ZF_ERROR_USAGE);
}

static void wrong_calls(void) {
  static const uint32_t map[GROUPS] = {0, 0, 1, 0, 0};
  const zf_submit_args init = ZF_SUBMIT_ARGS_INIT;
  zf_group groups[GROUPS];
  zf_runtime* const handle = open_groups(PLAN_SPLIT, ZF_STATE_FP32, groups);
  zf_scalars scalars[2] = {made_scalars(0, 1), made_scalars(3, 1)};
  zf_submit_args good = init;
  good.scalars = scalars;
  good.scalar_count = 2;
  good.scalars_of = map;
  zf_submit_args args = good;
#define REFUSED(status, part)                       \
  do {                                              \
    EXPECT(zf_submit(handle, &args, NULL), status); \
    expect_error(part);                             \
    args = good;                                    \
  } while (0)
  args.work = ZF_NORM;
  REFUSED(ZF_ERROR_USAGE, "work is ZF_NORM, and scalars, scalars_of or scalar_count is set");
  args.scalars = NULL;
  REFUSED(ZF_ERROR_USAGE, "scalars is NULL; zf_adam_scalars computes those of a step");
  args.scalars_of = NULL;
  REFUSED(ZF_ERROR_USAGE,
          "scalar_count is 2 for 5 groups; give one for all or one for each, or set scalars_of");
  args.scalar_count = 1;
  REFUSED(ZF_ERROR_USAGE, "scalars_of[2] is 1, but scalar_count is 1");
  args.scalars_size = 0;
  REFUSED(ZF_ERROR_ABI, "zf_submit_args.scalars_size is 0; set it to sizeof(zf_scalars)");
  scalars[1].step = 0;
  REFUSED(ZF_ERROR_USAGE, "scalars 1: step is 0; it must be 1 to 4611686018427387904");
  scalars[1].step = UINT64_C(1) << 63;
  REFUSED(ZF_ERROR_USAGE, "scalars 1: step is 9223372036854775808");
  scalars[1] = made_scalars(1, 1);
  scalars[0].eps = NAN;
  REFUSED(ZF_ERROR_USAGE, "scalars 0: eps is nan; it must be finite");
  scalars[0] = made_scalars(0, 1);
  scalars[0].mode = 2;
  REFUSED(ZF_ERROR_USAGE, "scalars 0: mode is 2; it must be ZF_ADAM or ZF_ADAMW");
  scalars[0] = made_scalars(0, 1);
  struct {
    zf_scalars ours;
    uint64_t unknown;
  } newer = {made_scalars(0, 1), 1};
  args.scalars = &newer.ours;
  args.scalars_size = sizeof newer;
  args.scalar_count = 1;
  REFUSED(ZF_ERROR_ABI, "scalars 0: the program uses fields that this library");
#undef REFUSED
  zf_stats stats = ZF_STATS_INIT;
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK(stats.submitted == 0);
  EXPECT(zf_submit(handle, &good, NULL), ZF_OK);
  wait_for(handle);
  EXPECT(zf_close(handle), ZF_OK);
}

/* Without a map, one is for all groups. */
static void one_is_for_all(void) {
  zf_group groups[GROUPS];
  zf_runtime* const handle = open_groups(PLAN_SPLIT, ZF_STATE_FP32, groups);
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  const zf_scalars scalars = made_scalars(1, 9);
  args.scalars = &scalars;
  args.scalar_count = 1;
  EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
  wait_for(handle);
  for (size_t i = 0; i < GROUPS; ++i) {
    uint64_t step = 0;
    EXPECT(zf_get_step(handle, i, &step), ZF_OK);
    CHECK(step == 9);
  }
  EXPECT(zf_close(handle), ZF_OK);
}

int main(void) {
  wrong_calls();
  factors_are_those_of_the_header();
  wrong_settings();
  one_is_for_all();
  for (int32_t format = ZF_STATE_FP32; format <= ZF_STATE_BF16_SPLIT; ++format) {
    equals_in_place(PLAN_SPLIT, format);
    equals_in_place(PLAN_SHARED, format);
  }
  return 0;
}
