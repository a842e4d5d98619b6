/* An arena that is kept beyond the end of its trainer: who gets it, who does not, and what is left. */
#include "keeping.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 100 };

static struct job job = {NULL, ZF_STATE_FP32, 0, 0, 0, NULL, NULL, NULL};

/* Runs a trainer that takes steps up to number `last` and dies without closing. Its exit or signal is
 * expected. */
static void trainer_dies(const char* name, uint64_t last) {
  const pid_t trainer = fork();
  CHECK(trainer >= 0);
  if (trainer == 0) {
    zf_runtime* handle = NULL;
    uint64_t step = open_job(&job, name, &handle);
    run_steps(handle, &job, step, 0);
    EXPECT(zf_get_step(handle, 0, &step), ZF_OK);
    run_steps(handle, &job, step, last);
    raise(SIGKILL);
  }
  int status = 0;
  CHECK(waitpid(trainer, &status, 0) == trainer && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Opens the job again and checks that it is at `step`, with the state of an undisturbed run. Closes it. */
static void expect_kept_at(const char* name, uint64_t step) {
  zf_stats stats = ZF_STATS_INIT;
  zf_runtime* handle = NULL;
  zf_runtime* calm = NULL;
  CHECK(open_job(&job, name, &handle) == step);
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK(stats.was_kept == 1 && stats.keep_note[0] == 0);
  CHECK(open_job(&job, "calm", &calm) == 0);
  EXPECT(zf_get_stats(calm, &stats), ZF_OK);
  CHECK(stats.was_kept == 0 && stats.keep_note[0] == 0);
  run_steps(calm, &job, 0, step);
  CHECK(digest_of_state(handle, &job) == digest_of_state(calm, &job));
  run_steps(handle, &job, step, step + 2);
  run_steps(calm, &job, step, step + 2);
  CHECK(digest_of_state(handle, &job) == digest_of_state(calm, &job));
  EXPECT(zf_close(calm), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
}

static void state_outlives_its_trainer(void) {
  trainer_dies("life", 3);
  expect_kept_at("life", 3);
  expect_nothing_kept();
}

static void state_outlives_many_trainers(void) {
  for (uint64_t step = 1; step <= 4; ++step) trainer_dies("life", step);
  expect_kept_at("life", 4);
  expect_nothing_kept();
}

/* A close or an end frees it at once: nothing is kept of a job that has come to its end. */
static void closed_handle_keeps_nothing(void) {
  zf_runtime* handle = NULL;
  open_job(&job, "life", &handle);
  CHECK(keeper_of("life") > 0);
  EXPECT(zf_close(handle), ZF_OK);
  expect_nothing_kept();
  open_job(&job, "life", &handle);
  EXPECT(zf_end(handle), ZF_OK);
  expect_nothing_kept();
  EXPECT(zf_close(handle), ZF_OK);
}

static long stat_field(pid_t process, int field) {
  char path[64];
  char text[1024] = "";
  snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
  FILE* const file = fopen(path, "re");
  CHECK(file != NULL && fgets(text, sizeof text, file) != NULL);
  fclose(file);
  const char* at = strrchr(text, ')') + 1;
  for (int i = 3; i < field; ++i) at = strchr(at + 1, ' ');
  return atol(at);
}

static long oom_score_of(pid_t process) {
  char path[64];
  char text[32] = "";
  snprintf(path, sizeof path, "/proc/%d/oom_score_adj", (int)process);
  FILE* const file = fopen(path, "re");
  CHECK(file != NULL && fgets(text, sizeof text, file) != NULL);
  fclose(file);
  return atol(text);
}

/* Returns the 512-byte blocks of the arena that a keeper keeps. */
static long blocks_of(pid_t keeper) {
  char folder[64];
  long blocks = -1;
  snprintf(folder, sizeof folder, "/proc/%d/fd", (int)keeper);
  for (int fd = 3; fd < 64; ++fd) {
    char path[96], target[64] = "";
    struct stat status;
    snprintf(path, sizeof path, "%s/%d", folder, fd);
    if (readlink(path, target, sizeof target - 1) > 0 && strncmp(target, "/memfd:zf-arena", 15) == 0 &&
        stat(path, &status) == 0)
      blocks = status.st_blocks;
  }
  CHECK(blocks > 0);
  return blocks;
}

/* The copy of an export is of no use to the next trainer, which needs memory. */
static void copy_of_an_export_is_not_kept(void) {
  enum { MIB_BLOCKS = 2048 };
  trainer_dies("life", 7);
  const long without = blocks_of(keeper_of("life"));
  expect_kept_at("life", 7);
  job.exports = write_file("");
  trainer_dies("life", 7);
  const pid_t keeper = keeper_of("life");
  for (int64_t end = now_ns() + 5000000000; blocks_of(keeper) >= without + MIB_BLOCKS; usleep(1000))
    CHECK(now_ns() < end);
  job.exports = NULL;
  expect_kept_at("life", 7);
  expect_nothing_kept();
}

/* A launcher that ends a process group, or all descendants, does not reach the keeper. It waits for nothing
 * else. */
static void keeper_is_nobodys_and_sleeps(void) {
  enum { PARENT = 4, GROUP = 5, SESSION = 6, USER_TICKS = 14, SYSTEM_TICKS = 15 };
  zf_runtime* handle = NULL;
  open_job(&job, "life", &handle);
  const pid_t held = keeper_of("life");
  CHECK(stat_field(held, SESSION) == held && stat_field(held, GROUP) == held);
  CHECK(oom_score_of(held) == oom_score_of(getpid()));
  EXPECT(zf_close(handle), ZF_OK);
  trainer_dies("life", 1);
  const pid_t keeper = keeper_of("life");
  for (int64_t end = now_ns() + 5000000000; oom_score_of(keeper) != 1000; usleep(1000)) CHECK(now_ns() < end);
  CHECK(stat_field(keeper, PARENT) == getpid()); /* its subreaper; the trainer is dead */
  const long ticks = stat_field(keeper, USER_TICKS) + stat_field(keeper, SYSTEM_TICKS);
  usleep(300000);
  CHECK(stat_field(keeper, USER_TICKS) + stat_field(keeper, SYSTEM_TICKS) == ticks);
  expect_kept_at("life", 1);
  expect_nothing_kept();
}

static void kept_state_ends_in_time(void) {
  zf_group groups[KEPT_GROUPS];
  zf_options options = keep_options(&job, "short");
  options.keep_s = 2;
  keep_groups(&job, groups);
  const pid_t trainer = fork();
  CHECK(trainer >= 0);
  if (trainer == 0) {
    zf_runtime* handle = NULL;
    EXPECT(zf_open(&options, groups, KEPT_GROUPS, &handle), ZF_OK);
    run_steps(handle, &job, 0, 1);
    _exit(0);
  }
  CHECK(waitpid(trainer, NULL, 0) == trainer);
  CHECK(keeper_of("short") > 0);
  expect_nothing_kept(); /* it waits for the end */
}

/* A program that fails before its first step leaves nothing, so its next version may have another layout. */
static void nothing_is_kept_before_the_first_step(void) {
  zf_group groups[KEPT_GROUPS];
  const zf_options options = keep_options(&job, "life");
  for (int round = 0; round < 20; ++round) {
    const pid_t trainer = fork();
    CHECK(trainer >= 0);
    if (trainer == 0) {
      zf_runtime* handle = NULL;
      open_job(&job, "life", &handle);
      raise(SIGKILL);
    }
    CHECK(waitpid(trainer, NULL, 0) == trainer);
    if (round % 2 == 1) expect_nothing_kept();
    zf_runtime* handle = NULL;
    zf_stats stats = ZF_STATS_INIT;
    keep_groups(&job, groups);
    groups[1].elements += 1;
    EXPECT(zf_open(&options, groups, KEPT_GROUPS, &handle), ZF_OK);
    EXPECT(zf_get_stats(handle, &stats), ZF_OK);
    CHECK(stats.was_kept == 0 && stats.keep_note[0] == 0);
    EXPECT(zf_close(handle), ZF_OK);
  }
  expect_nothing_kept();
}

static void terminated_keeper_leaves_nothing(void) {
  trainer_dies("life", 1);
  const pid_t keeper = keeper_of("life");
  for (int64_t end = now_ns() + 5000000000; oom_score_of(keeper) != 1000; usleep(1000)) CHECK(now_ns() < end);
  CHECK(kill(keeper, SIGTERM) == 0);
  expect_nothing_kept();
}

/* The optimizer process may die with its trainer: the next one finishes the step. */
static void keeper_is_all_that_must_live(void) {
  trainer_dies("life", 2);
  const pid_t keeper = keeper_of("life");
  kill_and_reap(keeper);
  zf_runtime* handle = NULL;
  zf_stats stats = ZF_STATS_INIT;
  CHECK(open_job(&job, "life", &handle) == 0);
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK(stats.was_kept == 0 && strstr(stats.keep_note, "life, rank 0 has died: nothing was kept") != NULL);
  kill_and_reap(keeper_of("life"));
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK(strstr(stats.keep_note, "if the trainer dies too, nothing is kept") != NULL);
  run_steps(handle, &job, 0, 2); /* training goes on */
  EXPECT(zf_close(handle), ZF_OK);
  zf_runtime* again = NULL; /* its socket is removed here */
  open_job(&job, "life", &again);
  EXPECT(zf_close(again), ZF_OK);
  expect_nothing_kept();
}

/* ---- refusals: nothing is changed by any of them ---- */

static int refusals;

static void refused(const zf_options* options, const zf_group* groups, size_t count, zf_status status,
                    const char* why) {
  zf_runtime* handle = NULL;
  EXPECT(zf_open(options, groups, count, &handle), status);
  expect_error(why);
  CHECK(handle == NULL);
  ++refusals;
}

static void other_layouts_are_refused(void) {
  zf_group groups[KEPT_GROUPS];
  zf_options options = keep_options(&job, "life");
  trainer_dies("life", 2);
  keep_groups(&job, groups);
  refused(&options, groups, 2, ZF_ERROR_STATE, "it has 3 groups, and not 2");
  groups[1].elements = 14;
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_STATE, "group 1 has 13 elements, and not 14");
  keep_groups(&job, groups);
  groups[2].state_format = ZF_STATE_BF16;
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_STATE, "group 2 has the state format fp32, and not bf16");
  keep_groups(&job, groups);
  groups[0].grad_type = ZF_F16;
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_STATE, "group 0 has other types");
  keep_groups(&job, groups);
  groups[0].grad_buffers = 1;
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_STATE, "group 0 has other types, outputs, buffers");
  keep_groups(&job, groups);
  groups[2].first_element = 7;
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_STATE, "or element numbers");
  keep_groups(&job, groups);
  options.chunk_bytes = 131072;
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_STATE, "chunks");
  options = keep_options(&job, "life");
  options.note_bytes = 8;
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_STATE, "its note has 16 bytes, and not 8");
  int cpus[MAX_CPUS];
  if (allowed_cpus(cpus) > 1) {
    options = keep_options(&job, "life");
    options.plan_path = write_plan(PLAN_SHARED, NULL);
    refused(&options, groups, KEPT_GROUPS, ZF_ERROR_STATE, "of the optimizer, and not");
  }
  expect_kept_at("life", 2);
  expect_nothing_kept();
}

