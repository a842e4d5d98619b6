/* Kills the optimizer at random moments and checks that nothing is lost: an undisturbed handle takes the same
 * steps beside it, and after each step all parameters, moments and outputs are equal, bit for bit. The steps
 * alternate between the two gradient buffers, and some groups have a set of moments for each.
 * With the argument "cpuset" the last CPU leaves the cpuset meanwhile and comes back, at random moments. With
 * "offline" it leaves the whole machine, so use that in a guest. With "steps" the optimizer is stopped before
 * each kill, and its threads execute single instructions in a random order until the kill comes between two
 * of them. With "speculated" (or "speculated-steps", which is both) each step of the hunted one is first
 * begun as ZF_SPECULATE, whole or by chunks, with the same scalars or others, and then kept, or taken back
 * and done again. ZF_KILLS: number of kills for each number of threads (default 30; 1000 takes minutes).
 * ZF_SEED: another sequence of random choices. ZF_STATE: the state format of all groups. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cpuset.h"
#include "single_steps.h"
#include "support.h"

enum { GROUPS = 5, MOST_ELEMENTS = 300007, CHUNK = 32768, STALL_MS = 60000, MOST_GROWTH_KIB = 256 };

static int32_t state_format = ZF_STATE_FP32;
static int speculates;

static void take_format(const char* name) {
  static const char* const names[] = {"fp32", "bf16", "split", "bf16+split"};
  while (state_format <= ZF_STATE_BF16_SPLIT && strcmp(names[state_format], name) != 0) ++state_format;
  CHECK(state_format <= ZF_STATE_BF16_SPLIT);
}

static zf_runtime* open_groups(const char* plan, int32_t max_restarts, zf_group* groups) {
  static const uint64_t elements[GROUPS] = {MOST_ELEMENTS, 70001, 13, 0, 150013};
  /* Some are two of the widest vectors long. */
  static const zf_range ranges[] = {{0, 32, 5},    {0, 64, UINT64_C(1) << 40},
                                    {0, 96, 1},    {0, 40000, 1 << 26},
                                    {0, 40032, 3}, {0, 98304, 1 << 27}};
  zf_options options = ZF_OPTIONS_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = plan;
  options.max_restarts = max_restarts;
  options.chunk_bytes = CHUNK * 2; /* of a copy; so that a death comes between chunks, too */
  for (int i = 0; i < GROUPS; ++i) {
    const zf_group init = ZF_GROUP_INIT;
    groups[i] = init;
    groups[i].elements = elements[i];
    groups[i].grad_type = i % 3 == 0 ? ZF_F32 : i % 3 == 1 ? ZF_BF16 : ZF_F16;
    groups[i].copy_type = i == 1 ? ZF_F16 : ZF_BF16;
    groups[i].stale = 1;
    groups[i].moment_sets = i == 1 || i == 2 ? 1 : 2;
    groups[i].speculative = (uint32_t)speculates;
    if (state_format == ZF_STATE_FP32) continue;
    groups[i].copy_type = i == 1 && state_format == ZF_STATE_BF16 ? ZF_NONE : ZF_BF16;
    groups[i].stale = 0;
    groups[i].moment_sets = 1;
    groups[i].state_format = state_format;
    groups[i].first_element = (uint64_t)i << 20;
    groups[i].ranges = i == 0 || i == 4 ? ranges : NULL;
    groups[i].range_count = i == 0 || i == 4 ? sizeof ranges / sizeof *ranges : 0;
  }
  EXPECT(zf_open(&options, groups, GROUPS, &handle), ZF_OK);
  return handle;
}

/* Gives both the same random values: 16-bit patterns that are small positive numbers in every type. */
static void fill_both(zf_runtime* a, zf_runtime* b, zf_buffer_kind kind, const zf_group* groups) {
  for (size_t i = 0; i < GROUPS; ++i) {
    size_t bytes = 0;
    void* const one = buffer_of(a, i, kind, &bytes);
    for (size_t k = 0; k < groups[i].elements; ++k) {
      const uint16_t half = (uint16_t)(0x3800u + random_below(0x400));
      if (bytes == groups[i].elements * 4) {
        ((float*)one)[k] = (float)half / 16384.0f - 0.9f;
      } else {
        ((uint16_t*)one)[k] = half;
      }
    }
    memcpy(buffer_of(b, i, kind, NULL), one, bytes);
  }
}

