/* A state file continues a training, bit for bit, with another number of threads. A damaged file is refused,
 * whatever the damage is, and changes nothing. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "support.h"

enum { GROUPS = 3 };

static const zf_buffer_kind kState[] = {ZF_PARAMS, ZF_MOMENT_1, ZF_MOMENT_2, ZF_MOMENT_1_SET_1,
                                        ZF_MOMENT_2_SET_1};

/* The library's reads of files come here, and the one after `reads_left` more fails, brings another byte, or
 * is the moment at which the optimizer of `killed` dies and gets a successor. */
enum read_fault { READ_WELL, READ_NOT, READ_ANOTHER_BYTE, READ_BESIDE_A_DEATH };
static enum read_fault read_fault = READ_WELL;
static int reads_left = 0;
static int reads = 0;
static zf_runtime* killed = NULL;

static void die_and_have_a_successor(void) {
  zf_stats stats = ZF_STATS_INIT;
  const int64_t deadline = now_ns() + 20000000000;
  CHECK(kill(worker_of(killed), SIGKILL) == 0);
  do {
    EXPECT(zf_get_stats(killed, &stats), ZF_OK);
  } while (stats.restarts == 0 && now_ns() < deadline);
  CHECK(stats.restarts == 1);
}

__attribute__((visibility("default"))) ssize_t pread(int fd, void* bytes, size_t count, off_t offset) {
  const int now = read_fault != READ_WELL && reads_left-- == 0;
  ++reads;
  if (now && read_fault == READ_BESIDE_A_DEATH) die_and_have_a_successor();
  if (now && read_fault == READ_NOT) {
    errno = EIO;
    return -1;
  }
  const ssize_t got = syscall(SYS_pread64, fd, bytes, count, offset);
  if (now && read_fault == READ_ANOTHER_BYTE && got > 0) *(unsigned char*)bytes ^= 1;
  return got;
}

/* The library's fsync of a folder comes here, and fails unless this is set. */
static int folders_sync = 1;

__attribute__((visibility("default"))) int fsync(int fd) {
  struct stat status;
  if (folders_sync || fstat(fd, &status) != 0 || !S_ISDIR(status.st_mode)) return (int)syscall(SYS_fsync, fd);
  errno = EIO;
  return -1;
}

/* The state format of the second group. Its copy is then bf16. */
static int32_t format_of_group_1 = ZF_STATE_FP32;

/* The groups. The second one has that many sets of moments. */
static zf_runtime* open_sets(enum plan_kind kind, const uint64_t* elements, int32_t moment_sets) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group groups[GROUPS];
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(kind, NULL);
  for (int i = 0; i < GROUPS; ++i) {
    const zf_group init = ZF_GROUP_INIT;
    groups[i] = init;
    groups[i].elements = elements[i];
    groups[i].moment_sets = i == 1 ? moment_sets : 1;
    if (i != 1 || format_of_group_1 == ZF_STATE_FP32) continue;
    groups[i].state_format = format_of_group_1;
    groups[i].copy_type = ZF_BF16;
  }
  EXPECT(zf_open(&options, groups, GROUPS, &handle), ZF_OK);
  return handle;
}

static zf_runtime* open_groups(enum plan_kind kind, const uint64_t* elements) {
  return open_sets(kind, elements, 1);
}

static void take_step(zf_runtime* handle, int number) {
  submit_made_step(handle, GROUPS, number);
  EXPECT(zf_wait(handle, 0, -1), ZF_OK);
}

/* Compares them as fp32: with split masters they are in no buffer. */
static int are_equal_params(zf_runtime* a, zf_runtime* b, size_t group) {
  static float values[2][200000];
  size_t bytes = 0;
  buffer_of(a, group, ZF_GRADS_0, &bytes); /* fp32 */
  const uint64_t elements = bytes / sizeof(float);
  EXPECT(zf_read_state(a, group, ZF_PARAMS, 0, elements, values[0]), ZF_OK);
  EXPECT(zf_read_state(b, group, ZF_PARAMS, 0, elements, values[1]), ZF_OK);
  return memcmp(values[0], values[1], bytes) == 0;
}

