/* State formats in the arena: results are those of a plain reference, bit for bit, however the elements are
 * dealt to handles; they need fewer bytes; a state file goes on with the same bits in the same format, and
 * loads into every other one. */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "reference_adam.h"
#include "support.h"

enum { N = 270001, STEPS = 4 }; /* more than the piece in which files are converted */

static const char* const kNames[] = {"fp32", "bf16", "split", "bf16+split"};

static int has_bf16(int32_t format) { return format == ZF_STATE_BF16 || format == ZF_STATE_BF16_SPLIT; }
static int is_split(int32_t format) { return format == ZF_STATE_SPLIT || format == ZF_STATE_BF16_SPLIT; }

static uint32_t bits_of(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* The dither of docs/arithmetic.md. */
static uint32_t dither_of(uint64_t seed, uint64_t step, uint64_t element) {
  uint64_t x = seed + step * UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)((x ^ (x >> 31)) >> 32) + (uint32_t)element * 0x9e3779b1u;
}

/* Returns the number of an element, as zf_group says. */
static uint64_t number_of(const zf_group* group, uint64_t element) {
  uint64_t number = group->first_element + element;
  for (size_t i = 0; i < group->range_count && group->ranges[i].position <= element; ++i) {
    number = group->ranges[i].first_element + (element - group->ranges[i].position);
  }
  return number;
}

/* Takes a step of the reference. Its moments are then rounded as the format says. */
static void step_reference(struct reference_group* want, const float* grads, int step) {
  const zf_scalars scalars = made_scalars(3, (uint64_t)step);
  reference_step(want, grads, &scalars);
  if (!has_bf16(want->settings.state_format)) return;
  for (size_t i = 0; i < want->settings.elements; ++i) {
    const uint32_t word = dither_of(scalars.seed, scalars.step, number_of(&want->settings, i));
    want->m[i] = float_of((bits_of(want->m[i]) + (word >> 16)) & 0xffff0000u);
    want->v[i] = float_of((bits_of(want->v[i]) + (word & 0xffffu)) & 0xffff0000u);
  }
}

static zf_group group_in(int32_t format, uint64_t first, uint64_t elements) {
  zf_group group = ZF_GROUP_INIT;
  group.elements = elements;
  group.grad_type = ZF_BF16;
  group.copy_type = ZF_BF16;
  group.state_format = format;
  group.first_element = first;
  return group;
}

static zf_runtime* open_group(enum plan_kind kind, const zf_group* group) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(kind, NULL);
  options.chunk_bytes = 65536;
  EXPECT(zf_open(&options, group, 1, &handle), ZF_OK);
  return handle;
}

static float param_of(size_t element) { return 1.0f + (float)(element * 7919 % 10007) * 1e-4f; }

/* Returns a gradient that is a bf16 number. */
static float grad_of(int step, size_t element) {
  const size_t value = (element * 104729 + (size_t)step * 7919) % 2003;
  return float_of_bf16(bf16_of((float)value / 1001.0f - 1.0f));
}

/* Hands over the gradients of elements from `first` on, and waits. */
static void take_step(zf_runtime* handle, const zf_group* group, int step) {
  uint16_t* const grads = buffer_of(handle, 0, ZF_GRADS_0, NULL);
  for (size_t i = 0; i < group->elements; ++i) grads[i] = bf16_of(grad_of(step, group->first_element + i));
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  const zf_scalars scalars = made_scalars(3, (uint64_t)step);
  args.scalars = &scalars;
  args.scalar_count = 1;
  EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, -1), ZF_OK);
}

static void write_params(zf_runtime* handle, const zf_group* group) {
  float* const values = malloc(group->elements * sizeof *values);
  CHECK(values != NULL);
  for (size_t i = 0; i < group->elements; ++i) values[i] = param_of(group->first_element + i);
  EXPECT(zf_write_state(handle, 0, ZF_PARAMS, 0, group->elements, values), ZF_OK);
  free(values);
}

/* Compares a part of the reference with a handle that begins at its element `begin`. */
static void expect_state(zf_runtime* handle, const zf_group* group, const float* wanted, size_t begin,
                         zf_buffer_kind kind) {
  float* const values = malloc(group->elements * sizeof *values);
  CHECK(values != NULL);
  const uint64_t middle = group->elements / 3; /* in two ranges */
  EXPECT(zf_read_state(handle, 0, kind, 0, middle, values), ZF_OK);
  EXPECT(zf_read_state(handle, 0, kind, middle, group->elements - middle, values + middle), ZF_OK);
  for (size_t i = 0; i < group->elements; ++i) {
    if (bits_of(values[i]) == bits_of(wanted[begin + i])) continue;
    fprintf(stderr, "%s: element %zu of buffer %d is %a, not %a\n", kNames[group->state_format], begin + i,
            (int)kind, (double)values[i], (double)wanted[begin + i]);
    exit(1);
  }
  free(values);
}

