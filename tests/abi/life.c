#include "life.h"

#include <dirent.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ELEMENTS = 3000, DEADLINE_S = 60, MOST_BYTES = 1 << 17 };

static const char kBefore[] = "the state before";

/* What is kept of the life without faults. */
static float params_at_the_end[ELEMENTS];
static char state_at_the_end[MOST_BYTES];
static size_t state_bytes;

static struct use {
  const char* plan;
  char folder[32];
  char state[48];
  zf_runtime* handle;
} next; /* of the life to come, if it was prepared before */

static struct use prepared(void) {
  static const char* plan = NULL;
  if (plan == NULL) plan = write_plan(PLAN_SPLIT, NULL);
  struct use use = {.plan = plan, .folder = "/tmp/zf-abi-test-XXXXXX", .handle = NULL};
  if (next.plan != NULL) {
    use = next;
    next.plan = NULL;
    return use;
  }
  CHECK(mkdtemp(use.folder) != NULL);
  snprintf(use.state, sizeof use.state, "%s/state", use.folder);
  FILE* const file = fopen(use.state, "we");
  CHECK(file != NULL && fputs(kBefore, file) >= 0 && fclose(file) == 0);
  return use;
}

static zf_status open_it(struct use* use) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  options.plan_path = use->plan;
  options.close_timeout_ms = 5000;
  group.elements = ELEMENTS;
  return zf_open(&options, &group, 1, &use->handle);
}

static void fill(const struct use* use) {
  float* const params = buffer_of(use->handle, 0, ZF_PARAMS, NULL);
  float* const grads = buffer_of(use->handle, 0, ZF_GRADS_0, NULL);
  for (int i = 0; i < ELEMENTS; ++i) {
    params[i] = (float)i;
    grads[i] = (float)(i % 7) - 3.0f;
  }
}

static zf_status submit_it(struct use* use) { return submit_all(use->handle, NULL); }
static zf_status await_it(struct use* use) { return zf_wait(use->handle, 0, 20000); }
static zf_status export_it(struct use* use) { return zf_export_state(use->handle, use->state); }
static zf_status export_it_beside(struct use* use) {
  const zf_status begun = zf_export_begin(use->handle, use->state);
  return begun == ZF_OK ? zf_export_wait(use->handle, 20000) : begun;
}
static zf_status import_it(struct use* use) { return zf_import_state(use->handle, use->state); }

static zf_status norm_it(struct use* use) {
  double sum = 0;
  int32_t finite = 0;
  return zf_norm(use->handle, 0, 0, &sum, &finite);
}

static zf_status close_it(struct use* use) {
  zf_runtime* const handle = use->handle;
  use->handle = NULL;
  return zf_close(handle);
}

static size_t read_state(const struct use* use, char* bytes) {
  FILE* const file = fopen(use->state, "re");
  CHECK(file != NULL);
  const size_t count = fread(bytes, 1, MOST_BYTES, file);
  CHECK(count < MOST_BYTES && fclose(file) == 0);
  return count;
}

static void expect_cause(zf_status status) {
  const char* const error = zf_last_error();
  printf("  said: %s\n", error);
  CHECK(error[0] != 0 && strchr(error, '\n') == NULL && strstr(error, "std::") == NULL);
  CHECK(status != ZF_ERROR_INTERNAL);
}

static enum faults faults_now;
static void (*arm_now)(void);
static void (*disarm_now)(void);
static int refused;
static char causes[4096];

int was_refused(void) { return refused; }

/* A fault while the handle was opened, or the optimizer started, may leave no room for the copy for good. */
static int lacks_room_for_copy(void) {
  const char* const error = zf_last_error();
  return strstr(error, "no room for a copy of the arena") != NULL ||
         strstr(error, "memory ran out for the copy") != NULL;
}

/* Returns whether a call worked, at the second trial if the fault comes only once. */
static int works(zf_status (*call)(struct use*), struct use* use) {
  arm_now();
  zf_status status = call(use);
  disarm_now();
  if (status == ZF_OK) return 1;
  expect_cause(status);
  refused = 1;
  snprintf(causes + strlen(causes), sizeof causes - strlen(causes), "%s; ", zf_last_error());
  if (faults_now == FOR_GOOD) return 0;
  status = call(use);
  CHECK(status == ZF_OK || (call == export_it_beside && lacks_room_for_copy()));
  return status == ZF_OK;
}

static void expect_state(const struct use* use, int exported) {
  static char bytes[MOST_BYTES];
  const size_t count = read_state(use, bytes);
  const int is_new = count == state_bytes && memcmp(bytes, state_at_the_end, count) == 0;
  const int is_before = count == strlen(kBefore) && memcmp(bytes, kBefore, count) == 0;
  /* A file may be written whole though its folder cannot be synced. */
  CHECK(is_new || (is_before && !exported));
}

