/* zf_local_read: sums of squares are those of zf_norm, bit for bit; copies are exact; digests are the same on
 * every instruction set and number of threads, and a change shows; a wrong call gives one clear line and
 * neither reads nor copies anything. */
#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { ARRAYS = 5, MOST = 700001, ALL = ZF_READ_NORM | ZF_READ_DIGEST };

static const uint64_t sizes[ARRAYS] = {MOST, 1, 0, 4099, 300000};
static const uint32_t types[ARRAYS] = {ZF_F32, ZF_BF16, ZF_F32, ZF_F16, ZF_BF16};

static union {
  float f32[MOST];
  uint16_t half[2 * MOST];
} arrays[ARRAYS], copies[ARRAYS];

static size_t bytes_of(uint32_t type) { return type == ZF_F32 ? 4 : 2; }

static void make_arrays(void) {
  for (int i = 0; i < ARRAYS; ++i) {
    for (uint64_t k = 0; k < sizes[i]; ++k) {
      if (types[i] == ZF_F32) {
        arrays[i].f32[k] = random_float();
      } else {
        arrays[i].half[k] = (uint16_t)(0x3800u + random_below(0x400));
      }
    }
  }
}

static void make_readings(zf_reading* readings) {
  memset(readings, 0, ARRAYS * sizeof *readings);
  for (int i = 0; i < ARRAYS; ++i) {
    readings[i].array = &arrays[i];
    readings[i].elements = sizes[i];
    readings[i].type = types[i];
    readings[i].copy = &copies[i];
  }
}

static zf_local* open_with(uint32_t threads) {
  zf_local_options options = ZF_LOCAL_OPTIONS_INIT;
  zf_local* handle = NULL;
  options.use_openmp = ZF_NO;
  options.threads = threads;
  EXPECT(zf_local_open(&options, &handle), ZF_OK);
  return handle;
}

static void read_all(zf_reading* readings, uint32_t threads, uint32_t what) {
  zf_local* const local = open_with(threads);
  make_readings(readings);
  EXPECT(zf_local_read(local, readings, ARRAYS, sizeof *readings, what), ZF_OK);
  EXPECT(zf_local_close(local), ZF_OK);
}

static int is_equal(const zf_reading* a, const zf_reading* b) {
  return memcmp(&a->sum_of_squares, &b->sum_of_squares, sizeof(double)) == 0 && a->digest == b->digest;
}

static void equals_the_norm_of_the_arena(void) {
  zf_group groups[ARRAYS];
  zf_reading readings[ARRAYS];
  zf_options options = ZF_OPTIONS_INIT;
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  zf_runtime* arena = NULL;
  options.plan_path = write_plan(PLAN_SHARED, NULL);
  for (int i = 0; i < ARRAYS; ++i) {
    const zf_group init = ZF_GROUP_INIT;
    groups[i] = init;
    groups[i].elements = sizes[i];
    groups[i].grad_type = (int32_t)types[i];
  }
  EXPECT(zf_open(&options, groups, ARRAYS, &arena), ZF_OK);
  for (size_t i = 0; i < ARRAYS; ++i)
    memcpy(buffer_of(arena, i, ZF_GRADS_0, NULL), &arrays[i], bytes_of(types[i]) * sizes[i]);
  args.work = ZF_NORM;
  EXPECT(zf_submit(arena, &args, NULL), ZF_OK);
  EXPECT(zf_wait(arena, 0, 60000), ZF_OK);
  for (uint32_t threads = 1; threads <= 3; ++threads) {
    read_all(readings, threads, threads == 3 ? ALL | ZF_READ_ALONE : ALL);
    for (size_t i = 0; i < ARRAYS; ++i) {
      double sum = -1;
      int32_t finite = 0;
      EXPECT(zf_norm(arena, i, 0, &sum, &finite), ZF_OK);
      CHECK(memcmp(&sum, &readings[i].sum_of_squares, sizeof sum) == 0);
      CHECK(finite != 0 && isfinite(readings[i].sum_of_squares));
    }
  }
  EXPECT(zf_close(arena), ZF_OK);
  arrays[0].f32[MOST - 1] = INFINITY;
  read_all(readings, 2, ALL);
  CHECK(!isfinite(readings[0].sum_of_squares) && isfinite(readings[4].sum_of_squares));
  arrays[0].f32[MOST - 1] = 0.5f;
}