static void expect_all(zf_runtime* handle, const zf_group* group, const struct reference_group* want) {
  const size_t begin = group->first_element;
  expect_state(handle, group, want->p, begin, ZF_PARAMS);
  expect_state(handle, group, want->m, begin, ZF_MOMENT_1);
  expect_state(handle, group, want->v, begin, ZF_MOMENT_2);
  const uint16_t* const copy = buffer_of(handle, 0, ZF_COPY, NULL);
  for (size_t i = 0; i < group->elements; ++i) {
    const float p = want->p[begin + i];
    CHECK(copy[i] == (is_split(group->state_format) ? (bits_of(p) + 0x8000u) >> 16 : bf16_of(p)));
  }
}

static struct reference_group new_reference(int32_t format) {
  const zf_group group = group_in(format, 0, N);
  float* const params = malloc(N * sizeof *params);
  CHECK(params != NULL);
  for (size_t i = 0; i < N; ++i) params[i] = param_of(i);
  const struct reference_group want = reference_group(&group, params);
  free(params);
  return want;
}

static void step_reference_alike(struct reference_group* want, int step) {
  static float grads[N];
  for (size_t i = 0; i < N; ++i) grads[i] = grad_of(step, i);
  step_reference(want, grads, step);
}

static void free_reference(const struct reference_group* want) {
  free(want->p);
  free(want->m);
  free(want->v);
}

/* One handle has all elements, and two others have a part each, as two ranks have. */
static void one_rank_and_two_have_the_bits_of_the_reference(int32_t format) {
  enum { AT = 40961 };
  const zf_group groups[3] = {group_in(format, 0, N), group_in(format, 0, AT), group_in(format, AT, N - AT)};
  struct reference_group want = new_reference(format);
  zf_runtime* handles[3];
  for (int i = 0; i < 3; ++i) {
    if (i == 2) setenv("ZF_ISA", "scalar", 1);
    handles[i] = open_group(i == 1 ? PLAN_SHARED : PLAN_SPLIT, &groups[i]);
    unsetenv("ZF_ISA");
    write_params(handles[i], &groups[i]);
  }
  for (int step = 1; step <= STEPS; ++step) {
    step_reference_alike(&want, step);
    for (int i = 0; i < 3; ++i) {
      take_step(handles[i], &groups[i], step);
      expect_all(handles[i], &groups[i], &want);
    }
  }
  for (int i = 0; i < 3; ++i) EXPECT(zf_close(handles[i]), ZF_OK);
  free_reference(&want);
}

/* As parameters with padding between them, or in another order than their numbers. Some ranges are two
 * vectors long, and one begins inside of a chunk. */
static void elements_have_the_numbers_of_their_ranges(int32_t format) {
  static const zf_range ranges[] = {
      {0, 64, 1000}, {0, 96, 5}, {0, 128, UINT64_C(1) << 40}, {0, 40992, 77}, {0, 270000 / 32 * 32, 0}};
  struct reference_group want = new_reference(format);
  zf_group group = group_in(format, 0, N);
  group.ranges = want.settings.ranges = ranges;
  group.range_count = want.settings.range_count = sizeof ranges / sizeof *ranges;
  zf_runtime* const handle = open_group(PLAN_SPLIT, &group);
  write_params(handle, &group);
  for (int step = 1; step <= STEPS; ++step) {
    step_reference_alike(&want, step);
    take_step(handle, &group, step);
    expect_all(handle, &group, &want);
  }
  EXPECT(zf_close(handle), ZF_OK);
  free_reference(&want);
}

/* A program writes bf16 parameters of split masters without any other call. The low halves stay: the master
 * is one that rounds to what was written. */
static void a_written_parameter_counts(int32_t format) {
  const zf_group group = group_in(format, 0, N);
  struct reference_group want = new_reference(format);
  zf_runtime* const handle = open_group(PLAN_SPLIT, &group);
  write_params(handle, &group);
  take_step(handle, &group, 1);
  step_reference_alike(&want, 1);
  uint16_t* const params = buffer_of(handle, 0, ZF_COPY, NULL);
  for (size_t i = 0; i < N; i += 3) {
    params[i] = bf16_of(0.5f);
    const uint32_t low = bits_of(want.p[i]) & 0xffffu;
    want.p[i] = float_of(bits_of(0.5f) + low - (low >= 0x8000u ? 0x10000u : 0));
  }
  take_step(handle, &group, 2);
  step_reference_alike(&want, 2);
  expect_all(handle, &group, &want);
  EXPECT(zf_close(handle), ZF_OK);
  free_reference(&want);
}

