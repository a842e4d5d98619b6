/* An export beside the training has the state of one moment between two steps, whatever is stepped and killed
 * meanwhile: its bytes are those of a zf_export_state of that moment.
 * ZF_KILLS: how many kills of the optimizer for each state format, and of the trainer (default 8). ZF_SEED:
 * another sequence of random choices. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { GROUPS = 4, MOST_BYTES = 8 << 20, MEMORY_STEPS = 6 };

static const uint64_t kElements[GROUPS] = {200003, 5000, 0, 70001};

static int32_t export_room = 0; /* of what is opened */

static zf_runtime* open_in(enum plan_kind kind, int32_t format, int close_timeout_ms) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group groups[GROUPS];
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(kind, NULL);
  options.max_restarts = 1000000;
  if (close_timeout_ms != 0) options.close_timeout_ms = close_timeout_ms;
  options.chunk_bytes = 65536;
  options.export_room = export_room;
  for (int i = 0; i < GROUPS; ++i) {
    const zf_group init = ZF_GROUP_INIT;
    groups[i] = init;
    groups[i].elements = kElements[i];
    groups[i].state_format = format;
    groups[i].copy_type = ZF_BF16;
    groups[i].moment_sets = i == 1 && format == ZF_STATE_FP32 ? 2 : 1;
    groups[i].speculative = i == 0 && format == ZF_STATE_FP32;
  }
  EXPECT(zf_open(&options, groups, GROUPS, &handle), ZF_OK);
  return handle;
}

static zf_runtime* open_groups(enum plan_kind kind, int32_t format) { return open_in(kind, format, 0); }

static void submit_step(zf_runtime* handle, int number) { submit_made_step(handle, GROUPS, number); }

/* A file's bytes. */
struct file {
  unsigned char bytes[MOST_BYTES];
  size_t size;
};

static void read_file(const char* path, struct file* file) {
  FILE* const opened = fopen(path, "rbe");
  CHECK(opened != NULL);
  file->size = fread(file->bytes, 1, MOST_BYTES, opened);
  CHECK(file->size < MOST_BYTES && fclose(opened) == 0);
}

static int are_equal(const struct file* a, const struct file* b) {
  return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

/* Returns the 512-byte blocks that this process's arenas take. While an optimizer is started, an arena has
 * two descriptors. */
static long arena_blocks(void) {
  ino_t counted[8] = {0};
  size_t count = 0, at = 0;
  long blocks = 0;
  for (int fd = 3; fd < 256; ++fd) {
    char link[64] = "", target[64] = "";
    struct stat status;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, target, sizeof target - 1) < 0 || strncmp(target, "/memfd:zf-arena", 15) != 0)
      continue;
    /* By its name: for ThreadSanitizer, fstat() would race with a thread that closes what it has opened. */
    if (stat(link, &status) != 0) continue; /* that one has ended */
    for (at = 0; at < count && counted[at] != status.st_ino; ++at) {
    }
    if (at < count) continue;
    CHECK(count < 8);
    counted[count++] = status.st_ino;
    blocks += (long)status.st_blocks;
  }
  return blocks;
}

static struct file expected, found;

/* The library's writes to a file come here. They take so many microseconds, or fail. */
static atomic_int writes_take_us = 0, writes_fail = 0, writes_wait = 0;

__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  if (writes_take_us != 0) usleep((useconds_t)writes_take_us);
  while (writes_wait) usleep(1000);
  if (writes_fail) {
    errno = ENOSPC;
    return -1;
  }
  return syscall(SYS_pwrite64, fd, bytes, count, offset);
}

static void kill_optimizer(zf_runtime* handle) {
  zf_stats stats = ZF_STATS_INIT;
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  if (stats.worker_alive) CHECK(kill((pid_t)stats.worker_pid, SIGKILL) == 0 || errno == ESRCH);
}

/* Exports while a step before and a step after it are under way. room: that of the copy, in MiB; NULL: all of
 * it. */