static void other_rank_is_refused(void) {
  zf_group groups[KEPT_GROUPS];
  zf_options options = keep_options(&job, "life");
  trainer_dies("life", 2);
  keep_groups(&job, groups);
  options.plan_path = NULL;
  options.rank = 1;
  CHECK(setenv("ZF_TUNE", "off", 1) == 0); /* then any rank will do */
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_STATE,
          "life is kept for rank 0, and not for rank 1; that rank has closed it");
  CHECK(unsetenv("ZF_TUNE") == 0);
  expect_kept_at("life", 2);
  expect_nothing_kept();
}

static void die(uint64_t step) {
  (void)step;
  raise(SIGKILL);
}

/* Two ranks have read a state of step 2. One has prepared the first step since, and the other died before. No
 * step went, so that one begins anew, and the prepared step is kept. */
static void rank_that_began_nothing_begins_anew(void) {
  zf_group groups[KEPT_GROUPS];
  zf_options options = keep_options(&job, "life");
  zf_stats stats = ZF_STATS_INIT;
  zf_runtime* handle = NULL;
  const char* const path = write_file("");
  struct job dying = job;
  dying.meets = die;
  keep_groups(&job, groups);
  open_job(&job, "life", &handle);
  run_steps(handle, &job, 0, 2);
  EXPECT(zf_export_state(handle, path), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
  const pid_t trainer = fork();
  CHECK(trainer >= 0);
  if (trainer == 0) {
    open_job(&job, "life", &handle);
    EXPECT(zf_import_state(handle, path), ZF_OK);
    run_steps(handle, &dying, 2, 3);
  }
  int status = 0;
  CHECK(waitpid(trainer, &status, 0) == trainer && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  zf_options of_other = options;
  of_other.plan_path = NULL;
  of_other.rank = 1;
  CHECK(setenv("ZF_TUNE", "off", 1) == 0); /* then any rank will do */
  EXPECT(zf_open(&of_other, groups, KEPT_GROUPS, &handle), ZF_OK);
  CHECK(unsetenv("ZF_TUNE") == 0);
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK(stats.was_kept == 0);
  EXPECT(zf_close(handle), ZF_OK);
  uint64_t note[2] = {0, 0};
  uint64_t step = 0;
  EXPECT(zf_open(&options, groups, KEPT_GROUPS, &handle), ZF_OK);
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  EXPECT(zf_get_prepared(handle, note, sizeof note, &step), ZF_OK);
  CHECK(stats.was_kept == 1 && step == 3 && note[0] == 3);
  EXPECT(zf_close(handle), ZF_OK);
  expect_nothing_kept();
}

static void name_in_use_is_refused(void) {
  zf_group groups[KEPT_GROUPS];
  const zf_options options = keep_options(&job, "life");
  zf_runtime* handle = NULL;
  keep_groups(&job, groups);
  const uint64_t step = open_job(&job, "life", &handle);
  run_steps(handle, &job, step, 0);
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_BUSY, "close its handle first");
  const pid_t other = fork();
  CHECK(other >= 0);
  if (other == 0) {
    refused(&options, groups, KEPT_GROUPS, ZF_ERROR_BUSY, "is in use by process");
    _exit(0);
  }
  int status = 1;
  CHECK(waitpid(other, &status, 0) == other && status == 0);
  ++refusals;
  run_steps(handle, &job, 0, 2);
  EXPECT(zf_close(handle), ZF_OK);
  expect_nothing_kept();
}

static void malformed_options_are_refused(void) {
  static const char* const names[] = {"",
                                      "a/b",
                                      ".hidden",
                                      "with space",
                                      "-x",
                                      "caf\xc3\xa9",
                                      "a2345678901234567890123456789012345678901234567890123456789012345"};
  zf_group groups[KEPT_GROUPS];
  zf_options options = keep_options(&job, "life");
  keep_groups(&job, groups);
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    options.keep = names[i];
    refused(&options, groups, KEPT_GROUPS, ZF_ERROR_USAGE, "is no name to keep an arena under");
  }
  options = keep_options(&job, "life");
  options.keep_s = -1;
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_USAGE, "keep_s is -1");
  options.keep_s = 2592001;
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_USAGE, "keep_s is 2592001");
  options = keep_options(&job, NULL);
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_USAGE, "keep is NULL");
  options.note_bytes = 0;
  options.keep_s = 5;
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_USAGE, "keep is NULL");
  options = keep_options(&job, "life");
  options.note_bytes = (UINT64_C(1) << 30) + 1;
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_USAGE, "is too large");
  expect_nothing_kept();
}