static int are_equal(zf_runtime* a, zf_runtime* b) {
  int equal = 1;
  for (size_t i = 0; i < GROUPS; ++i) {
    uint64_t steps[2];
    EXPECT(zf_get_step(a, i, &steps[0]), ZF_OK);
    EXPECT(zf_get_step(b, i, &steps[1]), ZF_OK);
    equal = equal && steps[0] == steps[1];
    for (size_t k = 0; k < sizeof kState / sizeof *kState; ++k) {
      size_t bytes = 0;
      void* one = NULL;
      if (kState[k] == ZF_PARAMS) {
        equal = equal && are_equal_params(a, b, i);
        continue;
      }
      if (zf_buffer(a, i, kState[k], &one, &bytes) != ZF_OK) continue; /* there is one set of moments */
      equal = equal && memcmp(one, buffer_of(b, i, kState[k], NULL), bytes) == 0;
    }
  }
  return equal;
}

static void a_training_goes_on_bit_for_bit(int32_t moment_sets) {
  static const uint64_t elements[GROUPS] = {100003, 5000, 0};
  const char* const path = write_file("");
  zf_runtime* const whole = open_sets(PLAN_SPLIT, elements, moment_sets);
  zf_runtime* const before = open_sets(PLAN_SPLIT, elements, moment_sets);
  for (int step = 0; step < 5; ++step) take_step(whole, step);
  for (int step = 0; step < 3; ++step) take_step(before, step);
  CHECK(kill(worker_of(before), SIGKILL) == 0); /* the state outlives the optimizer */
  EXPECT(zf_export_state(before, path), ZF_OK);

  setenv("ZF_ISA", "scalar", 1);
  zf_runtime* const after =
      open_sets(PLAN_SHARED, elements, moment_sets); /* more threads, where there are more CPUs */
  unsetenv("ZF_ISA");
  take_step(after, 99);
  EXPECT(zf_import_state(after, path), ZF_OK);
  CHECK(are_equal(before, after));
  for (int step = 3; step < 5; ++step) take_step(after, step);
  CHECK(are_equal(whole, after));

  uint64_t step = 0;
  EXPECT(zf_get_step(after, 0, &step), ZF_OK);
  CHECK(step == 5);
  EXPECT(zf_close(whole), ZF_OK);
  EXPECT(zf_close(after), ZF_OK);
  const zf_status closed = zf_close(before);
  CHECK(closed == ZF_OK || closed == ZF_WORKER_DIED); /* the dead one may have a successor already */
}

static size_t read_file(const char* path, unsigned char* bytes, size_t room) {
  FILE* const file = fopen(path, "rbe");
  CHECK(file != NULL);
  const size_t size = fread(bytes, 1, room, file);
  CHECK(size < room && fclose(file) == 0);
  return size;
}

static void rewrite(const char* path, const unsigned char* bytes, size_t size) {
  FILE* const file = fopen(path, "wbe");
  CHECK(file != NULL && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

static uint32_t crc32_of(const unsigned char* bytes, size_t size) {
  uint32_t crc = ~UINT32_C(0);
  for (size_t i = 0; i < size; ++i) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (UINT32_C(0xEDB88320) & (0 - (crc & 1)));
  }
  return ~crc;
}

/* The largest number of a step goes into a file and back. */
static void the_last_step_is_kept(void) {
  const char* const path = write_file("");
  zf_runtime* const handle = open_one(PLAN_SPLIT, 40);
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  const zf_scalars scalars = made_scalars(1, UINT64_C(1) << 62);
  uint64_t step = 0;
  args.scalars = &scalars;
  args.scalar_count = 1;
  EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, -1), ZF_OK);
  EXPECT(zf_export_state(handle, path), ZF_OK);
  EXPECT(zf_import_state(handle, path), ZF_OK);
  EXPECT(zf_get_step(handle, 0, &step), ZF_OK);
  CHECK(step == UINT64_C(1) << 62);
  EXPECT(zf_close(handle), ZF_OK);
}

enum { RECORD = 112 }; /* docs/recovery.md */

/* Writes a header that has a right checksum and a table of so many groups, for which the file is too short.
 */
static void forge_table(unsigned char* file, uint64_t size, uint32_t groups) {
  enum { GROUP_COUNT = 12, FILE_BYTES = 16, ARRAYS_OFFSET = 24, HEADER_CRC = 36 };
  const uint64_t arrays_offset = (40 + groups * (uint64_t)RECORD + 4095) / 4096 * 4096;
  memcpy(file + GROUP_COUNT, &groups, sizeof groups);
  memcpy(file + FILE_BYTES, &size, sizeof size);
  memcpy(file + ARRAYS_OFFSET, &arrays_offset, sizeof arrays_offset);
  const uint32_t crc = crc32_of(file, HEADER_CRC);
  memcpy(file + HEADER_CRC, &crc, sizeof crc);
}