/* Neither threads nor the cut nor the address matter. */
static void equal_digests(void) {
  zf_reading first[ARRAYS];
  zf_reading readings[ARRAYS];
  read_all(first, 1, ALL);
  for (int i = 0; i < ARRAYS; ++i) CHECK(memcmp(&arrays[i], &copies[i], bytes_of(types[i]) * sizes[i]) == 0);
  for (uint32_t threads = 1; threads <= 4; ++threads) {
    for (uint32_t alone = 0; alone <= ZF_READ_ALONE; alone += ZF_READ_ALONE) {
      memset(copies, 0xff, sizeof copies);
      read_all(readings, threads, ALL | alone);
      for (int i = 0; i < ARRAYS; ++i) {
        CHECK(is_equal(&readings[i], &first[i]));
        const size_t bytes = bytes_of(types[i]) * sizes[i];
        CHECK(memcmp(&arrays[i], &copies[i], bytes) == 0);
        if (bytes < sizeof copies[i]) CHECK(((const unsigned char*)&copies[i])[bytes] == 0xff);
      }
    }
  }
  zf_local* const local = open_with(2);
  for (size_t shift = 1; shift <= 3; ++shift) { /* in elements */
    make_readings(readings);
    memmove(&copies[0].f32[shift], &arrays[0], 4 * (MOST - 100));
    readings[0].array = &copies[0].f32[shift];
    readings[0].elements = MOST - 100;
    readings[0].copy = NULL;
    EXPECT(zf_local_read(local, readings, 1, sizeof *readings, ALL), ZF_OK);
    readings[1] = readings[0];
    readings[1].array = &arrays[0];
    EXPECT(zf_local_read(local, readings + 1, 1, sizeof *readings, ALL), ZF_OK);
    CHECK(is_equal(&readings[0], &readings[1]));
  }
  EXPECT(zf_local_close(local), ZF_OK);
}

static void a_change_shows(void) {
  zf_reading before[ARRAYS];
  zf_reading after[ARRAYS];
  read_all(before, 2, ZF_READ_DIGEST);
  CHECK(before[0].sum_of_squares == 0); /* which was not asked for */
  for (int round = 0; round < 20; ++round) {
    const uint64_t at = random_below(sizes[4]);
    const uint64_t other = random_below(sizes[4]);
    const uint16_t value = arrays[4].half[at];
    arrays[4].half[at] ^= (uint16_t)(1u << random_below(16));
    read_all(after, 2, ZF_READ_DIGEST);
    CHECK(after[4].digest != before[4].digest && after[0].digest == before[0].digest);
    arrays[4].half[at] = value;
    if (arrays[4].half[other] == value) continue;
    arrays[4].half[at] = arrays[4].half[other];
    arrays[4].half[other] = value;
    read_all(after, 2, ZF_READ_DIGEST);
    CHECK(after[4].digest != before[4].digest);
    arrays[4].half[other] = arrays[4].half[at];
    arrays[4].half[at] = value;
  }
  read_all(after, 2, 0); /* copies alone */
  CHECK(after[4].digest == 0 && after[4].sum_of_squares == 0);
  read_all(after, 2, ZF_READ_DIGEST);
  CHECK(after[4].digest == before[4].digest);
}

/* A child reads with its parent's handle, and a new program with another instruction set. */
static void children(const char* self) {
  zf_reading readings[ARRAYS];
  zf_reading again[ARRAYS];
  zf_local* const local = open_with(2);
  int status = -1;
  make_readings(readings);
  EXPECT(zf_local_read(local, readings, ARRAYS, sizeof *readings, ALL), ZF_OK);
  fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60);
    make_readings(again);
    EXPECT(zf_local_read(local, again, ARRAYS, sizeof *again, ALL), ZF_OK);
    for (int i = 0; i < ARRAYS; ++i) CHECK(is_equal(&again[i], &readings[i]));
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  EXPECT(zf_local_close(local), ZF_OK);

  int pipes[2];
  CHECK(pipe(pipes) == 0);
  fflush(NULL);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60);
    setenv("ZF_ISA", "scalar", 1);
    CHECK(dup2(pipes[1], 1) == 1);
    execl(self, self, "print", (char*)NULL);
    _exit(1);
  }
  close(pipes[1]);
  size_t got = 0;
  for (ssize_t now = 1; now > 0 && got < sizeof again; got += (size_t)now) {
    now = read(pipes[0], (char*)again + got, sizeof again - got);
    CHECK(now >= 0);
  }
  CHECK(got == sizeof again && waitpid(child, &status, 0) == child && status == 0);
  close(pipes[0]);
  seed_random(1);
  make_arrays();
  read_all(readings, 2, ALL);
  for (int i = 0; i < ARRAYS; ++i) CHECK(is_equal(&again[i], &readings[i]));
}

