/* An optimizer that SIGKILL does not end (a freezer, a driver), or that a debugger hides the end of. No call
 * waits long for it, and it stays no zombie. Needs ptrace, which holds a process like either. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

static void sleep_ms(long ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

/* A process that traces another one. */
struct holder {
  pid_t pid;
  int ready;   /* readable when it holds */
  int release; /* written to let go */
};

/* How to hold: as it ends, like a frozen process, or so that its end is seen and its status is not. */
enum way { AT_ITS_END = PTRACE_O_TRACEEXIT, BEHIND_ITS_END = 0 };

/* Returns the number that a file has; 0: none yet. */
static pid_t number_in(const char* path) {
  int number = 0;
  FILE* const file = fopen(path, "re");
  CHECK(file != NULL);
  if (fscanf(file, "%d\n", &number) != 1) number = 0;
  fclose(file);
  return number;
}

/* Holds a process, or that with the number that will be in a file. */
static struct holder hold(pid_t pid, const char* file, enum way way) {
  struct holder holder;
  int ready[2];
  int release[2];
  CHECK(pipe(ready) == 0 && pipe(release) == 0);
  holder.pid = fork();
  CHECK(holder.pid >= 0);
  if (holder.pid == 0) {
    close(release[1]);
    for (int i = 0; pid == 0 && i < 10000; ++i, sleep_ms(1)) pid = number_in(file);
    char held = ptrace(PTRACE_SEIZE, pid, NULL, (void*)(long)way) == 0 ? 1 : 0;
    if (write(ready[1], &held, 1) != 1 || read(release[0], &held, 1) < 0) _exit(1);
    _exit(0); /* lets it go */
  }
  close(ready[1]);
  close(release[0]);
  holder.ready = ready[0];
  holder.release = release[1];
  return holder;
}

static int holds(const struct holder* holder) {
  char held = 0;
  CHECK(read(holder->ready, &held, 1) == 1);
  return held;
}

static void let_go(const struct holder* holder) {
  close(holder->release);
  close(holder->ready);
  CHECK(waitpid(holder->pid, NULL, 0) == holder->pid);
}

static struct holder held(zf_runtime* handle, enum way way) {
  const struct holder holder = hold(worker_of(handle), NULL, way);
  CHECK(holds(&holder));
  return holder;
}

static void expect_no_children(void) {
  const int64_t deadline = now_ns() + 5000000000;
  while (count_children() != 0 && now_ns() < deadline) sleep_ms(1);
  CHECK(count_children() == 0);
}

static zf_status open_it(int64_t start_timeout_ms, zf_runtime** handle) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  options.plan_path = write_plan(PLAN_SPLIT, NULL);
  options.start_timeout_ms = start_timeout_ms;
  options.close_timeout_ms = 500;
  options.max_restarts = -1;
  group.elements = 10;
  return zf_open(&options, &group, 1, handle);
}

static double ms_since(int64_t begin) { return (double)(now_ns() - begin) * 1e-6; }

/* It takes the timeout of half a second and one second more, and here a busy machine's delay; a library that
 * waited for the optimizer would wait for ever. */
static void expect_an_end(int64_t begin, const char* what) {
  printf("%s after %.0f ms\n", what, ms_since(begin));
  CHECK(ms_since(begin) < 10000);
}

static void frozen_one_is_left_at_close_and_reaped_later(void) {
  zf_runtime* handle = NULL;
  EXPECT(open_it(0, &handle), ZF_OK);
  const pid_t worker = worker_of(handle);
  const struct holder holder = held(handle, AT_ITS_END);
  const int64_t begin = now_ns();
  EXPECT(zf_close(handle), ZF_TIMEOUT);
  expect_an_end(begin, "a frozen optimizer was left");
  CHECK(kill(worker, 0) == 0 && count_arena_mappings() == 0);
  EXPECT(open_it(0, &handle), ZF_OK); /* the other is not in its way */
  let_go(&holder);
  EXPECT(zf_close(handle), ZF_OK);
  expect_no_children();
}