static void formats_need_fewer_bytes(void) {
  enum { MANY = 1 << 20, SLACK = 1 << 19 };
  static const uint64_t bytes_of_state[] = {12, 8, 10, 6}; /* of an element, without gradients and copy */
  for (int32_t format = ZF_STATE_FP32; format <= ZF_STATE_BF16_SPLIT; ++format) {
    const zf_group group = group_in(format, 0, MANY);
    zf_runtime* const handle = open_group(PLAN_SPLIT, &group);
    zf_stats stats = ZF_STATS_INIT;
    size_t bytes = 0;
    EXPECT(zf_get_stats(handle, &stats), ZF_OK);
    const uint64_t wanted = (bytes_of_state[format] + UINT64_C(6)) * MANY;
    printf("%s: %llu bytes\n", kNames[format], (unsigned long long)stats.arena_bytes);
    CHECK(stats.arena_bytes >= wanted && stats.arena_bytes < wanted + SLACK);
    buffer_of(handle, 0, ZF_MOMENT_1, &bytes);
    CHECK(bytes == (has_bf16(format) ? 2u : 4u) * (size_t)MANY);
    EXPECT(zf_close(handle), ZF_OK);
  }
}

static void expect_refused(zf_group group, const char* why) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(PLAN_SPLIT, NULL);
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_ERROR_USAGE);
  expect_error(why);
}

static void what_does_not_go_together_is_refused(void) {
  zf_group group = group_in(ZF_STATE_BF16, 0, 10);
  group.stale = 1;
  expect_refused(group,
                 "group 0: the state format bf16 does not go together with stale; use fp32 for this group");
  group.stale = 0;
  group.moment_sets = 2;
  expect_refused(group, "bf16 does not go together with two sets of moments");
  group = group_in(ZF_STATE_SPLIT, 0, 10);
  group.copy_type = ZF_F16;
  expect_refused(group, "split does not go together with an fp16 copy");
  group.copy_type = ZF_NONE;
  expect_refused(group, "split needs a copy in bf16, which is the parameters; set copy_type to bf16");
  const zf_range range = {0, 33, 0};
  group = group_in(ZF_STATE_BF16, 0, 40);
  group.range_count = 1;
  expect_refused(group, "group 0: range_count is 1; it must be 0 without ranges");
  group.ranges = &range;
  expect_refused(group, "group 0, range 0: position 33 is no multiple of 32");
  group.state_format = 4;
  group.range_count = 0;
  expect_refused(group, "group 0: state_format is 4; it must be ZF_STATE_FP32, _BF16, _SPLIT or _BF16_SPLIT");

  group = group_in(ZF_STATE_SPLIT, 0, 10);
  zf_runtime* const handle = open_group(PLAN_SPLIT, &group);
  void* pointer = NULL;
  EXPECT(zf_buffer(handle, 0, ZF_PARAMS, &pointer, NULL), ZF_ERROR_USAGE);
  expect_error(
      "group 0 has split masters, and so no array of fp32 parameters; read and write any range of "
      "them with zf_read_state and zf_write_state");
  EXPECT(zf_close(handle), ZF_OK);
}

static void ranges_are_checked(void) {
  const zf_group group = group_in(ZF_STATE_BF16_SPLIT, 0, 10);
  zf_runtime* const handle = open_group(PLAN_SPLIT, &group);
  /* Between 1 and the next bf16 number, 1 + 2^-7. */
  const float values[4] = {1.0f + 0x1p-9f, 1.0f + 0x1p-8f, 1.0f + 0x1.8p-8f, NAN};
  float read[10] = {0};
  EXPECT(zf_write_state(handle, 0, ZF_MOMENT_2, 6, 4, values), ZF_OK);
  EXPECT(zf_write_state(handle, 0, ZF_PARAMS, 6, 4, values), ZF_OK);
  EXPECT(zf_read_state(handle, 0, ZF_MOMENT_2, 0, 10, read), ZF_OK);
  CHECK(read[5] == 0.0f && read[6] == 1.0f && read[7] == 1.0f && read[8] == 1.0f + 0x1p-7f && isnan(read[9]));
  EXPECT(zf_read_state(handle, 0, ZF_PARAMS, 5, 5, read), ZF_OK);
  CHECK(read[0] == 0.0f && read[1] == values[0] && read[2] == values[1] && read[3] == values[2]);
  CHECK(isnan(read[4]));
  EXPECT(zf_read_state(handle, 0, ZF_PARAMS, 10, 0, NULL), ZF_OK);

  EXPECT(zf_read_state(handle, 0, ZF_PARAMS, 5, 6, read), ZF_ERROR_USAGE);
  expect_error("group 0 has 10 elements, and not 6 from 5 on");
  EXPECT(zf_write_state(handle, 0, ZF_PARAMS, UINT64_MAX, 2, values), ZF_ERROR_USAGE);
  EXPECT(zf_read_state(handle, 0, ZF_GRADS_0, 0, 1, read), ZF_ERROR_USAGE);
  expect_error("has no parameters or moments of kind 3; use ZF_PARAMS, ZF_MOMENT_1 or ZF_MOMENT_2");
  EXPECT(zf_read_state(handle, 0, ZF_MOMENT_1_SET_1, 0, 1, read), ZF_ERROR_USAGE);
  EXPECT(zf_read_state(handle, 1, ZF_PARAMS, 0, 1, read), ZF_ERROR_USAGE);
  EXPECT(zf_read_state(handle, 0, ZF_PARAMS, 0, 1, NULL), ZF_ERROR_USAGE);
  CHECK(kill(worker_of(handle), SIGSTOP) == 0);
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_read_state(handle, 0, ZF_PARAMS, 0, 1, read), ZF_ERROR_BUSY);
  EXPECT(zf_write_state(handle, 0, ZF_PARAMS, 0, 1, values), ZF_ERROR_BUSY);
  CHECK(kill(worker_of(handle), SIGCONT) == 0);
  EXPECT(zf_close(handle), ZF_OK);
}

