/* Restarts are counted within a window of time, and successors that die at their start come ever later. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

static void sleep_ms(long ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static int64_t wall_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static zf_runtime* open_restartable(int32_t max_restarts, int64_t window_s) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(PLAN_SPLIT, NULL);
  options.max_restarts = max_restarts;
  options.restart_window_s = window_s;
  group.elements = 1000;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
  return handle;
}

static void kill_and_step(zf_runtime* handle) {
  CHECK(kill(worker_of(handle), SIGKILL) == 0);
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, 60000), ZF_OK);
}

/* Kills the worker. Returns whether no other one is started. */
static int dies_for_good(zf_runtime* handle) {
  zf_stats stats = ZF_STATS_INIT;
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  const uint64_t before = stats.restarts;
  const int64_t deadline = now_ns() + 20000000000;
  CHECK(kill(worker_of(handle), SIGKILL) == 0);
  while (stats.restarts == before) {
    CHECK(now_ns() < deadline);
    if (submit_all(handle, NULL) == ZF_WORKER_DIED) return 1;
    sleep_ms(1);
    EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  }
  return 0;
}

/* A program may change its working directory, as Hydra does. What ZF_OPTIMIZER named in the first one is
 * started, and started again. */
static void a_successor_is_the_program_that_was_opened(void) {
  char real[4096] = "";
  char link[64];
  char name[64];
  char* const before = getcwd(NULL, 0);
  zf_runtime* handle = open_restartable(-1, 0);
  snprintf(link, sizeof link, "/proc/%d/exe", (int)worker_of(handle));
  CHECK(before != NULL && readlink(link, real, sizeof real - 1) > 0);
  EXPECT(zf_close(handle), ZF_OK);
  snprintf(name, sizeof name, "./zf-optimizer.%d", (int)getpid());
  CHECK(symlink(real, name) == 0);
  setenv("ZF_OPTIMIZER", name, 1);
  CHECK(chdir("/usr") == 0);
  handle = open_restartable(1, 0);
  CHECK(chdir("/") == 0);
  kill_and_step(handle);
  EXPECT(zf_close(handle), ZF_OK);
  unsetenv("ZF_OPTIMIZER");
  CHECK(chdir(before) == 0 && unlink(name) == 0);
  free(before);
}

static void restarts_before_the_window_do_not_count(void) {
  zf_runtime* const handle = open_restartable(1, 1);
  for (int i = 0; i < 3; ++i) {
    kill_and_step(handle);
    sleep_ms(1100);
  }
  kill_and_step(handle);
  int deaths = 1; /* the second one within a second is the last, but on a busy machine it may come later */
  while (!dies_for_good(handle)) CHECK(++deaths < 20);
  EXPECT(submit_all(handle, NULL), ZF_WORKER_DIED);
  expect_error("it has been started again 1 time (");
  sleep_ms(1200); /* it stays so */
  EXPECT(submit_all(handle, NULL), ZF_WORKER_DIED);
  CHECK(count_children() == 0);
  const zf_status closed = zf_close(handle);
  CHECK(closed == ZF_OK ||
        closed == ZF_WORKER_DIED); /* a submission may have come before the death was noticed */
}

static void a_negative_window_is_refused(void) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(PLAN_SPLIT, NULL);
  options.restart_window_s = -1;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_ERROR_USAGE);
  expect_error("restart_window_s is -1");
}

/* A program that writes the time of each start to a file, and becomes the optimizer only while another file
 * exists. */
static const char* times;
static char works[64];

static void install_fragile_optimizer(void) {
  static char script[8192];
  char real[4096] = "";
  char link[64];
  zf_runtime* const handle = open_restartable(-1, 0);
  snprintf(link, sizeof link, "/proc/%d/exe", (int)worker_of(handle));
  CHECK(readlink(link, real, sizeof real - 1) > 0);
  EXPECT(zf_close(handle), ZF_OK);
  times = write_file("");
  snprintf(works, sizeof works, "%s", write_file(""));
  snprintf(script, sizeof script, "#!/bin/sh\ndate +%%s%%N >>%s\ntest -e %s && exec %s \"$@\"\nexit 1\n",
           times, works, real);
  const char* const program = write_file(script);
  CHECK(chmod(program, 0755) == 0);
  setenv("ZF_OPTIMIZER", program, 1);
}

static void set_works(int yes) {
  if (!yes) {
    CHECK(unlink(works) == 0);
    return;
  }
  FILE* const file = fopen(works, "we");
  CHECK(file != NULL && fclose(file) == 0);
}

enum { MOST_STARTS = 64 };
static size_t starts_since(int64_t begin, int64_t* starts) {
  long long at = 0;
  size_t count = 0;
  FILE* const file = fopen(times, "re");
  CHECK(file != NULL);
  while (count < MOST_STARTS && fscanf(file, "%lld", &at) == 1) {
    if (at >= begin) starts[count++] = at;
  }
  fclose(file);
  return count;
}

