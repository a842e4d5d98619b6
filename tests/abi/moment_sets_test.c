/* With two sets of moments, a step of gradient buffer b uses and updates set b. The results are those of a
 * plain reference of DeepSpeed's ZenFlow, bit for bit: moments for each gradient buffer, and one array of
 * parameters. */
#include <signal.h>
#include <string.h>

#include "reference_adam.h"
#include "support.h"

enum { GROUPS = 3, STEPS = 12, ELEMENTS = 100000 };

static void make_groups(zf_group* groups) {
  const zf_group init = ZF_GROUP_INIT;
  for (int i = 0; i < GROUPS; ++i) {
    groups[i] = init;
    groups[i].moment_sets = 2;
  }
  groups[0].elements = 100003;
  groups[1].elements = 777;
  groups[1].stale = 1;
  groups[2].elements = 5001;
  groups[2].moment_sets = 1; /* beside the others, and as ever */
}

/* ZenFlow's optimizer: one array of parameters, moments for each gradient buffer, and one step counter. */
struct zenflow {
  struct reference_group adam; /* its m and v are those of the step that is taken */
  float* m[2];
  float* v[2];
};

static struct zenflow make_zenflow(const zf_group* settings, const float* params) {
  const struct reference_group adam = reference_group(settings, params);
  const struct reference_group other = reference_group(settings, params);
  const struct zenflow zenflow = {adam, {adam.m, other.m}, {adam.v, other.v}};
  free(other.p);
  return zenflow;
}

static void free_zenflow(struct zenflow* zenflow) {
  free(zenflow->adam.p);
  for (int set = 0; set < 2; ++set) {
    free(zenflow->m[set]);
    free(zenflow->v[set]);
  }
}

static void zenflow_step(struct zenflow* zenflow, uint32_t buffer, const zf_scalars* scalars,
                         const float* grads) {
  const uint32_t set = zenflow->adam.settings.moment_sets == 2 ? buffer : 0;
  zenflow->adam.m = zenflow->m[set];
  zenflow->adam.v = zenflow->v[set];
  reference_step(&zenflow->adam, grads, scalars);
}

static void check_equal(zf_runtime* handle, size_t group, zf_buffer_kind kind, const float* wanted,
                        int step) {
  size_t bytes = 0;
  const void* const got = buffer_of(handle, group, kind, &bytes);
  if (memcmp(got, wanted, bytes) == 0) return;
  fprintf(stderr, "step %d: group %zu differs in buffer %d\n", step, group, (int)kind);
  exit(1);
}

static void check_group(zf_runtime* handle, size_t group, const struct zenflow* want, int step) {
  check_equal(handle, group, ZF_PARAMS, want->adam.p, step);
  check_equal(handle, group, ZF_MOMENT_1, want->m[0], step);
  check_equal(handle, group, ZF_MOMENT_2, want->v[0], step);
  if (want->adam.settings.stale) check_equal(handle, group, ZF_STALE, want->adam.p, step);
  if (want->adam.settings.moment_sets != 2) return;
  check_equal(handle, group, ZF_MOMENT_1_SET_1, want->m[1], step);
  check_equal(handle, group, ZF_MOMENT_2_SET_1, want->v[1], step);
}

/* Takes steps with the numbers U, 2U, 3U, ... on alternating buffers. Every third step waits for a stopped
 * optimizer together with the next one, so that the optimizer finds both. */
