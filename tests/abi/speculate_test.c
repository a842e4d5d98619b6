/* Speculated steps: whatever is decided, the results are those of a plain step, bit for bit, and until then
 * nothing is published, counted or shown. Kills: kill_test.c. */
#include <string.h>

#include "support.h"

enum { N = 70001, CHUNK = 32768 };

static zf_runtime* open_with_log(uint32_t speculative) {
  zf_group group = ZF_GROUP_INIT;
  zf_options options = ZF_OPTIONS_INIT;
  zf_runtime* handle = NULL;
  group.elements = N;
  group.copy_type = ZF_BF16;
  group.speculative = speculative;
  options.plan_path = write_plan(PLAN_SHARED, NULL);
  options.chunk_bytes = CHUNK * 2; /* of the copy */
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
  return handle;
}

static uint64_t begin, end; /* of what submit() submits; 0: all */
static uint32_t prepares;   /* what submit() submits is only prepared */

static zf_status submit(zf_runtime* handle, uint32_t work, uint32_t buffer, uint64_t step, float scale) {
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  zf_scalars scalars = made_scalars(3, step == 0 ? 1 : step); /* AdamW with decay */
  scalars.grad_scale = scale;
  args.work = work;
  args.buffer = buffer;
  args.begin = begin;
  args.end = end;
  args.prepares = prepares;
  if (step != 0) {
    args.scalars = &scalars;
    args.scalar_count = 1;
  }
  return zf_submit(handle, &args, NULL);
}

static zf_status speculate(zf_runtime* handle, uint64_t from, uint64_t to, uint64_t step, float scale) {
  begin = from;
  end = to;
  const zf_status status = submit(handle, ZF_SPECULATE, 0, step, scale);
  begin = end = 0;
  return status;
}

static void fill(zf_runtime* handle, zf_buffer_kind kind, uint32_t seed) {
  float* const values = buffer_of(handle, 0, kind, NULL);
  for (uint32_t i = 0; i < N; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = ((float)(seed >> 8) / 8388608.0f - 1.0f) * 0.01f;
  }
}

/* Copies everything that a step may write. */
static const char* image_of(zf_runtime* handle) {
  static char image[4][N * 14];
  static int next;
  char* const made = image[next++ % 4];
  size_t at = 0;
  const zf_buffer_kind kinds[] = {ZF_PARAMS, ZF_MOMENT_1, ZF_MOMENT_2, ZF_COPY};
  EXPECT(zf_wait(handle, 0, -1), ZF_OK);
  for (int k = 0; k < 4; ++k) {
    size_t bytes = 0;
    const void* const array = buffer_of(handle, 0, kinds[k], &bytes);
    memcpy(made + at, array, bytes);
    at += bytes;
  }
  return made;
}

static void expect_step(zf_runtime* handle, uint64_t wanted) {
  uint64_t step = 99;
  EXPECT(zf_get_step(handle, 0, &step), ZF_OK);
  CHECK(step == wanted);
}

static void expect_equal(const char* one, const char* other) { CHECK(memcmp(one, other, N * 14) == 0); }

