/* A C program steps its own arrays in place: the results are the arena's, bit for bit; every wrong call gives
 * one clear line and steps nothing. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reference_adam.h"
#include "support.h"

enum { FORMAT_N = 60000 };

/* Arrays of one tensor. The first byte of each array lies `shift` elements behind a page's begin. */
struct arrays {
  float* p;
  float* g;
  float* m;
  float* v;
  uint16_t* half_g;
  uint16_t* copy;
};

static void* pages_for(size_t bytes) {
  void* const pages = mmap(NULL, bytes + 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED);
  return pages;
}

static struct arrays make_arrays(size_t n, size_t shift) {
  struct arrays arrays;
  arrays.p = (float*)pages_for(4 * n) + shift;
  arrays.g = (float*)pages_for(4 * n) + shift;
  arrays.m = (float*)pages_for(4 * n) + shift;
  arrays.v = (float*)pages_for(4 * n) + shift;
  arrays.half_g = (uint16_t*)pages_for(2 * n) + shift;
  arrays.copy = (uint16_t*)pages_for(2 * n) + shift;
  return arrays;
}

static zf_tensor tensor_of(const struct arrays* arrays, uint64_t elements) {
  zf_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.p = arrays->p;
  tensor.g = arrays->g;
  tensor.state[0] = arrays->m;
  tensor.state[1] = arrays->v;
  tensor.elements = elements;
  tensor.grad_type = ZF_F32;
  return tensor;
}

static zf_local* open_with(int32_t use_openmp, uint32_t threads) {
  zf_local_options options = ZF_LOCAL_OPTIONS_INIT;
  zf_local* handle = NULL;
  options.use_openmp = use_openmp;
  options.threads = threads;
  EXPECT(zf_local_open(&options, &handle), ZF_OK);
  CHECK(handle != NULL);
  return handle;
}

static zf_local_statistics statistics_of(zf_local* handle) {
  zf_local_statistics statistics = ZF_LOCAL_STATISTICS_INIT;
  EXPECT(zf_local_stats(handle, &statistics), ZF_OK);
  return statistics;
}

static zf_local_step_args args_of(const zf_tensor* tensors, size_t count, const zf_scalars* scalars,
                                  size_t scalar_count) {
  zf_local_step_args args = ZF_LOCAL_STEP_ARGS_INIT;
  args.tensors = tensors;
  args.tensor_count = count;
  args.scalars = scalars;
  args.scalar_count = scalar_count;
  return args;
}

static int is_pair_equal(const void* a, const void* b, size_t bytes) { return memcmp(a, b, bytes) == 0; }

enum { GROUPS = 4, STEPS = 4 };

static const size_t sizes[GROUPS] = {300001, 70000, 33, 131072};

static void make_groups(zf_group* groups) {
  const zf_group init = ZF_GROUP_INIT;
  for (int i = 0; i < GROUPS; ++i) {
    groups[i] = init;
    groups[i].elements = sizes[i];
  }
  groups[1].grad_type = ZF_F16;
  groups[3].grad_type = ZF_BF16;
  groups[3].copy_type = ZF_BF16;
}

static void fill_gradients(const zf_group* group, void* to_arena, const struct arrays* to_local, size_t n) {
  const size_t bytes = group->grad_type == ZF_F32 ? 4 : 2;
  void* const local = group->grad_type == ZF_F32 ? (void*)to_local->g : (void*)to_local->half_g;
  for (size_t i = 0; i < n; ++i) {
    const float value = random_float();
    if (group->grad_type == ZF_F32) {
      memcpy((char*)local + 4 * i, &value, 4);
    } else { /* fp16 between 1 and 2, or any bf16 */
      const uint16_t half =
          group->grad_type == ZF_BF16 ? bf16_of(value) : (uint16_t)(0x3c00 + random_below(1024));
      memcpy((char*)local + 2 * i, &half, 2);
    }
  }
  memcpy(to_arena, local, bytes * n);
}

