/* Lives in environments that jobs have met: limits, namespaces, no /proc, no /dev, filters of system calls.
 * In each the life works, bit for bit, or a line says why it does not; and nothing hangs, crashes or is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "life.h"

enum { REFUSED = 3, DEADLINE_S = 60 };

/* In each the functions return whether this process is now in that environment. */

static int limited(int resource, rlim_t value) {
  const struct rlimit limit = {value, value};
  return setrlimit(resource, &limit) == 0;
}

static int six_descriptors(void) { return limited(RLIMIT_NOFILE, 6); }

static int forty_more_descriptors(void) {
  int highest = 2;
  for (int fd = 3; fd < 1024; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) highest = fd;
  }
  return limited(RLIMIT_NOFILE, (rlim_t)highest + 40);
}

static int no_file_size(void) { return limited(RLIMIT_FSIZE, 0); }
static int small_files(void) { return limited(RLIMIT_FSIZE, 100000); }
static int small_stacks(void) { return limited(RLIMIT_STACK, 1 << 18); }
static int endless_stacks(void) { return limited(RLIMIT_STACK, RLIM_INFINITY); }
static int little_data(void) { return limited(RLIMIT_DATA, 1 << 20); }
static int no_locked_memory(void) { return limited(RLIMIT_MEMLOCK, 0); }
static int no_queued_signals(void) { return limited(RLIMIT_SIGPENDING, 0); }

