/* Opens and closes fifty times, with and without a death between. No descriptor, process, mapping or name may
 * be left. Also prints the cost of an empty step. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

static int compare(const void* a, const void* b) {
  const int64_t x = *(const int64_t*)a;
  const int64_t y = *(const int64_t*)b;
  return (x > y) - (x < y);
}

static void print_empty_step(void) {
  enum { ROUNDS = 5000 };
  static int64_t times[ROUNDS];
  zf_runtime* const handle = open_one(PLAN_SPLIT, 0);
  for (int i = 0; i < ROUNDS; ++i) {
    const int64_t begin = now_ns();
    EXPECT(submit_all(handle, NULL), ZF_OK);
    EXPECT(zf_wait(handle, 0, -1), ZF_OK);
    times[i] = now_ns() - begin;
  }
  qsort(times, ROUNDS, sizeof *times, compare);
  const int64_t p50_ns = times[ROUNDS / 2];
  const int64_t p99_ns = times[ROUNDS * 99 / 100];
  printf("empty step, submit to wait: p50 %.2f us, p99 %.2f us\n", (double)p50_ns * 1e-3,
         (double)p99_ns * 1e-3);
  EXPECT(zf_close(handle), ZF_OK);
}

int main(void) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  options.plan_path = write_plan(PLAN_SPLIT, NULL);
  group.elements = 100000;
  const size_t descriptors = count_descriptors();
  const int64_t begin = now_ns();
  for (int round = 0; round < 50; ++round) {
    zf_runtime* handle = NULL;
    EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
    CHECK(count_arena_mappings() == 1);
    if (round % 2 == 1) EXPECT(submit_all(handle, NULL), ZF_OK);
    if (round % 5 == 4) CHECK(kill(worker_of(handle), SIGKILL) == 0);
    const zf_status closed = zf_close(handle); /* a dead one may have been replaced already */
    CHECK(closed == ZF_OK || (round % 5 == 4 && closed == ZF_WORKER_DIED));
    CHECK(count_descriptors() == descriptors);
    CHECK(count_children() == 0);
    CHECK(count_arena_mappings() == 0);
  }
  printf("open and close: %.2f ms\n", (double)(now_ns() - begin) * 1e-6 / 50);
  print_empty_step();
  return 0;
}