/* Steps the same groups in an arena, and in place in arrays that begin at odd places. */
static void equal_the_arena(uint32_t threads, size_t shift) {
  zf_group groups[GROUPS];
  struct arrays arrays[GROUPS];
  zf_tensor tensors[GROUPS + 1];
  zf_scalars scalars[GROUPS];
  float counts[GROUPS + 1] = {0};
  float* counters[GROUPS + 1];
  zf_runtime* arena = NULL;
  zf_local* const local = open_with(ZF_NO, threads);
  zf_options options = ZF_OPTIONS_INIT;
  make_groups(groups);
  options.plan_path = write_plan(PLAN_SHARED, NULL);
  EXPECT(zf_open(&options, groups, GROUPS, &arena), ZF_OK);
  for (int i = 0; i < GROUPS; ++i) {
    float* const params = buffer_of(arena, (size_t)i, ZF_PARAMS, NULL);
    arrays[i] = make_arrays(sizes[i], shift);
    for (size_t j = 0; j < sizes[i]; ++j) {
      params[j] = arrays[i].p[j] = random_float();
      arrays[i].copy[j] = bf16_of(params[j]);
    }
    tensors[i] = tensor_of(&arrays[i], sizes[i]);
    tensors[i].scalars = (uint32_t)i;
    tensors[i].grad_type = (uint8_t)groups[i].grad_type;
    if (groups[i].grad_type != ZF_F32) tensors[i].g = arrays[i].half_g;
    if (groups[i].copy_type != ZF_NONE) {
      tensors[i].copy = arrays[i].copy;
      tensors[i].copy_type = (uint8_t)groups[i].copy_type;
    }
    counters[i] = &counts[i];
  }
  memset(&tensors[GROUPS], 0, sizeof tensors[GROUPS]); /* an empty one, without pointers */
  tensors[GROUPS].grad_type = ZF_F32;
  counters[GROUPS] = &counts[GROUPS];
  counters[2] = NULL;

  for (int step = 1; step <= STEPS; ++step) {
    zf_submit_args submit = ZF_SUBMIT_ARGS_INIT;
    zf_local_step_args args = args_of(tensors, GROUPS + 1, scalars, GROUPS);
    submit.scalars = scalars;
    submit.scalar_count = GROUPS;
    args.counters = counters;
    for (int i = 0; i < GROUPS; ++i) {
      fill_gradients(&groups[i], buffer_of(arena, (size_t)i, ZF_GRADS_0, NULL), &arrays[i], sizes[i]);
      scalars[i] = made_scalars((unsigned)i, (uint64_t)step);
    }
    EXPECT(zf_submit(arena, &submit, NULL), ZF_OK);
    EXPECT(zf_wait(arena, 0, -1), ZF_OK);
    EXPECT(zf_local_step(local, &args), ZF_OK);
    for (int i = 0; i < GROUPS; ++i) {
      const size_t bytes = 4 * sizes[i];
      CHECK(is_pair_equal(buffer_of(arena, (size_t)i, ZF_PARAMS, NULL), arrays[i].p, bytes));
      CHECK(is_pair_equal(buffer_of(arena, (size_t)i, ZF_MOMENT_1, NULL), arrays[i].m, bytes));
      CHECK(is_pair_equal(buffer_of(arena, (size_t)i, ZF_MOMENT_2, NULL), arrays[i].v, bytes));
      if (groups[i].copy_type != ZF_NONE)
        CHECK(is_pair_equal(buffer_of(arena, (size_t)i, ZF_COPY, NULL), arrays[i].copy, bytes / 2));
      CHECK(counts[i] == (i == 2 ? 0.0f : (float)step));
    }
    CHECK(counts[GROUPS] == (float)step);
  }
  const zf_local_statistics statistics = statistics_of(local);
  CHECK(statistics.last_threads == threads && statistics.threads == threads);
  CHECK(strcmp(statistics.team, threads == 1 ? "caller" : "own") == 0);
  CHECK(statistics.last_step_ns > 0 && statistics.total_step_ns >= statistics.last_step_ns);
  printf("%d steps equal the arena's with %u threads (%s, %s), arrays begin at element %zu\n", STEPS, threads,
         statistics.team, statistics.isa, shift);
  EXPECT(zf_close(arena), ZF_OK);
  EXPECT(zf_local_close(local), ZF_OK);
}

/* What was written to a 16-bit parameter counts, and its master follows. */
static void a_written_copy_is_the_truth(void) {
  enum { N = 20000 };
  struct arrays arrays = make_arrays(N, 3);
  zf_tensor tensor = tensor_of(&arrays, N);
  zf_scalars scalars = made_scalars(1, 1);
  scalars.step_size = 0.0f;
  zf_local* const local = open_with(ZF_NO, 2);
  tensor.copy = arrays.copy;
  tensor.copy_type = ZF_BF16;
  for (size_t i = 0; i < N; ++i) {
    arrays.p[i] = 1.0009765625f; /* which bf16 cannot hold */
    arrays.copy[i] = bf16_of(i % 7 == 0 ? 3.0f : arrays.p[i]);
  }
  const zf_local_step_args args = args_of(&tensor, 1, &scalars, 1);
  EXPECT(zf_local_step(local, &args), ZF_OK);
  for (size_t i = 0; i < N; ++i) CHECK(arrays.p[i] == (i % 7 == 0 ? 3.0f : 1.0009765625f));
  EXPECT(zf_local_close(local), ZF_OK);
}

