/* Either side dies. The other notices, says why, and nothing is left behind. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

static void sleep_ms(long ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

/* A death is noticed within this time (docs/recovery.md). The kernel takes long to end a process with a
 * sanitizer's memory. */
#ifdef ZF_SANITIZED
static const double kPromisedMs = 1000;
#else
static const double kPromisedMs = 100;
#endif

/* Checks the promise for the best of five deaths: on a busy machine a thread may have to wait for a CPU. */
static void expect_in_time(double (*ms_to_notice)(void), const char* what) {
  double best_ms = ms_to_notice();
  for (int i = 1; i < 5; ++i) {
    const double ms = ms_to_notice();
    if (ms < best_ms) best_ms = ms;
  }
  printf("%s after %.2f ms\n", what, best_ms);
  CHECK(best_ms < kPromisedMs);
}

/* Sends SIGKILL to a worker that holds a submission. The worker is stopped first, so that it cannot finish
 * it. Returns how long it took until this was noticed. */
static double killed_worker_is_noticed(void) {
  zf_runtime* const handle = open_one(PLAN_SPLIT, 100000);
  const pid_t worker = worker_of(handle);
  uint64_t ticket = 0;
  void* params = NULL;
  CHECK(kill(worker, SIGSTOP) == 0);
  EXPECT(submit_all(handle, &ticket), ZF_OK);
  EXPECT(zf_wait(handle, ticket, 100), ZF_TIMEOUT);
  EXPECT(zf_wait(handle, ticket, 0), ZF_TIMEOUT);
  EXPECT(submit_all(handle, NULL), ZF_ERROR_BUSY);
  expect_error("gradient buffer 0 is still being read");

  const int64_t begin = now_ns();
  CHECK(kill(worker, SIGKILL) == 0);
  EXPECT(zf_wait(handle, ticket, -1), ZF_WORKER_DIED);
  const double noticed_ms = (double)(now_ns() - begin) * 1e-6;
  expect_error("was killed by signal 9 (Killed)");
  EXPECT(zf_wait(handle, ticket, 0), ZF_WORKER_DIED);
  EXPECT(submit_all(handle, NULL), ZF_WORKER_DIED);
  EXPECT(zf_buffer(handle, 0, ZF_PARAMS, &params, NULL), ZF_OK);
  CHECK(*(float*)params == 0.0f);
  EXPECT(zf_export_state(handle, "/tmp/never-written"), ZF_WORKER_DIED);
  expect_error("parameters and moments may be half updated");
  EXPECT(zf_import_state(handle, "/tmp/never-read"), ZF_WORKER_DIED);
  expect_error("; open another handle and continue there from an earlier checkpoint");
  CHECK(kill(worker, 0) == -1); /* no zombie */
  EXPECT(zf_close(handle), ZF_WORKER_DIED);
  return noticed_ms;
}

/* Work that was finished before the death counts, and can be exported. */
static void finished_work_counts_after_death(void) {
  zf_runtime* const handle = open_one(PLAN_SPLIT, 1000);
  zf_stats stats = ZF_STATS_INIT;
  uint64_t ticket = 0;
  EXPECT(submit_all(handle, &ticket), ZF_OK);
  EXPECT(zf_wait(handle, ticket, -1), ZF_OK);
  CHECK(kill(worker_of(handle), SIGKILL) == 0);
  EXPECT(zf_wait(handle, ticket, -1), ZF_OK);
  const int64_t deadline = now_ns() + 10000000000;
  do {
    EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  } while (stats.worker_alive && now_ns() < deadline);
  EXPECT(submit_all(handle, NULL), ZF_WORKER_DIED);
  EXPECT(zf_export_state(handle, write_file("")), ZF_OK);
  EXPECT(zf_end(handle), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
}

/* Nothing is lost with it, whether it was killed before the end or at it. */
static void idle_optimizer_that_dies_is_no_loss_at_the_close(void) {
  zf_runtime* const handle = open_one(PLAN_SPLIT, 1000);
  CHECK(kill(worker_of(handle), SIGKILL) == 0);
  EXPECT(zf_close(handle), ZF_OK);
}

static zf_runtime* open_restartable(int64_t start_timeout_ms) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(PLAN_SPLIT, NULL);
  options.start_timeout_ms = start_timeout_ms;
  group.elements = 1000;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
  return handle;
}

