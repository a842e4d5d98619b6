/* What zf-tune calls, and glibc has only after 2.28. The portable build links this file in; it does what
 * glibc does. On a system with a newer glibc, these are used all the same. */
#define _GNU_SOURCE
#include "newer_glibc.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* 2.30 */
pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }
int tgkill(pid_t group, pid_t thread, int number) { return (int)syscall(SYS_tgkill, group, thread, number); }

/* 2.29 */
int getcpu(unsigned int* cpu, unsigned int* node) { return (int)syscall(SYS_getcpu, cpu, node, NULL); }

/* 2.32 */
const char* sigabbrev_np(int number) {
  static const char* const names[] = {
      [SIGHUP] = "HUP",   [SIGINT] = "INT",       [SIGQUIT] = "QUIT", [SIGILL] = "ILL",
      [SIGTRAP] = "TRAP", [SIGABRT] = "ABRT",     [SIGBUS] = "BUS",   [SIGFPE] = "FPE",
      [SIGKILL] = "KILL", [SIGUSR1] = "USR1",     [SIGSEGV] = "SEGV", [SIGUSR2] = "USR2",
      [SIGPIPE] = "PIPE", [SIGALRM] = "ALRM",     [SIGTERM] = "TERM", [SIGSTKFLT] = "STKFLT",
      [SIGCHLD] = "CHLD", [SIGCONT] = "CONT",     [SIGSTOP] = "STOP", [SIGTSTP] = "TSTP",
      [SIGTTIN] = "TTIN", [SIGTTOU] = "TTOU",     [SIGURG] = "URG",   [SIGXCPU] = "XCPU",
      [SIGXFSZ] = "XFSZ", [SIGVTALRM] = "VTALRM", [SIGPROF] = "PROF", [SIGWINCH] = "WINCH",
      [SIGPOLL] = "POLL", [SIGPWR] = "PWR",       [SIGSYS] = "SYS"};
  return number > 0 && number < (int)(sizeof names / sizeof *names) ? names[number] : NULL;
}

/* 2.32. strsignal() of older releases has the same texts, and one for each signal that has no name. */
const char* sigdescr_np(int number) { return sigabbrev_np(number) != NULL ? strsignal(number) : NULL; }

/* Calls use(file, argument) for each open file from `first` to `last`, until one fails. Returns 0, or the
 * number of the error. */
static int for_open_files(unsigned int first, unsigned int last, int (*use)(int, void*), void* argument) {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == NULL) return errno;
  int error = 0;
  for (const struct dirent* entry = readdir(folder); error == 0 && entry != NULL; entry = readdir(folder)) {
    const int file = atoi(entry->d_name); /* 0 for "." and ".." */
    if (entry->d_name[0] != '.' && (unsigned int)file >= first && (unsigned int)file <= last &&
        file != dirfd(folder))
      error = use(file, argument);
  }
  closedir(folder);
  return error;
}

static int close_it(int file, void* unused) {
  (void)unused;
  close(file); /* as close_range does, whatever it returns */
  return 0;
}

/* 2.34. The kernel has it from 5.9 on. */
int close_range(unsigned int first, unsigned int last, int flags) {
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
  if (syscall(SYS_close_range, first, last, flags) == 0) return 0;
  errno = for_open_files(first, last, close_it, NULL);
  return errno == 0 ? 0 : -1;
}

static int add_close(int file, void* actions) {
  return posix_spawn_file_actions_addclose((posix_spawn_file_actions_t*)actions, file);
}

/* 2.34. Closes what is open now. A file that another thread opens before the child starts stays open there.
 */
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t* actions, int first) {
  return for_open_files((unsigned int)first, ~0U, add_close, actions);
}