/* Compares elements [begin, end) of everything that a step writes. */
static void expect_same_part(zf_runtime* a, zf_runtime* b, const zf_group* groups, size_t group,
                             uint64_t begin, uint64_t end, int step) {
  static const zf_buffer_kind kinds[] = {ZF_PARAMS, ZF_MOMENT_1,       ZF_MOMENT_2,      ZF_STALE,
                                         ZF_COPY,   ZF_MOMENT_1_SET_1, ZF_MOMENT_2_SET_1};
  const uint64_t elements = groups[group].elements;
  const size_t count = sizeof kinds / sizeof *kinds;
  for (size_t k = 0; k < count && begin != end; ++k) {
    size_t bytes = 0;
    void* one = NULL;
    if (zf_buffer(a, group, kinds[k], &one, &bytes) != ZF_OK) continue; /* the group has none */
    const char* const other = buffer_of(b, group, kinds[k], NULL);
    const size_t each = bytes / elements;
    if (memcmp((const char*)one + begin * each, other + begin * each, (end - begin) * each) == 0) continue;
    fprintf(stderr, "step %d: group %zu differs in buffer %d, between %llu and %llu\n", step, group,
            (int)kinds[k], (unsigned long long)begin, (unsigned long long)end);
    exit(1);
  }
}

/* Compares the parameters as fp32: with split masters their lower halves are in no buffer. */
static void expect_same_params(zf_runtime* a, zf_runtime* b, size_t group, uint64_t elements, int step) {
  static float values[2][MOST_ELEMENTS];
  EXPECT(zf_read_state(a, group, ZF_PARAMS, 0, elements, values[0]), ZF_OK);
  EXPECT(zf_read_state(b, group, ZF_PARAMS, 0, elements, values[1]), ZF_OK);
  if (memcmp(values[0], values[1], elements * sizeof(float)) == 0) return;
  fprintf(stderr, "step %d: group %zu differs in buffer %d\n", step, group, ZF_PARAMS);
  exit(1);
}

static void expect_same(zf_runtime* a, zf_runtime* b, const zf_group* groups, int step) {
  for (size_t i = 0; i < GROUPS; ++i) {
    expect_same_part(a, b, groups, i, 0, groups[i].elements, step);
    expect_same_params(a, b, i, groups[i].elements, step);
  }
}

static uint32_t buffer_of_step(int step) { return (uint32_t)step % 2; }

static void submit_step(zf_runtime* handle, int step) {
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  args.buffer = buffer_of_step(step);
  zf_scalars scalars[GROUPS];
  for (unsigned i = 0; i < GROUPS; ++i) scalars[i] = made_scalars(i % 4, (uint64_t)step + 1);
  args.scalars = scalars;
  args.scalar_count = GROUPS;
  if (step % 3 != 0) {
    EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
    return;
  }
  for (uint32_t i = 0; i < GROUPS; ++i) { /* group by group */
    args.groups = &i;
    args.n_groups = 1;
    args.scalars = &scalars[i];
    args.scalar_count = 1;
    EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
  }
}

/* Begins a step of one group chunk by chunk, from the last to the first; sometimes not of all. */
static void speculate_chunks(zf_runtime* handle, zf_submit_args args, uint32_t group, uint64_t elements) {
  args.groups = &group;
  args.n_groups = 1;
  args.scalars += group;
  args.scalar_count = 1;
  for (args.end = elements; args.end != 0; args.end = args.begin) {
    args.begin = (args.end - 1) / CHUNK * CHUNK;
    EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
    if (random_below(8) == 0) return;
  }
}

/* Begins a step before it is submitted. */
static void speculate(zf_runtime* handle, const zf_group* groups, int step) {
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  args.work = ZF_SPECULATE;
  args.buffer = buffer_of_step(step);
  zf_scalars scalars[GROUPS];
  for (unsigned i = 0; i < GROUPS; ++i) {
    scalars[i] = made_scalars(i % 4, (uint64_t)step + 1);
    if (random_below(2) == 0) scalars[i].grad_scale = random_below(2) == 0 ? 100.0f : 0.25f;
  }
  args.scalars = scalars;
  args.scalar_count = GROUPS;
  if (random_below(2) == 0) {
    EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
  } else {
    for (uint32_t i = 0; i < GROUPS; ++i) speculate_chunks(handle, args, i, groups[i].elements);
  }
  uint64_t number = 0;
  EXPECT(zf_get_step(handle, 0, &number), ZF_ERROR_BUSY);
  if (random_below(4) != 0) return;
  zf_submit_args back = ZF_SUBMIT_ARGS_INIT;
  back.buffer = args.buffer;
  back.work = ZF_TAKE_BACK;
  for (uint32_t i = 0; i < GROUPS; ++i) {
    if (groups[i].elements == 0) continue;
    back.groups = &i;
    back.n_groups = 1;
    EXPECT(zf_submit(handle, &back, NULL), ZF_OK);
  }
}

