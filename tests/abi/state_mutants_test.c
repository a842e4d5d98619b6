/* Changes the header and the table of a state file at random, and sets the checksums right again. The import
 * takes the file, or says in one line why it does not; then nothing is changed. ZF_MUTANTS=N tries so many,
 * ZF_SEED=N others. */
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { ELEMENTS = 1025, HEADER = 40, MOST_BYTES = 1 << 17, MOST_PLACES = 3 };
enum { FILE_BYTES = 16, ARRAYS_OFFSET = 24, GROUPS_CRC = 32, HEADER_CRC = 36 }; /* docs/recovery.md */

static const zf_buffer_kind kState[] = {ZF_PARAMS, ZF_MOMENT_1, ZF_MOMENT_2};
enum { ARRAYS = sizeof kState / sizeof *kState };

struct file {
  unsigned char bytes[MOST_BYTES];
  size_t size;
};

static void read_into(struct file* file, const char* path) {
  FILE* const from = fopen(path, "rbe");
  CHECK(from != NULL);
  file->size = fread(file->bytes, 1, sizeof file->bytes, from);
  CHECK(file->size > HEADER && file->size < sizeof file->bytes && fclose(from) == 0);
}

static void write_to(const struct file* file, const char* path) {
  FILE* const to = fopen(path, "wbe");
  CHECK(to != NULL && fwrite(file->bytes, 1, file->size, to) == file->size && fclose(to) == 0);
}

static void put_crc(struct file* file, size_t at, size_t from, size_t to) {
  uint32_t crc = ~UINT32_C(0);
  for (size_t i = from; i < to; ++i) {
    crc ^= file->bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (UINT32_C(0xEDB88320) & (0 - (crc & 1)));
  }
  crc = ~crc;
  memcpy(file->bytes + at, &crc, sizeof crc);
}

static uint64_t number_at(const struct file* file, size_t at) {
  uint64_t number = 0;
  memcpy(&number, file->bytes + at, sizeof number);
  return number;
}

static uint64_t any_number(const struct file* file) {
  const uint64_t some[] = {0,
                           1,
                           2,
                           3,
                           40,
                           4095,
                           4096,
                           65536,
                           UINT32_MAX,
                           INT64_MAX,
                           UINT64_C(1) << 63,
                           UINT64_MAX,
                           file->size - 1,
                           file->size,
                           file->size + 4096};
  const size_t chosen = (size_t)random_below(sizeof some / sizeof *some + 1);
  return chosen < sizeof some / sizeof *some ? some[chosen] : random_below(UINT64_MAX >> 11);
}

/* Changes a bit, or 1, 4 or 8 bytes, at one to three places of the first `end` bytes. */
static void mutate(struct file* file, size_t end) {
  static const size_t sizes[] = {1, 4, 8};
  for (size_t left = 1 + (size_t)random_below(MOST_PLACES); left > 0; --left) {
    const size_t size = sizes[random_below(3)];
    const size_t at = (size_t)random_below(end / size) * size;
    const uint64_t number = any_number(file);
    if (random_below(2) == 0) {
      file->bytes[at] ^= (unsigned char)(1u << random_below(8));
    } else {
      memcpy(file->bytes + at, &number, size);
    }
  }
  const uint64_t offset = number_at(file, ARRAYS_OFFSET);
  const size_t table_end = offset < HEADER ? HEADER : offset < file->size ? (size_t)offset : file->size;
  if (random_below(8) != 0) memcpy(file->bytes + FILE_BYTES, &(uint64_t){file->size}, 8);
  put_crc(file, GROUPS_CRC, HEADER, table_end);
  put_crc(file, HEADER_CRC, 0, HEADER_CRC);
}

static const uint64_t MOST_STEP = UINT64_C(1) << 62;

struct state {
  float arrays[2][ARRAYS][ELEMENTS];
  uint64_t steps[2];
};

static void keep(zf_runtime* handle, struct state* state) {
  for (size_t group = 0; group < 2; ++group) {
    for (size_t k = 0; k < ARRAYS; ++k) {
      EXPECT(zf_read_state(handle, group, kState[k], 0, ELEMENTS, state->arrays[group][k]), ZF_OK);
    }
    EXPECT(zf_get_step(handle, group, &state->steps[group]), ZF_OK);
  }
}

static zf_runtime* open_two(int32_t format) {
  zf_options options = ZF_OPTIONS_INIT;
  const zf_group init = ZF_GROUP_INIT;
  zf_group groups[2] = {init, init};
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(PLAN_SPLIT, NULL);
  groups[0].elements = groups[1].elements = ELEMENTS;
  groups[1].state_format = format;
  groups[1].copy_type = ZF_BF16;
  EXPECT(zf_open(&options, groups, 2, &handle), ZF_OK);
  for (size_t group = 0; group < 2; ++group) {
    float* const grads = buffer_of(handle, group, ZF_GRADS_0, NULL);
    for (int i = 0; i < ELEMENTS; ++i) grads[i] = random_float();
  }
  return handle;
}

static void take_step(zf_runtime* handle) {
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, 60000), ZF_OK);
}

static void mutants_of(int32_t format, int mutants) {
  static struct file good;
  static struct file mutant;
  static struct state before;
  static struct state after;
  const char* const path = write_file("");
  zf_runtime* const handle = open_two(format);
  int taken = 0;
  take_step(handle);
  EXPECT(zf_export_state(handle, path), ZF_OK);
  read_into(&good, path);
  take_step(handle);
  keep(handle, &before);
  for (int i = 0; i < mutants; ++i) {
    mutant = good;
    mutate(&mutant, HEADER + 2 * 112);
    write_to(&mutant, path);
    const zf_status status = zf_import_state(handle, path);
    keep(handle, &after);
    if (status == ZF_OK) {
      ++taken;
      CHECK(after.steps[0] <= MOST_STEP && after.steps[1] <= MOST_STEP);
      take_step(handle);
      keep(handle, &before);
      continue;
    }
    CHECK(status == ZF_ERROR_STATE);
    CHECK(zf_last_error()[0] != 0 && strchr(zf_last_error(), '\n') == NULL);
    CHECK(memcmp(&before, &after, sizeof before) == 0);
  }
  printf("format %d: %d of %d mutants were taken\n", (int)format, taken, mutants);
  CHECK(taken > 0 && taken < mutants);
  write_to(&good, path);
  EXPECT(zf_import_state(handle, path), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
}

int main(void) {
  const char* const mutants = getenv("ZF_MUTANTS");
  const char* const seed = getenv("ZF_SEED");
  seed_random(seed == NULL ? 1 : strtoull(seed, NULL, 10));
  mutants_of(ZF_STATE_FP32, mutants == NULL ? 500 : atoi(mutants));
  mutants_of(ZF_STATE_BF16_SPLIT, mutants == NULL ? 500 : atoi(mutants));
  return 0;
}
