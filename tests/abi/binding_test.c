/* What zf-tune exec leaves in ZF_BINDING: zf_open needs nothing else, and narrows a process that has its
 * whole home. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static int cpus[MAX_CPUS];
static size_t cpu_count;
static cpu_set_t home, training, pool;

static int has(const cpu_set_t* mask) {
  cpu_set_t now;
  CHECK(sched_getaffinity(0, sizeof now, &now) == 0);
  return CPU_EQUAL(&now, mask);
}

static char* list_of(const cpu_set_t* mask) {
  char* const text = calloc(MAX_CPUS, 8);
  size_t used = 0;
  for (size_t i = 0; i < cpu_count; ++i) {
    if (CPU_ISSET((size_t)cpus[i], mask))
      used += (size_t)sprintf(text + used, used == 0 ? "%d" : ",%d", cpus[i]);
  }
  return text;
}

/* Sets what exec would: the first CPU is training's, the others are the pool's. */
static void bind_as(const char* started_on, const cpu_set_t* training_cpus, const cpu_set_t* pool_cpus,
                    int shared) {
  char line[4096];
  char* const homes = list_of(&home);
  char* const trainings = list_of(training_cpus);
  char* const pools = list_of(pool_cpus);
  snprintf(
      line, sizeof line,
      "zf-binding/1 rank=0 framework=unknown started_on=%s home=%s home_threads=%d training=%s threads=1 "
      "optimizer=%s mems= policy=preferred shared=%s",
      started_on, homes, (int)cpu_count, trainings, pools, shared ? "yes" : "no");
  setenv("ZF_BINDING", line, 1);
  setenv("ZF_RANK", "0", 1);
  setenv("ZF_PLAN", "/nowhere/plan.json", 1);
  free(homes);
  free(trainings);
  free(pools);
}

static zf_runtime* open_with(int32_t narrow, zf_status wanted) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  group.elements = 1000;
  options.narrow = narrow;
  EXPECT(zf_open(&options, &group, 1, &handle), wanted);
  return handle;
}

static zf_stats stats_of(zf_runtime* handle) {
  zf_stats stats = ZF_STATS_INIT;
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  return stats;
}

static void the_plan_file_may_be_gone(void) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  group.elements = 1000;
  bind_as("training", &training, &pool, 0);
  EXPECT(zf_open(NULL, &group, 1, &handle), ZF_OK);
  CHECK(stats_of(handle).threads == cpu_count - 1);
  CHECK(stats_of(handle).home_threads == cpu_count && stats_of(handle).training_threads == 1);
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, 5000), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
  options.plan_path = "/nowhere/plan.json"; /* what ZF_PLAN says too */
  options.rank = 0;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
}

/* Who names another plan or rank means that one. */
static void another_plan_or_rank_is_not_the_bindings(void) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  group.elements = 1000;
  bind_as("training", &training, &pool, 0);
  options.rank = 1;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_ERROR_PLAN);
  expect_error("/nowhere/plan.json");
  options.rank = -1;
  options.plan_path = "/elsewhere/plan.json";
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_ERROR_PLAN);
  expect_error("/elsewhere/plan.json");
  options.plan_path = NULL;
  setenv("ZF_RANK_FROM", "", 1); /* a launcher under exec has started this process as another rank */
  setenv("LOCAL_RANK", "3", 1);
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_ERROR_PLAN);
  expect_error("/nowhere/plan.json");
  unsetenv("LOCAL_RANK");
  unsetenv("ZF_RANK_FROM");
}

static zf_status open_plan(const char* path) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  group.elements = 1000;
  options.plan_path = path;
  const zf_status status = zf_open(&options, &group, 1, &handle);
  if (status == ZF_OK) EXPECT(zf_close(handle), ZF_OK);
  return status;
}

/* exec makes the path in ZF_PLAN absolute, and a program says "plan.json". No file here is a plan, so it is
 * an error to read one. */
static void the_plan_may_be_named_by_any_path(void) {
  char folder[] = "/tmp/zf-binding-XXXXXX";
  char path[64];
  char* const before = getcwd(NULL, 0);
  CHECK(before != NULL && mkdtemp(folder) != NULL && chdir(folder) == 0);
  snprintf(path, sizeof path, "%s/plan.json", folder);
  bind_as("training", &training, &pool, 0);
  setenv("ZF_PLAN", path, 1);
  EXPECT(open_plan("plan.json"), ZF_OK); /* there is no file yet */
  EXPECT(open_plan("./plan.json"), ZF_OK);
  EXPECT(open_plan("other.json"), ZF_ERROR_PLAN);
  CHECK(close(open("plan.json", O_CREAT | O_WRONLY, 0644)) == 0);
  CHECK(close(open("other.json", O_CREAT | O_WRONLY, 0644)) == 0);
  CHECK(symlink("plan.json", "link.json") == 0);
  EXPECT(open_plan("plan.json"), ZF_OK);
  EXPECT(open_plan("link.json"), ZF_OK);
  EXPECT(open_plan("other.json"), ZF_ERROR_PLAN);
  expect_error("other.json");
  CHECK(unlink("plan.json") == 0 && unlink("other.json") == 0 && unlink("link.json") == 0);
  CHECK(chdir(before) == 0 && rmdir(folder) == 0);
  free(before);
}

