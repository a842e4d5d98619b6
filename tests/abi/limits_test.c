/* Checks that a limit of the process or a missing device is named, with the way out, wherever it is met. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { ELEMENTS = 1000000 };

static const char* plan;
static rlim_t limit;

static void set_limit(int resource, rlim_t value) {
  struct rlimit now;
  CHECK(getrlimit(resource, &now) == 0);
  now.rlim_cur = value;
  CHECK(setrlimit(resource, &now) == 0);
}

static zf_status open_it(zf_runtime** handle) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  options.plan_path = plan;
  group.elements = ELEMENTS;
  return zf_open(&options, &group, 1, handle);
}

/* Returns whether it opened. If not, the error must name the limit. */
static int opens_or_names(const char* name) {
  zf_runtime* handle = NULL;
  const zf_status status = open_it(&handle);
  if (status == ZF_OK) {
    EXPECT(zf_close(handle), ZF_OK);
    return 1;
  }
  expect_error(name);
  return 0;
}

static void few_descriptors(void) {
  struct rlimit before;
  int opened = 0;
  CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
  for (limit = 4; limit < 40 && !opened; ++limit) {
    set_limit(RLIMIT_NOFILE, limit);
    opened = opens_or_names("ulimit -n");
  }
  CHECK(opened && limit > 8);
  CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

static rlim_t address_space(void) {
  unsigned long pages = 0;
  FILE* const file = fopen("/proc/self/statm", "re");
  CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
  fclose(file);
  return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void little_address_space(void) {
  const rlim_t now = address_space();
  int opened = 0;
  for (rlim_t more = 0; more <= 1u << 28 && !opened; more = more * 2 + (1 << 16)) {
    set_limit(RLIMIT_AS, now + more);
    opened = opens_or_names("ulimit -v");
  }
  CHECK(opened);
}

static void no_null_device(void) {
  zf_runtime* handle = NULL;
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("none", "/dev", "tmpfs", 0, NULL) != 0) {
    printf("skipped: /dev cannot be hidden here: %s\n", strerror(errno));
    exit(SKIPPED);
  }
  EXPECT(open_it(&handle), ZF_ERROR_WORKER);
  expect_error("/dev/null: No such file or directory; a child process needs it");
}

int main(void) {
  plan = write_plan(PLAN_SPLIT, NULL);
  in_child(few_descriptors);
#ifndef ZF_SANITIZED /* a sanitizer takes terabytes of addresses */
  in_child(little_address_space);
#endif
  in_child(no_null_device);
  CHECK(count_children() == 0);
  return 0;
}