static void notes_without_a_step_are_refused(void) {
  uint64_t note[2] = {1, 2};
  uint64_t step = 0;
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  zf_runtime* handle = NULL;
  open_job(&job, "life", &handle);
  args.work = ZF_NORM;
  args.note = note;
  EXPECT(zf_submit(handle, &args, NULL), ZF_ERROR_USAGE);
  expect_error("a note goes with a ZF_STEP alone");
  EXPECT(zf_get_note(handle, note, 8, &step), ZF_ERROR_USAGE);
  expect_error("the note has 16 bytes, and not 8");
  EXPECT(zf_close(handle), ZF_OK);
  handle = open_one(PLAN_SPLIT, 10);
  const zf_scalars scalars = made_scalars(0, 1);
  args.work = ZF_STEP;
  args.scalars = &scalars;
  args.scalar_count = 1;
  EXPECT(zf_submit(handle, &args, NULL), ZF_ERROR_USAGE);
  expect_error("zf_options.note_bytes says its size");
  EXPECT(zf_close(handle), ZF_OK);
  refusals += 3;
  expect_nothing_kept();
}

static void folders_of_others_are_refused(void) {
  zf_group groups[KEPT_GROUPS];
  const zf_options options = keep_options(&job, "life");
  const char* const folder = getenv("ZF_KEEP_FOLDER");
  keep_groups(&job, groups);
  CHECK(mkdir(folder, 0755) == 0 && chmod(folder, 0755) == 0);
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_USAGE, "and has mode 755; it must be yours alone");
  CHECK(chmod(folder, 0700) == 0);
  if (getuid() == 0) {
    CHECK(chown(folder, 12345, 12345) == 0);
    refused(&options, groups, KEPT_GROUPS, ZF_ERROR_USAGE, "belongs to user 12345");
    CHECK(chown(folder, 0, 0) == 0);
  }
  char in_the_way[100];
  snprintf(in_the_way, sizeof in_the_way, "%s/life.0", folder);
  CHECK(mkdir(in_the_way, 0700) == 0);
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_WORKER, "/life.0: Address already in use");
  CHECK(rmdir(in_the_way) == 0);
  CHECK(rmdir(folder) == 0 && symlink("/tmp", folder) == 0);
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_SYSTEM, "cannot open the folder");
  CHECK(unlink(folder) == 0);
  char path[200] = "/dev/shm/";
  memset(path + 9, 'a', 110);
  CHECK(setenv("ZF_KEEP_FOLDER", path, 1) == 0);
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_USAGE, "is too long for a socket");
  CHECK(setenv("ZF_KEEP_FOLDER", "/proc/none", 1) == 0);
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_SYSTEM, "cannot make the folder /proc/none");
  use_own_keep_folder();
  expect_nothing_kept();
}