static void the_file_has_the_moment_of_its_begin(int32_t format, int kills, const char* room) {
  if (room != NULL) CHECK(setenv("ZF_EXPORT_MIB", room, 1) == 0);
  const char* const path = write_file("");
  const char* const calm_path = write_file("");
  zf_runtime* const calm = open_groups(PLAN_SPLIT, format);
  zf_runtime* const hunted = open_groups(PLAN_SHARED, format);
  const long blocks = arena_blocks();
  int step = 0;
  for (int round = 0; round < 2 + kills; ++round, step += 2) {
    submit_step(calm, step);
    EXPECT(zf_wait(calm, 0, -1), ZF_OK);
    EXPECT(zf_export_state(calm, calm_path), ZF_OK);
    submit_step(calm, step + 1);
    EXPECT(zf_wait(calm, 0, -1), ZF_OK);

    submit_step(hunted, step);
    EXPECT(zf_export_begin(hunted, path), ZF_OK);
    if (round >= 2 && random_below(2) == 0) kill_optimizer(hunted);
    submit_step(hunted, step + 1);
    usleep((useconds_t)random_below(3000));
    if (round >= 2) kill_optimizer(hunted);
    EXPECT(zf_wait(hunted, 0, -1), ZF_OK);
    EXPECT(zf_export_wait(hunted, -1), ZF_OK);
    read_file(path, &found);
    read_file(calm_path, &expected);
    CHECK(are_equal(&found, &expected));
  }
  const long taken = arena_blocks() - blocks;
  CHECK(taken <= (room != NULL ? 2 << 20 : MOST_BYTES) / 512);
  EXPECT(zf_export_begin(hunted, path), ZF_OK);
  EXPECT(zf_export_wait(hunted, -1), ZF_OK);
  CHECK(arena_blocks() - blocks == taken);   /* it has used the memory of those before */
  EXPECT(zf_export_wait(hunted, -1), ZF_OK); /* there is none */
  EXPECT(zf_export_state(calm, calm_path), ZF_OK);
  EXPECT(zf_export_state(hunted, path), ZF_OK); /* no step was disturbed */
  read_file(path, &found);
  read_file(calm_path, &expected);
  CHECK(are_equal(&found, &expected));
  zf_stats stats = ZF_STATS_INIT;
  EXPECT(zf_get_stats(hunted, &stats), ZF_OK);
  printf("format %d, room %s: %d exports, %u restarts\n", (int)format, room != NULL ? room : "for all",
         2 + kills, stats.restarts);
  CHECK((int)stats.restarts >= kills / 2);
  EXPECT(zf_close(calm), ZF_OK);
  const zf_status closed = zf_close(hunted);
  CHECK(closed == ZF_OK || closed == ZF_WORKER_DIED);
  CHECK(unsetenv("ZF_EXPORT_MIB") == 0);
}

/* Returns how many temporary files of exports to a path there are. */
static size_t count_temporary(const char* path) {
  char pattern[256];
  glob_t found_files;
  const char* const name = strrchr(path, '/') + 1;
  CHECK(snprintf(pattern, sizeof pattern, "%.*s.%s*", (int)(name - path), path, name) < (int)sizeof pattern);
  const int result = glob(pattern, 0, NULL, &found_files);
  CHECK(result == 0 || result == GLOB_NOMATCH);
  const size_t count = result == 0 ? found_files.gl_pathc : 0;
  globfree(&found_files);
  return count;
}