/* Places in a file: the step of the first group, and where its parameters lie. */
enum { GROUPS_BEGIN = 40, STEP = GROUPS_BEGIN + 8, OFFSET = GROUPS_BEGIN + 32 };

/* Writes another number to such a place, with right checksums. */
static void forge(unsigned char* file, size_t place, uint64_t number) {
  enum { ARRAYS_OFFSET = 24, GROUPS_CRC = 32, HEADER_CRC = 36 };
  uint64_t arrays_offset = 0;
  memcpy(&arrays_offset, file + ARRAYS_OFFSET, sizeof arrays_offset);
  memcpy(file + place, &number, sizeof number);
  const uint32_t groups_crc = crc32_of(file + GROUPS_BEGIN, arrays_offset - GROUPS_BEGIN);
  memcpy(file + GROUPS_CRC, &groups_crc, sizeof groups_crc);
  const uint32_t crc = crc32_of(file, HEADER_CRC);
  memcpy(file + HEADER_CRC, &crc, sizeof crc);
}

/* A table of other groups is refused before it is read: a sparse file can claim as many as it likes. */
static void a_table_of_a_gigabyte_takes_no_memory(void) {
  static const uint64_t elements[GROUPS] = {40, 1025, 0};
  static unsigned char file[1 << 16];
  const uint64_t size = UINT64_C(1) << 30;
  const uint32_t groups = (uint32_t)((size - 4096) / RECORD);
  const char* const path = write_file("");
  zf_runtime* const handle = open_groups(PLAN_SPLIT, elements);
  struct rusage before, after;
  EXPECT(zf_export_state(handle, path), ZF_OK);
  read_file(path, file, sizeof file);
  forge_table(file, size, groups);
  rewrite(path, file, 4096);
  CHECK(truncate(path, (off_t)size) == 0 && getrusage(RUSAGE_SELF, &before) == 0);
  EXPECT(zf_import_state(handle, path), ZF_ERROR_STATE);
  expect_error("and this optimizer has 3");
  CHECK(getrusage(RUSAGE_SELF, &after) == 0 && after.ru_maxrss < before.ru_maxrss + (64 << 10));
  EXPECT(zf_close(handle), ZF_OK);
}

/* Tries every wrong length, flipped bits everywhere, arrays that are not in the file, and a table that is
 * longer than the file. */
static void damage_is_refused_and_changes_nothing(int32_t moment_sets, const char* last_damage) {
  static const uint64_t elements[GROUPS] = {40, 1025, 0};
  static unsigned char good[1 << 16];
  static unsigned char bad[1 << 16];
  const char* const path = write_file("");
  zf_runtime* const handle = open_sets(PLAN_SPLIT, elements, moment_sets);
  zf_runtime* const untouched = open_sets(PLAN_SPLIT, elements, moment_sets);
  take_step(handle, 1);
  EXPECT(zf_export_state(handle, path), ZF_OK);
  take_step(handle, 2);
  for (int step = 1; step <= 2; ++step) take_step(untouched, step);

  const size_t size = read_file(path, good, sizeof good);
  CHECK(size % 4096 == 0);
  memcpy(bad, good, size);
  for (size_t length = 0; length < size; length += length < 600 ? 1 : 101) {
    rewrite(path, good, length);
    EXPECT(zf_import_state(handle, path), ZF_ERROR_STATE);
  }
  expect_error("is truncated: ");
  rewrite(path, good, size + 1);
  EXPECT(zf_import_state(handle, path), ZF_ERROR_STATE);
  expect_error("is too long");
  for (size_t at = 0; at < size; at += at < 600 ? 1 : 61) {
    bad[at] ^= (unsigned char)(1u << random_below(8));
    rewrite(path, bad, size);
    EXPECT(zf_import_state(handle, path), ZF_ERROR_STATE);
    bad[at] = good[at];
  }
  expect_error(last_damage);
  const uint64_t beyond[] = {size, size - 1, UINT64_C(1) << 63, ~UINT64_C(0) - 4095};
  for (size_t i = 0; i < sizeof beyond / sizeof *beyond; ++i) {
    forge(bad, OFFSET, beyond[i]);
    rewrite(path, bad, size);
    EXPECT(zf_import_state(handle, path), ZF_ERROR_STATE);
    expect_error("the parameters of group 0 lie beyond its end");
  }
  memcpy(bad, good, size);
  forge(bad, STEP, UINT64_C(1) << 63);
  rewrite(path, bad, size);
  EXPECT(zf_import_state(handle, path), ZF_ERROR_STATE);
  expect_error("group 0 is at step 9223372036854775808, more than 4611686018427387904");
  memcpy(bad, good, size);
  forge_table(bad, size, 1000 * 1000 * 1000);
  rewrite(path, bad, size);
  EXPECT(zf_import_state(handle, path), ZF_ERROR_STATE);
  expect_error("fewer than the table of 1000000000 groups");
  CHECK(are_equal(handle, untouched));
  rewrite(path, good, size);
  EXPECT(zf_import_state(handle, path), ZF_OK);
  CHECK(!are_equal(handle, untouched));
  take_step(handle, 2);
  CHECK(are_equal(handle, untouched));

  EXPECT(zf_close(handle), ZF_OK);
  EXPECT(zf_close(untouched), ZF_OK);
}