/* Makes the folder, and in it the socket of a keeper of "life", rank 0. */
static int make_socket(struct sockaddr_un* address) {
  CHECK(mkdir(getenv("ZF_KEEP_FOLDER"), 0700) == 0);
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  snprintf(address->sun_path, sizeof address->sun_path, "%s/life.0", getenv("ZF_KEEP_FOLDER"));
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  CHECK(listener >= 0 && bind(listener, (const struct sockaddr*)address, sizeof *address) == 0);
  return listener;
}

/* A socket of another user is none to be asked. */
static void socket_of_another_user_is_refused(void) {
  zf_group groups[KEPT_GROUPS];
  const zf_options options = keep_options(&job, "life");
  struct sockaddr_un address;
  keep_groups(&job, groups);
  if (getuid() != 0) return;
  const int listener = make_socket(&address);
  CHECK(seteuid(12345) == 0 && listen(listener, 1) == 0 && seteuid(0) == 0);
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_USAGE, "user 12345 listens at");
  close(listener);
  CHECK(unlink(address.sun_path) == 0 && rmdir(getenv("ZF_KEEP_FOLDER")) == 0);
}

/* A keeper hangs up on a message of another release, and on a trainer that was stopped for seconds. It lives:
 * what it keeps is not given up. */
static void keeper_that_hangs_up_is_not_replaced(void) {
  zf_group groups[KEPT_GROUPS];
  zf_options options = keep_options(&job, "life");
  struct sockaddr_un address;
  struct stat status;
  keep_groups(&job, groups);
  const int listener = make_socket(&address);
  CHECK(listen(listener, 4) == 0);
  const pid_t keeper = fork();
  CHECK(keeper >= 0);
  while (keeper == 0) close(accept(listener, NULL, NULL));
  close(listener);
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_SYSTEM, "does not answer");
  options.plan_path = NULL;
  options.rank = 1;
  CHECK(setenv("ZF_TUNE", "off", 1) == 0); /* then any rank will do */
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_SYSTEM, "does not answer");
  CHECK(unsetenv("ZF_TUNE") == 0);
  CHECK(stat(address.sun_path, &status) == 0);
  kill_and_reap(keeper);
  CHECK(unlink(address.sun_path) == 0 && rmdir(getenv("ZF_KEEP_FOLDER")) == 0);
}