/* Waits for all submitted work. If this whole test was stopped meanwhile, as may happen to a long campaign,
 * the time is over at once when it goes on. So it waits a second time. */
static void finish(zf_runtime* handle) {
  const zf_status status = zf_wait(handle, 0, STALL_MS);
  if (status == ZF_TIMEOUT) {
    fprintf(stderr, "a wait of %d ms was not enough; waiting again\n", STALL_MS);
    EXPECT(zf_wait(handle, 0, STALL_MS), ZF_OK);
  }
  if (status != ZF_TIMEOUT) EXPECT(status, ZF_OK);
}

static void spin_for(int64_t ns) {
  const int64_t end = now_ns() + ns;
  while (now_ns() < end) {
  }
}

struct kills {
  int wanted, done, in_work;
  long instructions; /* that were executed one by one before the kills */
};

static int by_single_steps;

/* Kills the worker if it lives. Kills of a worker with work are counted separately. */
static void kill_worker(zf_runtime* handle, struct kills* kills) {
  zf_stats stats = ZF_STATS_INIT;
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  if (!stats.worker_alive || kills->done == kills->wanted) return;
  CHECK(stats.worker_pid > 1);
  if (by_single_steps) {
    /* Mostly few, sometimes many: 2048 instructions step about a hundred vectors. */
    const long executed = execute_single_instructions((pid_t)stats.worker_pid,
                                                      (long)random_below(UINT64_C(2) << random_below(11)));
    if (executed < 0) return;                    /* the last kill is noticed only now */
    EXPECT(zf_get_stats(handle, &stats), ZF_OK); /* it may have finished its work until it was stopped */
    kill_stopped();
    kills->instructions += executed;
  } else if (kill((pid_t)stats.worker_pid, SIGKILL) != 0) { /* the last kill is noticed only now */
    CHECK(errno == ESRCH);
    return;
  }
  ++kills->done;
  kills->in_work += stats.completed != stats.submitted;
}

/* Reads the results of a step as they are finished, and kills again meanwhile. Reported results must be
 * final. Kills at most twice: in a guest a start takes so many readings that few would succeed. */
static void read_along(zf_runtime* calm, zf_runtime* hunted, const zf_group* groups, int step,
                       struct kills* kills) {
  const int most = kills->done + 2;
  for (size_t i = 0; i < GROUPS; ++i) {
    uint64_t done = 0;
    for (uint64_t read = 0; read < groups[i].elements; read = done) {
      const zf_status status = zf_progress(hunted, 0, i, read + 1, 5, &done);
      CHECK(status == ZF_OK || (status == ZF_TIMEOUT && done == read));
      expect_same_part(calm, hunted, groups, i, read, done, step);
      if (kills->done < most && random_below(20) == 0) kill_worker(hunted, kills);
    }
  }
}

/* A restart must leave nothing behind: checks how much the trainer's own memory grew since the first
 * restarts. (168 KiB were seen in a guest after 10 kills, of pages that had not been touched before.) */
static void expect_no_growth(size_t kib_before) {
#ifdef ZF_SANITIZED
  (void)kib_before; /* their allocators keep what is freed */
#else
  const size_t kib = count_private_kib();
  printf("%zu KiB of private memory, %zu after the first kills\n", kib, kib_before);
  CHECK(kib <= kib_before + MOST_GROWTH_KIB);
#endif
}

/* A thread of the trainer that takes the last CPU away and gives it back until it is told to stop. */
struct toggler {
  pthread_t thread;
  atomic_int stop;
  int times;
  uint32_t longest_pause_us;
};

static void* toggle(void* argument) {
  struct toggler* const self = argument;
  uint32_t state = 12345; /* random_below() belongs to the main thread */
  while (!atomic_load(&self->stop)) {
    if (self->times++ % 2 == 0) {
      take_last_cpu();
    } else {
      give_last_cpu();
    }
    state = state * 1664525u + 1013904223u;
    usleep(1000 + (state >> 8) % self->longest_pause_us);
  }
  give_last_cpu();
  return NULL;
}