/* The arrays of one tensor in a state format. */
struct state {
  float p[FORMAT_N];
  float m[FORMAT_N];
  float v[FORMAT_N];
  uint16_t low[FORMAT_N];
  uint16_t half_m[FORMAT_N];
  uint16_t half_v[FORMAT_N];
  uint16_t copy[FORMAT_N];
};

static uint16_t format_g[FORMAT_N];

static struct state* new_state(void) {
  struct state* const state = pages_for(sizeof *state);
  for (size_t i = 0; i < FORMAT_N; ++i) {
    state->p[i] = 1.0f + (float)(i % 977) / 977.0f;
    state->copy[i] = bf16_of(state->p[i]);
    state->low[i] = (uint16_t)(i * 40503u);
    format_g[i] = bf16_of((float)(i % 31) * 1e-3f);
  }
  return state;
}

/* The tensor of elements [begin, end). */
static zf_tensor tensor_in_format(struct state* state, uint16_t format, size_t begin, size_t end) {
  const int halves = format == ZF_STATE_BF16 || format == ZF_STATE_BF16_SPLIT;
  zf_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.p = format >= ZF_STATE_SPLIT ? (void*)(state->low + begin) : state->p + begin;
  tensor.g = format_g + begin;
  tensor.state[0] = halves ? (void*)(state->half_m + begin) : state->m + begin;
  tensor.state[1] = halves ? (void*)(state->half_v + begin) : state->v + begin;
  tensor.copy = state->copy + begin;
  tensor.elements = end - begin;
  tensor.first_element = begin;
  tensor.grad_type = ZF_BF16;
  tensor.copy_type = ZF_BF16;
  tensor.format = format;
  return tensor;
}

/* Takes three steps of `count` tensors. */
static void step_in_format(const zf_tensor* tensors, size_t count, const zf_range* ranges, size_t range_count,
                           uint32_t threads, uint64_t seed) {
  zf_local* const local = open_with(ZF_NO, threads);
  for (uint64_t step = 1; step <= 3; ++step) {
    zf_scalars scalars = made_scalars(1, step);
    scalars.seed = seed;
    zf_local_step_args args = args_of(tensors, count, &scalars, 1);
    args.ranges = ranges;
    args.range_count = range_count;
    EXPECT(zf_local_step(local, &args), ZF_OK);
  }
  EXPECT(zf_local_close(local), ZF_OK);
}

/* The bits depend on the numbers of the elements, the step and the seed, not on how they are grouped. */
static void formats_have_the_same_bits_in_any_grouping(void) {
  for (uint16_t format = ZF_STATE_FP32; format <= ZF_STATE_BF16_SPLIT; ++format) {
    struct state* const whole = new_state();
    const zf_tensor one = tensor_in_format(whole, format, 0, FORMAT_N);
    step_in_format(&one, 1, NULL, 0, 1, 7);

    struct state* const cut = new_state();
    const size_t at = 12345;
    const zf_tensor two[2] = {tensor_in_format(cut, format, at, FORMAT_N),
                              tensor_in_format(cut, format, 0, at)};
    step_in_format(two, 2, NULL, 0, 3, 7);
    CHECK(memcmp(whole, cut, sizeof *whole) == 0);

    /* A tensor with other numbers, which ranges then put right. */
    struct state* const ranged = new_state();
    zf_tensor other[2] = {tensor_in_format(ranged, format, 0, at),
                          tensor_in_format(ranged, format, at, FORMAT_N)};
    other[0].first_element = 99;
    other[1].first_element = 77;
    const zf_range ranges[5] = {{0, 0, 0}, {0, 1, 1}, {0, 5000, 5000}, {1, 0, at}, {1, 3, at + 3}};
    step_in_format(other, 2, ranges, 5, 2, 7);
    CHECK(memcmp(whole, ranged, sizeof *whole) == 0);

    /* Numbers and seeds matter for bf16 moments, and for nothing else. */
    const int halves = format == ZF_STATE_BF16 || format == ZF_STATE_BF16_SPLIT;
    struct state* const seeded = new_state();
    const zf_tensor again = tensor_in_format(seeded, format, 0, FORMAT_N);
    step_in_format(&again, 1, NULL, 0, 2, 8);
    CHECK((memcmp(whole, seeded, sizeof *whole) != 0) == halves);
    struct state* const moved = new_state();
    zf_tensor far = tensor_in_format(moved, format, 0, FORMAT_N);
    far.first_element = 1;
    step_in_format(&far, 1, NULL, 0, 2, 7);
    CHECK((memcmp(whole, moved, sizeof *whole) != 0) == halves);
    CHECK(memcmp(whole, new_state(), sizeof *whole) != 0);
  }
}

