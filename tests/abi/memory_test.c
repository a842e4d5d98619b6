/* Checks where the arena's memory lies, and that a refusal of the machine gives a note or one clear error. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { ELEMENTS = 3000000 }; /* 60 MB of arrays */

static zf_status open_with(int32_t huge_pages, int32_t lock_memory, zf_runtime** handle) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  options.plan_path = write_plan(PLAN_SHARED, NULL);
  options.huge_pages = huge_pages;
  options.lock_memory = lock_memory;
  group.elements = ELEMENTS;
  return zf_open(&options, &group, 1, handle);
}

static zf_stats stats_of(zf_runtime* handle) {
  zf_stats stats = ZF_STATS_INIT;
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  printf(
      "  pages: %llu on the plan's nodes, %llu elsewhere, %llu nowhere; %llu bytes huge, %llu locked; "
      "\"%s\"\n",
      (unsigned long long)stats.pages_on_plan, (unsigned long long)stats.pages_elsewhere,
      (unsigned long long)stats.pages_absent, (unsigned long long)stats.huge_bytes,
      (unsigned long long)stats.locked_bytes, stats.memory_note);
  return stats;
}

static void steps_and_closes(zf_runtime* handle) {
  EXPECT(submit_all(handle, NULL), ZF_OK);
  EXPECT(zf_wait(handle, 0, 60000), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
}

static uint64_t arena_bytes;

/* With one node, or with a policy that works, every checked page lies where the plan says. */
static void placement_is_looked_up(void) {
  zf_runtime* handle = NULL;
  EXPECT(open_with(ZF_NO, ZF_NO, &handle), ZF_OK);
  const zf_stats stats = stats_of(handle);
  arena_bytes = stats.arena_bytes;
  if (strstr(stats.memory_note, "move_pages") == NULL) {
    CHECK(stats.pages_on_plan > 5 * ELEMENTS * sizeof(float) / 4096 * 9 / 10);
    CHECK(stats.pages_elsewhere == 0 && stats.pages_absent == 0);
  }
  CHECK(stats.huge_bytes == 0 && stats.locked_bytes == 0);
  steps_and_closes(handle);
}

/* With the system-call filter of a container there are notes, and everything works. */
static void refusals_are_notes(void) {
  static const int calls[] = {SYS_mbind, SYS_set_mempolicy, SYS_move_pages, SYS_mlock};
  zf_runtime* handle = NULL;
  if (!refuse_calls(calls, sizeof calls / sizeof *calls, EPERM)) {
    printf("skipped: no seccomp filters here\n");
    return;
  }
  EXPECT(open_with(ZF_NO, ZF_TRY, &handle), ZF_OK);
  const zf_stats stats = stats_of(handle);
  CHECK(strstr(stats.memory_note, "set_mempolicy(preferred, node 0) was refused: Operation not permitted") !=
        NULL);
  CHECK(stats.pages_on_plan == 0);
  steps_and_closes(handle);
  EXPECT(open_with(ZF_TRY, ZF_TRY, &handle), ZF_OK); /* the note about huge pages displaces no other */
  CHECK(strstr(stats_of(handle).memory_note, "; move_pages was refused: Operation not permitted") != NULL);
  steps_and_closes(handle);
#ifndef ZF_SANITIZED /* which make mlock do nothing */
  CHECK(strstr(stats.memory_note, "; mlock of ") != NULL && stats.locked_bytes == 0);
  EXPECT(open_with(ZF_NO, ZF_MUST, &handle), ZF_ERROR_WORKER);
  expect_error("was refused: Operation not permitted; raise `ulimit -l`");
#endif
  CHECK(count_children() == 0 && count_arena_mappings() == 0);
}

static void locked_or_noted(void) {
  zf_runtime* handle = NULL;
  EXPECT(open_with(ZF_NO, ZF_TRY, &handle), ZF_OK);
  const zf_stats stats = stats_of(handle);
  CHECK(stats.locked_bytes == (strstr(stats.memory_note, "mlock") == NULL ? stats.arena_bytes : 0));
  steps_and_closes(handle);
}

static void huge_or_noted(void) {
  zf_runtime* handle = NULL;
  EXPECT(open_with(ZF_TRY, ZF_NO, &handle), ZF_OK);
  const zf_stats stats = stats_of(handle);
  CHECK((stats.huge_bytes == 0) == (strstr(stats.memory_note, "no huge pages: shmem_enabled is ") != NULL));
  steps_and_closes(handle);
  const zf_status must = open_with(ZF_MUST, ZF_NO, &handle);
  CHECK(must == (stats.huge_bytes == 0 ? ZF_ERROR_WORKER : ZF_OK));
  if (must == ZF_OK) EXPECT(zf_close(handle), ZF_OK);
  EXPECT(open_with(7, ZF_NO, &handle), ZF_ERROR_USAGE);
  expect_error("huge_pages is 7");
}

/* Only a program that does not know the option, or has a zero there, does without. */
static void huge_pages_are_the_default(void) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  EXPECT(open_with(ZF_TRY, ZF_NO, &handle), ZF_OK);
  const zf_stats wanted = stats_of(handle);
  EXPECT(zf_close(handle), ZF_OK);

  CHECK(options.huge_pages == ZF_TRY);
  group.elements = ELEMENTS;
  setenv("ZF_TUNE", "off", 1);
  EXPECT(zf_open(NULL, &group, 1, &handle), ZF_OK);
  unsetenv("ZF_TUNE");
  zf_stats stats = stats_of(handle);
  CHECK((stats.huge_bytes != 0) == (wanted.huge_bytes != 0));
  CHECK((strstr(stats.memory_note, "huge") != NULL) == (strstr(wanted.memory_note, "huge") != NULL));
  EXPECT(zf_close(handle), ZF_OK);

  options.plan_path = write_plan(PLAN_SHARED, NULL);
  group.elements = 1000; /* a huge page would waste most of itself */
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
  stats = stats_of(handle);
  CHECK(stats.huge_bytes == 0 && strstr(stats.memory_note, "huge") == NULL);
  EXPECT(zf_close(handle), ZF_OK);
}