/* A trainer that dies while it reads a state into the arena leaves one that is neither old nor new. */
static void half_written_state_is_refused(void) {
  zf_group groups[KEPT_GROUPS];
  const zf_options options = keep_options(&job, "life");
  keep_groups(&job, groups);
  const pid_t trainer = fork();
  CHECK(trainer >= 0);
  if (trainer == 0) {
    zf_runtime* handle = NULL;
    open_job(&job, "life", &handle);
    run_steps(handle, &job, 0, 1);
    signal(SIGBUS, SIG_DFL); /* what is behind the end of the file cannot be read */
    const int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    CHECK(file >= 0 && ftruncate(file, 4096) == 0);
    const float* const values = mmap(NULL, 100 * 4096, PROT_READ, MAP_SHARED, file, 0);
    CHECK(values != MAP_FAILED);
    zf_write_state(handle, 0, ZF_PARAMS, 0, 90001, values);
    _exit(1);
  }
  int status = 0;
  CHECK(waitpid(trainer, &status, 0) == trainer && WIFSIGNALED(status));
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_STATE, "is half overwritten");
  kill_and_reap(keeper_of("life"));
  zf_runtime* handle = NULL;
  open_job(&job, "life", &handle);
  EXPECT(zf_close(handle), ZF_OK);
  expect_nothing_kept();
}