static void wrong_ranges(void) {
  struct state* const state = new_state();
  const zf_tensor tensor = tensor_in_format(state, ZF_STATE_BF16, 0, 100);
  const zf_scalars scalars = made_scalars(1, 1);
  zf_local* const local = open_with(ZF_NO, 1);
  zf_local_step_args args = args_of(&tensor, 1, &scalars, 1);
  const struct {
    zf_range ranges[2];
    const char* text;
  } wrong[] = {
      {{{0, 5, 0}, {1, 0, 0}}, "range 1: tensor is 1 and position 0: there are 1 tensor"},
      {{{0, 5, 0}, {0, 5, 9}}, "range 1: tensor is 0 and position 5: the ranges are not in the order of pos"},
      {{{0, 5, 0}, {0, 101, 0}}, "range 1: tensor is 0 and position 101: it has 100 elements"}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    args.ranges = wrong[i].ranges;
    args.range_count = 2;
    EXPECT(zf_local_step(local, &args), ZF_ERROR_USAGE);
    expect_error(wrong[i].text);
  }
  args.ranges = NULL;
  EXPECT(zf_local_step(local, &args), ZF_ERROR_USAGE);
  expect_error("ranges is NULL, and range_count is 2");
  args.ranges = wrong[0].ranges;
  args.range_size = 8;
  EXPECT(zf_local_step(local, &args), ZF_ERROR_ABI);
  CHECK(state->half_m[1] == 0);
  EXPECT(zf_local_close(local), ZF_OK);
}

static struct arrays wrong_arrays;
static zf_local* wrong_local;

/* Steps a good tensor and the given one, and expects that it is refused and nothing is stepped. */
static void expect_wrong(zf_tensor tensor, const char* text) {
  struct arrays good = make_arrays(100, 0);
  float count = 0.0f;
  float* const counters[2] = {&count, NULL};
  const zf_scalars scalars = made_scalars(1, 1);
  const zf_tensor tensors[2] = {tensor_of(&good, 100), tensor};
  zf_local_step_args args = args_of(tensors, 2, &scalars, 1);
  args.counters = counters;
  good.g[0] = 1.0f;
  EXPECT(zf_local_step(wrong_local, &args), ZF_ERROR_USAGE);
  expect_error("tensor 1: ");
  expect_error(text);
  CHECK(good.p[0] == 0.0f && good.m[0] == 0.0f && count == 0.0f);
}

static zf_tensor good_tensor(void) { return tensor_of(&wrong_arrays, 100); }

static void wrong_tensors(void) {
  wrong_arrays = make_arrays(1000, 0);
  wrong_local = open_with(ZF_TRY, 0);
  zf_tensor tensor = good_tensor();
  tensor.p = NULL;
  expect_wrong(tensor, "p is NULL");
  tensor = good_tensor();
  tensor.g = NULL;
  expect_wrong(tensor, "g is NULL");
  tensor = good_tensor();
  tensor.state[0] = NULL;
  expect_wrong(tensor, "state[0] is NULL");
  tensor = good_tensor();
  tensor.state[1] = (char*)wrong_arrays.v + 2;
  expect_wrong(tensor, "must be at a multiple of 4 bytes");
  tensor = good_tensor();
  tensor.grad_type = ZF_BF16;
  tensor.g = (const char*)wrong_arrays.g + 1;
  expect_wrong(tensor, "must be at a multiple of 2 bytes");
  tensor = good_tensor();
  tensor.scalars = 1;
  expect_wrong(tensor, "scalars is 1, and there are 1");
  tensor = good_tensor();
  tensor.grad_type = ZF_NONE;
  expect_wrong(tensor, "grad_type is 0; it must be ZF_F32, ZF_BF16 or ZF_F16");
  tensor = good_tensor();
  tensor.copy_type = ZF_F32;
  expect_wrong(tensor, "copy_type is 1");
  tensor = good_tensor();
  tensor.copy_type = ZF_BF16;
  expect_wrong(tensor, "copy is NULL");
  tensor = good_tensor();
  tensor.copy = wrong_arrays.copy;
  expect_wrong(tensor, "copy is set, and copy_type is ZF_NONE; set copy_type");
  tensor = good_tensor();
  tensor.format = 4;
  expect_wrong(tensor, "format is 4; this library");
  tensor = good_tensor();
  tensor.format = ZF_STATE_SPLIT;
  expect_wrong(tensor, "the state format is split, and copy_type is not ZF_BF16; split masters are for bf16");
  tensor = good_tensor();
  tensor.format = ZF_STATE_BF16;
  tensor.copy = wrong_arrays.copy;
  tensor.copy_type = ZF_F16;
  expect_wrong(tensor, "copy_type is ZF_F16, and the state format is bf16; keep the state of fp16");
  tensor = good_tensor();
  tensor.elements = UINT64_MAX;
  expect_wrong(tensor, "elements is 18446744073709551615");
  tensor = good_tensor();
  tensor.state[1] = wrong_arrays.p + 99;
  expect_wrong(tensor, "p and state[1] overlap in memory");
  tensor = good_tensor();
  tensor.copy = wrong_arrays.m;
  tensor.copy_type = ZF_F16;
  expect_wrong(tensor, "state[0] and copy overlap in memory");
  EXPECT(zf_local_close(wrong_local), ZF_OK);
}

