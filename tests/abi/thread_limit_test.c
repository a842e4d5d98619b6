/* Checks that a user who may have few processes (ulimit -u) gets an answer and its reason, whichever thread
 * of the library or of the optimizer is refused. Nothing ends in abort, and nothing is left behind. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { MOST = 24, ELEMENTS = 1000000, LARGE = 16000000 };

static rlim_t limit;
static atomic_int* refused; /* shared with the children, as is `opened` */
static atomic_int* opened;

/* Becomes a user without any other process, so that the limit counts this process and what it starts. */
static void become_limited(void) {
  const uid_t alone = 0x5A460000u + (uid_t)getpid();
  const struct rlimit processes = {limit, limit};
  CHECK(setrlimit(RLIMIT_NPROC, &processes) == 0);
  CHECK(setresgid(alone, alone, alone) == 0 && setresuid(alone, alone, alone) == 0);
  CHECK(prctl(PR_SET_DUMPABLE, 1) == 0); /* lets it read its own /proc again */
}

static void answers(void) {
  zf_runtime* handle = NULL;
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  become_limited();
  options.plan_path = write_plan(PLAN_SHARED, NULL);
  options.max_restarts = -1;
  group.elements = ELEMENTS;
  const zf_status status = zf_open(&options, &group, 1, &handle);
  if (status == ZF_OK) {
    atomic_fetch_add(opened, 1);
    EXPECT(submit_all(handle, NULL), ZF_OK);
    EXPECT(zf_wait(handle, 0, 60000), ZF_OK);
    EXPECT(zf_close(handle), ZF_OK);
  } else {
    atomic_fetch_add(refused, 1);
    CHECK(status == ZF_ERROR_SYSTEM || status == ZF_ERROR_WORKER);
    expect_error("Resource temporarily unavailable");
    expect_error("ulimit -u");
  }
  CHECK(count_children() == 0 && count_arena_mappings() == 0);
}

static void* nothing(void* none) { return none; }

/* Closes a handle that would leave its memory to a thread, when no thread can be started any more. */
static void frees_by_itself(void) {
  zf_runtime* handle = NULL;
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  pthread_t thread;
  limit = MOST;
  become_limited();
  options.plan_path = write_plan(PLAN_SHARED, NULL);
  group.elements = LARGE;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
  const struct rlimit none = {0, limit};
  CHECK(setrlimit(RLIMIT_NPROC, &none) == 0);
  CHECK(pthread_create(&thread, NULL, nothing, NULL) == EAGAIN);
  EXPECT(zf_close(handle), ZF_OK);
  CHECK(count_children() == 0 && count_arena_mappings() == 0);
}

/* Tells whether this process may become another user, who may start the optimizer. The root of a container
 * without other users may not. */
enum trial { POSSIBLE, NO_OTHER_USER, NO_OPTIMIZER };

static enum trial try_as_another(const char* optimizer) {
  int status = -1;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    if (setresuid(0x5A460000u, 0x5A460000u, 0x5A460000u) != 0) _exit(NO_OTHER_USER);
    _exit(optimizer == NULL || access(optimizer, X_OK) == 0 ? POSSIBLE : NO_OPTIMIZER);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
  return (enum trial)WEXITSTATUS(status);
}

static char folder[] = "/tmp/zf-abi-test-XXXXXX";
static char copy[sizeof folder + sizeof "/zf-optimizer"];

static pid_t copied_by; /* its children end with exit() too */

static void remove_copy(void) {
  if (getpid() != copied_by) return;
  unlink(copy);
  rmdir(folder);
}

/* Copies the optimizer to a folder that every user may enter, and lets the library start that one. */
static void copy_for_all(const char* optimizer) {
  static char buffer[1 << 16];
  size_t got = 0;
  CHECK(mkdtemp(folder) != NULL && chmod(folder, 0755) == 0);
  snprintf(copy, sizeof copy, "%s/zf-optimizer", folder);
  copied_by = getpid();
  CHECK(atexit(remove_copy) == 0);
  FILE* const from = fopen(optimizer, "re");
  FILE* const to = fopen(copy, "we");
  CHECK(from != NULL && to != NULL);
  while ((got = fread(buffer, 1, sizeof buffer, from)) > 0) CHECK(fwrite(buffer, 1, got, to) == got);
  CHECK(fclose(from) == 0 && fclose(to) == 0 && chmod(copy, 0755) == 0);
  CHECK(setenv("ZF_OPTIMIZER", copy, 1) == 0);
}

static void need_another_user(void) {
  const char* const optimizer = getenv("ZF_OPTIMIZER"); /* CTest names it */
  enum trial trial = try_as_another(optimizer);
  if (trial == NO_OPTIMIZER) { /* the build folder is in one that only its owner may enter */
    copy_for_all(optimizer);
    trial = try_as_another(copy);
  }
  if (trial == POSSIBLE) return;
  printf("skipped: %s\n", trial == NO_OTHER_USER ? "no process of another user can be started here"
                                                 : "another user can start no program in /tmp here");
  exit(SKIPPED);
}

int main(void) {
  need_another_user();
  refused = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(refused != MAP_FAILED);
  opened = refused + 1;
  for (limit = 1; limit <= MOST && *opened < 3; ++limit) in_child(answers);
  CHECK(*opened == 3 && *refused >= 4); /* the watch, the optimizer, its watch, its pool */
  in_child(frees_by_itself);
  return 0;
}
