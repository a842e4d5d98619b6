/* CPUs of the pool leave the cpuset. The optimizer that is started next goes on without them, with the same
 * results, and says so. The one after their return has them back. */
#include "cpuset.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

enum { ELEMENTS = 100003, STALL_MS = 60000 };

static zf_runtime* open_on(const char* plan, int32_t max_restarts) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = plan;
  options.max_restarts = max_restarts;
  group.elements = ELEMENTS;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
  return handle;
}

static zf_stats stats_of(zf_runtime* handle) {
  zf_stats stats = ZF_STATS_INIT;
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  return stats;
}

/* Steps both, the second one with a worker that is killed before it can begin, and compares every bit. */
static void kill_and_compare(zf_runtime* calm, zf_runtime* hunted) {
  static const zf_buffer_kind kinds[] = {ZF_PARAMS, ZF_MOMENT_1, ZF_MOMENT_2};
  float* const grads = buffer_of(calm, 0, ZF_GRADS_0, NULL);
  for (size_t i = 0; i < ELEMENTS; ++i) grads[i] = random_float();
  memcpy(buffer_of(hunted, 0, ZF_GRADS_0, NULL), grads, ELEMENTS * sizeof(float));
  const pid_t worker = worker_of(hunted);
  stop_process(worker);
  EXPECT(submit_all(calm, NULL), ZF_OK);
  EXPECT(submit_all(hunted, NULL), ZF_OK);
  CHECK(kill(worker, SIGKILL) == 0);
  EXPECT(zf_wait(calm, 0, STALL_MS), ZF_OK);
  EXPECT(zf_wait(hunted, 0, STALL_MS), ZF_OK);
  CHECK(worker_of(hunted) != worker);
  for (size_t i = 0; i < 3; ++i) {
    size_t bytes = 0;
    const void* const one = buffer_of(calm, 0, kinds[i], &bytes);
    CHECK(memcmp(one, buffer_of(hunted, 0, kinds[i], NULL), bytes) == 0);
  }
}

/* Checks that all threads of the pool run on `cpu` alone, or that one does. (The watching thread may use all
 * CPUs of the pool.) */
static size_t threads_on(pid_t process, int cpu) {
  char path[64];
  size_t found = 0;
  snprintf(path, sizeof path, "/proc/%d/task", (int)process);
  DIR* const tasks = opendir(path);
  CHECK(tasks != NULL);
  for (const struct dirent* task = readdir(tasks); task != NULL; task = readdir(tasks)) {
    cpu_set_t mask;
    const pid_t tid = (pid_t)atoi(task->d_name);
    if (tid == 0) continue;
    CHECK(sched_getaffinity(tid, sizeof mask, &mask) == 0);
    found += CPU_COUNT(&mask) == 1 && CPU_ISSET((size_t)cpu, &mask);
  }
  closedir(tasks);
  return found;
}

static void expect_planned(zf_runtime* handle) {
  const zf_stats stats = stats_of(handle);
  CHECK(stats.degraded == 0 && strcmp(stats.cpu_note, "") == 0);
}

/* `kind` decides whether the pool loses its only CPU, on a machine of two, or one of several. */
static void pool_goes_on_without_its_lost_cpu(enum plan_kind kind) {
  static int cpus[MAX_CPUS];
  const size_t count = allowed_cpus(cpus);
  const int last = cpus[count - 1];
  const char* const plan = write_plan(kind, NULL);
  zf_runtime* const calm = open_on(plan, -1);
  zf_runtime* const hunted = open_on(plan, 100);
  const uint32_t threads = stats_of(hunted).threads;
  char gone[64];
  for (int round = 0; round < 3; ++round) {
    kill_and_compare(calm, hunted);
    expect_planned(hunted);
    CHECK(threads_on(worker_of(hunted), last) >= 1);

    take_last_cpu();
    kill_and_compare(calm, hunted);
    const zf_stats lost = stats_of(hunted);
    snprintf(gone, sizeof gone, "CPU %d of the pool is gone: %u thread", last, threads);
    printf("  said: %s\n", lost.cpu_note);
    CHECK(lost.degraded == 1 && lost.threads == threads);
    CHECK(strncmp(lost.cpu_note, gone, strlen(gone)) == 0);
    CHECK(threads_on(worker_of(hunted), last) == 0);

    give_last_cpu();
  }
  kill_and_compare(calm, hunted);
  expect_planned(hunted);
  EXPECT(zf_close(hunted), ZF_OK);
  EXPECT(zf_close(calm), ZF_OK);
}

/* It is not known yet whether the plan or the cpuset is wrong, so the first start is strict. */
static void first_start_is_refused_without_a_planned_cpu(void) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(PLAN_SPLIT, NULL);
  group.elements = 10;
  take_last_cpu();
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_ERROR_PLAN);
  expect_error("of rank 0's optimizer is not available here");
  give_last_cpu();
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
}

static void inside(void) {
  first_start_is_refused_without_a_planned_cpu();
  pool_goes_on_without_its_lost_cpu(PLAN_SPLIT);
  pool_goes_on_without_its_lost_cpu(PLAN_SHARED);
  CHECK(count_children() == 0);
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  in_cpuset(inside);
  return 0;
}