static void wrong_calls(void) {
  struct arrays arrays = make_arrays(100, 0);
  const zf_tensor tensor = tensor_of(&arrays, 100);
  zf_scalars scalars = made_scalars(1, 1);
  zf_local* local = open_with(ZF_TRY, 0);
  zf_local_step_args args = args_of(&tensor, 1, &scalars, 1);
  zf_local_statistics statistics = ZF_LOCAL_STATISTICS_INIT;

  EXPECT(zf_local_step(NULL, &args), ZF_ERROR_USAGE);
  expect_error("the handle is NULL");
  EXPECT(zf_local_step(local, NULL), ZF_ERROR_USAGE);
  expect_error("args is NULL");
  args.struct_size = 0;
  EXPECT(zf_local_step(local, &args), ZF_ERROR_ABI);
  expect_error("zf_local_step_args.struct_size is 0; set it with the INIT macro");
  args = args_of(&tensor, 1, &scalars, 1);
  args.tensor_size = 0;
  EXPECT(zf_local_step(local, &args), ZF_ERROR_ABI);
  expect_error("zf_local_step_args.tensor_size is 0; set it with ZF_LOCAL_STEP_ARGS_INIT");
  args = args_of(&tensor, 1, &scalars, 1);
  args.scalars_size = 36;
  EXPECT(zf_local_step(local, &args), ZF_ERROR_ABI);
  expect_error("scalars_size is 36");
  args = args_of(NULL, 1, &scalars, 1);
  EXPECT(zf_local_step(local, &args), ZF_ERROR_USAGE);
  expect_error("tensors is NULL, and tensor_count is 1");
  args = args_of(&tensor, 1, NULL, 1);
  EXPECT(zf_local_step(local, &args), ZF_ERROR_USAGE);
  expect_error("scalars is NULL, and scalar_count is 1");
  args = args_of(&tensor, 1, &scalars, 1);
  float* const odd[1] = {(float*)(void*)((char*)arrays.g + 2)};
  args.counters = odd;
  EXPECT(zf_local_step(local, &args), ZF_ERROR_USAGE);
  expect_error("tensor 0: its counter is at address");
  args.counters = NULL;
  scalars.mode = 2;
  EXPECT(zf_local_step(local, &args), ZF_ERROR_USAGE);
  expect_error("scalars 0: mode is 2; it must be ZF_ADAM or ZF_ADAMW");
  scalars.mode = ZF_ADAM;
  scalars.step_size = NAN;
  EXPECT(zf_local_step(local, &args), ZF_ERROR_USAGE);
  expect_error("scalars 0: step_size is nan; it must be finite");
  EXPECT(zf_local_stats(local, NULL), ZF_ERROR_USAGE);
  statistics.struct_size = 0;
  EXPECT(zf_local_stats(local, &statistics), ZF_ERROR_ABI);
  EXPECT(zf_local_place(local, NULL, 1), ZF_ERROR_USAGE);
  expect_error("pointer is NULL");
  EXPECT(zf_local_place(local, arrays.p, SIZE_MAX), ZF_ERROR_USAGE);
  EXPECT(zf_local_place(local, NULL, 0), ZF_OK);
  EXPECT(zf_local_close(NULL), ZF_OK);
  EXPECT(zf_local_close(local), ZF_OK);
}