/* Whichever read of the file fails or brings another byte, the import says so. If buffers are overwritten
 * already, it says that too, and a whole file mends them. */
static void failing_reads_are_told(enum read_fault fault, zf_status status, const char* why) {
  static const uint64_t elements[GROUPS] = {40, 1025, 0};
  const char* const path = write_file("");
  zf_runtime* const handle = open_groups(PLAN_SPLIT, elements);
  zf_runtime* const untouched = open_groups(PLAN_SPLIT, elements);
  zf_runtime* const imported = open_groups(PLAN_SPLIT, elements);
  take_step(handle, 1);
  EXPECT(zf_export_state(handle, path), ZF_OK);
  EXPECT(zf_import_state(imported, path), ZF_OK);
  take_step(handle, 2);
  for (int step = 1; step <= 2; ++step) take_step(untouched, step);

  int unchanged = 0;
  int torn = 0;
  for (int before = 0;; ++before) {
    reads_left = before;
    read_fault = fault;
    const zf_status got = zf_import_state(handle, path);
    read_fault = READ_WELL;
    if (reads_left >= 0) { /* there were no more reads than that */
      EXPECT(got, ZF_OK);
      break;
    }
    EXPECT(got, status);
    expect_error(path);
    expect_error(why);
    if (strstr(zf_last_error(), "may be partly overwritten: import a whole file") == NULL) {
      CHECK(are_equal(handle, untouched) && torn == 0);
      ++unchanged;
    } else {
      ++torn;
    }
  }
  CHECK(unchanged >= 2 && torn >= 2 && are_equal(handle, imported));
  EXPECT(zf_close(handle), ZF_OK);
  EXPECT(zf_close(untouched), ZF_OK);
  EXPECT(zf_close(imported), ZF_OK);
}

/* The death is noticed while the import goes on, and neither disturbs the other. */
static void an_optimizer_that_dies_during_an_import_is_no_loss(void) {
  static const uint64_t elements[GROUPS] = {100003, 5000, 0};
  const char* const path = write_file("");
  zf_runtime* const whole = open_groups(PLAN_SPLIT, elements);
  zf_runtime* const imported = open_groups(PLAN_SPLIT, elements);
  take_step(whole, 0);
  EXPECT(zf_export_state(whole, path), ZF_OK);
  reads = 0;
  EXPECT(zf_import_state(imported, path), ZF_OK);
  for (int step = 5; step < 8; ++step)
    take_step(imported, step); /* other values, which the second import replaces */
  killed = imported;
  reads_left = reads - 3; /* of the last arrays, which are loaded then */
  read_fault = READ_BESIDE_A_DEATH;
  EXPECT(zf_import_state(imported, path), ZF_OK);
  CHECK(read_fault == READ_BESIDE_A_DEATH && reads_left < 0);
  read_fault = READ_WELL;
  CHECK(are_equal(whole, imported));
  for (int step = 1; step < 3; ++step) {
    take_step(whole, step);
    take_step(imported, step);
  }
  CHECK(are_equal(whole, imported));
  EXPECT(zf_close(whole), ZF_OK);
  EXPECT(zf_close(imported), ZF_OK);
}