/* Pauses up to four times as long as a start takes. If the CPU came and went much faster, as in a guest with
 * the pauses of a real machine, starts would fail. */
static void start_toggling(struct toggler* toggler, uint64_t start_ns) {
  toggler->longest_pause_us = (uint32_t)(start_ns * 4 / 1000);
  atomic_store(&toggler->stop, 0);
  toggler->times = 0;
  CHECK(pthread_create(&toggler->thread, NULL, toggle, toggler) == 0);
}

static void stop_toggling(struct toggler* toggler) {
  atomic_store(&toggler->stop, 1);
  CHECK(pthread_join(toggler->thread, NULL) == 0);
}

/* Counts the different workers that were seen, and those that were without a CPU of their plan. */
struct seen {
  int32_t worker;
  int workers, degraded;
};

static void look_at_worker(zf_runtime* handle, struct seen* seen) {
  zf_stats stats = ZF_STATS_INIT;
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK((stats.degraded != 0) == (stats.cpu_note[0] != 0));
  if (stats.worker_pid == seen->worker) return;
  seen->worker = stats.worker_pid;
  ++seen->workers;
  seen->degraded += stats.degraded != 0;
}

static int cpus_leave;
static struct kills kills_wanted;

static void run(enum plan_kind kind, struct kills kills) {
  struct toggler toggler;
  struct seen seen = {0, 0, 0};
  zf_group groups[GROUPS];
  const char* const plan = write_plan(kind, NULL);
  zf_runtime* const calm = open_groups(plan, -1, groups);
  const size_t descriptors = count_descriptors();
  zf_runtime* const hunted = open_groups(plan, 1000000, groups);
  const size_t more_descriptors = count_descriptors();
  zf_stats stats = ZF_STATS_INIT;
  int64_t step_ns = 1000000;
  int step = 0;
  size_t kib_before = 0;
  fill_both(calm, hunted, state_format >= ZF_STATE_SPLIT ? ZF_COPY : ZF_PARAMS, groups);
  EXPECT(zf_get_stats(calm, &stats), ZF_OK);
  if (cpus_leave) start_toggling(&toggler, stats.start_ns);
  const int least_steps = kills.wanted < 10 ? 2 * kills.wanted : 20; /* few kills: a slow machine */
  while (kills.done < kills.wanted || step < least_steps) {
    /* Every fourth time two steps wait together, so that a death may leave the second one untouched. */
    const int steps = step % 4 == 0 ? 2 : 1;
    for (int i = step; i < step + steps; ++i) {
      fill_both(calm, hunted, buffer_of_step(i) == 0 ? ZF_GRADS_0 : ZF_GRADS_1, groups);
      submit_step(calm, i);
    }
    finish(calm);
    for (int i = step; i < step + steps; ++i) {
      if (speculates) speculate(hunted, groups, i);
      submit_step(hunted, i);
    }
    spin_for((int64_t)random_below((uint64_t)(step_ns * steps)));
    kill_worker(hunted, &kills);
    if (steps == 1) read_along(calm, hunted, groups, step, &kills);
    /* Some of the next workers are killed too, while they start and while they repair. */
    zf_status status = ZF_TIMEOUT;
    for (int again = (int)random_below(4); again > 0 && status == ZF_TIMEOUT; --again) {
      spin_for((int64_t)random_below(3000000)); /* of what a start takes */
      status = zf_wait(hunted, 0, 0);
      if (status == ZF_TIMEOUT) kill_worker(hunted, &kills);
    }
    finish(hunted);
    look_at_worker(hunted, &seen);
    step += steps;
    expect_same(calm, hunted, groups, step);
    EXPECT(zf_get_stats(calm, &stats), ZF_OK);
    step_ns = (int64_t)stats.last_step_ns * (speculates ? 15 : 5) / 4 + 10000;
    if (kib_before == 0 && kills.done * 4 >= kills.wanted) kib_before = count_private_kib();
  }
  if (cpus_leave) stop_toggling(&toggler);
  EXPECT(submit_all(hunted, NULL), ZF_OK); /* has a worker again, and can be closed in peace */
  finish(hunted);
  EXPECT(zf_get_stats(hunted, &stats), ZF_OK);
  CHECK(stats.restarts > 0 && stats.restarts <= (uint32_t)kills.done);
  CHECK(strstr(stats.last_death, "was killed by signal 9") != NULL);
  expect_no_growth(kib_before);
  const int64_t deadline = now_ns() + 10000000000;
  while (count_descriptors() != more_descriptors && now_ns() < deadline)
    spin_for(1000000); /* is at it still */
  CHECK(count_descriptors() == more_descriptors && count_children() == 2 && count_arena_mappings() == 2);
  printf("%u threads (%s): %d kills, %d of them with work under way, over %d steps; all equal\n",
         stats.threads, stats.isa, kills.done, kills.in_work, step);
  if (by_single_steps) printf("  %ld instructions were executed one by one\n", kills.instructions);
  if (cpus_leave) {
    printf("  the last CPU left or came back %d times; %d of %d workers were started without it\n",
           toggler.times, seen.degraded, seen.workers);
    /* Of few workers all, or none, may have been started without it. */
    CHECK((seen.degraded > 0 || seen.workers < 12) && (seen.degraded < seen.workers || seen.workers < 50));
  }
  const zf_status end = zf_close(hunted);
  CHECK(end == ZF_OK || end == ZF_WORKER_DIED);
  CHECK(count_descriptors() == descriptors && count_arena_mappings() == 1);
  EXPECT(zf_close(calm), ZF_OK);
}