int main(void) {
  zf_runtime* const plain = open_with_log(0);
  zf_runtime* const ours = open_with_log(1);
  zf_runtime* const both[] = {plain, ours};
  static float values[N];
  for (int i = 0; i < 2; ++i) {
    fill(both[i], ZF_PARAMS, 1);
    fill(both[i], ZF_GRADS_0, 2);
    fill(both[i], ZF_GRADS_1, 3);
    EXPECT(submit(both[i], ZF_STEP, 0, 1, 1), ZF_OK);
  }
  expect_equal(image_of(plain), image_of(ours));

  /* Nothing is published or counted, and the state is not shown. */
  const char* const before = image_of(ours);
  EXPECT(submit(ours, ZF_SPECULATE, 1, 2, 1), ZF_OK);
  const char* const speculated = image_of(ours);
  CHECK(memcmp(before, speculated, N * 4) != 0);
  CHECK(memcmp(before + N * 12, speculated + N * 12, N * 2) == 0);
  EXPECT(zf_get_step(ours, 0, &(uint64_t){0}), ZF_ERROR_BUSY);
  expect_error("group 0 has a speculated step that is not decided");
  EXPECT(zf_read_state(ours, 0, ZF_PARAMS, 0, N, values), ZF_ERROR_BUSY);
  EXPECT(zf_write_state(ours, 0, ZF_PARAMS, 0, N, values), ZF_ERROR_BUSY);
  EXPECT(zf_export_state(ours, "speculated.state"), ZF_ERROR_BUSY);
  EXPECT(zf_import_state(ours, "speculated.state"), ZF_ERROR_BUSY);
  EXPECT(submit(ours, ZF_NORM, 1, 0, 1), ZF_OK);

  /* Wrong orders are refused. */
  EXPECT(submit(ours, ZF_SPECULATE, 0, 2, 1), ZF_ERROR_USAGE);
  expect_error("has a speculated step that is not decided");
  EXPECT(submit(ours, ZF_STEP, 0, 2, 1), ZF_ERROR_USAGE);
  EXPECT(submit(ours, ZF_TAKE_BACK, 0, 0, 1), ZF_ERROR_USAGE);
  EXPECT(submit(ours, ZF_TAKE_BACK, 1, 2, 1), ZF_ERROR_USAGE);
  expect_error("work is ZF_TAKE_BACK");
  EXPECT(submit(plain, ZF_SPECULATE, 0, 2, 1), ZF_ERROR_USAGE);
  expect_error("set zf_group.speculative");

  /* Taken back. */
  EXPECT(submit(ours, ZF_TAKE_BACK, 1, 0, 1), ZF_OK);
  expect_equal(before, image_of(ours));
  expect_step(ours, 1);
  EXPECT(submit(ours, ZF_TAKE_BACK, 1, 0, 1), ZF_ERROR_USAGE);

  /* A prepared step does not go while the other gradients have a speculated one. */
  EXPECT(zf_go(ours, NULL), ZF_ERROR_USAGE);
  expect_error("no step is prepared");
  prepares = 1;
  EXPECT(submit(ours, ZF_STEP, 0, 2, 1), ZF_OK);
  prepares = 0;
  EXPECT(submit(ours, ZF_SPECULATE, 1, 2, 1), ZF_OK);
  EXPECT(zf_go(ours, NULL), ZF_ERROR_USAGE);
  expect_error("submit ZF_TAKE_BACK for it first");
  EXPECT(submit(ours, ZF_TAKE_BACK, 1, 0, 1), ZF_OK);
  expect_equal(before, image_of(ours));

  /* Kept, and done again with another scale; the decision may follow at once. */
  for (uint64_t step = 2; step < 8; ++step) {
    const uint32_t buffer = (uint32_t)(step % 2);
    EXPECT(submit(ours, ZF_SPECULATE, buffer, step, step % 3 == 0 ? 100.0f : 1.0f), ZF_OK);
    EXPECT(submit(ours, ZF_STEP, buffer, step, 1), ZF_OK);
    EXPECT(submit(plain, ZF_STEP, buffer, step, 1), ZF_OK);
    expect_equal(image_of(plain), image_of(ours));
    expect_step(ours, step);
  }

  /* Chunks of a group, from the last to the first: the step keeps those that were begun, and does the rest.
   */
  for (uint64_t step = 8; step < 11; ++step) {
    const char* const old = image_of(ours);
    const float scale = step == 10 ? 100.0f : 1.0f;
    EXPECT(speculate(ours, 2 * CHUNK, N, step, scale), ZF_OK);
    const char* const part = image_of(ours);
    CHECK(memcmp(old, part, 2 * CHUNK * 4) == 0 && memcmp(old, part, N * 4) != 0);
    EXPECT(speculate(ours, CHUNK, N, step, scale), ZF_ERROR_USAGE);
    expect_error("group 0 has a speculated step of these elements");
    EXPECT(speculate(ours, 0, CHUNK, step, 3), ZF_ERROR_USAGE);
    expect_error("group 0 has a speculated step with other scalars");
    EXPECT(speculate(ours, 0, CHUNK + 1, step, scale), ZF_ERROR_USAGE);
    expect_error("elements 0 to 32769 are not whole chunks of 32768");
    EXPECT(speculate(ours, 0, N + 1, step, scale), ZF_ERROR_USAGE);
    EXPECT(speculate(ours, CHUNK, CHUNK, step, scale), ZF_ERROR_USAGE);
    begin = CHUNK;
    EXPECT(submit(ours, ZF_STEP, 0, step, 1), ZF_ERROR_USAGE);
    expect_error("begin or end is set");
    begin = 0;
    if (step == 9) {
      EXPECT(submit(ours, ZF_TAKE_BACK, 0, 0, 1), ZF_OK);
      expect_equal(old, image_of(ours));
    } else {
      EXPECT(speculate(ours, 0, CHUNK, step, scale), ZF_OK);
    }
    EXPECT(submit(ours, ZF_STEP, 0, step, 1), ZF_OK);
    EXPECT(submit(plain, ZF_STEP, 0, step, 1), ZF_OK);
    expect_equal(image_of(plain), image_of(ours));
    expect_step(ours, step);
  }

  /* zf_end leaves the state before. */
  EXPECT(speculate(ours, 0, CHUNK, 11, 1), ZF_OK);
  EXPECT(speculate(ours, 2 * CHUNK, N, 11, 1), ZF_OK);
  EXPECT(zf_end(ours), ZF_OK);
  EXPECT(zf_read_state(ours, 0, ZF_PARAMS, 0, N, values), ZF_OK);
  CHECK(memcmp(values, buffer_of(plain, 0, ZF_PARAMS, NULL), sizeof values) == 0);
  EXPECT(zf_close(ours), ZF_OK);
  EXPECT(zf_close(plain), ZF_OK);

  zf_group group = ZF_GROUP_INIT;
  zf_runtime* none = NULL;
  group.elements = N;
  group.speculative = 1;
  group.state_format = ZF_STATE_BF16;
  zf_options options = ZF_OPTIONS_INIT;
  options.plan_path = write_plan(PLAN_SHARED, NULL);
  EXPECT(zf_open(&options, &group, 1, &none), ZF_ERROR_USAGE);
  expect_error("the state format bf16 does not go together with speculation");

  /* Once is enough for nothing: the ring has room for no more. */
  group.elements = 0;
  group.state_format = ZF_STATE_FP32;
  EXPECT(zf_open(&options, &group, 1, &none), ZF_OK);
  EXPECT(submit(none, ZF_SPECULATE, 0, 1, 1), ZF_OK);
  EXPECT(submit(none, ZF_SPECULATE, 0, 1, 1), ZF_ERROR_USAGE);
  expect_error("group 0 has a speculated step of these elements");
  EXPECT(zf_close(none), ZF_OK);
  return 0;
}