/* A file says how many sets of moments each group has. */
static void the_sets_of_moments_must_be_the_same(void) {
  static const uint64_t elements[GROUPS] = {40, 30, 0};
  static unsigned char bytes[1 << 16];
  const char* const path = write_file("");
  zf_runtime* const one = open_sets(PLAN_SPLIT, elements, 1);
  zf_runtime* const two = open_sets(PLAN_SPLIT, elements, 2);
  EXPECT(zf_export_state(one, path), ZF_OK);
  CHECK(read_file(path, bytes, sizeof bytes) == (size_t)4096 * (1 + 3 + 3));
  EXPECT(zf_import_state(two, path), ZF_ERROR_STATE);
  expect_error("group 1 has 1 set of moments, and 2 in this optimizer; open the groups that");
  EXPECT(zf_export_state(two, path), ZF_OK);
  CHECK(read_file(path, bytes, sizeof bytes) == (size_t)4096 * (1 + 3 + 5));
  EXPECT(zf_import_state(one, path), ZF_ERROR_STATE);
  expect_error("group 1 has 2 sets of moments, and 1 in this optimizer; open the groups that");
  EXPECT(zf_close(one), ZF_OK);
  EXPECT(zf_close(two), ZF_OK);
}

static void what_does_not_fit_is_refused(void) {
  static const uint64_t elements[GROUPS] = {40, 30, 0};
  static const uint64_t others[GROUPS] = {40, 31, 0};
  static unsigned char bytes[1 << 16];
  const char* const path = write_file("");
  zf_runtime* const handle = open_groups(PLAN_SPLIT, elements);
  zf_runtime* const other = open_groups(PLAN_SPLIT, others);
  zf_runtime* const one = open_one(PLAN_SPLIT, 40);
  EXPECT(zf_export_state(handle, path), ZF_OK);
  EXPECT(zf_import_state(other, path), ZF_ERROR_STATE);
  expect_error("group 1 has 30 elements, and 31 in this optimizer");
  EXPECT(zf_import_state(one, path), ZF_ERROR_STATE);
  expect_error("has 3 groups, and this optimizer has 1");
  const size_t size = read_file(path, bytes, sizeof bytes);
  CHECK(bytes[8] == 1);
  bytes[8] = 2;
  rewrite(path, bytes, size);
  EXPECT(zf_import_state(handle, path), ZF_ERROR_STATE);
  expect_error("has state version 2; this library");
  expect_error("reads version 1; read it with the release that wrote it");
  EXPECT(zf_import_state(handle, write_file("{ \"schema\": \"zf-plan/1\" }")), ZF_ERROR_STATE);
  expect_error("is not a state file");
  EXPECT(zf_import_state(handle, "/nowhere/state"), ZF_ERROR_USAGE);
  expect_error("/nowhere/state: No such file");
  EXPECT(zf_import_state(handle, "/dev/zero"), ZF_ERROR_USAGE);
  EXPECT(zf_export_state(handle, "/nowhere/state"), ZF_ERROR_SYSTEM);
  expect_error("cannot write /nowhere/state");
  EXPECT(zf_export_state(handle, NULL), ZF_ERROR_USAGE);

  CHECK(kill(worker_of(handle), SIGSTOP) == 0);
  EXPECT(submit_all(handle, NULL), ZF_OK);
  uint64_t step = 0;
  EXPECT(zf_export_state(handle, path), ZF_ERROR_BUSY);
  expect_error("submitted work is not done yet; call zf_wait first");
  EXPECT(zf_import_state(handle, path), ZF_ERROR_BUSY);
  EXPECT(zf_get_step(handle, 0, &step), ZF_ERROR_BUSY);
  CHECK(kill(worker_of(handle), SIGCONT) == 0);
  EXPECT(zf_close(handle), ZF_OK);
  EXPECT(zf_close(other), ZF_OK);
  EXPECT(zf_close(one), ZF_OK);
}

static void a_file_that_is_written_again_keeps_its_mode(void) {
  struct stat status;
  const char* const path = write_file("");
  zf_runtime* const handle = open_one(PLAN_SPLIT, 40);
  CHECK(chmod(path, 0600) == 0);
  EXPECT(zf_export_state(handle, path), ZF_OK);
  CHECK(stat(path, &status) == 0 && (status.st_mode & 07777) == 0600);
  CHECK(chmod(path, 0640) == 0);
  EXPECT(zf_export_state(handle, path), ZF_OK);
  CHECK(stat(path, &status) == 0 && (status.st_mode & 07777) == 0640);
  EXPECT(zf_close(handle), ZF_OK);
}