static int private_mounts(void) {
  return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static int hidden(const char* folder) {
  return private_mounts() && mount("none", folder, "tmpfs", 0, NULL) == 0;
}

static int no_proc(void) { return hidden("/proc"); }
static int no_sys(void) { return hidden("/sys"); }
static int no_dev(void) { return hidden("/dev"); }

static int null_alone(void) {
  return hidden("/dev") && mknod("/dev/null", S_IFCHR | 0666, 0x103) == 0 && chmod("/dev/null", 0666) == 0;
}

/* Becomes the first process of a new PID namespace. The one before waits for it, and ends as it does. */
static int first_process(void) {
  int status = -1;
  if (unshare(CLONE_NEWPID) != 0) return 0;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(DEADLINE_S);
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
  }
  CHECK(waitpid(child, &status, 0) == child);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static int own_proc(const char* options) {
  return first_process() && private_mounts() && mount("proc", "/proc", "proc", 0, options) == 0;
}

static int container(void) { return own_proc(NULL); }
static int hidepid(void) { return own_proc("hidepid=2"); }
static int processes_alone(void) { return own_proc("subset=pid"); }
static int user_namespace(void) { return unshare(CLONE_NEWUSER) == 0; }
static int other_namespaces(void) {
  return unshare(CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWCGROUP) == 0;
}

static int refused(int call, int error) { return refuse_calls(&call, 1, error); }

static int no_memfd(void) { return refused(SYS_memfd_create, EPERM); }
static int no_pidfd(void) { return refused(SYS_pidfd_open, ENOSYS); }
static int no_signals_by_pidfd(void) { return refused(SYS_pidfd_send_signal, EPERM); }
static int no_affinity(void) { return refused(SYS_sched_setaffinity, EPERM); }
static int no_look_at_affinity(void) { return refused(SYS_sched_getaffinity, EPERM); }
static int no_prctl(void) { return refused(SYS_prctl, EPERM); }
static int no_madvise(void) { return refused(SYS_madvise, EPERM); }
static int no_ftruncate(void) { return refused(SYS_ftruncate, EPERM); }
static int no_clone3(void) { return refused(SYS_clone3, ENOSYS); }
static int no_links(void) { return refused(SYS_linkat, EPERM); }
static int no_locks(void) { return refused(SYS_flock, ENOLCK); }
static int no_sync(void) { return refused(SYS_fsync, EIO); }
static int no_eventfd(void) { return refused(SYS_eventfd2, EPERM); }
static int no_threads(void) {
  static const int calls[] = {SYS_clone, SYS_clone3};
  return refuse_calls(calls, 2, EAGAIN);
}

static int no_numa(void) {
  static const int calls[] = {SYS_mbind, SYS_set_mempolicy, SYS_get_mempolicy, SYS_move_pages};
  return refuse_calls(calls, 4, EPERM);
}

static int no_variables(void) { return clearenv() == 0; }
static int no_streams(void) { return close(0) == 0 && close(1) == 0 && close(2) == 0; }
static int ignored_children(void) { return signal(SIGCHLD, SIG_IGN) != SIG_ERR; }
static int strict_umask(void) { return umask(0777) != (mode_t)-1; }
static int not_dumpable(void) { return prctl(PR_SET_DUMPABLE, 0) == 0; }

static int blocked_signals(void) {
  sigset_t all;
  return sigfillset(&all) == 0 && sigprocmask(SIG_SETMASK, &all, NULL) == 0;
}

static int no_folder(void) {
  char folder[] = "/tmp/zf-abi-test-XXXXXX";
  return mkdtemp(folder) != NULL && chdir(folder) == 0 && rmdir(folder) == 0;
}

static int idle_priority(void) {
  const struct sched_param zero = {0};
  return sched_setscheduler(0, SCHED_IDLE, &zero) == 0;
}

/* What must come of it. A line that says why counts only where the name of the cause is in it. */
static const struct environment {
  const char* name;
  int (*enter)(void);
  const char* cause; /* NULL: the life works */
} kEnvironments[] = {
    {"6 descriptors", six_descriptors, "ulimit -n"},
    {"40 descriptors more", forty_more_descriptors, NULL},
    {"no file may have a byte", no_file_size, "ulimit -f"},
    {"files of 100 kB", small_files, "ulimit -f"}, /* refuses the copy of an export alone */
    {"stacks of 256 KiB", small_stacks, NULL},
    {"endless stacks", endless_stacks, NULL},
    {"1 MiB of data", little_data, "ulimit -d"},
    {"no locked memory", no_locked_memory, NULL},
    {"no queued signals", no_queued_signals, NULL},
    {"no /proc", no_proc, NULL},
    {"no /sys", no_sys, NULL},
    {"no /dev", no_dev, "/dev/null"},
    {"/dev/null alone", null_alone, NULL},
    {"a PID namespace", first_process, NULL},
    {"a PID namespace with its /proc", container, NULL},
    {"hidepid=2", hidepid, NULL},
    {"subset=pid", processes_alone, NULL},
    {"a user namespace without users", user_namespace, NULL},
    {"network, IPC, UTS and cgroup namespaces", other_namespaces, NULL},
    {"no memfd_create", no_memfd, "memfd_create"},
    {"no pidfd_open", no_pidfd, "pidfd_open"},
    {"no pidfd_send_signal", no_signals_by_pidfd, NULL},
    {"no sched_setaffinity", no_affinity, "allow sched_setaffinity"},
    {"no sched_getaffinity", no_look_at_affinity, "allow sched_getaffinity"},
    {"no prctl", no_prctl, NULL},
    {"no madvise", no_madvise, NULL},
    {"no ftruncate", no_ftruncate, "allow this call"},
    {"no clone3", no_clone3, NULL},
    {"no linkat", no_links, NULL},
    {"no flock", no_locks, NULL},
    {"no fsync", no_sync, "Input/output error; look in dmesg"},
    {"no eventfd", no_eventfd, "eventfd"},
    {"no new threads", no_threads, "thread"},
    {"no NUMA calls", no_numa, NULL},
    {"no variables", no_variables, NULL},
    {"closed streams", no_streams, NULL},
    {"SIGCHLD ignored", ignored_children, NULL},
    {"umask 777", strict_umask, NULL},
    {"not dumpable", not_dumpable, NULL},
    {"all signals blocked", blocked_signals, NULL},
    {"a folder that is gone", no_folder, NULL},
    {"SCHED_IDLE", idle_priority, NULL},
};

static void nothing(void) {}

/* Lives in an environment, in a child. Returns how that ended. */
static int status_in(const struct environment* environment) {
  int status = -1;
  prepare_life();
  fflush(NULL);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(DEADLINE_S);
    if (!environment->enter()) _exit(SKIPPED);
    live(FOR_GOOD, nothing, nothing);
    if (was_refused() && environment->cause != NULL) expect_said(environment->cause);
    fflush(NULL);
    _exit(was_refused() ? REFUSED : 0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  await_orphans();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void) {
  enum { COUNT = sizeof kEnvironments / sizeof *kEnvironments };
  int failed = 0;
  int skipped = 0;
  CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  live_undisturbed();
  for (size_t i = 0; i < COUNT; ++i) {
    const struct environment* const at = &kEnvironments[i];
    const int status = status_in(at);
    const int as_wanted = status == (at->cause == NULL ? 0 : REFUSED);
    printf("%s: %s\n", at->name,
           status == SKIPPED   ? "not to be had here"
           : status == 0       ? "works"
           : status == REFUSED ? "says why not"
                               : "failed");
    if (status != SKIPPED && !as_wanted) fprintf(stderr, "%s: it ended with %d\n", at->name, status);
    if (status == SKIPPED) forget_life();
    skipped += status == SKIPPED;
    failed += status != SKIPPED && !as_wanted;
  }
  printf("%d environments, %d of them not to be had here\n", COUNT, skipped);
  CHECK(failed == 0 && skipped < COUNT);
  return 0;
}