/* Only watches what changes when another worker is started. */
static zf_stats await_restarts(zf_runtime* handle, uint32_t restarts) {
  zf_stats stats = ZF_STATS_INIT;
  const int64_t deadline = now_ns() + 20000000000;
  do {
    sleep_ms(1);
    EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  } while (stats.restarts < restarts && now_ns() < deadline);
  CHECK(stats.restarts == restarts);
  return stats;
}

/* The trainer is in forward and backward, and asks for nothing. Returns how long it took until a successor
 * was started. */
static double death_is_noticed_while_nobody_waits(void) {
  zf_runtime* const handle = open_restartable(0);
  const pid_t worker = worker_of(handle);
  const int64_t begin = now_ns();
  CHECK(kill(worker, SIGKILL) == 0);
  const zf_stats stats = await_restarts(handle, 1);
  const double noticed_ms = (double)(now_ns() - begin) * 1e-6;
  CHECK(stats.worker_pid != worker && strstr(stats.last_death, "was killed by signal 9") != NULL);
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, 60000), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
  return noticed_ms;
}

/* The first worker starts, the second one hangs, the third one starts. */
static void successor_that_hangs_at_its_start_is_given_up(void) {
  char real[4096] = "";
  char script[8192];
  zf_runtime* handle = open_restartable(0);
  char link[64];
  snprintf(link, sizeof link, "/proc/%d/exe", (int)worker_of(handle));
  CHECK(readlink(link, real, sizeof real - 1) > 0);
  EXPECT(zf_close(handle), ZF_OK);
  const char* const count = write_file("");
  snprintf(script, sizeof script,
           "#!/bin/sh\necho >>%s\ntest $(wc -l <%s) = 2 && exec sleep 60\nexec %s \"$@\"\n", count, count,
           real);
  const char* const program = write_file(script);
  CHECK(chmod(program, 0755) == 0);
  setenv("ZF_OPTIMIZER", program, 1);
  handle = open_restartable(2000);
  unsetenv("ZF_OPTIMIZER");
  CHECK(kill(worker_of(handle), SIGKILL) == 0);
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, 60000), ZF_OK);
  const zf_stats stats = await_restarts(handle, 2);
  CHECK(strstr(stats.last_death, "it was not ready after 2000 ms") != NULL);
  EXPECT(zf_close(handle), ZF_OK);
}

/* With no descriptor left it cannot be started again to do what is submitted; and later, when it could, not
 * either. */
static void nothing_is_started_after_a_failed_end(void) {
  struct rlimit before;
  zf_runtime* const handle = open_restartable(0);
  CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const struct rlimit none = {3, before.rlim_max}; /* poll of fewer is allowed */
  const pid_t worker = worker_of(handle);
  CHECK(kill(worker, SIGSTOP) == 0);
  EXPECT(submit_all(handle, NULL), ZF_OK);
  CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  CHECK(kill(worker, SIGKILL) == 0);
  const zf_status ended = zf_end(handle);
  CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(ended != ZF_OK);
  sleep_ms(1500); /* the watch tries again every second */
  CHECK(count_children() == 0);
  zf_close(handle);
}

/* Closes all descriptors, also ours, as a program does that becomes a daemon. */
static void lost_descriptors_do_not_hang_the_close(void) {
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    zf_runtime* const handle = open_restartable(0);
    const pid_t worker = worker_of(handle);
    for (int fd = 3; fd < 256; ++fd) close(fd);
    const clock_t before = clock();
    sleep_ms(300);
    CHECK(clock() - before < CLOCKS_PER_SEC / 10); /* nor does anything look for them in a hurry */
    CHECK(kill(worker, SIGSTOP) == 0);
    EXPECT(submit_all(handle, NULL), ZF_OK);
    EXPECT(zf_wait(handle, 0, 5000), ZF_ERROR_SYSTEM); /* it is not known whether it lives */
    expect_error("closes descriptors that it did not open");
    CHECK(kill(worker, SIGCONT) == 0);
    const int64_t begin = now_ns();
    zf_close(handle); /* whatever it can say of a process that it cannot see */
    _exit(now_ns() - begin < 5000000000 ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  const int64_t deadline = now_ns() + 10000000000;
  while (count_children() != 0 && now_ns() < deadline) { /* its worker has come to us, and ends */
    waitpid(-1, NULL, WNOHANG);
    sleep_ms(1);
  }
  CHECK(count_children() == 0);
}

/* Ctrl-C, and signals that Slurm sends to a whole job, are meant for the trainer. */
static void signals_to_the_job_are_left_to_the_trainer(void) {
  zf_runtime* const handle = open_one(PLAN_SPLIT, 1000);
  const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i) {
    CHECK(kill(worker_of(handle), signals[i]) == 0);
  }
  sleep_ms(20);
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, 5000), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
}