/* The note of a step is not that of a state that was imported. */
static void import_forgets_notes(void) {
  char path[] = "/tmp/zf-keep-state-XXXXXX";
  uint64_t note[2] = {0, 0};
  uint64_t step = 1;
  zf_runtime* handle = NULL;
  const int file = mkstemp(path);
  CHECK(file >= 0 && close(file) == 0);
  CHECK(open_job(&job, "life", &handle) == 0);
  EXPECT(zf_export_state(handle, path), ZF_OK);
  run_steps(handle, &job, 0, 2);
  EXPECT(zf_import_state(handle, path), ZF_OK);
  EXPECT(zf_get_note(handle, note, sizeof note, &step), ZF_OK);
  CHECK(step == 0 && note[0] == 0);
  EXPECT(zf_close(handle), ZF_OK);
  CHECK(unlink(path) == 0);
  expect_nothing_kept();
}

static void another_release_is_refused(void) {
  zf_group groups[KEPT_GROUPS];
  const zf_options options = keep_options(&job, "life");
  keep_groups(&job, groups);
  const pid_t trainer = fork();
  CHECK(trainer >= 0);
  if (trainer == 0) {
    zf_runtime* handle = NULL;
    const uint64_t step = open_job(&job, "life", &handle);
    run_steps(handle, &job, step, 1);
    char line[512];
    char* arena = NULL;
    FILE* const maps = fopen("/proc/self/maps", "re");
    CHECK(maps != NULL);
    while (arena == NULL && fgets(line, sizeof line, maps) != NULL) {
      if (strstr(line, "memfd:zf-arena") != NULL) arena = (char*)(uintptr_t)strtoull(line, NULL, 16);
    }
    CHECK(arena != NULL && memcmp(arena, "ZFARENA", 8) == 0);
    ++*(uint32_t*)(void*)(arena + 8);
    raise(SIGKILL);
  }
  CHECK(waitpid(trainer, NULL, 0) == trainer);
  refused(&options, groups, KEPT_GROUPS, ZF_ERROR_STATE, "is of another release");
  kill_and_reap(keeper_of("life"));
  zf_runtime* handle = NULL;
  open_job(&job, "life", &handle);
  EXPECT(zf_close(handle), ZF_OK);
  expect_nothing_kept();
}