static void await_starts(int64_t begin, size_t wanted) {
  int64_t starts[MOST_STARTS];
  const int64_t deadline = now_ns() + 20000000000;
  while (starts_since(begin, starts) < wanted) {
    CHECK(now_ns() < deadline);
    sleep_ms(5);
  }
}

/* While nothing works, every wait keeps its deadline, and submitted work is only late. */
static void successors_that_never_become_ready_come_ever_later(void) {
  int64_t starts[MOST_STARTS];
  uint64_t step = 0;
  zf_runtime* const handle = open_restartable(1000, 0);
  set_works(0);
  const int64_t begin = wall_ns();
  CHECK(kill(worker_of(handle), SIGKILL) == 0);
  await_starts(begin, 2); /* then there is a pause */
  EXPECT(submit_all(handle, NULL), ZF_OK);
  await_starts(begin, 4);
  for (int64_t ms = 0; ms <= 60; ms += 20) {
    const int64_t before = now_ns();
    EXPECT(zf_wait(handle, 0, ms), ZF_TIMEOUT);
    const int64_t took_ms = (now_ns() - before) / 1000000;
    CHECK(took_ms >= ms - 1 && took_ms < ms + 10000);
  }
  EXPECT(zf_get_step(handle, 0, &step), ZF_ERROR_BUSY); /* it is not lost for good */
  await_starts(begin, 5);
  const size_t count = starts_since(begin, starts);
  for (size_t i = 1; i < count; ++i) {
    const double gap_ms = (double)(starts[i] - starts[i - 1]) * 1e-6;
    const double pause_ms = 100.0 * (double)(1u << (i - 1));
    printf("  start %zu came %.0f ms after the one before it\n", i + 1, gap_ms);
    CHECK(gap_ms > 0.9 * pause_ms && gap_ms < pause_ms + 5000);
  }
  set_works(1);
  EXPECT(zf_wait(handle, 0, 20000), ZF_OK);

  /* One that was ready takes the pauses back. */
  int64_t took_ns = INT64_MAX;
  for (int i = 0; i < 5 && took_ns >= 1500000000; ++i) { /* the machine may be busy */
    const int64_t again = wall_ns();
    kill_and_step(handle);
    CHECK(starts_since(again, starts) == 1);
    took_ns = starts[0] - again;
  }
  CHECK(took_ns < 1500000000 /* the next pause would have taken 1.6 s or more */);
  EXPECT(zf_close(handle), ZF_OK);
}

static void a_pause_does_not_hold_up_the_close(void) {
  zf_runtime* const handle = open_restartable(1000, 0);
  set_works(0);
  const int64_t begin = wall_ns();
  CHECK(kill(worker_of(handle), SIGKILL) == 0);
  await_starts(begin, 6); /* the next pause takes 3.2 s */
  sleep_ms(100);
  const int64_t before = now_ns();
  EXPECT(zf_close(handle), ZF_OK); /* nothing was submitted */
  CHECK(now_ns() - before < 2500000000);
  set_works(1);
}

/* Returns the address of the arena in this process. */
static char* arena_address(void) {
  char line[512];
  void* address = NULL;
  FILE* const maps = fopen("/proc/self/maps", "re");
  CHECK(maps != NULL);
  while (address == NULL && fgets(line, sizeof line, maps) != NULL) {
    if (strstr(line, "zf-arena") != NULL) CHECK(sscanf(line, "%p", &address) == 1);
  }
  fclose(maps);
  CHECK(address != NULL);
  return address;
}

/* A thread of the trainer that reads the figures again and again. They are those of a worker that was ready.
 */
struct reader {
  pthread_t thread;
  zf_runtime* handle;
  zf_stats expected;
  atomic_int stop;
  long readings;
};

static void* read_stats(void* argument) {
  struct reader* const self = argument;
  while (!atomic_load(&self->stop)) {
    zf_stats stats = ZF_STATS_INIT;
    EXPECT(zf_get_stats(self->handle, &stats), ZF_OK);
    CHECK(stats.threads == self->expected.threads && strcmp(stats.isa, self->expected.isa) == 0);
    ++self->readings;
    sched_yield();
  }
  return NULL;
}

static void start_reader(struct reader* reader, zf_runtime* handle) {
  const zf_stats init = ZF_STATS_INIT;
  reader->handle = handle;
  reader->expected = init;
  reader->readings = 0;
  EXPECT(zf_get_stats(handle, &reader->expected), ZF_OK);
  CHECK(reader->expected.threads >= 1);
  atomic_store(&reader->stop, 0);
  CHECK(pthread_create(&reader->thread, NULL, read_stats, reader) == 0);
}

static void stop_reader(struct reader* reader) {
  atomic_store(&reader->stop, 1);
  CHECK(pthread_join(reader->thread, NULL) == 0);
}

