/* Checks that a limit on the size of files (ulimit -f) is an answer with its reason, and never a signal that
 * ends the program. Nothing is half written, and signals that were there before stay. */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support.h"

enum { ELEMENTS = 100000 };

static void limit_files(rlim_t bytes) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  limit.rlim_cur = bytes;
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static int is_pending(void) {
  sigset_t pending;
  CHECK(sigpending(&pending) == 0);
  return sigismember(&pending, SIGXFSZ);
}

static int is_blocked(void) {
  sigset_t mask;
  CHECK(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0);
  return sigismember(&mask, SIGXFSZ);
}

static void block(int how) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGXFSZ);
  CHECK(pthread_sigmask(how, &signals, NULL) == 0);
}

static size_t count_files(const char* folder) {
  DIR* const files = opendir(folder);
  size_t count = 0;
  CHECK(files != NULL);
  while (readdir(files) != NULL) ++count;
  closedir(files);
  return count - 2;
}

static void expect_limit(void) {
  expect_error("File too large");
  expect_error("ulimit -f");
}

static void an_arena_above_the_limit_is_refused(void) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(PLAN_SPLIT, NULL);
  group.elements = ELEMENTS;
  limit_files(65536);
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_ERROR_SYSTEM);
  expect_limit();
  CHECK(!is_pending() && !is_blocked() && count_arena_mappings() == 0);
  limit_files(RLIM_INFINITY);
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
}

static void step_to(zf_runtime* handle, uint64_t number) {
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  const zf_scalars scalars = made_scalars(1, number);
  args.scalars = &scalars;
  args.scalar_count = 1;
  EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, 60000), ZF_OK);
}

static void a_state_above_the_limit_leaves_the_one_before(void) {
  char folder[] = "/tmp/zf-abi-test-XXXXXX";
  char path[sizeof folder + sizeof "/state"];
  uint64_t step = 0;
  zf_runtime* const handle = open_one(PLAN_SPLIT, ELEMENTS);
  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/state", folder);
  step_to(handle, 7);
  EXPECT(zf_export_state(handle, path), ZF_OK);
  step_to(handle, 8);
  for (rlim_t bytes = 1; bytes < ELEMENTS * 12; bytes = bytes * 3 + 1) {
    limit_files(bytes);
    EXPECT(zf_export_state(handle, path), ZF_ERROR_SYSTEM);
    expect_limit();
    CHECK(!is_pending() && !is_blocked() && count_files(folder) == 1);
  }
  limit_files(RLIM_INFINITY);
  EXPECT(zf_import_state(handle, path), ZF_OK);
  EXPECT(zf_get_step(handle, 0, &step), ZF_OK);
  CHECK(step == 7);

  /* A program that blocks the signal keeps one that has come before, and gets none from us. */
  block(SIG_BLOCK);
  limit_files(1);
  EXPECT(zf_export_state(handle, path), ZF_ERROR_SYSTEM);
  CHECK(!is_pending() && is_blocked());
  CHECK(raise(SIGXFSZ) == 0);
  EXPECT(zf_export_state(handle, path), ZF_ERROR_SYSTEM);
  CHECK(is_pending() && is_blocked());
  CHECK(signal(SIGXFSZ, SIG_IGN) == SIG_DFL); /* which drops it */
  block(SIG_UNBLOCK);
  limit_files(RLIM_INFINITY);
  EXPECT(zf_close(handle), ZF_OK);
  CHECK(unlink(path) == 0 && rmdir(folder) == 0);
}

int main(void) {
  an_arena_above_the_limit_is_refused();
  a_state_above_the_limit_leaves_the_one_before();
  CHECK(count_children() == 0);
  return 0;
}