static _Atomic int forks;

static void* fork_children(void* children) {
  int count = 0;
  for (; forks && count < FORKS; usleep(1000), ++count) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      for (;;) pause();
    }
    ((pid_t*)children)[count] = child;
  }
  return NULL;
}

/* Children that another thread forks meanwhile have copies of all descriptors, and live on. */
static void end_of_the_keeper_is_seen_beside_forks(void) {
  pid_t children[FORKS] = {0};
  pthread_t forking;
  zf_stats stats = ZF_STATS_INIT;
  zf_runtime* handle = NULL;
  forks = 1;
  CHECK(pthread_create(&forking, NULL, fork_children, children) == 0);
  open_job(&job, "life", &handle);
  forks = 0;
  CHECK(pthread_join(forking, NULL) == 0 && children[0] > 0);
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK(stats.keep_note[0] == 0);
  CHECK(kill(keeper_of("life"), SIGKILL) == 0);
  usleep(100000);
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK(strstr(stats.keep_note, "the process that keeps the arena has died") != NULL);
  EXPECT(zf_close(handle), ZF_OK);
  for (int i = 0; i < FORKS && children[i] > 0; ++i) kill_and_reap(children[i]);
  open_job(&job, "life", &handle);
  EXPECT(zf_close(handle), ZF_OK);
  expect_nothing_kept();
}

/* A zf_open that fails leaves nothing behind, and a kept state as it was. */
static void failed_open_changes_nothing(void) {
  zf_group groups[KEPT_GROUPS];
  zf_options options = keep_options(&job, "life");
  zf_runtime* handle = NULL;
  keep_groups(&job, groups);
  options.start_timeout_ms = 1;
  options.huge_pages = ZF_NO;
  const zf_status status = zf_open(&options, groups, KEPT_GROUPS, &handle);
  CHECK(status == ZF_TIMEOUT || status == ZF_OK);
  if (status == ZF_OK) EXPECT(zf_close(handle), ZF_OK);
  expect_nothing_kept();
  trainer_dies("life", 2);
  const zf_status again = zf_open(&options, groups, KEPT_GROUPS, &handle);
  CHECK(again == ZF_TIMEOUT || again == ZF_OK);
  if (again == ZF_OK) EXPECT(zf_close(handle), ZF_OK);
  if (again == ZF_TIMEOUT) expect_kept_at("life", 2);
  expect_nothing_kept();
}

int main(void) {
  job.plan = write_plan(PLAN_SPLIT, NULL);
  use_own_keep_folder();
  for (job.state_format = ZF_STATE_FP32; job.state_format <= ZF_STATE_BF16_SPLIT; ++job.state_format) {
    state_outlives_its_trainer();
  }
  job.state_format = ZF_STATE_FP32;
  state_outlives_many_trainers();
  closed_handle_keeps_nothing();
  copy_of_an_export_is_not_kept();
  keeper_is_nobodys_and_sleeps();
  kept_state_ends_in_time();
  nothing_is_kept_before_the_first_step();
  terminated_keeper_leaves_nothing();
  keeper_is_all_that_must_live();
  other_layouts_are_refused();
  other_rank_is_refused();
  rank_that_began_nothing_begins_anew();
  name_in_use_is_refused();
  malformed_options_are_refused();
  notes_without_a_step_are_refused();
  folders_of_others_are_refused();
  socket_of_another_user_is_refused();
  keeper_that_hangs_up_is_not_replaced();
  half_written_state_is_refused();
  import_forgets_notes();
  another_release_is_refused();
  failed_open_changes_nothing();
  end_of_the_keeper_is_seen_beside_forks();
  printf("%d refusals\n", refusals);
  CHECK(count_children() == 0);
  return 0;
}