/* A trainer that is killed leaves the whole file of one of its exports. The next one leaves no other file. */
static void a_killed_trainer_leaves_a_whole_file(int kills) {
  static struct file files[MEMORY_STEPS];
  const char* const path = write_file("");
  zf_runtime* const calm = open_groups(PLAN_SPLIT, ZF_STATE_FP32);
  for (int step = 0; step < MEMORY_STEPS; ++step) {
    submit_step(calm, step);
    EXPECT(zf_wait(calm, 0, -1), ZF_OK);
    EXPECT(zf_export_state(calm, path), ZF_OK);
    read_file(path, &files[step]);
  }
  EXPECT(zf_close(calm), ZF_OK);
  int seen[MEMORY_STEPS] = {0};
  for (int round = 0; round < kills; ++round) {
    int ready[2];
    char byte = 0;
    CHECK(pipe(ready) == 0);
    CHECK(round % 2 == 0 ? unsetenv("ZF_EXPORT_MIB") == 0 : setenv("ZF_EXPORT_MIB", "2", 1) == 0);
    const pid_t trainer = fork();
    CHECK(trainer >= 0);
    if (trainer == 0) {
      zf_runtime* const handle = open_groups(PLAN_SPLIT, ZF_STATE_FP32);
      for (int step = 0; step < MEMORY_STEPS; ++step) {
        submit_step(handle, step);
        EXPECT(zf_export_begin(handle, path), ZF_OK);
        if (step == 0) CHECK(count_temporary(path) <= 1);
        if (step == 0) CHECK(write(ready[1], "x", 1) == 1);
        EXPECT(zf_wait(handle, 0, -1), ZF_OK);
        EXPECT(zf_export_wait(handle, -1), ZF_OK);
      }
      _exit(zf_close(handle) == ZF_OK ? 0 : 1);
    }
    CHECK(close(ready[1]) == 0 && read(ready[0], &byte, 1) == 1 && close(ready[0]) == 0);
    usleep((useconds_t)random_below(40000));
    CHECK(kill(trainer, SIGKILL) == 0);
    CHECK(waitpid(trainer, NULL, 0) == trainer);
    read_file(path, &found);
    int which = 0;
    while (which < MEMORY_STEPS && !are_equal(&found, &files[which])) ++which;
    CHECK(which < MEMORY_STEPS);
    ++seen[which];
  }
  CHECK(unsetenv("ZF_EXPORT_MIB") == 0);
  zf_runtime* const last = open_groups(PLAN_SPLIT, ZF_STATE_FP32);
  EXPECT(zf_export_begin(last, path), ZF_OK);
  EXPECT(zf_export_wait(last, -1), ZF_OK);
  EXPECT(zf_close(last), ZF_OK);
  CHECK(count_temporary(path) == 0);
  printf("%d kills of the trainer; files of step", kills);
  for (int step = 0; step < MEMORY_STEPS; ++step) printf(" %d: %d", step + 1, seen[step]);
  printf("\n");
}

static void what_cannot_begin_is_refused(void) {
  const char* const path = write_file("old");
  zf_runtime* const handle = open_groups(PLAN_SPLIT, ZF_STATE_FP32);
  EXPECT(zf_export_begin(handle, NULL), ZF_ERROR_USAGE);
  EXPECT(zf_export_begin(handle, "/nowhere/at/all"), ZF_ERROR_SYSTEM);
  expect_error("/nowhere/at/all");
  const uint32_t first = 0;
  const zf_scalars scalars = made_scalars(0, 1);
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  args.groups = &first;
  args.n_groups = 1;
  args.scalars = &scalars;
  args.scalar_count = 1;
  args.work = ZF_SPECULATE;
  EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
  EXPECT(zf_export_begin(handle, path), ZF_ERROR_BUSY);
  expect_error("group 0 has a speculated step that is not decided");
  args.work = 4; /* the library's own */
  EXPECT(zf_submit(handle, &args, NULL), ZF_ERROR_USAGE);
  EXPECT(zf_export_wait(handle, 0), ZF_OK);
  EXPECT(zf_end(handle), ZF_OK);
  EXPECT(zf_export_begin(handle, path), ZF_ERROR_USAGE);
  EXPECT(zf_close(handle), ZF_OK);
  read_file(path, &found);
  CHECK(found.size == 3);
}