static void frozen_one_is_left_at_open_and_reaped_later(void) {
  char script[256];
  zf_runtime* handle = NULL;
  const char* const number = write_file("");
  snprintf(script, sizeof script, "#!/bin/sh\necho $$ >%s\nexec sleep 60\n", number);
  const char* const program = write_file(script);
  CHECK(chmod(program, 0755) == 0 && setenv("ZF_OPTIMIZER", program, 1) == 0);
  const struct holder holder = hold(0, number, AT_ITS_END);
  const int64_t begin = now_ns();
  EXPECT(open_it(500, &handle), ZF_TIMEOUT);
  expect_error("was not ready after 500 ms");
  expect_an_end(begin, "an optimizer that froze at its start was left");
  unsetenv("ZF_OPTIMIZER");
  CHECK(holds(&holder) && kill(number_in(number), 0) == 0 && count_arena_mappings() == 0);
  let_go(&holder);
  expect_no_children();
}

static void death_behind_a_debugger_is_noticed(void) {
  zf_runtime* handle = NULL;
  EXPECT(open_it(0, &handle), ZF_OK);
  const pid_t worker = worker_of(handle);
  stop_process(worker);
  const struct holder holder = held(handle, BEHIND_ITS_END);
  EXPECT(submit_all(handle, NULL), ZF_OK);
  const int64_t begin = now_ns();
  CHECK(kill(worker, SIGKILL) == 0);
  EXPECT(zf_wait(handle, 0, -1), ZF_WORKER_DIED);
  expect_error("has ended, and a debugger holds its status");
  EXPECT(zf_close(handle), ZF_WORKER_DIED);
  expect_an_end(begin, "a death behind a debugger was told, and the handle closed");
  let_go(&holder);
  expect_no_children();
}

/* The reaper is a thread. Without one the close says what it says of any frozen optimizer. */
static void frozen_one_is_left_where_no_thread_can_be_started(void) {
  static const int starts[] = {SYS_clone, SYS_clone3};
  zf_runtime* handle = NULL;
  EXPECT(open_it(0, &handle), ZF_OK);
  const struct holder holder = held(handle, AT_ITS_END);
  if (!refuse_calls(starts, sizeof starts / sizeof *starts, EAGAIN)) {
    printf("skipped: no filter can be had here\n");
    exit(SKIPPED);
  }
  const int64_t begin = now_ns();
  EXPECT(zf_close(handle), ZF_TIMEOUT);
  expect_error("the optimizer was killed");
  CHECK(count_arena_mappings() == 0);
  let_go(&holder);
  expect_an_end(begin, "a frozen optimizer was left, without a thread to reap it,");
  exit(0); /* without a wait for it */
}

static int can_hold(void) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    pause();
    _exit(0);
  }
  const struct holder holder = hold(child, NULL, BEHIND_ITS_END);
  const int can = holds(&holder);
  let_go(&holder);
  CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
  return can;
}

/* All at once: they spend their time in waits. */
int main(void) {
  static void (*const tests[])(void) = {
      frozen_one_is_left_at_close_and_reaped_later, frozen_one_is_left_at_open_and_reaped_later,
      death_behind_a_debugger_is_noticed, frozen_one_is_left_where_no_thread_can_be_started};
  int skipped = 0;
  int status = 0;
  if (!can_hold()) {
    printf("skipped: no process can be traced here\n");
    return SKIPPED;
  }
  fflush(NULL);
  for (size_t i = 0; i < sizeof tests / sizeof *tests; ++i) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child != 0) continue;
    tests[i]();
    exit(0);
  }
  while (wait(&status) > 0) {
    const int is_skipped = WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED;
    CHECK(is_skipped || status == 0);
    skipped += is_skipped;
  }
  return skipped == 0 ? 0 : SKIPPED;
}