/* Norms are of gradients, which have no state. */
static void norms_are_those_of_fp32(void) {
  double sums[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    const zf_group group = group_in(i == 0 ? ZF_STATE_FP32 : ZF_STATE_BF16_SPLIT, 0, N);
    zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
    int32_t finite = 0;
    zf_runtime* const handle = open_group(PLAN_SPLIT, &group);
    take_step(handle, &group, 1);
    args.work = ZF_NORM;
    EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
    EXPECT(zf_wait(handle, 0, -1), ZF_OK);
    EXPECT(zf_norm(handle, 0, 0, &sums[i], &finite), ZF_OK);
    CHECK(finite == 1);
    EXPECT(zf_close(handle), ZF_OK);
  }
  CHECK(sums[0] == sums[1] && sums[0] > 0);
}

static long bytes_of_file(const char* path) {
  struct stat status;
  CHECK(stat(path, &status) == 0);
  return (long)status.st_size;
}

/* Returns the reference with moments rounded to nearest, and parameters as they are. */
static void round_to_nearest(struct reference_group* want) {
  for (size_t i = 0; i < N; ++i) {
    want->m[i] = float_of_bf16(bf16_of(want->m[i]));
    want->v[i] = float_of_bf16(bf16_of(want->v[i]));
  }
}

/* A file of each format is loaded into each format. */
static void files_load_into_every_format(int32_t from) {
  static const long bytes_of_element[] = {12, 8, 12, 8};
  const char* const path = write_file("");
  const zf_group saved = group_in(from, 0, N);
  zf_runtime* const before = open_group(PLAN_SPLIT, &saved);
  write_params(before, &saved);
  for (int step = 1; step <= 2; ++step) take_step(before, &saved, step);
  EXPECT(zf_export_state(before, path), ZF_OK);
  CHECK(bytes_of_file(path) / N == bytes_of_element[from]);
  EXPECT(zf_close(before), ZF_OK);

  for (int32_t to = ZF_STATE_FP32; to <= ZF_STATE_BF16_SPLIT; ++to) {
    const zf_group group = group_in(to, 0, N);
    struct reference_group want = new_reference(from);
    for (int step = 1; step <= 2; ++step) step_reference_alike(&want, step);
    want.settings = group;
    if (has_bf16(to)) round_to_nearest(&want); /* which changes nothing if they are bf16 already */
    zf_runtime* const after = open_group(PLAN_SHARED, &group);
    take_step(after, &group, 9);
    EXPECT(zf_import_state(after, path), ZF_OK);
    expect_state(after, &group, want.p, 0, ZF_PARAMS);
    expect_state(after, &group, want.m, 0, ZF_MOMENT_1);
    expect_state(after, &group, want.v, 0, ZF_MOMENT_2);
    for (int step = 3; step <= 4; ++step) {
      take_step(after, &group, step);
      step_reference_alike(&want, step);
      expect_all(after, &group, &want);
    }
    EXPECT(zf_close(after), ZF_OK);
    free_reference(&want);
  }
}

int main(void) {
  const size_t descriptors = count_descriptors();
  for (int32_t format = ZF_STATE_FP32; format <= ZF_STATE_BF16_SPLIT; ++format) {
    one_rank_and_two_have_the_bits_of_the_reference(format);
    elements_have_the_numbers_of_their_ranges(format);
    if (is_split(format)) a_written_parameter_counts(format);
    files_load_into_every_format(format);
  }
  formats_need_fewer_bytes();
  what_does_not_go_together_is_refused();
  ranges_are_checked();
  norms_are_those_of_fp32();
  CHECK(count_descriptors() == descriptors && count_children() == 0 && count_arena_mappings() == 0);
  return 0;
}