static void wrong_options(void) {
  zf_local_options options = ZF_LOCAL_OPTIONS_INIT;
  zf_local* local = (zf_local*)&options;
  EXPECT(zf_local_open(&options, NULL), ZF_ERROR_USAGE);
  expect_error("out is NULL");
  options.struct_size = 0;
  EXPECT(zf_local_open(&options, &local), ZF_ERROR_ABI);
  CHECK(local == NULL);
  options = (zf_local_options)ZF_LOCAL_OPTIONS_INIT;
  options.abi_version = 99;
  EXPECT(zf_local_open(&options, &local), ZF_ERROR_ABI);
  expect_error("built for ABI version 99");
  options = (zf_local_options)ZF_LOCAL_OPTIONS_INIT;
  options.threads = 4097;
  EXPECT(zf_local_open(&options, &local), ZF_ERROR_USAGE);
  expect_error("threads is 4097; it must be 4096 or less");
  options = (zf_local_options)ZF_LOCAL_OPTIONS_INIT;
  options.use_openmp = 3;
  EXPECT(zf_local_open(&options, &local), ZF_ERROR_USAGE);
  expect_error("use_openmp is 3; it must be ZF_NO, ZF_TRY or ZF_MUST");
  options.use_openmp = ZF_MUST; /* this program has none */
  EXPECT(zf_local_open(&options, &local), ZF_ERROR_SYSTEM);
  expect_error("no OpenMP runtime");
  options = (zf_local_options)ZF_LOCAL_OPTIONS_INIT;
  options.plan_path = "/nowhere/plan.json";
  EXPECT(zf_local_open(&options, &local), ZF_ERROR_PLAN);
  expect_error("/nowhere/plan.json");
  options.plan_path = write_plan_of_model("Z80");
  EXPECT(zf_local_open(&options, &local), ZF_ERROR_PLAN);
  expect_error("Z80 in the plan");
  setenv("ZF_TUNE", "off", 1);
  EXPECT(zf_local_open(&options, &local), ZF_OK);
  EXPECT(zf_local_close(local), ZF_OK);
  unsetenv("ZF_TUNE");
  setenv("ZF_ISA", "mmx", 1); /* it is read when the process needs the engine for the first time */
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    EXPECT(zf_local_open(NULL, &local), ZF_ERROR_USAGE);
    expect_error("mmx");
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  unsetenv("ZF_ISA");
}

/* Structs of a newer program with additional members that are zero, and of a program that knows fewer
 * statistics. */
static void other_sizes(void) {
  struct larger {
    zf_tensor ours;
    uint64_t unknown;
  } tensors[2];
  struct {
    zf_scalars ours;
    float unknown;
  } scalars;
  struct {
    zf_local_statistics ours;
    uint64_t unknown;
  } statistics = {ZF_LOCAL_STATISTICS_INIT, 7};
  struct arrays arrays[2] = {make_arrays(100, 0), make_arrays(200, 0)};
  zf_local* const local = open_with(ZF_TRY, 0);
  memset(tensors, 0, sizeof tensors);
  tensors[0].ours = tensor_of(&arrays[0], 100);
  tensors[1].ours = tensor_of(&arrays[1], 200);
  memset(&scalars, 0, sizeof scalars);
  scalars.ours = made_scalars(1, 1);
  arrays[0].g[99] = arrays[1].g[199] = 1.0f;
  zf_local_step_args args = args_of(&tensors[0].ours, 2, &scalars.ours, 1);
  args.tensor_size = sizeof tensors[0];
  args.scalars_size = sizeof scalars;
  EXPECT(zf_local_step(local, &args), ZF_OK);
  CHECK(arrays[0].p[99] != 0.0f && arrays[1].p[199] == arrays[0].p[99]);
  tensors[1].unknown = 1;
  EXPECT(zf_local_step(local, &args), ZF_ERROR_ABI);
  expect_error("tensor 1: the program uses fields that this library");
  tensors[1].unknown = 0;
  scalars.unknown = 1.0f;
  EXPECT(zf_local_step(local, &args), ZF_ERROR_ABI);
  expect_error("scalars 0: the program uses fields");

  statistics.ours.struct_size = sizeof statistics;
  EXPECT(zf_local_stats(local, &statistics.ours), ZF_OK);
  CHECK(statistics.unknown == 7 && statistics.ours.struct_size == sizeof statistics);
  statistics.ours.struct_size = offsetof(zf_local_statistics, team);
  strcpy(statistics.ours.team, "kept");
  EXPECT(zf_local_stats(local, &statistics.ours), ZF_OK);
  CHECK(strcmp(statistics.ours.team, "kept") == 0);
  EXPECT(zf_local_close(local), ZF_OK);
}