/* Counts the pages of an array that this process's page tables have. */
static size_t count_mapped_pages(const void* array, size_t bytes) {
  static uint64_t entries[4096];
  const size_t pages = bytes / 4096;
  size_t mapped = 0;
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  CHECK(pagemap >= 0);
  for (size_t at = 0; at < pages;) {
    const size_t count = pages - at < 4096 ? pages - at : 4096;
    const off_t offset = (off_t)(((uintptr_t)array / 4096 + at) * sizeof *entries);
    CHECK(pread(pagemap, entries, count * sizeof *entries, offset) == (ssize_t)(count * sizeof *entries));
    for (size_t i = 0; i < count; ++i) mapped += entries[i] >> 63;
    at += count;
  }
  close(pagemap);
  return mapped;
}

static long faults_of_this_thread(void) {
  struct rusage usage;
  CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
  return usage.ru_minflt + usage.ru_majflt;
}

/* A thread of the library maps the arrays that training writes, so the first write to a page takes no fault.
 */
static void first_writes_find_their_pages(int32_t huge_pages) {
  static const zf_buffer_kind kinds[] = {ZF_PARAMS, ZF_GRADS_0, ZF_GRADS_1};
  zf_runtime* handle = NULL;
  EXPECT(open_with(huge_pages, ZF_NO, &handle), ZF_OK);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    size_t bytes = 0;
    char* const array = buffer_of(handle, 0, kinds[i], &bytes);
    const int64_t deadline = now_ns() + 20000000000;
    while (count_mapped_pages(array, bytes) < bytes / 4096 && now_ns() < deadline) usleep(1000);
    CHECK(count_mapped_pages(array, bytes) == bytes / 4096);
    const long before = faults_of_this_thread();
    for (size_t at = 0; at < bytes; at += 4096) ((volatile char*)array)[at] = 1;
    const long faults = faults_of_this_thread() - before;
    printf("  the first writes to %zu pages took %ld faults\n", bytes / 4096, faults);
#ifndef ZF_SANITIZED /* its shadow of these pages takes faults */
    CHECK(faults < 8);
#endif
  }
  steps_and_closes(handle);
}

static int arena_goes(void) {
  const int64_t deadline = now_ns() + 20000000000;
  while (count_arena_mappings() != 0 && now_ns() < deadline) usleep(1000);
  return count_arena_mappings() == 0;
}

/* Whether a thread of this process has this name. */
static int has_thread(const char* name) {
  int found = 0;
  DIR* const tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  for (const struct dirent* task = readdir(tasks); task != NULL; task = readdir(tasks)) {
    char path[300];
    char line[64] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
    FILE* const comm = fopen(path, "re");
    if (comm == NULL) continue;
    if (fgets(line, sizeof line, comm) != NULL) found = found || strncmp(line, name, strlen(name)) == 0;
    fclose(comm);
  }
  closedir(tasks);
  return found;
}

static void sees_no_arena(void) { CHECK(count_arena_mappings() == 0); }

/* The library calls this munmap instead of the C library's. One call of another thread than the main one can
 * be held until it is released. */
