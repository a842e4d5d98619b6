#include "single_steps.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

enum {
  MOST_THREADS = MAX_CPUS + 8, /* one for each CPU, and those that do no steps */
  STOP_NS = 1000000000,        /* of a thread that was told to stop */
  STEP_NS = 5000000,           /* of one instruction; a thread that takes longer waits in the kernel */
  SEIZE_ATTEMPTS = 2000,       /* a millisecond apart */
};

struct traced {
  pid_t tid;
  enum { RUNS, STOPPED, GONE } state;
  int signal; /* to be delivered with the next instruction */
};

static struct traced threads[MOST_THREADS];
static size_t count;
static pid_t traced_child;

/* Waits until the thread stops or ends, or for so long. Collects nothing (WNOWAIT): the library must see how
 * its child ended, and a stop is forgotten when the thread goes on. */
static void await_stop(struct traced* thread, int64_t limit_ns) {
  const int64_t deadline = now_ns() + limit_ns;
  while (thread->state == RUNS) {
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)thread->tid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) != 0) {
      CHECK(errno == ECHILD || errno == EINTR);
      if (errno == ECHILD) thread->state = GONE;
    } else if (info.si_pid == 0) {
      if (now_ns() >= deadline) return;
      sched_yield();
    } else if (info.si_code == CLD_TRAPPED) {
      /* After an instruction it is SIGTRAP, and a stop that was asked for has an event above the signal. */
      thread->signal = info.si_status == SIGTRAP || info.si_status > 0xff ? 0 : info.si_status;
      thread->state = STOPPED;
    } else {
      thread->state = GONE;
    }
  }
}

static int is_traced(pid_t tid) {
  for (size_t i = 0; i < count; ++i) {
    if (threads[i].tid == tid) return 1;
  }
  return 0;
}

/* Returns whether a thread of the child is gone or waits to be collected. The kernel refuses to trace the
 * latter with EPERM. */
static int has_ended(pid_t tid) {
  char path[64];
  char line[128] = "";
  snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)traced_child, (int)tid);
  FILE* const file = fopen(path, "re");
  if (file == NULL) return 1;
  const char* const name_end = fgets(line, sizeof line, file) == NULL ? NULL : strrchr(line, ')');
  fclose(file);
  return name_end == NULL || name_end[2] == 'Z' || name_end[2] == 'X';
}

/* Begins to trace a thread of the child. Returns 0 if the thread has ended. A thread that is about to end, or
 * to become another program, refuses for a moment. */
static int seize(pid_t tid) {
  const struct timespec pause = {0, 1000 * 1000};
  for (int attempt = 0; attempt < SEIZE_ATTEMPTS; ++attempt) {
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) == 0) return 1;
    const int error = errno;
    if (error == ESRCH || has_ended(tid)) return 0;
    CHECK(error == EPERM);
    nanosleep(&pause, NULL);
  }
  fprintf(stderr, "tracing was refused\n");
  exit(1);
}

/* Returns how many threads of the child were found that were not traced before. */
static size_t stop_more_threads(void) {
  char path[64];
  size_t more = 0;
  snprintf(path, sizeof path, "/proc/%d/task", (int)traced_child);
  DIR* const tasks = opendir(path);
  if (tasks == NULL) return 0; /* the child has ended */
  for (const struct dirent* task = readdir(tasks); task != NULL; task = readdir(tasks)) {
    const pid_t tid = (pid_t)atoi(task->d_name);
    if (tid == 0 || is_traced(tid)) continue;
    CHECK(count < MOST_THREADS);
    if (!seize(tid)) continue;
    threads[count++] = (struct traced){tid, RUNS, 0};
    ++more;
    ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
  }
  closedir(tasks);
  for (size_t i = 0; i < count; ++i) await_stop(&threads[i], STOP_NS);
  return more;
}

/* Executes one instruction of a stopped thread. Afterwards the thread is stopped again, unless it now waits
 * in the kernel. */
static void execute_one(struct traced* thread) {
  if (ptrace(PTRACE_SINGLESTEP, thread->tid, NULL, (void*)(long)thread->signal) != 0) {
    CHECK(errno == ESRCH);
    thread->state = GONE;
    return;
  }
  thread->state = RUNS;
  await_stop(thread, STEP_NS);
}

/* Returns a stopped thread, chosen at random; NULL if there is none. */
static struct traced* any_stopped(void) {
  size_t stopped = 0;
  for (size_t i = 0; i < count; ++i) {
    await_stop(&threads[i], 0); /* one that waited may have come back */
    stopped += threads[i].state == STOPPED;
  }
  if (stopped == 0) return NULL;
  size_t chosen = random_below(stopped);
  for (struct traced* thread = threads;; ++thread) {
    if (thread->state == STOPPED && chosen-- == 0) return thread;
  }
}

long execute_single_instructions(pid_t child, long instructions) {
  long executed = 0;
  traced_child = child;
  count = 0;
  while (stop_more_threads() != 0) { /* those that have just been started */
  }
  if (count == 0) return -1;
  for (; executed < instructions; ++executed) {
    struct traced* const thread = any_stopped();
    if (thread == NULL) break;
    execute_one(thread);
  }
  return executed;
}

void kill_stopped(void) {
  CHECK(kill(traced_child, SIGKILL) == 0 || errno == ESRCH);
  /* The kernel reports the end of a process when its traced threads have been collected. The first one is
   * the process itself. */
  for (size_t i = 0; i < count; ++i) {
    int status = 0;
    if (threads[i].tid == traced_child) continue;
    do {
    } while (waitpid(threads[i].tid, &status, __WALL) >= 0 ? WIFSTOPPED(status) : errno == EINTR);
  }
  count = 0;
}

int may_trace(void) {
  int status = 0;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    pause();
    _exit(0);
  }
  const int traced = ptrace(PTRACE_SEIZE, child, NULL, NULL) == 0;
  CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
  return traced;
}