/* The memory for the copy is got at zf_open, if that is wanted, and is what an export uses. */
static void the_room_is_there_from_the_open_on(const char* room) {
  if (room != NULL) CHECK(setenv("ZF_EXPORT_MIB", room, 1) == 0);
  const char* const path = write_file("");
  const long none = arena_blocks();
  zf_runtime* handle = open_groups(PLAN_SPLIT, ZF_STATE_FP32);
  const long without = arena_blocks() - none;
  EXPECT(zf_export_begin(handle, path), ZF_OK);
  EXPECT(zf_export_wait(handle, -1), ZF_OK);
  const long behind = arena_blocks() - none;
  EXPECT(zf_close(handle), ZF_OK);
  export_room = 1;
  const long before = arena_blocks();
  handle = open_groups(PLAN_SPLIT, ZF_STATE_FP32);
  export_room = 0;
  const long with = arena_blocks() - before;
  CHECK(with >= without + 2 * 2048 && with >= behind);
  kill_optimizer(handle);
  submit_step(handle, 0);
  EXPECT(zf_export_begin(handle, path), ZF_OK);
  EXPECT(zf_export_wait(handle, -1), ZF_OK);
  CHECK(arena_blocks() - before == with);
  writes_fail = 1; /* a file that fails takes none of it */
  EXPECT(zf_export_begin(handle, path), ZF_OK);
  EXPECT(zf_export_wait(handle, -1), ZF_ERROR_SYSTEM);
  writes_fail = 0;
  CHECK(arena_blocks() - before == with);
  EXPECT(zf_export_begin(handle, path), ZF_OK);
  EXPECT(zf_export_wait(handle, -1), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
  CHECK(unsetenv("ZF_EXPORT_MIB") == 0);

  zf_options options = ZF_OPTIONS_INIT;
  const zf_group group = ZF_GROUP_INIT;
  options.export_room = 2;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_ERROR_USAGE);
  expect_error("export_room is 2");
}

/* A step that comes before the copy is made copies what it overwrites, in one go; not where room is short. */
static void a_step_copies_what_it_overwrites(int32_t format, const char* room) {
  if (room != NULL) CHECK(setenv("ZF_EXPORT_MIB", room, 1) == 0);
  const char* const path = write_file("");
  const char* const expected_path = write_file("");
  zf_runtime* const handle = open_groups(PLAN_SPLIT, format);
  for (int step = 0; step < 4; step += 2) {
    zf_stats before = ZF_STATS_INIT, after = ZF_STATS_INIT;
    submit_step(handle, step);
    EXPECT(zf_wait(handle, 0, -1), ZF_OK);
    EXPECT(zf_export_state(handle, expected_path), ZF_OK);
    EXPECT(zf_get_stats(handle, &before), ZF_OK);
    const pid_t worker = worker_of(handle);
    CHECK(kill(worker, SIGSTOP) == 0);
    EXPECT(zf_export_begin(handle, path), ZF_OK);
    submit_step(handle, step + 1);
    CHECK(kill(worker, SIGCONT) == 0);
    EXPECT(zf_wait(handle, 0, -1), ZF_OK);
    EXPECT(zf_export_wait(handle, -1), ZF_OK);
    EXPECT(zf_get_stats(handle, &after), ZF_OK);
    CHECK(after.batches - before.batches == (room == NULL ? 1 : 2));
    read_file(path, &found);
    read_file(expected_path, &expected);
    CHECK(are_equal(&found, &expected));
  }
  EXPECT(zf_close(handle), ZF_OK);
  CHECK(unsetenv("ZF_EXPORT_MIB") == 0);
}