static void a_malformed_binding_is_named(void) {
  bind_as("training", &training, &pool, 0);
  setenv("ZF_BINDING", "zf-binding/1 rank=0 framework=unknown", 1);
  open_with(ZF_TRY, ZF_ERROR_PLAN);
  expect_error("ZF_BINDING: started_on is missing");
  setenv("ZF_BINDING", "zf-binding/7", 1);
  open_with(ZF_TRY, ZF_ERROR_PLAN);
  expect_error("ZF_BINDING: does not begin with zf-binding/1");
}

static void cpus_that_have_left_are_named(void) {
  setenv("ZF_BINDING",
         "zf-binding/1 rank=0 framework=unknown started_on=home home=5000-5001 home_threads=2 training=5000 "
         "threads=1 "
         "optimizer=5001 mems= policy=preferred shared=no",
         1);
  open_with(ZF_TRY, ZF_ERROR_PLAN);
  expect_error("ZF_BINDING: CPU 5001 of rank 0's optimizer is not available here");
  expect_error("start it again under zf-tune exec");
}

/* Threads of the trainer. Each publishes its thread id and lives until `ending`. */
static atomic_int ending;
struct other {
  pthread_t thread;
  const cpu_set_t* mask; /* NULL: what it inherits */
  atomic_int tid;
};

static void* be_other(void* argument) {
  struct other* const self = argument;
  if (self->mask != NULL) CHECK(sched_setaffinity(0, sizeof *self->mask, self->mask) == 0);
  atomic_store(&self->tid, (int)gettid());
  while (!atomic_load(&ending)) usleep(1000);
  return NULL;
}

static void start_other(struct other* other, const cpu_set_t* mask) {
  other->mask = mask;
  atomic_store(&other->tid, 0);
  CHECK(pthread_create(&other->thread, NULL, be_other, other) == 0);
  while (atomic_load(&other->tid) == 0) usleep(100);
}

static int other_has(const struct other* other, const cpu_set_t* mask) {
  cpu_set_t now;
  CHECK(sched_getaffinity((pid_t)atomic_load(&other->tid), sizeof now, &now) == 0);
  return CPU_EQUAL(&now, mask);
}

/* Starts one thread after the other, as a framework does while the runtime is opened. */
enum { MOST_STARTED = 200 };
static struct other started[MOST_STARTED];
static atomic_int started_count;
static atomic_int opened;

static void* start_threads(void* unused) {
  while (!atomic_load(&opened) && atomic_load(&started_count) < MOST_STARTED) {
    start_other(&started[atomic_load(&started_count)], NULL);
    atomic_fetch_add(&started_count, 1);
    usleep(500);
  }
  return unused;
}

static void every_thread_of_the_home_is_narrowed_and_gets_it_back(int by_end) {
  struct other plain;
  struct other chosen;
  pthread_t starter;
  atomic_store(&ending, 0);
  atomic_store(&opened, 0);
  atomic_store(&started_count, 0);
  start_other(&plain, NULL);
  start_other(&chosen, &pool);
  bind_as("home", &training, &pool, 0);
  CHECK(has(&home) && pthread_create(&starter, NULL, start_threads, NULL) == 0);
  zf_runtime* const handle = open_with(ZF_MUST, ZF_OK);
  atomic_store(&opened, 1);
  CHECK(pthread_join(starter, NULL) == 0);
  const int others = atomic_load(&started_count);
  const zf_stats stats = stats_of(handle);
  printf("  %u threads were narrowed, of %d that were started meanwhile\n", stats.narrowed_threads, others);
  CHECK(others > 0 && stats.narrowed_threads >= 2 && strcmp(stats.narrow_note, "") == 0);
  CHECK(has(&training) && other_has(&plain, &training));
  for (int i = 0; i < others; ++i) CHECK(other_has(&started[i], &training));
  CHECK(other_has(&chosen, &pool));
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, 5000), ZF_OK);
  if (by_end) {
    EXPECT(zf_end(handle), ZF_OK);
  } else {
    EXPECT(zf_close(handle), ZF_OK);
  }
  CHECK(has(&home) && other_has(&plain, &home) && other_has(&chosen, &pool));
  for (int i = 0; i < others; ++i) CHECK(other_has(&started[i], &home));
  if (by_end) EXPECT(zf_close(handle), ZF_OK);
  CHECK(has(&home));
  atomic_store(&ending, 1);
  CHECK(pthread_join(plain.thread, NULL) == 0 && pthread_join(chosen.thread, NULL) == 0);
  for (int i = 0; i < others; ++i) CHECK(pthread_join(started[i].thread, NULL) == 0);
}

