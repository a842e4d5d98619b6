#include "failing_calls.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "single_steps.h"
#include "support.h"

#ifdef __x86_64__

int calls_can_fail(void) { return may_trace(); }

/* These never fail, or glibc ends the program if they do, or they are done although they fail (close), or
 * tell in another way that they have failed (brk), or refused_calls_test.c is about them (kill). */
static const long kSound[] = {SYS_futex,
                              SYS_exit,
                              SYS_exit_group,
                              SYS_rt_sigreturn,
                              SYS_rt_sigprocmask,
                              SYS_restart_syscall,
                              SYS_munmap,
                              SYS_close,
                              SYS_set_robust_list,
                              SYS_rseq,
                              SYS_arch_prctl,
                              SYS_set_tid_address,
                              SYS_getpid,
                              SYS_gettid,
                              SYS_getppid,
                              SYS_geteuid,
                              SYS_getuid,
                              SYS_clock_gettime,
                              SYS_waitid,
                              SYS_wait4,
                              SYS_sched_yield,
                              SYS_rt_sigaction,
                              SYS_clock_nanosleep,
                              SYS_kill,
                              SYS_pidfd_send_signal,
                              SYS_brk};

static int is_sound(long call) {
  for (size_t i = 0; i < sizeof kSound / sizeof *kSound; ++i) {
    if (kSound[i] == call) return 1;
  }
  return 0;
}

static int error_of(long call) {
  switch (call) {
    case SYS_clone:
    case SYS_clone3:
    case SYS_vfork:
      return EAGAIN;
    case SYS_openat:
    case SYS_memfd_create:
    case SYS_eventfd2:
    case SYS_pidfd_open:
    case SYS_dup2:
    case SYS_fcntl:
      return EMFILE;
    case SYS_write:
    case SYS_pwrite64:
    case SYS_ftruncate:
    case SYS_fallocate:
      return ENOSPC;
    case SYS_read:
    case SYS_pread64:
    case SYS_fsync:
      return EIO;
    case SYS_prctl:
      return EPERM;
    default:
      return ENOMEM;
  }
}

/* The calls that will be answered with an error, by their threads. */
enum { MOST_PENDING = 64 };
static struct {
  pid_t tid;
  int error;
} pending[MOST_PENDING];

static void answer_later(pid_t tid, int error) {
  for (size_t i = 0; i < MOST_PENDING; ++i) {
    if (pending[i].tid != 0) continue;
    pending[i].tid = tid;
    pending[i].error = error;
    return;
  }
  CHECK(!"too many threads");
}

static int take_answer(pid_t tid) {
  for (size_t i = 0; i < MOST_PENDING; ++i) {
    if (pending[i].tid != tid) continue;
    pending[i].tid = 0;
    return pending[i].error;
  }
  return 0;
}

static int fails(struct call_faults* faults, long call) {
  if (!__atomic_load_n(&faults->armed, __ATOMIC_SEQ_CST) || is_sound(call)) return 0;
  const int number = ++faults->count;
  if (number < faults->first || (number > faults->first && !faults->for_good)) return 0;
  if (!faults->reached) faults->the_call = call;
  faults->reached = 1;
  return 1;
}

/* Returns the process that a thread belongs to; 0 if it has ended. */
static pid_t process_of(pid_t tid) {
  char path[64];
  char line[128];
  int process = 0;
  snprintf(path, sizeof path, "/proc/%d/status", (int)tid);
  FILE* const file = fopen(path, "re");
  if (file == NULL) return 0;
  while (fgets(line, sizeof line, file) != NULL && sscanf(line, "Tgid: %d", &process) != 1) continue;
  fclose(file);
  return process;
}

/* Kills the process of this thread if this is the call before which it is to die: the child, or another one.
 */
static void kill_before(pid_t tid, pid_t child, struct call_faults* faults, long call) {
  if (!__atomic_load_n(&faults->armed, __ATOMIC_SEQ_CST)) return;
  const pid_t process = process_of(tid);
  if (process == 0 || (process == child) != (faults->kills == KILLS_THE_CHILD) ||
      ++faults->count != faults->first)
    return;
  faults->the_call = call;
  faults->reached = 1;
  CHECK(kill(process, SIGKILL) == 0);
}

/* The thread is stopped before a call or after it. */
static void at_call(pid_t tid, pid_t child, struct call_faults* faults) {
  struct __ptrace_syscall_info info;
  if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, (void*)sizeof info, &info) <= 0) return; /* it was killed */
  if (faults->kills) {
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) kill_before(tid, child, faults, (long)info.entry.nr);
  } else if (info.op == PTRACE_SYSCALL_INFO_ENTRY && fails(faults, (long)info.entry.nr)) {
    answer_later(tid, error_of((long)info.entry.nr));
    ptrace(PTRACE_POKEUSER, tid, offsetof(struct user_regs_struct, orig_rax), -1L); /* no call */
  } else if (info.op == PTRACE_SYSCALL_INFO_EXIT) {
    const int error = take_answer(tid);
    if (error != 0) ptrace(PTRACE_POKEUSER, tid, offsetof(struct user_regs_struct, rax), -(long)error);
  }
}

int trace_with_faults(pid_t child, int go, struct call_faults* faults) {
  const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                       PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
  int ended = -1;
  CHECK(ptrace(PTRACE_SEIZE, child, NULL, (void*)options) == 0);
  CHECK(ptrace(PTRACE_INTERRUPT, child, NULL, NULL) == 0);
  CHECK(write(go, "", 1) == 1);
  for (;;) {
    int status = 0;
    const pid_t tid = waitpid(-1, &status, __WALL);
    if (tid < 0 && errno == EINTR) continue;
    if (tid < 0) break; /* all have ended */
    if (!WIFSTOPPED(status)) {
      take_answer(tid);
      if (tid == child) ended = status;
      continue;
    }
    const int signal = WSTOPSIG(status);
    const int is_call = signal == (SIGTRAP | 0x80);
    const int is_event = status >> 16 != 0;
    if (is_call) at_call(tid, child, faults);
    ptrace(PTRACE_SYSCALL, tid, NULL, (void*)(long)(is_call || is_event ? 0 : signal));
  }
  return ended;
}

#else

int calls_can_fail(void) { return 0; }

int trace_with_faults(pid_t child, int go, struct call_faults* faults) {
  (void)child, (void)go, (void)faults;
  CHECK(!"not for this machine");
  return -1;
}

#endif