/* Until the copy is made, it is read, and not written. */
static void what_is_copied_can_be_read(void) {
  const char* const path = write_file("");
  zf_runtime* const handle = open_one(PLAN_SPLIT, 5000);
  const pid_t worker = worker_of(handle);
  uint64_t step = 1;
  float value = 1.0f;
  CHECK(kill(worker, SIGSTOP) == 0);
  EXPECT(zf_export_begin(handle, path), ZF_OK);
  EXPECT(zf_get_step(handle, 0, &step), ZF_OK);
  CHECK(step == 0);
  EXPECT(zf_read_state(handle, 0, ZF_PARAMS, 0, 1, &value), ZF_OK);
  EXPECT(zf_write_state(handle, 0, ZF_PARAMS, 0, 1, &value), ZF_ERROR_BUSY);
  expect_error("submitted work still reads parameters, moments or gradients; call zf_wait first");
  EXPECT(zf_export_state(handle, path), ZF_OK);
  EXPECT(zf_import_state(handle, path), ZF_ERROR_BUSY);
  CHECK(kill(worker, SIGCONT) == 0);
  EXPECT(zf_export_wait(handle, -1), ZF_OK);
  EXPECT(zf_write_state(handle, 0, ZF_PARAMS, 0, 1, &value), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
}

/* A copy that the program writes itself is that of one moment, with whole masters. */
static void a_held_copy_has_the_moment_of_its_begin(int32_t format) {
  static float now[200003];
  zf_runtime* const handle = open_groups(PLAN_SPLIT, format);
  const int has_bf16_moments = format == ZF_STATE_BF16 || format == ZF_STATE_BF16_SPLIT;
  void* saved = NULL;
  size_t bytes = 0;
  EXPECT(zf_save_wait(handle, 0), ZF_ERROR_USAGE);
  expect_error("no copy of the state is held");
  EXPECT(zf_saved(handle, 0, ZF_PARAMS, &saved, &bytes), ZF_ERROR_USAGE);
  EXPECT(zf_save_end(handle), ZF_OK);
  for (int step = 0; step < 4; step += 2) {
    submit_step(handle, step);
    EXPECT(zf_wait(handle, 0, -1), ZF_OK);
    EXPECT(zf_read_state(handle, 0, ZF_PARAMS, 0, kElements[0], now), ZF_OK);
    EXPECT(zf_save_begin(handle), ZF_OK);
    submit_step(handle, step + 1);
    EXPECT(zf_save_begin(handle), ZF_ERROR_BUSY);
    EXPECT(zf_export_begin(handle, "/tmp/never"), ZF_ERROR_BUSY);
    expect_error("a copy of the state is held");
    EXPECT(zf_save_wait(handle, -1), ZF_OK);
    EXPECT(zf_wait(handle, 0, -1), ZF_OK);
    EXPECT(zf_saved(handle, 0, ZF_GRADS_0, &saved, &bytes), ZF_ERROR_USAGE);
    EXPECT(zf_saved(handle, 0, ZF_MOMENT_2, &saved, &bytes), ZF_OK);
    CHECK(bytes == kElements[0] * (has_bf16_moments ? 2 : 4));
    EXPECT(zf_saved(handle, 0, ZF_PARAMS, &saved, &bytes), ZF_OK);
    CHECK(bytes == sizeof now && memcmp(saved, now, bytes) == 0);
    EXPECT(zf_save_end(handle), ZF_OK);
  }
  EXPECT(zf_save_begin(handle), ZF_OK);
  EXPECT(zf_end(handle), ZF_OK);
  EXPECT(zf_save_wait(handle, -1), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
}

/* An optimizer that does not answer holds up no zf_save_end, and what it has written of the copy is freed
 * later. */
static void the_end_of_a_held_copy_has_a_deadline(void) {
  zf_runtime* const handle = open_in(PLAN_SPLIT, ZF_STATE_FP32, 200);
  const pid_t worker = worker_of(handle);
  void* saved = NULL;
  size_t bytes = 0;
  CHECK(kill(worker, SIGSTOP) == 0);
  EXPECT(zf_save_begin(handle), ZF_OK);
  EXPECT(zf_save_end(handle), ZF_TIMEOUT);
  EXPECT(zf_save_end(handle), ZF_TIMEOUT);
  EXPECT(zf_save_wait(handle, 0), ZF_ERROR_USAGE);
  expect_error("no copy of the state is held");
  EXPECT(zf_saved(handle, 0, ZF_PARAMS, &saved, &bytes), ZF_ERROR_USAGE);
  EXPECT(zf_save_begin(handle), ZF_ERROR_BUSY);
  expect_error("the optimizer has not stopped copying the state, which zf_save_end has given up");
  CHECK(kill(worker, SIGCONT) == 0);
  EXPECT(zf_wait(handle, 0, -1), ZF_OK);
  EXPECT(zf_save_begin(handle), ZF_OK); /* without another zf_save_end */
  EXPECT(zf_save_wait(handle, -1), ZF_OK);
  EXPECT(zf_save_end(handle), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
}

/* Less room than the copy needs: a step waits for the file, also for one that cannot be written. */
static void a_step_waits_for_the_file_where_room_is_short(void) {
  const char* const path = write_file("old");
  zf_runtime* const handle = open_groups(PLAN_SPLIT, ZF_STATE_FP32);
  CHECK(setenv("ZF_EXPORT_MIB", "2", 1) == 0);
  EXPECT(zf_save_begin(handle), ZF_ERROR_SYSTEM);
  expect_error("a copy of the state needs 3.");
  writes_wait = 1;
  EXPECT(zf_export_begin(handle, path), ZF_OK);
  submit_step(handle, 0);
  EXPECT(zf_wait(handle, 0, 50), ZF_TIMEOUT);
  writes_wait = 0;
  EXPECT(zf_wait(handle, 0, -1), ZF_OK);
  EXPECT(zf_export_wait(handle, -1), ZF_OK);
  writes_fail = 1;
  EXPECT(zf_export_begin(handle, path), ZF_OK);
  submit_step(handle, 1);
  EXPECT(zf_wait(handle, 0, -1), ZF_OK);
  EXPECT(zf_export_wait(handle, -1), ZF_ERROR_SYSTEM);
  expect_error("No space left on device");
  writes_fail = 0;
  CHECK(setenv("ZF_EXPORT_MIB", "1", 1) == 0);
  EXPECT(zf_export_begin(handle, path), ZF_ERROR_USAGE);
  expect_error("ZF_EXPORT_MIB");
  CHECK(unsetenv("ZF_EXPORT_MIB") == 0);
  EXPECT(zf_close(handle), ZF_OK);
}

/* A file that is written too slowly is given up, and not the step that waits for it. */
static void a_close_finishes_a_step_that_waits_for_the_file(void) {
  const char* const path = write_file("old");
  zf_runtime* const handle = open_in(PLAN_SPLIT, ZF_STATE_FP32, 1500);
  CHECK(setenv("ZF_EXPORT_MIB", "2", 1) == 0);
  writes_take_us = 500000;
  EXPECT(zf_export_begin(handle, path), ZF_OK);
  submit_step(handle, 0);
  EXPECT(zf_end(handle), ZF_OK);
  EXPECT(zf_export_wait(handle, -1), ZF_TIMEOUT);
  expect_error("was given up");
  uint64_t step = 0;
  EXPECT(zf_get_step(handle, 0, &step), ZF_OK);
  CHECK(step == 1);
  EXPECT(zf_close(handle), ZF_OK);
  writes_take_us = 0;
  CHECK(unsetenv("ZF_EXPORT_MIB") == 0);
  read_file(path, &found);
  CHECK(found.size == 3);
}

static void an_export_of_nothing_has_a_file(void) {
  const char* const path = write_file("old");
  zf_runtime* const handle = open_one(PLAN_SPLIT, 0);
  EXPECT(zf_export_begin(handle, path), ZF_OK);
  EXPECT(zf_export_wait(handle, -1), ZF_OK);
  read_file(path, &found);
  EXPECT(zf_export_state(handle, path), ZF_OK);
  read_file(path, &expected);
  CHECK(found.size > 3 && are_equal(&found, &expected));
  EXPECT(zf_close(handle), ZF_OK);
}

/* The end of the optimizer makes the copy; the file is written after it. */
static void an_export_goes_on_behind_the_end(void) {
  const char* const path = write_file("");
  zf_runtime* const handle = open_groups(PLAN_SPLIT, ZF_STATE_FP32);
  submit_step(handle, 0);
  EXPECT(zf_export_begin(handle, path), ZF_OK);
  EXPECT(zf_end(handle), ZF_OK);
  EXPECT(zf_export_wait(handle, -1), ZF_OK);
  read_file(path, &found);
  EXPECT(zf_export_state(handle, path), ZF_OK);
  read_file(path, &expected);
  CHECK(are_equal(&found, &expected));
  EXPECT(zf_close(handle), ZF_OK);
}

static void a_close_gives_it_up_in_time(void) {
  const char* const path = write_file("old");
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(PLAN_SPLIT, NULL);
  options.close_timeout_ms = 300;
  group.elements = 5000;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
  writes_take_us = 200000;
  EXPECT(zf_export_begin(handle, path), ZF_OK);
  EXPECT(zf_export_begin(handle, path), ZF_ERROR_BUSY);
  EXPECT(zf_export_wait(handle, 0), ZF_TIMEOUT);
  EXPECT(zf_close(handle), ZF_TIMEOUT);
  writes_take_us = 0;
  expect_error("was given up: it was not done when the optimizer had to end");
  read_file(path, &found);
  CHECK(found.size == 3);
}

/* A final death before the copy is made. */
static void a_final_death_is_told_once(void) {
  const char* const path = write_file("old");
  zf_runtime* const handle = open_one(PLAN_SPLIT, 5000);
  const pid_t worker = worker_of(handle);
  CHECK(kill(worker, SIGSTOP) == 0);
  EXPECT(zf_export_begin(handle, path), ZF_OK);
  CHECK(kill(worker, SIGKILL) == 0);
  EXPECT(zf_export_wait(handle, 20000), ZF_WORKER_DIED);
  expect_error("before it had copied what is exported");
  EXPECT(zf_export_wait(handle, 0), ZF_OK);
  read_file(path, &found);
  CHECK(found.size == 3);
  EXPECT(zf_export_state(handle, path), ZF_OK); /* the state itself is whole */
  EXPECT(zf_close(handle), ZF_WORKER_DIED);
}

#ifndef ZF_SANITIZED /* which need this call for themselves */
/* A successor of the optimizer gets no memory for the copy. */
static void no_memory_is_told_and_stops_no_step(void) {
  const int calls[] = {SYS_madvise};
  const char* const path = write_file("old");
  zf_runtime* const handle = open_groups(PLAN_SPLIT, ZF_STATE_FP32);
  if (!refuse_calls(calls, 1, ENOMEM)) exit(SKIPPED);
  kill_optimizer(handle);
  submit_step(handle, 0);
  EXPECT(zf_wait(handle, 0, -1), ZF_OK);
  EXPECT(zf_export_begin(handle, path), ZF_OK);
  submit_step(handle, 1);
  EXPECT(zf_export_wait(handle, -1), ZF_ERROR_SYSTEM);
  expect_error("memory ran out for the copy of what is exported");
  EXPECT(zf_wait(handle, 0, -1), ZF_OK);
  uint64_t step = 0;
  EXPECT(zf_get_step(handle, 0, &step), ZF_OK);
  CHECK(step == 2);
  EXPECT(zf_close(handle), ZF_OK);
  read_file(path, &found);
  CHECK(found.size == 3);
}

/* From here on the kernel kills a process that asks for new pages of an arena, as where memory runs out. */
static int kill_who_gets_memory(void) {
  enum { POPULATE_WRITE = 23 };
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, POPULATE_WRITE, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof code / sizeof *code, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

/* The export is given up before the optimizer is. */
static void a_copy_that_kills_is_not_tried_for_ever(void) {
  const char* const path = write_file("old");
  zf_runtime* const handle = open_groups(PLAN_SPLIT, ZF_STATE_FP32);
  if (!kill_who_gets_memory()) exit(SKIPPED);
  kill_optimizer(handle);
  EXPECT(zf_export_begin(handle, path), ZF_OK);
  submit_step(handle, 0);
  EXPECT(zf_wait(handle, 0, -1), ZF_OK);
  EXPECT(zf_export_wait(handle, -1), ZF_ERROR_SYSTEM);
  expect_error("memory ran out for the copy of what is exported");
  zf_stats stats = ZF_STATS_INIT;
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK(stats.restarts <= 4 && stats.worker_alive); /* one kill, and at most three copies */
  EXPECT(zf_close(handle), ZF_OK);
  read_file(path, &found);
  CHECK(found.size == 3);
}
#endif

/* A failure is told by the next begin at the latest. */
static void a_failure_is_not_forgotten(void) {
  const char* const path = write_file("old");
  zf_runtime* const handle = open_groups(PLAN_SPLIT, ZF_STATE_FP32);
  writes_fail = 1;
  EXPECT(zf_export_begin(handle, path), ZF_OK);
  while (zf_export_begin(handle, path) == ZF_ERROR_BUSY) usleep(1000);
  expect_error("No space left on device");
  writes_fail = 0;
  EXPECT(zf_export_begin(handle, path), ZF_OK);
  EXPECT(zf_export_wait(handle, -1), ZF_OK);
  read_file(path, &found);
  CHECK(found.size > 3);
  EXPECT(zf_close(handle), ZF_OK);
}

/* A death in a later step, which no successor follows, leaves the file. */
static void a_close_waits_for_it_though_the_optimizer_has_died(void) {
  const char* const path = write_file("old");
  zf_runtime* const handle = open_one(PLAN_SPLIT, 5000);
  writes_take_us = 200000;
  EXPECT(zf_export_begin(handle, path), ZF_OK);
  EXPECT(zf_wait(handle, 0, -1), ZF_OK);
  const pid_t worker = worker_of(handle);
  CHECK(kill(worker, SIGSTOP) == 0);
  EXPECT(submit_all(handle, NULL), ZF_OK);
  CHECK(kill(worker, SIGKILL) == 0);
  EXPECT(zf_close(handle), ZF_WORKER_DIED);
  writes_take_us = 0;
  read_file(path, &found);
  CHECK(found.size > 3);
}

/* Room for the arena, and none for a copy of it: all else works. */
static void limits_refuse_the_copy_alone(void) {
  const struct rlimit files = {100000, 100000};
  const char* const path = write_file("old");
  CHECK(setrlimit(RLIMIT_FSIZE, &files) == 0);
  zf_runtime* const handle = open_one(PLAN_SPLIT, 2500);
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, -1), ZF_OK);
  EXPECT(zf_export_begin(handle, path), ZF_ERROR_SYSTEM);
  expect_error("`ulimit -f` or `ulimit -v` leaves no room for a copy of the arena");
  EXPECT(zf_export_state(handle, path), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* other = NULL;
  options.plan_path = write_plan(PLAN_SPLIT, NULL);
  options.export_room = 1;
  group.elements = 2500;
  EXPECT(zf_open(&options, &group, 1, &other), ZF_ERROR_SYSTEM);
  expect_error("`ulimit -f` or `ulimit -v` leaves no room for a copy of the arena");
}

int main(void) {
  const char* const given = getenv("ZF_KILLS");
  const char* const seed = getenv("ZF_SEED");
  const int kills = given == NULL ? 8 : atoi(given);
  if (seed != NULL) seed_random(strtoull(seed, NULL, 10));
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (int32_t format = ZF_STATE_FP32; format <= ZF_STATE_BF16_SPLIT; ++format)
    the_file_has_the_moment_of_its_begin(format, kills, NULL);
  the_file_has_the_moment_of_its_begin(ZF_STATE_FP32, kills, "2");
  the_file_has_the_moment_of_its_begin(ZF_STATE_BF16_SPLIT, kills, "2");
  for (int32_t format = ZF_STATE_FP32; format <= ZF_STATE_BF16_SPLIT; ++format)
    a_step_copies_what_it_overwrites(format, NULL);
  a_step_copies_what_it_overwrites(ZF_STATE_FP32, "2");
  the_room_is_there_from_the_open_on(NULL);
  the_room_is_there_from_the_open_on("2");
  for (int32_t format = ZF_STATE_FP32; format <= ZF_STATE_BF16_SPLIT; ++format)
    a_held_copy_has_the_moment_of_its_begin(format);
  the_end_of_a_held_copy_has_a_deadline();
  a_step_waits_for_the_file_where_room_is_short();
  a_killed_trainer_leaves_a_whole_file(kills);
  what_cannot_begin_is_refused();
  what_is_copied_can_be_read();
  a_close_finishes_a_step_that_waits_for_the_file();
  an_export_of_nothing_has_a_file();
  an_export_goes_on_behind_the_end();
  a_close_gives_it_up_in_time();
  a_final_death_is_told_once();
#ifndef ZF_SANITIZED
  in_child(no_memory_is_told_and_stops_no_step);
  in_child(a_copy_that_kills_is_not_tried_for_ever);
#endif
  a_failure_is_not_forgotten();
  a_close_waits_for_it_though_the_optimizer_has_died();
  in_child(limits_refuse_the_copy_alone);
  CHECK(count_children() == 0 && count_arena_mappings() == 0);
  return 0;
}