static void agrees_with_zenflow(enum plan_kind kind, uint64_t update_interval) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group groups[GROUPS];
  struct zenflow want[GROUPS];
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(kind, NULL);
  options.chunk_bytes = 65536;
  make_groups(groups);
  EXPECT(zf_open(&options, groups, GROUPS, &handle), ZF_OK);
  for (size_t i = 0; i < GROUPS; ++i) {
    float* const params = buffer_of(handle, i, ZF_PARAMS, NULL);
    for (size_t k = 0; k < groups[i].elements; ++k) params[k] = random_float();
    want[i] = make_zenflow(&groups[i], params);
  }
  for (int step = 0; step < STEPS; ++step) {
    zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
    args.buffer = (uint32_t)step % 2;
    zf_scalars scalars[GROUPS];
    for (unsigned i = 0; i < GROUPS; ++i)
      scalars[i] = made_scalars(i == 1 ? 2 : 3, ((uint64_t)step + 1) * update_interval);
    args.scalars = scalars;
    args.scalar_count = GROUPS;
    if (step % 3 == 0) CHECK(kill(worker_of(handle), SIGSTOP) == 0);
    for (size_t i = 0; i < GROUPS; ++i) {
      float* const grads = buffer_of(handle, i, args.buffer == 0 ? ZF_GRADS_0 : ZF_GRADS_1, NULL);
      for (size_t k = 0; k < groups[i].elements; ++k) grads[k] = random_float();
      zenflow_step(&want[i], args.buffer, &scalars[i], grads);
    }
    EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
    if (step % 3 == 0) continue;
    CHECK(kill(worker_of(handle), SIGCONT) == 0);
    EXPECT(zf_wait(handle, 0, -1), ZF_OK);
    for (size_t i = 0; i < GROUPS; ++i) check_group(handle, i, &want[i], step);
  }
  EXPECT(zf_close(handle), ZF_OK);
  for (int i = 0; i < GROUPS; ++i) free_zenflow(&want[i]);
  printf("%d steps with numbers %llu apart agree bit for bit\n", STEPS, (unsigned long long)update_interval);
}

static zf_runtime* open_with_sets(int32_t moment_sets) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(PLAN_SPLIT, NULL);
  group.elements = ELEMENTS;
  group.moment_sets = moment_sets;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
  return handle;
}

/* Only a group that asks for the second set has it, and only such a group pays for it. */
static void one_set_stays_as_it_was(void) {
  uint64_t bytes[3];
  for (int32_t sets = 0; sets < 3; ++sets) {
    zf_runtime* const handle = open_with_sets(sets);
    zf_stats stats = ZF_STATS_INIT;
    void* pointer = NULL;
    EXPECT(zf_get_stats(handle, &stats), ZF_OK);
    bytes[sets] = stats.arena_bytes;
    for (zf_buffer_kind kind = ZF_MOMENT_1_SET_1; kind <= ZF_MOMENT_2_SET_1; ++kind) {
      EXPECT(zf_buffer(handle, 0, kind, &pointer, NULL), sets == 2 ? ZF_OK : ZF_ERROR_USAGE);
    }
    if (sets != 2) expect_error("group 0 has no buffer of kind 8; ");
    EXPECT(zf_close(handle), ZF_OK);
  }
  CHECK(bytes[0] == bytes[1] && bytes[2] >= bytes[1] + sizeof(float) * ELEMENTS * 2);
}

/* A group with one gradient buffer saves the other's memory, and a step of that one is refused. */
static void one_gradient_buffer_is_enough(void) {
  uint64_t bytes[2];
  for (int32_t buffers = 1; buffers <= 2; ++buffers) {
    zf_options options = ZF_OPTIONS_INIT;
    zf_group group = ZF_GROUP_INIT;
    zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
    zf_stats stats = ZF_STATS_INIT;
    zf_runtime* handle = NULL;
    void* pointer = NULL;
    options.plan_path = write_plan(PLAN_SPLIT, NULL);
    group.elements = ELEMENTS;
    group.grad_buffers = buffers;
    EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
    EXPECT(zf_get_stats(handle, &stats), ZF_OK);
    bytes[buffers - 1] = stats.arena_bytes;
    EXPECT(zf_buffer(handle, 0, ZF_GRADS_1, &pointer, NULL), buffers == 2 ? ZF_OK : ZF_ERROR_USAGE);
    const zf_scalars scalars = made_scalars(1, 1);
    args.scalars = &scalars;
    args.scalar_count = 1;
    EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
    args.buffer = 1;
    EXPECT(zf_submit(handle, &args, NULL), buffers == 2 ? ZF_OK : ZF_ERROR_USAGE);
    if (buffers == 1) expect_error("group 0 has no gradient buffer 1");
    EXPECT(zf_close(handle), ZF_OK);
  }
  CHECK(bytes[1] >= bytes[0] + sizeof(float) * ELEMENTS);
}

int main(void) {
  const size_t descriptors = count_descriptors();
  agrees_with_zenflow(PLAN_SPLIT, 1);
  agrees_with_zenflow(PLAN_SHARED, 4);
  one_set_stays_as_it_was();
  one_gradient_buffer_is_enough();
  CHECK(count_descriptors() == descriptors && count_children() == 0);
  return 0;
}