/* The process keeps its CPUs if exec did not put it on its home, if the plan shares them, or if no
 * option asks for narrowing. */
static void who_is_not_to_be_narrowed_stays(void) {
  zf_runtime* handle = NULL;
  static const char* const others[] = {"training", "nothing"};
  for (size_t i = 0; i < 2; ++i) {
    bind_as(others[i], &training, &pool, 0);
    handle = open_with(ZF_MUST, ZF_OK);
    CHECK(has(&home) && stats_of(handle).narrowed_threads == 0);
    EXPECT(zf_close(handle), ZF_OK);
  }
  bind_as("home", &home, &pool, 1);
  handle = open_with(ZF_MUST, ZF_OK);
  CHECK(has(&home) && stats_of(handle).narrowed_threads == 0);
  EXPECT(zf_close(handle), ZF_OK);

  bind_as("home", &training, &pool, 0);
  handle = open_with(ZF_NO, ZF_OK);
  CHECK(has(&home));
  EXPECT(zf_close(handle), ZF_OK);
  open_with(7, ZF_ERROR_USAGE);
  expect_error("narrow is 7");

  unsetenv("ZF_BINDING"); /* not started by exec */
  unsetenv("ZF_RANK");
  setenv("ZF_PLAN", write_plan(PLAN_SPLIT, NULL), 1);
  handle = open_with(ZF_MUST, ZF_OK);
  CHECK(has(&home) && stats_of(handle).home_threads == 0);
  EXPECT(zf_close(handle), ZF_OK);
}

/* Gives a mask to all threads, also to one of a sanitizer. */
static void set_all(const cpu_set_t* mask) {
  DIR* const tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  for (const struct dirent* task = readdir(tasks); task != NULL; task = readdir(tasks)) {
    const pid_t tid = (pid_t)atoi(task->d_name);
    if (tid != 0) CHECK(sched_setaffinity(tid, sizeof *mask, mask) == 0);
  }
  closedir(tasks);
}

/* No thread has the home here, so none of these masks is the runtime's. */
static void who_chose_the_training_cpus_himself_keeps_them(void) {
  bind_as("home", &training, &pool, 0);
  set_all(&training);
  zf_runtime* const handle = open_with(ZF_TRY, ZF_OK);
  CHECK(has(&training) && stats_of(handle).narrowed_threads == 0);
  EXPECT(zf_close(handle), ZF_OK);
  CHECK(has(&training));
  set_all(&home);
}

static void the_last_of_two_handles_gives_the_home_back(void) {
  bind_as("home", &training, &pool, 0);
  zf_runtime* const first = open_with(ZF_TRY, ZF_OK);
  zf_runtime* const second = open_with(ZF_TRY, ZF_OK);
  CHECK(has(&training));
  EXPECT(zf_close(first), ZF_OK);
  CHECK(has(&training));
  EXPECT(zf_close(second), ZF_OK);
  CHECK(has(&home));
}

/* A forked child has the training CPUs, whether it touches the handle or opens its own. */
static void a_forked_child_widens_nothing(void) {
  bind_as("home", &training, &pool, 0);
  zf_runtime* const handle = open_with(ZF_TRY, ZF_OK);
  int status = -1;
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    EXPECT(zf_close(handle), ZF_ERROR_FORKED);
    EXPECT(zf_end(handle), ZF_ERROR_FORKED);
    CHECK(has(&training));
#ifndef ZF_SANITIZED_THREAD /* it allows no thread in a forked child */
    zf_runtime* const own = open_with(ZF_TRY, ZF_OK);
    EXPECT(zf_close(own), ZF_OK);
    CHECK(has(&training));
#endif
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK(has(&training));
  EXPECT(zf_close(handle), ZF_OK);
  CHECK(has(&home));
}

/* From here on no thread of this process may change the mask of another one, and the kernel says EPERM also
 * for its own thread id. (The optimizer process binds its threads by the number 0.) */
static void refuse_masks_of_named_threads(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setaffinity, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof code / sizeof *code, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
    return;
  printf("skipped: filters are not to be had here\n");
  exit(0);
}