static void print_readings(void) {
  zf_reading readings[ARRAYS];
  seed_random(1);
  make_arrays();
  read_all(readings, 1, ALL);
  CHECK(fwrite(readings, sizeof readings, 1, stdout) == 1 && fflush(stdout) == 0);
}

static void wrong_calls(void) {
  zf_reading good[ARRAYS];
  zf_reading readings[ARRAYS];
  zf_local* const local = open_with(2);
  make_readings(good);
  memset(copies, 0, sizeof copies);
#define REFUSED(count, size, what, status, part)                           \
  do {                                                                     \
    EXPECT(zf_local_read(local, readings, (count), (size), what), status); \
    expect_error(part);                                                    \
    memcpy(readings, good, sizeof good);                                   \
  } while (0)
  memcpy(readings, good, sizeof good);
  REFUSED(ARRAYS, sizeof *good, 8, ZF_ERROR_USAGE, "what is 8; this library");
  REFUSED(ARRAYS, 40, ALL, ZF_ERROR_ABI, "reading_size is 40; set it to sizeof(zf_reading)");
  readings[4].type = 0;
  REFUSED(ARRAYS, sizeof *good, ALL, ZF_ERROR_USAGE, "reading 4: type is 0; it must be ZF_F32, ZF_BF16 or");
  readings[3].type = 4;
  REFUSED(ARRAYS, sizeof *good, ALL, ZF_ERROR_USAGE, "reading 3: type is 4");
  readings[4].reserved = 1;
  REFUSED(ARRAYS, sizeof *good, ALL, ZF_ERROR_USAGE, "reading 4: reserved is 1; it must be 0");
  readings[4].array = NULL;
  REFUSED(ARRAYS, sizeof *good, ALL, ZF_ERROR_USAGE, "reading 4: array is NULL");
  readings[4].array = (const char*)&arrays[4] + 1;
  REFUSED(ARRAYS, sizeof *good, ALL, ZF_ERROR_USAGE, "reading 4: array is at address");
  readings[4].copy = (char*)&copies[4] + 1;
  REFUSED(ARRAYS, sizeof *good, ALL, ZF_ERROR_USAGE, "reading 4: copy is at address");
  readings[4].copy = &arrays[4].half[sizes[4] - 1];
  REFUSED(ARRAYS, sizeof *good, ALL, ZF_ERROR_USAGE, "reading 4: array and copy overlap in memory");
  readings[4].elements = UINT64_MAX;
  REFUSED(ARRAYS, sizeof *good, ALL, ZF_ERROR_USAGE, "reading 4: elements is 18446744073709551615");
#undef REFUSED
  EXPECT(zf_local_read(local, NULL, 1, sizeof *good, ALL), ZF_ERROR_USAGE);
  expect_error("readings is NULL, and count is 1");
  EXPECT(zf_local_read(NULL, readings, 1, sizeof *good, ALL), ZF_ERROR_USAGE);
  expect_error("the handle is NULL");
  EXPECT(zf_local_read(local, NULL, 0, sizeof *good, ALL), ZF_OK);
  for (int i = 0; i < ARRAYS; ++i) CHECK(copies[i].half[0] == 0); /* nothing was copied */

  /* Structs of a newer program: the results lie as far apart as the structs. */
  struct {
    zf_reading ours;
    uint64_t unknown;
  } newer[2] = {{good[0], 0}, {good[4], 0}};
  EXPECT(zf_local_read(local, &newer[0].ours, 2, sizeof *newer, ALL), ZF_OK);
  EXPECT(zf_local_read(local, good, ARRAYS, sizeof *good, ALL), ZF_OK);
  CHECK(is_equal(&newer[0].ours, &good[0]) && is_equal(&newer[1].ours, &good[4]));
  newer[1].unknown = 1;
  EXPECT(zf_local_read(local, &newer[0].ours, 2, sizeof *newer, ALL), ZF_ERROR_ABI);
  expect_error("reading 1: the program uses fields that this library");
  EXPECT(zf_local_close(local), ZF_OK);
}

int main(int argc, char** argv) {
  unsetenv("ZF_PLAN");
  unsetenv("ZF_BINDING");
  if (argc > 1) {
    print_readings();
    return 0;
  }
  make_arrays();
  wrong_calls();
  equals_the_norm_of_the_arena();
  equal_digests();
  a_change_shows();
  children(argv[0]);
  return 0;
}