/* A worker that does not answer is killed when the deadline of zf_close has passed. */
static void hung_worker_is_killed_at_close(void) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(PLAN_SPLIT, NULL);
  options.close_timeout_ms = 100;
  group.elements = 10;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
  const pid_t worker = worker_of(handle);
  CHECK(kill(worker, SIGSTOP) == 0);
  const int64_t begin = now_ns();
  EXPECT(zf_close(handle), ZF_TIMEOUT);
  CHECK(now_ns() - begin < 8000000000 /* the default of close_timeout_ms is 10 s */);
  CHECK(kill(worker, 0) == -1);
}

static void* kill_after_half_a_second(void* worker) {
  sleep_ms(500);
  CHECK(kill(*(const pid_t*)worker, SIGKILL) == 0);
  return NULL;
}

/* Ends a handle while its optimizer has stopped in its work, and kills that. Returns the answer. */
static zf_status killed_during(zf_status (*ending)(zf_runtime*), zf_runtime* handle) {
  pthread_t killer;
  pid_t worker = worker_of(handle);
  stop_process(worker);
  EXPECT(submit_all(handle, NULL), ZF_OK);
  const int64_t begin = now_ns();
  CHECK(pthread_create(&killer, NULL, kill_after_half_a_second, &worker) == 0);
  const zf_status status = ending(handle);
  CHECK(now_ns() - begin > 400000000); /* it did wait for work that was not done */
  CHECK(pthread_join(killer, NULL) == 0);
  return status;
}

/* zf_end has another optimizer finish the work. zf_close starts none. */
static void death_in_an_end_is_mended_and_in_a_close_told(void) {
  void* params = NULL;
  void* grads = NULL;
  zf_runtime* handle = open_restartable(0);
  EXPECT(zf_buffer(handle, 0, ZF_PARAMS, &params, NULL), ZF_OK);
  EXPECT(zf_buffer(handle, 0, ZF_GRADS_0, &grads, NULL), ZF_OK);
  *(float*)grads = 1.0f;
  EXPECT(killed_during(zf_end, handle), ZF_OK);
  CHECK(*(float*)params < 0.0f);
  EXPECT(zf_close(handle), ZF_OK);
  handle = open_restartable(0);
  EXPECT(killed_during(zf_close, handle), ZF_WORKER_DIED);
  expect_error("was killed by signal 9");
  CHECK(count_children() == 0 && count_arena_mappings() == 0);
}

/* After zf_end the optimizer has finished what was submitted and has ended, and the memory still exists. */
static void ended_optimizer_leaves_its_results(void) {
  zf_runtime* const handle = open_one(PLAN_SPLIT, 10);
  const pid_t worker = worker_of(handle);
  void* params = NULL;
  void* grads = NULL;
  EXPECT(zf_buffer(handle, 0, ZF_PARAMS, &params, NULL), ZF_OK);
  EXPECT(zf_buffer(handle, 0, ZF_GRADS_0, &grads, NULL), ZF_OK);
  *(float*)grads = 1.0f;
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_end(handle), ZF_OK);
  CHECK(kill(worker, 0) == -1); /* no zombie */
  CHECK(*(float*)params < 0.0f);
  EXPECT(zf_end(handle), ZF_OK);
  EXPECT(submit_all(handle, NULL), ZF_ERROR_USAGE);
  expect_error("ended by zf_end");
  EXPECT(zf_wait(handle, 0, 0), ZF_ERROR_USAGE);
  EXPECT(zf_close(handle), ZF_OK);
}