static void a_refused_mask_is_a_note_or_an_error(void) {
  refuse_masks_of_named_threads();
  bind_as("home", &training, &pool, 0);
  zf_runtime* const handle = open_with(ZF_TRY, ZF_OK);
  const zf_stats stats = stats_of(handle);
  printf("  noted: %s\n", stats.narrow_note);
  CHECK(stats.narrowed_threads == 0 && strstr(stats.narrow_note, "Operation not permitted") != NULL &&
        has(&home));
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, 5000), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);

  const size_t descriptors = count_descriptors();
  open_with(ZF_MUST, ZF_ERROR_SYSTEM);
  expect_error("not every thread was narrowed");
  CHECK(has(&home) && count_children() == 0 && count_arena_mappings() == 0);
  CHECK(count_descriptors() == descriptors);
}

/* A restarted optimizer is started by a thread that was narrowed. */
static void a_restarted_pool_is_on_its_own_side(void) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  cpu_set_t now;
  group.elements = 1000;
  bind_as("home", &training, &pool, 0);
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
  CHECK(kill(worker_of(handle), SIGKILL) == 0);
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, 20000), ZF_OK);
  CHECK(has(&training));
  CHECK(sched_getaffinity(worker_of(handle), sizeof now, &now) == 0);
  CPU_AND(&now, &now, &training);
  CHECK(CPU_COUNT(&now) == 0);
  EXPECT(zf_close(handle), ZF_OK);
  CHECK(has(&home));
}

/* Returns the number of the worker's threads. Checks that each may run on all CPUs of the home. */
static size_t threads_on_all_of_the_home(pid_t worker) {
  char path[64];
  size_t count = 0;
  snprintf(path, sizeof path, "/proc/%d/task", (int)worker);
  DIR* const tasks = opendir(path);
  CHECK(tasks != NULL);
  for (const struct dirent* task = readdir(tasks); task != NULL; task = readdir(tasks)) {
    cpu_set_t mask;
    const pid_t tid = (pid_t)atoi(task->d_name);
    if (tid == 0) continue;
    CHECK(sched_getaffinity(tid, sizeof mask, &mask) == 0);
    CHECK(CPU_EQUAL(&mask, &home));
    ++count;
  }
  closedir(tasks);
  return count;
}

/* Neighbours share the CPUs: the pool has as many threads as the binding says, and none is pinned. */
static void threads_whose_cpus_neighbours_share_have_all_of_them(void) {
  static const char* const counts[] = {"1", "3"}; /* fewer, and on two CPUs more, than CPUs */
  for (size_t i = 0; i < 2; ++i) {
    char line[4096];
    bind_as("home", &home, &home, 0);
    snprintf(line, sizeof line, "%s optimizer_threads=%s", getenv("ZF_BINDING"), counts[i]);
    setenv("ZF_BINDING", line, 1);
    zf_runtime* const handle = open_with(ZF_MUST, ZF_OK);
    const size_t threads = (size_t)atoi(counts[i]);
    CHECK(has(&home) &&
          stats_of(handle).narrowed_threads >= 1); /* training has fewer threads than the home */
    CHECK(stats_of(handle).training_threads < stats_of(handle).home_threads);
    CHECK(stats_of(handle).threads == threads && stats_of(handle).degraded == 0);
    /* The others watch the trainer, or are a sanitizer's. */
    CHECK(threads_on_all_of_the_home(worker_of(handle)) >= threads);
    EXPECT(submit_all(handle, NULL), ZF_OK);
    EXPECT(zf_wait(handle, 0, 5000), ZF_OK);
    EXPECT(zf_close(handle), ZF_OK);
  }
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  cpu_count = allowed_cpus(cpus);
  if (cpu_count < 2 || cpus[cpu_count - 1] >= CPU_SETSIZE) {
    printf("skipped: it needs two CPUs, below %d\n", CPU_SETSIZE);
    return SKIPPED;
  }
  for (size_t i = 0; i < cpu_count; ++i) {
    CPU_SET((size_t)cpus[i], &home);
    CPU_SET((size_t)cpus[i], i == 0 ? &training : &pool);
  }
  const size_t descriptors = count_descriptors();
  the_plan_file_may_be_gone();
  another_plan_or_rank_is_not_the_bindings();
  the_plan_may_be_named_by_any_path();
  a_malformed_binding_is_named();
  cpus_that_have_left_are_named();
  every_thread_of_the_home_is_narrowed_and_gets_it_back(0);
  every_thread_of_the_home_is_narrowed_and_gets_it_back(1);
  who_is_not_to_be_narrowed_stays();
  who_chose_the_training_cpus_himself_keeps_them();
  the_last_of_two_handles_gives_the_home_back();
  a_forked_child_widens_nothing();
  a_restarted_pool_is_on_its_own_side();
  threads_whose_cpus_neighbours_share_have_all_of_them();
  in_child(a_refused_mask_is_a_note_or_an_error);
  CHECK(count_children() == 0 && count_arena_mappings() == 0 && count_descriptors() == descriptors);
  return 0;
}