static void nothing_to_do(void) {
  zf_local* local = NULL;
  EXPECT(zf_local_open(NULL, &local), ZF_OK);
  const zf_local_statistics before = statistics_of(local);
  CHECK(before.openmp[0] == '\0' && before.threads >= 1 && before.memory_note[0] == '\0');
  const zf_local_step_args args = ZF_LOCAL_STEP_ARGS_INIT;
  EXPECT(zf_local_step(local, &args), ZF_OK);
  CHECK(statistics_of(local).steps == before.steps);
  EXPECT(zf_local_close(local), ZF_OK);
}

enum { TURNS = 40, TURN_SIZE = 50000 };

static void* step_often(void* threads) {
  struct arrays arrays = make_arrays(TURN_SIZE, 1);
  const zf_tensor tensor = tensor_of(&arrays, TURN_SIZE);
  zf_local* const local = open_with(ZF_TRY, *(const uint32_t*)threads);
  for (size_t i = 0; i < TURN_SIZE; ++i) arrays.g[i] = (float)(i % 100);
  for (int turn = 0; turn < TURNS; ++turn) {
    const zf_scalars scalars = made_scalars(1, 1);
    const zf_local_step_args args = args_of(&tensor, 1, &scalars, 1);
    EXPECT(zf_local_step(local, &args), ZF_OK);
  }
  EXPECT(zf_local_close(local), ZF_OK);
  return arrays.p;
}

static void two_handles_take_turns(void) {
  static const uint32_t threads[2] = {2, 3};
  pthread_t other;
  void* p = NULL;
  zf_local* const local = open_with(ZF_TRY, 1);
  const uint64_t before = statistics_of(local).steps;
  CHECK(pthread_create(&other, NULL, step_often, (void*)&threads[0]) == 0);
  const float* const ours = step_often((void*)&threads[1]);
  CHECK(pthread_join(other, &p) == 0);
  CHECK(is_pair_equal(ours, p, sizeof(float) * TURN_SIZE));
  CHECK(statistics_of(local).steps == before + 2 * TURNS);
  EXPECT(zf_local_close(local), ZF_OK);
}

/* A child steps with its parent's handle. */
static void child_of_a_fork(void) {
  struct arrays arrays = make_arrays(100000, 0);
  const zf_tensor tensor = tensor_of(&arrays, 100000);
  const zf_scalars scalars = made_scalars(1, 1);
  const zf_local_step_args args = args_of(&tensor, 1, &scalars, 1);
  zf_local* const local = open_with(ZF_TRY, 2);
  EXPECT(zf_local_step(local, &args), ZF_OK);
  fflush(NULL);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60);
    EXPECT(zf_local_step(local, &args), ZF_OK);
    CHECK(strcmp(statistics_of(local).team, "caller") == 0 && statistics_of(local).steps == 1);
    EXPECT(zf_local_close(local), ZF_OK);
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  EXPECT(zf_local_step(local, &args), ZF_OK);
  CHECK(strcmp(statistics_of(local).team, "own") == 0);
  EXPECT(zf_local_close(local), ZF_OK);
}

/* A thread steps and asks with the handle that the children use, at whatever moment they are forked. */
static struct {
  zf_local* local;
  const zf_local_step_args* args;
  atomic_int stop;
} busy;

static void* step_and_ask(void* unused) {
  while (!busy.stop) {
    EXPECT(zf_local_step(busy.local, busy.args), ZF_OK);
    statistics_of(busy.local);
  }
  return unused;
}