static void remove_files(const struct use* use) {
  char temporary[sizeof use->folder + sizeof "/.state.tmp"];
  snprintf(temporary, sizeof temporary, "%s/.state.tmp", use->folder);
  CHECK(unlink(use->state) == 0);
  if (faults_now == FOR_GOOD) unlink(temporary); /* unlink() failed too; the next writer removes it */
  CHECK(rmdir(use->folder) == 0);                /* fails if another file is left in it */
}

void live(enum faults faults, void (*arm)(void), void (*disarm)(void)) {
  struct use use = prepared();
  faults_now = faults;
  arm_now = arm;
  disarm_now = disarm;
  const int sees_itself = access("/proc/self/task", R_OK) == 0; /* else only its parent can look */
  const size_t descriptors = sees_itself ? count_descriptors() : 0;
  if (works(open_it, &use)) {
    fill(&use);
    const int stepped = works(submit_it, &use) && works(await_it, &use);
    const float* const params = buffer_of(use.handle, 0, ZF_PARAMS, NULL);
    if (stepped) CHECK(memcmp(params, params_at_the_end, sizeof params_at_the_end) == 0);
    works(norm_it, &use);
    const int exported = stepped && works(export_it, &use);
    if (stepped) expect_state(&use, exported);
    if (exported) works(export_it_beside, &use);
    if (stepped) expect_state(&use, exported);
    if (exported) works(import_it, &use);
    arm_now();
    const zf_status closed = close_it(&use);
    disarm_now();
    if (closed != ZF_OK) expect_cause(closed);
  } else {
    CHECK(use.handle == NULL);
  }
  if (sees_itself) {
    CHECK(count_children() == 0);
    CHECK(count_arena_mappings() == 0);
    CHECK(count_descriptors() == descriptors);
  }
  remove_files(&use);
}

void live_undisturbed(void) {
  struct use use = prepared();
  EXPECT(open_it(&use), ZF_OK);
  fill(&use);
  EXPECT(submit_it(&use), ZF_OK);
  EXPECT(await_it(&use), ZF_OK);
  memcpy(params_at_the_end, buffer_of(use.handle, 0, ZF_PARAMS, NULL), sizeof params_at_the_end);
  EXPECT(export_it(&use), ZF_OK);
  state_bytes = read_state(&use, state_at_the_end);
  EXPECT(close_it(&use), ZF_OK);
  CHECK(count_children() == 0);
  remove_files(&use);
}

void prepare_life(void) {
  next.plan = NULL; /* a child has lived the one before */
  next = prepared();
}

void forget_life(void) {
  const struct use use = prepared();
  remove_files(&use);
}

void expect_said(const char* cause) {
  if (strstr(causes, cause) != NULL) return;
  fprintf(stderr, "no line says \"%s\"; they are: %s\n", cause, causes);
  exit(1);
}

void expect_whole_rest(void) {
  struct use use = prepared();
  expect_state(&use, 0);
  EXPECT(open_it(&use), ZF_OK);
  fill(&use);
  if (import_it(&use) != ZF_OK) { /* it is the state before, which no optimizer wrote */
    EXPECT(submit_it(&use), ZF_OK);
    EXPECT(await_it(&use), ZF_OK);
  }
  CHECK(memcmp(buffer_of(use.handle, 0, ZF_PARAMS, NULL), params_at_the_end, sizeof params_at_the_end) == 0);
  EXPECT(export_it(&use), ZF_OK);
  expect_state(&use, 1);
  EXPECT(close_it(&use), ZF_OK);
  remove_files(&use); /* all that is there is the state */
}

void await_orphans(void) {
  const int64_t deadline = now_ns() + 10000000000;
  while (count_children() != 0 && now_ns() < deadline) {
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
    usleep(1000);
  }
  CHECK(count_children() == 0);
}

int for_each_fault(void (*live_with_fault)(int n), int (*watch)(pid_t child), int first, int stride,
                   const volatile int* reached) {
  CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  int faults = 0;
  int failed = 0;
  for (int n = first;; n += stride) {
    int status = -1;
    fflush(NULL);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(DEADLINE_S);
      live_with_fault(n);
      exit(0);
    }
    if (watch != NULL) {
      status = watch(child);
    } else {
      CHECK(waitpid(child, &status, 0) == child);
    }
    if (status != 0) fprintf(stderr, "fault %d: the process ended with status %#x\n", n, (unsigned)status);
    failed += status != 0;
    await_orphans();
    if (!*reached) break;
    ++faults;
  }
  if (failed != 0) fprintf(stderr, "%d of %d lives with a fault failed\n", failed, faults);
  CHECK(failed == 0);
  return faults;
}