/* Checks that this text is behind zf_last_error. */
static void last_error_has(const char* text) {
  if (strstr(zf_last_error(), text) == NULL) {
    fprintf(stderr, "no \"%s\" in: %s\n", text, zf_last_error());
    exit(1);
  }
}

/* All lie in a folder of this test: a mistake must not replace what the machine has. */
static void what_is_no_regular_file_is_refused(void) {
  enum { NAMES = 5 };
  const char* const names[NAMES] = {"open", "folder", "fifo", "to_fifo", "device"};
  char folder[] = "/tmp/zf-state-XXXXXX";
  char text[32];
  int file;
  zf_runtime* const handle = open_one(PLAN_SPLIT, 40);
  CHECK(mkdtemp(folder) != NULL);
  CHECK(chdir(folder) == 0);
  CHECK(mkfifo("fifo", 0600) == 0 && mkdir("folder", 0700) == 0 && symlink("fifo", "to_fifo") == 0);
  file = open("file", O_RDWR | O_CREAT | O_CLOEXEC, 0600); /* as /dev/stdout is one after >file */
  snprintf(text, sizeof text, "/proc/self/fd/%d", file);
  CHECK(file >= 0 && symlink(text, "open") == 0);
  (void)!mknod("device", S_IFCHR | 0600, makedev(1, 3)); /* only root may */
  for (int i = 0; i < NAMES; ++i) {
    struct stat before;
    struct stat after;
    if (lstat(names[i], &before) != 0) continue;
    EXPECT(zf_export_state(handle, names[i]), ZF_ERROR_SYSTEM);
    last_error_has(i == 1   ? "this is a folder"
                   : i == 0 ? "this is an open file of a process"
                            : "this is not a regular file");
    CHECK(lstat(names[i], &after) == 0 && after.st_ino == before.st_ino && after.st_mode == before.st_mode);
  }
  for (int i = 0; i < NAMES; ++i) (void)!remove(names[i]);
  CHECK(close(file) == 0 && remove("file") == 0);
  CHECK(chdir("/") == 0 && rmdir(folder) == 0);
  EXPECT(zf_close(handle), ZF_OK);
}

static void a_folder_that_cannot_be_synced_does_not_undo_the_export(void) {
  const char* const path = write_file("");
  zf_runtime* const handle = open_one(PLAN_SPLIT, 40);
  folders_sync = 0;
  EXPECT(zf_export_state(handle, path), ZF_ERROR_SYSTEM);
  folders_sync = 1;
  last_error_has("is written, but its folder cannot be synced");
  EXPECT(zf_import_state(handle, path), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
}

int main(void) {
  const size_t descriptors = count_descriptors();
  a_training_goes_on_bit_for_bit(1);
  a_training_goes_on_bit_for_bit(2);
  the_last_step_is_kept();
  a_table_of_a_gigabyte_takes_no_memory();
  damage_is_refused_and_changes_nothing(1, "the second moments of group 1 are damaged");
  damage_is_refused_and_changes_nothing(2, "the second moments (set 1) of group 1 are damaged");
  for (format_of_group_1 = ZF_STATE_BF16; format_of_group_1 <= ZF_STATE_BF16_SPLIT; ++format_of_group_1) {
    a_training_goes_on_bit_for_bit(1);
  }
  format_of_group_1 = ZF_STATE_BF16_SPLIT;
  failing_reads_are_told(READ_ANOTHER_BYTE, ZF_ERROR_STATE, "");
  format_of_group_1 = ZF_STATE_FP32;
  an_optimizer_that_dies_during_an_import_is_no_loss();
  failing_reads_are_told(READ_NOT, ZF_ERROR_SYSTEM, ": Input/output error; check the file system");
  failing_reads_are_told(READ_ANOTHER_BYTE, ZF_ERROR_STATE, "");
  the_sets_of_moments_must_be_the_same();
  what_does_not_fit_is_refused();
  a_file_that_is_written_again_keeps_its_mode();
  what_is_no_regular_file_is_refused();
  a_folder_that_cannot_be_synced_does_not_undo_the_export();
  CHECK(count_descriptors() == descriptors && count_children() == 0);
  return 0;
}