/* Waits until that many workers have been restarted or, with the restarts used up, the last one is known to
 * be dead. */
static void await_restarts(zf_runtime* handle, uint32_t restarts, int32_t alive) {
  zf_stats stats = ZF_STATS_INIT;
  const int64_t deadline = now_ns() + (int64_t)STALL_MS * 1000000;
  do {
    CHECK(now_ns() < deadline);
    spin_for(100000);
    EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  } while (stats.restarts != restarts || stats.worker_alive != alive);
}

/* After max_restarts deaths the next death is final, and the error says so. */
static void restarts_end(void) {
  zf_group groups[GROUPS];
  zf_runtime* const handle = open_groups(write_plan(PLAN_SPLIT, NULL), 2, groups);
  for (uint32_t i = 0; i < 2; ++i) {
    CHECK(kill(worker_of(handle), SIGKILL) == 0);
    await_restarts(handle, i + 1, 1);
    EXPECT(submit_all(handle, NULL), ZF_OK);
    EXPECT(zf_wait(handle, 0, STALL_MS), ZF_OK);
  }
  CHECK(kill(worker_of(handle), SIGKILL) == 0);
  await_restarts(handle, 2, 0);
  EXPECT(submit_all(handle, NULL), ZF_WORKER_DIED);
  expect_error("it has been started again 2 times");
  EXPECT(zf_wait(handle, 0, 0), ZF_OK); /* what was done before counts */
  EXPECT(zf_close(handle), ZF_OK);
}

static void run_all(void) {
  const size_t descriptors = count_descriptors();
  restarts_end();
  run(PLAN_SPLIT, kills_wanted);
  run(PLAN_SHARED, kills_wanted);
  CHECK(count_descriptors() == descriptors && count_children() == 0 && count_arena_mappings() == 0);
}

int main(int argc, char** argv) {
  const char* const given = getenv("ZF_KILLS");
  kills_wanted.wanted = given == NULL ? 30 : atoi(given);
  const char* const seed = getenv("ZF_SEED");
  if (seed != NULL) seed_random(strtoull(seed, NULL, 10));
  const char* const format = getenv("ZF_STATE");
  if (format != NULL) take_format(format);
  const char* const way = argc > 1 ? argv[1] : "";
  by_single_steps = strcmp(way, "steps") == 0;
  speculates = strncmp(way, "speculated", 10) == 0;
  if (strcmp(way, "speculated-steps") == 0) by_single_steps = 1;
  cpus_leave = *way != 0 && !by_single_steps && !speculates;
  setvbuf(stdout, NULL, _IOLBF, 0);
  /* A thread's stack may contain a whole huge page, which costs 2 MiB for its first byte. Count the touched
   * pages.
   */
  CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
  if (strcmp(way, "cpuset") == 0) {
    in_cpuset(run_all);
  } else if (strcmp(way, "offline") == 0) {
    with_cpu_offline(run_all);
  } else {
    CHECK(!cpus_leave);
    if (by_single_steps && !may_trace()) {
      printf("skipped: no process may trace its child here\n");
      return SKIPPED;
    }
    run_all();
  }
  return 0;
}