static pthread_t main_thread;
static atomic_int hold_next_piece, piece_is_held;
static atomic_size_t largest_piece;
static sem_t piece_released;

__attribute__((visibility("default"))) int munmap(void* start, size_t bytes) {
  size_t largest = atomic_load(&largest_piece);
  while (bytes > largest && !atomic_compare_exchange_weak(&largest_piece, &largest, bytes)) {
  }
  if (bytes >= 1 << 20 && atomic_exchange(&hold_next_piece, 0)) {
    CHECK(!pthread_equal(pthread_self(), main_thread));
    atomic_store(&piece_is_held, 1);
    while (sem_wait(&piece_released) != 0) {
    }
    atomic_store(&piece_is_held, 0);
  }
  return (int)syscall(SYS_munmap, start, bytes);
}

/* At the end of a failed test, the library waits for the thread that is held. */
static void release_piece(void) { sem_post(&piece_released); }

static const char* plan_path;

static zf_runtime* open_small_pages(uint64_t elements) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = plan_path;
  options.huge_pages = ZF_NO;
  options.close_timeout_ms = 60000; /* a worker built with a sanitizer ends slowly on a busy machine */
  group.elements = elements;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
  return handle;
}

enum { LARGE = 16000000, SMALL = 1000, OPENERS = 2 }; /* elements: 305 MiB, some KiB */

struct opener {
  pthread_t thread;
  zf_runtime* handle;
  atomic_int has_opened;
};

static void* open_one_more(void* argument) {
  struct opener* const self = argument;
  self->handle = open_small_pages(SMALL);
  atomic_store(&self->has_opened, 1);
  return NULL;
}

/* Freeing many small pages takes the kernel long. zf_close does not wait for that. Each zf_open
 * does, also if two threads call it at once: they may need the memory. A child that is forked meanwhile does
 * not keep it. It is unmapped in pieces, so that other threads can map and unmap memory meanwhile. */
static void large_arena_is_freed_in_the_background(void) {
  static struct opener openers[OPENERS];
  plan_path = write_plan(PLAN_SHARED, NULL);
  CHECK(sem_init(&piece_released, 0, 0) == 0);
  const int64_t begin_ns = now_ns();
  EXPECT(zf_close(open_small_pages(SMALL)), ZF_OK);
  const int64_t small_ns = now_ns() - begin_ns;
  CHECK(atexit(release_piece) == 0);
  const size_t descriptors = count_descriptors();

  zf_runtime* const large = open_small_pages(LARGE);
  atomic_store(&largest_piece, 0);
  atomic_store(&hold_next_piece, 1);
  EXPECT(zf_close(large), ZF_OK);
  const int64_t deadline = now_ns() + 20000000000;
  while (!atomic_load(&piece_is_held) && now_ns() < deadline) usleep(1000);
  CHECK(atomic_load(&piece_is_held) && has_thread("zf-free"));
  CHECK(count_arena_mappings() == 1 && count_children() == 0 && count_descriptors() == descriptors);
  in_child(sees_no_arena);

  for (size_t i = 0; i < OPENERS; ++i)
    CHECK(pthread_create(&openers[i].thread, NULL, open_one_more, &openers[i]) == 0);
  usleep((useconds_t)(small_ns / 1000 * 4 + 100000)); /* enough for those that would not wait */
  for (size_t i = 0; i < OPENERS; ++i) CHECK(!atomic_load(&openers[i].has_opened));
  CHECK(atomic_load(&piece_is_held) && sem_post(&piece_released) == 0);
  for (size_t i = 0; i < OPENERS; ++i) CHECK(pthread_join(openers[i].thread, NULL) == 0);
  CHECK(count_arena_mappings() == OPENERS && !has_thread("zf-free"));
  CHECK(atomic_load(&largest_piece) <= 32 << 20);
  for (size_t i = 0; i < OPENERS; ++i) EXPECT(zf_close(openers[i].handle), ZF_OK);
  CHECK(count_arena_mappings() == 0 && count_descriptors() == descriptors);
}

/* A destructor of the program may close a handle after the library's own destructors have run. There are no
 * threads then. */
static zf_runtime* closed_late;

static void close_late(void) {
  if (closed_late == NULL) return;
  if (zf_close(closed_late) == ZF_OK && count_arena_mappings() == 0 && !has_thread("zf-free")) return;
  fprintf(stderr, "a large arena that was closed at the end of the program was not freed at once\n");
  _exit(1);
}