/* A forked child cannot use the handle, and its attempts do not disturb the trainer. */
static void forked_child_cannot_disturb(void) {
  zf_runtime* const handle = open_one(PLAN_SPLIT, 1000);
  int status = -1;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    void* params = NULL;
    EXPECT(submit_all(handle, NULL), ZF_ERROR_FORKED);
    EXPECT(zf_wait(handle, 0, 0), ZF_ERROR_FORKED);
    EXPECT(zf_buffer(handle, 0, ZF_PARAMS, &params, NULL), ZF_ERROR_FORKED);
    EXPECT(zf_close(handle), ZF_ERROR_FORKED);
    expect_error("a forked child must open its own");
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, 5000), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
}

/* Runs a trainer in its own process. It opens the runtime, tells the process id of its worker, forks a child
 * that outlives it with all descriptors (as a dataloader does), and waits to be killed. */
static void be_trainer(int report, int with_child) {
  zf_runtime* const handle = open_one(PLAN_SPLIT, 100000);
  const pid_t worker = worker_of(handle);
  pid_t child = 0;
  if (with_child) {
    child = fork();
    CHECK(child >= 0); /* its number goes to kill(), where -1 is every process */
    if (child == 0) {
      close(report);
      sleep_ms(60000);
      _exit(0);
    }
  }
  const pid_t pids[2] = {worker, child};
  CHECK(write(report, pids, sizeof pids) == (ssize_t)sizeof pids);
  sleep_ms(60000);
}

/* Returns how long the worker of an ended trainer lived on. */
static double ms_until_gone(pid_t worker, int64_t begin) {
  /* Orphans become our children (PR_SET_CHILD_SUBREAPER), so that their end is certainly seen. */
  while (waitpid(worker, NULL, WNOHANG) == 0 && now_ns() - begin < 10000000000) sleep_ms(1);
  return (double)(now_ns() - begin) * 1e-6;
}

static void killed_trainer_takes_its_stopped_worker_along(void) {
  int report[2];
  pid_t pids[2] = {0, 0};
  CHECK(pipe(report) == 0);
  const pid_t trainer = fork();
  CHECK(trainer >= 0);
  if (trainer == 0) be_trainer(report[1], 0);
  CHECK(read(report[0], pids, sizeof pids) == (ssize_t)sizeof pids);
  CHECK(kill(pids[0], SIGSTOP) == 0);
  const int64_t begin = now_ns();
  CHECK(kill(trainer, SIGKILL) == 0 && waitpid(trainer, NULL, 0) == trainer);
  const double gone_ms = ms_until_gone(pids[0], begin);
  printf("the stopped worker of a killed trainer was gone after %.2f ms\n", gone_ms);
  if (gone_ms >= 5000) kill(pids[0], SIGKILL);
  CHECK(gone_ms < 5000);
  close(report[0]);
  close(report[1]);
}

/* The trainer keeps its process, and with it its pidfd, but the new program does not know the worker. */
static void worker_of_a_trainer_that_becomes_another_program_ends(void) {
  int report[2];
  pid_t worker = 0;
  CHECK(pipe(report) == 0);
  const pid_t trainer = fork();
  CHECK(trainer >= 0);
  if (trainer == 0) {
    worker = worker_of(open_one(PLAN_SPLIT, 100000));
    CHECK(write(report[1], &worker, sizeof worker) == (ssize_t)sizeof worker);
    execlp("sleep", "sleep", "60", (char*)NULL);
    _exit(1);
  }
  CHECK(read(report[0], &worker, sizeof worker) == (ssize_t)sizeof worker);
  const int64_t begin = now_ns();
  char state = '?';
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)worker);
  while (state != 'Z' && now_ns() - begin < 5000000000) { /* `sleep` does not reap it */
    FILE* const stat = fopen(path, "re");
    CHECK(stat != NULL && fscanf(stat, "%*d (%*[^)]) %c", &state) == 1);
    fclose(stat);
    sleep_ms(1);
  }
  printf("the worker of a trainer that became `sleep` ended after %.2f ms\n",
         (double)(now_ns() - begin) * 1e-6);
  CHECK(kill(trainer, SIGKILL) == 0 && waitpid(trainer, NULL, 0) == trainer);
  if (state != 'Z') kill(worker, SIGKILL);
  CHECK(waitpid(worker, NULL, 0) == worker && state == 'Z');
  close(report[0]);
  close(report[1]);
}

static void* open_in_thread(void* unused) {
  (void)unused;
  return open_restartable(0);
}

static void* step_in_thread(void* handle) {
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, 60000), ZF_OK);
  return NULL;
}