/* ThreadSanitizer watches the library's threads meanwhile. It does not see what the worker writes. */
static void figures_are_read_while_successors_start(void) {
  enum { KILLS = 10 };
  struct reader reader;
  zf_stats stats = ZF_STATS_INIT;
  zf_runtime* const handle = open_restartable(1000, 0);
  start_reader(&reader, handle);
  for (int i = 0; i < KILLS; ++i) kill_and_step(handle);
  stop_reader(&reader);
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK(stats.restarts == KILLS);
  printf("the figures were read %ld times during %d restarts\n", reader.readings, KILLS);
  EXPECT(zf_close(handle), ZF_OK);
}

/* A successor writes its figures before it is ready. Until then those of the last one count. Here the trainer
 * writes them, while another of its threads reads. */
static void figures_of_a_worker_that_starts_are_not_read(void) {
  struct reader reader;
  zf_stats stats = ZF_STATS_INIT;
  zf_runtime* const handle = open_restartable(1000, 0);
  start_reader(&reader, handle);
  char* const worker_stats = arena_address() + 1408; /* WorkerStats of control_block.hpp */
  set_works(0);
  const int64_t begin = wall_ns();
  CHECK(kill(worker_of(handle), SIGKILL) == 0);
  await_starts(begin, 1);
  EXPECT(zf_get_stats(handle, &stats), ZF_OK); /* returns after the start */
  const uint32_t threads = 12345;
  memcpy(worker_stats + 32, &threads, sizeof threads);
  memcpy(worker_stats + 40, "half", 5);
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK(stats.threads == reader.expected.threads && strcmp(stats.isa, reader.expected.isa) == 0);
  set_works(1);
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, 20000), ZF_OK);
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK(stats.threads == reader.expected.threads && strcmp(stats.isa, reader.expected.isa) == 0);
  stop_reader(&reader);
  EXPECT(zf_close(handle), ZF_OK);
}

/* Each of these deaths counts. */
static void successors_that_never_become_ready_use_the_restarts_up(void) {
  zf_runtime* const handle = open_restartable(3, 0);
  set_works(0);
  CHECK(kill(worker_of(handle), SIGKILL) == 0);
  zf_status status = ZF_OK;
  for (int i = 0; i < 2000 && status == ZF_OK; ++i) {
    sleep_ms(5);
    status = submit_all(handle, NULL);
    if (status == ZF_ERROR_BUSY) status = ZF_OK;
  }
  CHECK(status == ZF_WORKER_DIED);
  expect_error("it has been started again 3 times");
  EXPECT(zf_close(handle), ZF_WORKER_DIED);
  set_works(1);
}

/* A start that fails, here for want of a program, uses no restart up. The next call tries again. */
static void successor_that_cannot_be_started_is_tried_again(void) {
  char away[64];
  zf_stats stats = ZF_STATS_INIT;
  const char* const program = getenv("ZF_OPTIMIZER");
  zf_runtime* const handle = open_restartable(1, 0);
  snprintf(away, sizeof away, "%s", write_file(""));
  CHECK(program != NULL && rename(program, away) == 0);
  CHECK(kill(worker_of(handle), SIGKILL) == 0);
  do {
    sleep_ms(1);
    EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  } while (stats.worker_alive);
  for (int i = 0; i < 3; ++i) EXPECT(submit_all(handle, NULL), ZF_ERROR_WORKER);
  expect_error(program);
  CHECK(rename(away, program) == 0);
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, 20000), ZF_OK);
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK(stats.restarts == 1);
  EXPECT(zf_close(handle), ZF_OK);
}

/* A release with another arena version refuses the arena, and each of its starts counts as a death. Here the
 * arena's version changes, not the program. */
static void successors_of_another_release_use_the_restarts_up(void) {
  zf_stats stats = ZF_STATS_INIT;
  zf_runtime* const handle = open_restartable(2, 0);
  const uint32_t version = 1000000;
  memcpy(arena_address() + 8, &version, sizeof version); /* ArenaPrefix of control_block.hpp */
  CHECK(kill(worker_of(handle), SIGKILL) == 0);
  const int64_t deadline = now_ns() + 20000000000;
  while (submit_all(handle, NULL) != ZF_WORKER_DIED) {
    CHECK(now_ns() < deadline);
    sleep_ms(5);
  }
  EXPECT(submit_all(handle, NULL), ZF_WORKER_DIED);
  expect_error("arena version 1000000, this zf-optimizer uses");
  expect_error("it has been started again 2 times");
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK(stats.restarts == 2 && strstr(stats.last_death, "arena version 1000000") != NULL);
  zf_close(handle);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  a_negative_window_is_refused();
  restarts_before_the_window_do_not_count();
  a_successor_is_the_program_that_was_opened();
  figures_are_read_while_successors_start();
  successors_of_another_release_use_the_restarts_up();
  install_fragile_optimizer();
  successors_that_never_become_ready_come_ever_later();
  a_pause_does_not_hold_up_the_close();
  figures_of_a_worker_that_starts_are_not_read();
  successors_that_never_become_ready_use_the_restarts_up();
  successor_that_cannot_be_started_is_tried_again();
  CHECK(count_children() == 0 && count_arena_mappings() == 0);
  return 0;
}
