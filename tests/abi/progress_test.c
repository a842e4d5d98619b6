/* A step's results can be read chunk by chunk while it runs. */
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "reference_adam.h"
#include "support.h"

enum { N = 3000001, CHUNK = 8192 }; /* elements; a chunk of 16 KiB of copy */

static zf_runtime* open_chunked(enum plan_kind kind, zf_group* group) {
  const zf_group init = ZF_GROUP_INIT;
  zf_options options = ZF_OPTIONS_INIT;
  zf_runtime* handle = NULL;
  *group = init;
  group->elements = N;
  group->copy_type = ZF_BF16;
  options.plan_path = write_plan(kind, NULL);
  options.chunk_bytes = 2 * CHUNK;
  options.spin_us = 0;
  EXPECT(zf_open(&options, group, 1, &handle), ZF_OK);
  float* const grads = buffer_of(handle, 0, ZF_GRADS_0, NULL);
  for (size_t i = 0; i < N; ++i) grads[i] = random_float();
  return handle;
}

/* Uses zf_progress as the header shows. Reported elements already are the result of the step. */
static void chunks_are_final_when_reported(enum plan_kind kind) {
  zf_group group;
  zf_runtime* const handle = open_chunked(kind, &group);
  const float* const params = buffer_of(handle, 0, ZF_PARAMS, NULL);
  const unsigned short* const copy = buffer_of(handle, 0, ZF_COPY, NULL);
  struct reference_group want = reference_group(&group, params);
  uint64_t ticket = 0;
  unsigned long reports = 0;
  for (int step = 1; step <= 3; ++step) {
    const zf_scalars scalars = made_scalars(1, 1); /* of submit_all() */
    reference_step(&want, buffer_of(handle, 0, ZF_GRADS_0, NULL), &scalars);
    EXPECT(submit_all(handle, &ticket), ZF_OK);
    for (uint64_t sent = 0, done = 0; sent < N; sent = done) {
      EXPECT(zf_progress(handle, ticket, 0, sent + 1, -1, &done), ZF_OK);
      CHECK(done > sent && done <= N && (done % CHUNK == 0 || done == N));
      for (uint64_t i = sent; i < done; ++i) CHECK(copy[i] == bf16_of(want.p[i]));
      CHECK(memcmp(params + sent, want.p + sent, (done - sent) * sizeof(float)) == 0);
      ++reports;
    }
    EXPECT(zf_wait(handle, ticket, -1), ZF_OK);
  }
  printf("3 steps were read in %lu parts\n", reports);
  EXPECT(zf_close(handle), ZF_OK);
  free(want.p);
  free(want.m);
  free(want.v);
}

/* A trainer that waits for the end of a step is not woken for each of its 367 chunks. */
static void a_wait_for_the_end_sleeps_to_the_end(void) {
  zf_group group;
  zf_runtime* const handle = open_chunked(PLAN_SPLIT, &group);
  struct rusage before;
  struct rusage after;
  const int64_t begin = now_ns();
  CHECK(getrusage(RUSAGE_THREAD, &before) == 0);
  for (int step = 0; step < 10; ++step) {
    EXPECT(submit_all(handle, NULL), ZF_OK);
    EXPECT(zf_wait(handle, 0, -1), ZF_OK);
  }
  CHECK(getrusage(RUSAGE_THREAD, &after) == 0);
  const long sleeps = after.ru_nvcsw - before.ru_nvcsw;
  const long polls = (long)((now_ns() - begin) / 50000000); /* a look at the worker every 50 ms */
  printf("10 steps: the trainer slept %ld times, at most %ld of them to look at the worker\n", sleeps, polls);
  CHECK(sleeps <= 2 * 10 + polls);
  EXPECT(zf_close(handle), ZF_OK);
}

/* An optimizer that is stopped in the middle has reported a part of the elements. */
static void a_part_is_reported_before_the_end(void) {
  zf_group group;
  zf_runtime* const handle = open_chunked(PLAN_SPLIT, &group);
  uint64_t done = 0;
  int tries = 0;
  do {
    CHECK(++tries <= 100);
    EXPECT(submit_all(handle, NULL), ZF_OK);
    EXPECT(zf_progress(handle, 0, 0, 1, -1, &done), ZF_OK);
    stop_process(worker_of(handle));
    EXPECT(zf_progress(handle, 0, 0, 0, 0, &done), ZF_OK);
    if (done < N) {
      EXPECT(zf_wait(handle, 0, 0), ZF_TIMEOUT);
      EXPECT(zf_progress(handle, 0, 0, N, 10, &done), ZF_TIMEOUT);
    }
    CHECK(kill(worker_of(handle), SIGCONT) == 0);
    EXPECT(zf_wait(handle, 0, -1), ZF_OK);
  } while (done == 0 || done == N);
  printf("stopped after %llu of %d elements (try %d)\n", (unsigned long long)done, N, tries);
  EXPECT(zf_progress(handle, 0, 0, UINT64_MAX, -1, &done), ZF_OK); /* more than there are means all */
  CHECK(done == N);
  EXPECT(zf_close(handle), ZF_OK);
}

static void wrong_calls(void) {
  zf_runtime* const handle = open_one(PLAN_SPLIT, 10);
  uint64_t done = 99;
  EXPECT(zf_progress(handle, 0, 0, 1, -1, &done), ZF_OK); /* never submitted: nothing to wait for */
  CHECK(done == 10);
  EXPECT(zf_progress(handle, 1, 0, 1, -1, &done), ZF_ERROR_USAGE);
  EXPECT(zf_progress(handle, 0, 1, 1, -1, &done), ZF_ERROR_USAGE);
  expect_error("there is no group 1: the number of groups is 1");
  EXPECT(zf_progress(handle, 0, 0, 1, -1, NULL), ZF_ERROR_USAGE);
  EXPECT(zf_close(handle), ZF_OK);
}

/* While the steps of both gradient buffers wait, each ticket has its own progress. */
static void tickets_are_told_apart(void) {
  zf_runtime* const handle = open_one(PLAN_SPLIT, 100000);
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  uint64_t tickets[2];
  uint64_t done = 0;
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, -1), ZF_OK);
  const pid_t worker = worker_of(handle);
  stop_process(worker);
  const zf_scalars scalars = made_scalars(1, 1);
  args.scalars = &scalars;
  args.scalar_count = 1;
  for (args.buffer = 0; args.buffer < 2; ++args.buffer)
    EXPECT(zf_submit(handle, &args, &tickets[args.buffer]), ZF_OK);
  EXPECT(zf_progress(handle, 1, 0, 1, 0, &done), ZF_OK); /* the one before is done */
  CHECK(done == 100000);
  for (int i = 0; i < 2; ++i) {
    EXPECT(zf_progress(handle, tickets[i], 0, 1, 0, &done), ZF_TIMEOUT);
    CHECK(done == 0);
  }
  CHECK(kill(worker, SIGKILL) == 0);
  EXPECT(zf_progress(handle, tickets[1], 0, 1, -1, &done), ZF_WORKER_DIED);
  CHECK(done == 0);
  EXPECT(zf_close(handle), ZF_WORKER_DIED);
}

int main(void) {
  chunks_are_final_when_reported(PLAN_SPLIT);
  chunks_are_final_when_reported(PLAN_SHARED);
  a_wait_for_the_end_sleeps_to_the_end();
  a_part_is_reported_before_the_end();
  tickets_are_told_apart();
  wrong_calls();
  return 0;
}
