/* A submission with scalars: its steps are those of zf_local_step with the same scalars, bit for bit, in
 * every state format; the group's own settings do not matter; its step's number and progress are kept; a
 * wrong call gives one clear line and submits nothing. */
#include <math.h>
#include <signal.h>
#include <string.h>

#include "made_scalars.h"
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
    groups[i].lr = 1e9f; /* settings would be seen */
    groups[i].weight_decay = 1.0f;
    groups[i].seed = 99;
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
    args.scalars_size = sizeof *scalars;
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

/* The scalars that the arena computes from the settings of a group, for a step after others of the same. */
static zf_scalars scalars_of_settings(const zf_group* group, float* powers, uint64_t step) {
  zf_scalars scalars = made_scalars(0, step);
  powers[0] *= group->beta1;
  powers[1] *= group->beta2;
  scalars.beta1 = group->beta1;
  scalars.one_minus_beta1 = 1.0f - group->beta1;
  scalars.beta2 = group->beta2;
  scalars.one_minus_beta2 = 1.0f - group->beta2;
  scalars.eps = group->eps;
  scalars.inv_sqrt_bias2 = 1.0f / sqrtf(1.0f - powers[1]);
  scalars.step_size = -group->lr / (1.0f - powers[0]);
  scalars.mode = group->mode;
  scalars.decay = 0.0f;
  scalars.grad_scale = 1.0f;
  return scalars;
}

/* After steps with scalars, a step by settings goes on as if those had been steps by settings: the running
 * products of the betas are kept, also in a state file. */
static void steps_by_settings_may_follow(void) {
  enum { N = 5000 };
  const char* const path = write_file("");
  float powers[2] = {1.0f, 1.0f};
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* with = open_one(PLAN_SPLIT, N);
  zf_runtime* const without = open_one(PLAN_SPLIT, N);
  for (uint64_t step = 1; step <= 42; ++step) {
    float* const grads = buffer_of(with, 0, ZF_GRADS_0, NULL);
    for (size_t k = 0; k < N; ++k) grads[k] = random_float();
    memcpy(buffer_of(without, 0, ZF_GRADS_0, NULL), grads, N * sizeof *grads);
    EXPECT(zf_submit(without, NULL, NULL), ZF_OK);
    wait_for(without);
    zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
    const zf_scalars scalars = scalars_of_settings(&group, powers, step);
    args.scalars = &scalars;
    args.scalar_count = 1;
    args.scalars_size = sizeof scalars;
    EXPECT(zf_submit(with, step <= 40 ? &args : NULL, NULL), ZF_OK);
    wait_for(with);
    CHECK(memcmp(buffer_of(with, 0, ZF_PARAMS, NULL), buffer_of(without, 0, ZF_PARAMS, NULL), 4 * N) == 0);
    if (step != 40) continue;
    EXPECT(zf_export_state(with, path), ZF_OK);
    EXPECT(zf_close(with), ZF_OK);
    with = open_one(PLAN_SPLIT, N);
    EXPECT(zf_import_state(with, path), ZF_OK);
  }
  EXPECT(zf_close(with), ZF_OK);
  EXPECT(zf_close(without), ZF_OK);
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
  good.scalars_size = sizeof *scalars;
  zf_submit_args args = good;
#define REFUSED(status, part)                       \
  do {                                              \
    EXPECT(zf_submit(handle, &args, NULL), status); \
    expect_error(part);                             \
    args = good;                                    \
  } while (0)
  args.step = 1;
  REFUSED(ZF_ERROR_USAGE, "step is 1, and scalars is set; leave step 0: zf_scalars.step is the number");
  args.grad_scale = 0.5f;
  REFUSED(ZF_ERROR_USAGE, "grad_scale is 0.5, and scalars is set; leave it 1");
  args.work = ZF_NORM;
  REFUSED(ZF_ERROR_USAGE, "work is ZF_NORM, and scalars is set");
  args.reserved = 1;
  REFUSED(ZF_ERROR_USAGE, "reserved is 1");
  args.scalars = NULL;
  REFUSED(ZF_ERROR_USAGE, "scalars is NULL, and scalar_count is 2");
  args.scalars = NULL;
  args.scalar_count = 0;
  REFUSED(ZF_ERROR_USAGE, "scalars_of is set, and scalars is NULL");
  args.scalars_of = NULL;
  REFUSED(ZF_ERROR_USAGE, "scalar_count is 2 for 5 groups; give one for each group, or set scalars_of");
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

/* A program that was built before there were scalars: what follows its struct is not read. */
static void an_older_struct_works(void) {
  zf_runtime* const handle = open_one(PLAN_SPLIT, 100);
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  uint64_t step = 0;
  args.struct_size = offsetof(zf_submit_args, scalars);
  args.step = 9;
  memset((char*)&args + args.struct_size, 0xff, sizeof args - args.struct_size);
  EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
  wait_for(handle);
  EXPECT(zf_get_step(handle, 0, &step), ZF_OK);
  CHECK(step == 9);
  EXPECT(zf_close(handle), ZF_OK);
}

int main(void) {
  wrong_calls();
  an_older_struct_works();
  steps_by_settings_may_follow();
  for (int32_t format = ZF_STATE_FP32; format <= ZF_STATE_BF16_SPLIT; ++format) {
    equals_in_place(PLAN_SPLIT, format);
    equals_in_place(PLAN_SHARED, format);
  }
  return 0;
}
