/* A program opens the runtime with a plan, writes gradients, submits, waits, and reads parameters that agree
 * bit for bit with a second implementation, while every thread of the optimizer sits on the plan's CPUs. */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "reference_adam.h"
#include "support.h"

enum { GROUPS = 5, STEPS = 6 };

static void make_groups(zf_group* groups) {
  const zf_group init = ZF_GROUP_INIT;
  for (int i = 0; i < GROUPS; ++i) groups[i] = init;
  groups[0].elements = 1000003;
  groups[1].elements = 12345;
  groups[1].stale = 1;
  groups[2].elements = 7;
  groups[3].elements = 50001;
  groups[3].grad_type = ZF_BF16;
  groups[3].copy_type = ZF_BF16;
  groups[4].elements = 0;
}

static void make_settings(zf_adam* settings) {
  const zf_adam init = ZF_ADAM_INIT;
  for (int i = 0; i < GROUPS; ++i) settings[i] = init;
  settings[0].weight_decay = 0.01;
  settings[1].mode = ZF_ADAM;
  settings[1].weight_decay = 0.1;
  settings[1].lr = 3e-4;
  settings[2].bias_correction = 0;
  settings[2].beta1 = 0.8;
}

/* Fills a gradient buffer, and `plain` with the same values as fp32. */
static void write_grads(zf_runtime* handle, int index, const zf_group* group, uint32_t buffer, float* plain) {
  void* const grads = buffer_of(handle, (size_t)index, buffer == 0 ? ZF_GRADS_0 : ZF_GRADS_1, NULL);
  for (size_t i = 0; i < group->elements; ++i) {
    plain[i] = random_float();
    if (group->grad_type == ZF_BF16) {
      const unsigned short half = bf16_of(plain[i]);
      plain[i] = float_of_bf16(half);
      ((unsigned short*)grads)[i] = half;
    } else {
      ((float*)grads)[i] = plain[i];
    }
  }
}

static void check_equal(const float* got, const float* wanted, size_t n, int group, const char* what,
                        int step) {
  for (size_t i = 0; i < n; ++i) {
    uint32_t got_bits = 0;
    uint32_t wanted_bits = 0;
    memcpy(&got_bits, &got[i], sizeof got_bits);
    memcpy(&wanted_bits, &wanted[i], sizeof wanted_bits);
    if (got_bits == wanted_bits) continue;
    fprintf(stderr, "step %d, group %d, %s[%zu] is %a, not %a\n", step, group, what, i, (double)got[i],
            (double)wanted[i]);
    exit(1);
  }
}

static void check_group(zf_runtime* handle, int index, const struct reference_group* want, int step) {
  const size_t n = (size_t)want->settings.elements;
  check_equal(buffer_of(handle, (size_t)index, ZF_PARAMS, NULL), want->p, n, index, "p", step);
  check_equal(buffer_of(handle, (size_t)index, ZF_MOMENT_1, NULL), want->m, n, index, "m", step);
  check_equal(buffer_of(handle, (size_t)index, ZF_MOMENT_2, NULL), want->v, n, index, "v", step);
  if (want->settings.stale)
    check_equal(buffer_of(handle, (size_t)index, ZF_STALE, NULL), want->p, n, index, "stale", step);
  if (want->settings.copy_type != ZF_BF16) return;
  const unsigned short* const copy = buffer_of(handle, (size_t)index, ZF_COPY, NULL);
  for (size_t i = 0; i < n; ++i) CHECK(copy[i] == bf16_of(want->p[i]));
}

