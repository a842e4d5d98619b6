/* Refuses one system call after the other to a training and its optimizer, as sandboxes and older kernels do.
 * Where the call only helps, everything works. Where it is needed, there is one line with the reason. Nothing
 * hangs, and nothing is left behind. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { ELEMENTS = 300000, DEADLINE_S = 60 };

static const struct {
  const char* name;
  int number;
  int helps; /* only helps: the runtime does without it */
} kCalls[] = {
    {"clone", SYS_clone, 0},
    {"clone3", SYS_clone3, 0},
#ifdef SYS_dup2 /* AArch64 has newer calls only */
    {"dup2", SYS_dup2, 0},
#endif
    {"eventfd2", SYS_eventfd2, 0},
    {"execve", SYS_execve, 0},
    {"fallocate", SYS_fallocate, 1},
    {"fcntl", SYS_fcntl, 0},
    {"flock", SYS_flock, 1},
    {"fsync", SYS_fsync, 0},
    {"ftruncate", SYS_ftruncate, 0},
    {"get_mempolicy", SYS_get_mempolicy, 1},
    {"getdents64", SYS_getdents64, 0},
    {"getrandom", SYS_getrandom, 1},
    {"kill", SYS_kill, 1},
    {"linkat", SYS_linkat, 1},
    {"madvise", SYS_madvise, 1},
    {"mbind", SYS_mbind, 1},
    {"membarrier", SYS_membarrier, 1},
    {"memfd_create", SYS_memfd_create, 0},
    {"mlock", SYS_mlock, 1},
    {"move_pages", SYS_move_pages, 1},
    {"pidfd_open", SYS_pidfd_open, 0},
    {"pidfd_send_signal", SYS_pidfd_send_signal, 1},
#ifdef SYS_poll /* AArch64 has newer calls only */
    {"poll", SYS_poll, 0},
#endif
    {"prctl", SYS_prctl, 1},
    {"pwrite64", SYS_pwrite64, 0},
#ifdef SYS_readlink /* AArch64 has newer calls only */
    {"readlink", SYS_readlink, 0},
#endif
#ifdef SYS_rename /* AArch64 has newer calls only */
    {"rename", SYS_rename, 0},
#endif
    {"sched_getaffinity", SYS_sched_getaffinity, 0},
    {"sched_setaffinity", SYS_sched_setaffinity, 0},
    {"sched_yield", SYS_sched_yield, 1},
    {"set_mempolicy", SYS_set_mempolicy, 1},
    {"socketpair", SYS_socketpair, 1},
#ifdef SYS_vfork /* AArch64 has newer calls only */
    {"vfork", SYS_vfork, 0},
#endif
};
enum { CALLS = sizeof kCalls / sizeof *kCalls };

static size_t call; /* the one to refuse, and the answer to it */
static int error;
static atomic_int* succeeded; /* shared with the children */

/* Whether the status is ZF_OK. If not, zf_last_error has one line, and the call must be a needed one. */
static int works(zf_status status) {
  if (status == ZF_OK) return 1;
  if (kCalls[call].helps) fprintf(stderr, "%s, answered with %s:\n", kCalls[call].name, strerror(error));
  CHECK(!kCalls[call].helps);
  CHECK(status == ZF_ERROR_SYSTEM || status == ZF_ERROR_WORKER || status == ZF_ERROR_USAGE ||
        status == ZF_WORKER_DIED);
  printf("%s, answered with %s:\n", kCalls[call].name, strerror(error));
  expect_error(strerror(error));
  return 0;
}

static void training(void) {
  zf_runtime* handle = NULL;
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  const char* const state = write_file("");
  options.plan_path = write_plan(PLAN_SHARED, NULL);
  options.max_restarts = -1;
  options.close_timeout_ms = 10000;
  group.elements = ELEMENTS;
  alarm(DEADLINE_S);
  if (!refuse_calls(&kCalls[call].number, 1, error)) {
    printf("skipped: no seccomp filters here\n");
    exit(SKIPPED);
  }
  if (!works(zf_open(&options, &group, 1, &handle))) return;
  int well = works(submit_all(handle, NULL)) && works(zf_wait(handle, 0, 10000));
  well = well && works(zf_export_state(handle, state)) && works(zf_import_state(handle, state));
  well = works(zf_close(handle)) && well;
  if (well) atomic_fetch_add(succeeded, 1);
}

int main(void) {
  static const int errors[] = {EPERM, ENOSYS};
  succeeded = mmap(NULL, sizeof *succeeded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(succeeded != MAP_FAILED);
  CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0); /* what a training leaves behind becomes ours */
  int helping = 0;
  for (call = 0; call < CALLS; ++call) {
    helping += kCalls[call].helps;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; ++i) {
      error = errors[i];
      in_child(training);
    }
  }
  const int64_t deadline = now_ns() + 10000000000;
  while (count_children() != 0 && now_ns() < deadline) { /* optimizers without a trainer */
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
    usleep(1000);
  }
  CHECK(count_children() == 0);
  printf("%d of %d trainings worked\n", atomic_load(succeeded), 2 * CALLS);
  CHECK(atomic_load(succeeded) == 0 || atomic_load(succeeded) >= 2 * helping);
  return atomic_load(succeeded) == 0 ? SKIPPED : 0;
}