static void* result_of(void* (*work)(void*), void* argument) {
  pthread_t thread;
  void* result = NULL;
  CHECK(pthread_create(&thread, NULL, work, argument) == 0 && pthread_join(thread, &result) == 0);
  return result;
}

/* The worker lives as long as the handle, whichever thread opened it or waited for its restart. */
static void threads_that_end_do_not_take_the_worker_along(void) {
  zf_stats stats = ZF_STATS_INIT;
  zf_runtime* const handle = result_of(open_in_thread, NULL);
  const pid_t first = worker_of(handle);
  result_of(step_in_thread, handle);
  CHECK(worker_of(handle) == first);
  CHECK(kill(first, SIGKILL) == 0);
  result_of(step_in_thread, handle);
  const pid_t second = worker_of(handle);
  sleep_ms(200);
  result_of(step_in_thread, handle);
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK(second != first && stats.worker_pid == second && stats.restarts == 1);
  EXPECT(zf_close(handle), ZF_OK);
}

static void killed_trainer_takes_its_worker_along(int with_child) {
  int report[2];
  pid_t pids[2] = {0, 0};
  CHECK(pipe(report) == 0);
  const pid_t trainer = fork();
  CHECK(trainer >= 0);
  if (trainer == 0) {
    close(report[0]);
    be_trainer(report[1], with_child);
    _exit(1);
  }
  close(report[1]);
  CHECK(read(report[0], pids, sizeof pids) == (ssize_t)sizeof pids);
  CHECK(kill(pids[0], 0) == 0);

  const int64_t begin = now_ns();
  CHECK(kill(trainer, SIGKILL) == 0 && waitpid(trainer, NULL, 0) == trainer);
  const double gone_ms = ms_until_gone(pids[0], begin);
  printf("the worker of a killed trainer%s was gone after %.2f ms\n",
         with_child ? " with a child that lives on" : "", gone_ms);
  CHECK(gone_ms < 5000);
  if (with_child) {
    CHECK(kill(pids[1], 0) == 0);
    CHECK(kill(pids[1], SIGKILL) == 0 && waitpid(pids[1], NULL, 0) == pids[1]);
  }
  close(report[0]);
}

struct use {
  zf_options options;
  zf_group group;
  int done;
};

/* Uses an optimizer from its start to its end, with a cancellation that waits for the next chance to act. */
static void* use_while_cancelled(void* argument) {
  struct use* const use = argument;
  zf_runtime* handle = NULL;
  CHECK(pthread_cancel(pthread_self()) == 0);
  EXPECT(zf_open(&use->options, &use->group, 1, &handle), ZF_OK);
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, -1), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
  use->done = 1;
  pthread_testcancel();
  CHECK(!"the cancellation was lost");
  return NULL;
}

static void a_cancelled_thread_ends_between_two_calls(void) {
  struct use use = {.options = ZF_OPTIONS_INIT, .group = ZF_GROUP_INIT, .done = 0};
  pthread_t thread;
  void* result = NULL;
  use.options.plan_path = write_plan(PLAN_SPLIT, NULL);
  use.group.elements = 1000;
  CHECK(pthread_create(&thread, NULL, use_while_cancelled, &use) == 0);
  CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
  CHECK(use.done);
}

int main(void) {
  CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  expect_in_time(killed_worker_is_noticed, "the worker's death was noticed");
  finished_work_counts_after_death();
  idle_optimizer_that_dies_is_no_loss_at_the_close();
  expect_in_time(death_is_noticed_while_nobody_waits, "without a wait the worker had a successor");
  successor_that_hangs_at_its_start_is_given_up();
  nothing_is_started_after_a_failed_end();
  lost_descriptors_do_not_hang_the_close();
  signals_to_the_job_are_left_to_the_trainer();
  hung_worker_is_killed_at_close();
  death_in_an_end_is_mended_and_in_a_close_told();
  ended_optimizer_leaves_its_results();
  forked_child_cannot_disturb();
  a_cancelled_thread_ends_between_two_calls();
  killed_trainer_takes_its_worker_along(0);
  killed_trainer_takes_its_worker_along(1);
  killed_trainer_takes_its_stopped_worker_along();
  worker_of_a_trainer_that_becomes_another_program_ends();
  threads_that_end_do_not_take_the_worker_along();
  CHECK(count_children() == 0);
  return 0;
}