/* Every thread of the worker may run on the plan's optimizer CPUs and nowhere else. */
static void check_threads(pid_t worker, const char* optimizer, unsigned pool_threads) {
#ifdef ZF_SANITIZED
  printf("threads not looked at: a sanitizer has some of its own\n");
  return;
#endif
  char path[300];
  char line[4096];
  unsigned threads = 0;
  unsigned pinned = 0;
  snprintf(path, sizeof path, "/proc/%d/task", (int)worker);
  DIR* const tasks = opendir(path);
  CHECK(tasks != NULL);
  for (struct dirent* task = readdir(tasks); task != NULL; task = readdir(tasks)) {
    if (task->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%s/status", (int)worker, task->d_name);
    FILE* const status = fopen(path, "re");
    CHECK(status != NULL);
    int is_watch = 0;
    while (fgets(line, sizeof line, status) != NULL) {
      line[strcspn(line, "\n")] = 0;
      if (strcmp(line, "Name:\tzf-trainer") == 0) is_watch = 1;
      if (strncmp(line, "Cpus_allowed_list:\t", 19) != 0) continue;
      printf("thread %s of %s: CPUs %s\n", task->d_name, is_watch ? "the watch" : "the pool", line + 19);
      if (is_watch) {
        CHECK(strcmp(line + 19, optimizer) == 0);
      } else {
        CHECK(strpbrk(line + 19, ",-") == NULL); /* exactly one */
        ++pinned;
      }
    }
    fclose(status);
    ++threads;
  }
  closedir(tasks);
  CHECK(pinned == pool_threads && threads == pool_threads + 1);
}

static void run(enum plan_kind kind) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group groups[GROUPS];
  zf_adam settings[GROUPS];
  struct reference_group want[GROUPS];
  zf_runtime* handle = NULL;
  const char* optimizer = NULL;
  options.plan_path = write_plan(kind, &optimizer);
  make_groups(groups);
  make_settings(settings);
  EXPECT(zf_open(&options, groups, GROUPS, &handle), ZF_OK);
  for (int i = 0; i < GROUPS; ++i) {
    float* const params = buffer_of(handle, (size_t)i, ZF_PARAMS, NULL);
    for (size_t k = 0; k < groups[i].elements; ++k) params[k] = random_float();
    want[i] = reference_group(&groups[i], params);
  }

  float* const grads = malloc(groups[0].elements * sizeof(float));
  CHECK(grads != NULL);
  for (int step = 1; step <= STEPS; ++step) {
    zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
    uint64_t ticket = 0;
    args.buffer = (uint32_t)(step % 2);
    if (step == 4) settings[0].lr = 5e-3; /* settings may change between steps */
    zf_scalars scalars[GROUPS];
    for (int i = 0; i < GROUPS; ++i) {
      EXPECT(zf_adam_scalars(&settings[i], (uint64_t)step, &scalars[i]), ZF_OK);
      if (step == 3) scalars[i].grad_scale = 0.125f;
    }
    args.scalars = scalars;
    args.scalar_count = GROUPS;
    for (int i = 0; i < GROUPS; ++i) {
      write_grads(handle, i, &groups[i], args.buffer, grads);
      if (step >= 5) { /* group by group, while others run */
        const uint32_t one = (uint32_t)i;
        args.groups = &one;
        args.n_groups = 1;
        args.scalars = &scalars[i];
        args.scalar_count = 1;
        EXPECT(zf_submit(handle, &args, &ticket), ZF_OK);
      }
      reference_step(&want[i], grads, &scalars[i]);
    }
    if (step < 5) EXPECT(zf_submit(handle, &args, &ticket), ZF_OK);
    EXPECT(zf_wait(handle, ticket, -1), ZF_OK);
    for (int i = 0; i < GROUPS; ++i) check_group(handle, i, &want[i], step);
  }

  zf_stats stats = ZF_STATS_INIT;
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK(stats.completed == (uint64_t)STEPS * GROUPS && stats.submitted == stats.completed &&
        stats.worker_alive == 1);
  check_threads((pid_t)stats.worker_pid, optimizer, stats.threads);
  printf("%d steps of %d groups agree bit for bit (%s, %u threads on CPUs %s; ready after %.1f ms)\n", STEPS,
         GROUPS, stats.isa, stats.threads, optimizer, (double)stats.start_ns * 1e-6);
  EXPECT(zf_close(handle), ZF_OK);
  free(grads);
  free((void*)(uintptr_t)optimizer);
  for (int i = 0; i < GROUPS; ++i) {
    free(want[i].p);
    free(want[i].m);
    free(want[i].v);
  }
}

/* Both gradient buffers of a group are submitted at the same time, for two steps in order. The worker is
 * stopped meanwhile, so that it finds both. */
static void both_buffers_at_once(void) {
  enum { N = 5000, ROUNDS = 3 };
  static float grads[N];
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* const handle = open_one(PLAN_SPLIT, N);
  group.elements = N;
  struct reference_group want = reference_group(&group, buffer_of(handle, 0, ZF_PARAMS, NULL));
  for (int round = 0; round < ROUNDS; ++round) {
    zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
    const zf_scalars scalars = made_scalars(3, (uint64_t)round + 1);
    args.scalars = &scalars;
    args.scalar_count = 1;
    CHECK(kill(worker_of(handle), SIGSTOP) == 0);
    for (args.buffer = 0; args.buffer < 2; ++args.buffer) {
      write_grads(handle, 0, &group, args.buffer, grads);
      reference_step(&want, grads, &scalars);
      EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
    }
    CHECK(kill(worker_of(handle), SIGCONT) == 0);
    EXPECT(zf_wait(handle, 0, -1), ZF_OK);
    check_group(handle, 0, &want, round);
  }
  EXPECT(zf_close(handle), ZF_OK);
  free(want.p);
  free(want.m);
  free(want.v);
}

int main(void) {
  both_buffers_at_once();
  run(PLAN_SPLIT);
  run(PLAN_SHARED);
  return 0;
}