static void children_of_a_busy_parent(void) {
  struct arrays theirs = make_arrays(20000, 0);
  struct arrays ours = make_arrays(20000, 0);
  const zf_tensor their_tensor = tensor_of(&theirs, 20000);
  const zf_tensor our_tensor = tensor_of(&ours, 20000);
  const zf_scalars scalars = made_scalars(1, 1);
  const zf_local_step_args their_args = args_of(&their_tensor, 1, &scalars, 1);
  const zf_local_step_args our_args = args_of(&our_tensor, 1, &scalars, 1);
  pthread_t thread;
  busy.local = open_with(ZF_NO, 2);
  busy.args = &their_args;
  CHECK(pthread_create(&thread, NULL, step_and_ask, NULL) == 0);
  for (int round = 0; round < 200; ++round) {
    fflush(NULL);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(20);
      EXPECT(zf_local_step(busy.local, &our_args), ZF_OK);
      CHECK(strcmp(statistics_of(busy.local).team, "caller") == 0);
      _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  busy.stop = 1;
  CHECK(pthread_join(thread, NULL) == 0);
  EXPECT(zf_local_close(busy.local), ZF_OK);
}

static void place(void) {
  enum { BYTES = 6 << 20 };
  zf_local* const local = open_with(ZF_TRY, 2);
  unsigned char* const memory = pages_for(BYTES);
  const size_t before = count_private_kib();
  memory[BYTES / 2] = 9; /* in a page that is placed; the first one is not, since the range begins in it */
  EXPECT(zf_local_place(local, memory + 1, BYTES), ZF_OK);
  CHECK(memory[BYTES / 2] == 9 && memory[BYTES / 2 + 4096] == 0);
  if (before != 0) CHECK(count_private_kib() >= before + BYTES / 1024 - 16);
  printf("placed: \"%s\"\n", statistics_of(local).memory_note);
  EXPECT(zf_local_close(local), ZF_OK);
}

/* Under a plan that gives CPUs to an optimizer process, a process on the training CPUs is told so. */
static void divided_plan(void) {
  const char* optimizer = NULL;
  zf_local_options options = ZF_LOCAL_OPTIONS_INIT;
  zf_local* local = NULL;
  cpu_set_t all;
  cpu_set_t first;
  int cpus[MAX_CPUS];
  if (allowed_cpus(cpus) < 2) {
    printf("divided plan: skipped, it needs 2 CPUs\n");
    return;
  }
  options.plan_path = write_plan(PLAN_SPLIT, &optimizer);
  EXPECT(zf_local_open(&options, &local), ZF_OK);
  CHECK(statistics_of(local).plan_note[0] == '\0'); /* this process may use all CPUs */
  EXPECT(zf_local_close(local), ZF_OK);
  CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
  CPU_ZERO(&first);
  CPU_SET((size_t)cpus[0], &first);
  CHECK(sched_setaffinity(0, sizeof first, &first) == 0);
  EXPECT(zf_local_open(&options, &local), ZF_OK);
  const zf_local_statistics statistics = statistics_of(local);
  printf("divided plan: %s\n", statistics.plan_note);
  CHECK(strstr(statistics.plan_note, optimizer) != NULL);
  CHECK(strstr(statistics.plan_note, "zf-tune tune --framework torch --mode wait") != NULL);
  EXPECT(zf_local_close(local), ZF_OK);
  CHECK(sched_setaffinity(0, sizeof all, &all) == 0);
  free((void*)(uintptr_t)optimizer);
}

static void* second_first(void* list, ptrdiff_t index) { return ((void**)list)[1 - index]; }
static void* next_byte(void* object) { return (char*)object + 1; }

static void each_object_is_asked_in_the_order_of_the_list(void) {
  char objects[2];
  void* list[2] = {&objects[0], &objects[1]};
  void* results[2] = {NULL, NULL};
  EXPECT(zf_call_each(second_first, list, next_byte, results, 2), ZF_OK);
  CHECK(results[0] == &objects[1] + 1 && results[1] == &objects[0] + 1);
  EXPECT(zf_call_each(second_first, NULL, next_byte, NULL, 0), ZF_OK);
  EXPECT(zf_call_each(NULL, list, next_byte, results, 2), ZF_ERROR_USAGE);
  expect_error("get is NULL");
  EXPECT(zf_call_each(second_first, list, NULL, results, 2), ZF_ERROR_USAGE);
  EXPECT(zf_call_each(second_first, list, next_byte, NULL, 2), ZF_ERROR_USAGE);
}

int main(void) {
  unsetenv("ZF_PLAN");
  unsetenv("ZF_BINDING");
  wrong_options();
  wrong_calls();
  formats_have_the_same_bits_in_any_grouping();
  wrong_ranges();
  wrong_tensors();
  nothing_to_do();
  other_sizes();
  a_written_copy_is_the_truth();
  for (uint32_t threads = 1; threads <= 3; ++threads) equal_the_arena(threads, threads == 2 ? 0 : threads);
  two_handles_take_turns();
  child_of_a_fork();
  children_of_a_busy_parent();
  place();
  divided_plan();
  each_object_is_asked_in_the_order_of_the_list();
  return 0;
}