/* Whether zf_close or a death comes while that thread works. */
static void interrupted_prefault_leaves_nothing(void) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  int pids[2];
  pid_t worker = 0;
  options.plan_path = write_plan(PLAN_SHARED, NULL);
  options.huge_pages = ZF_NO;
  group.elements = 8 * ELEMENTS;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
  EXPECT(zf_close(handle), ZF_OK);
  CHECK(count_children() == 0 && arena_goes());
  group.elements = 1;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK); /* joins zf-free: ThreadSanitizer forks no threads */
  EXPECT(zf_close(handle), ZF_OK);
  group.elements = 8 * ELEMENTS;

  CHECK(pipe(pids) == 0);
  fflush(NULL);
  /* The worker of a killed trainer becomes our child. Not before: LeakSanitizer's helper in a worker that
   * was killed as it ended would, too. */
  CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  const pid_t trainer = fork();
  CHECK(trainer >= 0);
  if (trainer == 0) {
    EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
    worker = worker_of(handle);
    CHECK(write(pids[1], &worker, sizeof worker) == sizeof worker);
    raise(SIGKILL);
  }
  CHECK(close(pids[1]) == 0); /* so that the end of a trainer that has written nothing is noticed */
  CHECK(read(pids[0], &worker, sizeof worker) == sizeof worker);
  CHECK(waitpid(trainer, NULL, 0) == trainer);
  const int64_t deadline = now_ns() + 20000000000;
  while (waitpid(worker, NULL, WNOHANG) == 0 && now_ns() < deadline) usleep(1000);
  CHECK(kill(worker, 0) == -1 && errno == ESRCH);
  CHECK(prctl(PR_SET_CHILD_SUBREAPER, 0) == 0);
  close(pids[0]);
}

static int write_number(const char* path, long long number) {
  FILE* const file = fopen(path, "we");
  const int printed = file != NULL && fprintf(file, "%lld\n", number) > 0;
  return file != NULL && fclose(file) == 0 && printed;
}

/* Enters a memory cgroup of this process alone, which is removed at the end of the test. */
static char cgroup[64];

static void remove_cgroup(void) {
  char path[128];
  snprintf(path, sizeof path, "%s/../cgroup.procs", cgroup);
  write_number(path, getpid());
  rmdir(cgroup);
}

static void enter_cgroup(long long limit_bytes) {
  char path[128];
  snprintf(cgroup, sizeof cgroup, "/sys/fs/cgroup/memory/zf-test-%d", (int)getpid());
  if (mkdir(cgroup, 0755) != 0) {
    printf("skipped: no memory cgroup (version 1) can be made here: %s\n", strerror(errno));
    exit(SKIPPED);
  }
  atexit(remove_cgroup);
  snprintf(path, sizeof path, "%s/memory.limit_in_bytes", cgroup);
  CHECK(write_number(path, limit_bytes));
  snprintf(path, sizeof path, "%s/cgroup.procs", cgroup);
  CHECK(write_number(path, getpid()));
}

static void more_than_the_jobs_limit_is_refused(void) {
  zf_runtime* handle = NULL;
  enter_cgroup(40 << 20);
  EXPECT(open_with(ZF_NO, ZF_NO, &handle), ZF_ERROR_SYSTEM);
  expect_error(
      "the arena needs 57.6 MiB, and the job's memory limit is 40 MiB (/sys/fs/cgroup/memory/zf-test-");
  CHECK(handle == NULL && count_children() == 0 && count_arena_mappings() == 0);
}

#ifndef ZF_SANITIZED
/* The arena alone fits the limit, but with the processes it does not. The kernel kills the worker, and the
 * error says why. */
static void running_into_the_limit_is_told(void) {
  zf_runtime* handle = NULL;
  enter_cgroup((long long)arena_bytes);
  EXPECT(open_with(ZF_NO, ZF_NO, &handle), ZF_ERROR_WORKER);
  expect_error("memory may have run out");
  CHECK(handle == NULL && count_children() == 0 && count_arena_mappings() == 0);
}
#endif

int main(void) {
  main_thread = pthread_self();
  CHECK(atexit(close_late) == 0); /* before the library registers its destructors */
  placement_is_looked_up();
  in_child(refusals_are_notes);
  locked_or_noted();
  huge_or_noted();
  huge_pages_are_the_default();
  first_writes_find_their_pages(ZF_NO);
  first_writes_find_their_pages(ZF_TRY);
  interrupted_prefault_leaves_nothing();
  large_arena_is_freed_in_the_background();
  in_child(more_than_the_jobs_limit_is_refused);
#ifndef ZF_SANITIZED /* with their memory the trainer may be the larger process, which the kernel kills */
  in_child(running_into_the_limit_is_told);
#endif
  CHECK(count_children() == 0 && count_arena_mappings() == 0);
  closed_late = open_small_pages(LARGE);
  return 0;
}
