#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void expect_status(zf_status got, zf_status wanted, const char* call, const char* file, int line) {
  if (got == wanted) return;
  fprintf(stderr, "%s:%d: %s answered %s, not %s: %s\n", file, line, call, zf_status_name(got),
          zf_status_name(wanted), zf_last_error());
  exit(1);
}

void expect_error(const char* part) {
  const char* const error = zf_last_error();
  if (strstr(error, part) != NULL && strchr(error, '\n') == NULL) {
    printf("  said: %s\n", error);
    return;
  }
  fprintf(stderr, "the last error is \"%s\", without \"%s\"\n", error, part);
  exit(1);
}

size_t allowed_cpus(int* cpus) {
  cpu_set_t* const set = CPU_ALLOC(MAX_CPUS);
  const size_t bytes = CPU_ALLOC_SIZE(MAX_CPUS);
  size_t count = 0;
  CHECK(set != NULL && sched_getaffinity(0, bytes, set) == 0);
  for (int cpu = 0; cpu < MAX_CPUS; ++cpu) {
    if (CPU_ISSET_S((size_t)cpu, bytes, set)) cpus[count++] = cpu;
  }
  CPU_FREE(set);
  return count;
}

/* Prints a list like "0,4-11", as the kernel does. */
static char* list_of(const int* cpus, size_t count) {
  char* const text = calloc(count + 1, 16);
  size_t used = 0;
  for (size_t i = 0; i < count;) {
    size_t end = i + 1;
    while (end < count && cpus[end] == cpus[end - 1] + 1) ++end;
    used += (size_t)sprintf(text + used, i == 0 ? "%d" : ",%d", cpus[i]);
    if (end - i > 1) used += (size_t)sprintf(text + used, "-%d", cpus[end - 1]);
    i = end;
  }
  return text;
}

static char folder[] = "/tmp/zf-abi-test-XXXXXX";
static pid_t folder_owner;

static int remove_one(const char* path, const struct stat* facts, int kind, struct FTW* place) {
  (void)facts, (void)kind, (void)place;
  return remove(path);
}

static void remove_folder(void) {
  if (getpid() == folder_owner) nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Before any child is forked: one that is killed, or of another user, leaves its files to this process. */
__attribute__((constructor)) static void make_folder(void) {
  CHECK(mkdtemp(folder) != NULL && chmod(folder, 01777) == 0);
  folder_owner = getpid();
  CHECK(atexit(remove_folder) == 0);
}

const char* write_file(const char* text) {
  static char paths[96][sizeof folder + sizeof "/XXXXXX"];
  static size_t count;
  CHECK(count < 96);
  char* const path = paths[count++];
  snprintf(path, sizeof paths[0], "%s/XXXXXX", folder);
  const int fd = mkstemp(path);
  CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
  return path;
}

/* Writes a plan of a machine that has the CPUs 0 to last_cpu, on an unknown number of NUMA nodes. */
static const char* write_plan_of(const char* model, int last_cpu, const char* home, const char* training,
                                 const char* optimizer, int shared, int optimizer_threads, double perc) {
  static const char kPlan[] =
      "{ \"schema\": \"zf-plan/2\",\n"
      "  \"made\": { \"by\": \"a test\", \"at\": \"2026-11-20T21:00:00Z\", \"host\": \"h\", \"command\": "
      "\"c\" },\n"
      "  \"machine\": { \"fingerprint\": \"0123456789abcdef\", \"model\": \"%s\", \"packages\": 1,\n"
      "    \"numa_nodes\": 0, \"cores\": %d, \"pus\": %d, \"cpus\": \"0-%d\" },\n"
      "  \"allocation\": { \"fingerprint\": \"0123456789abcdef\", \"cpus\": \"0-%d\", \"mems\": \"0\" },\n"
      "  \"workload\": { \"name\": \"w\", \"params\": 1000, \"ranks\": 1, \"update_interval\": 1,\n"
      "    \"mode\": \"overlap\", \"framework\": \"unknown\" },\n"
      "  \"intent\": { \"placement\": \"compact\", \"pool_pus_per_core\": 1, \"pool_cores\": 1,\n"
      "    \"reserved_fraction\": 0.5, \"idle_fraction\": 0, \"shared\": %s, \"state_format\": \"fp32\" },\n"
      "  \"ranks\": [ { \"rank\": 0, \"home\": { \"cpus\": \"%s\", \"threads\": 1 },\n"
      "    \"training\": { \"cpus\": \"%s\", \"threads\": 1 },\n"
      "    \"optimizer\": { \"cpus\": \"%s\", \"mems\": \"0\", \"memory_policy\": \"preferred\" },\n"
      "    \"pt_reserved_cores\": %d, \"pt_reserved_cores_perc\": %.17g, \"shared\": %s } ],\n"
      "  \"choice\": { \"reason\": \"a test\", \"period_ns_median\": 0, \"pool_threads\": %d },\n"
      "  \"warnings\": [],\n"
      "  \"evidence\": { \"roofline\": { \"bytes_per_s_median\": 0, \"threads\": 0 },\n"
      "    \"elements_per_rank\": 0, \"working_set_bytes_per_rank\": 0, \"scale\": 0, \"isa\": \"\",\n"
      "    \"noise_floor\": 0, \"accuracy_wanted\": 0, \"accuracy_reached\": 0,\n"
      "    \"candidates\": [], \"samples\": [] } }\n";
  const size_t size =
      sizeof kPlan + strlen(model) + strlen(home) + strlen(training) + strlen(optimizer) + 128;
  char* const text = malloc(size);
  CHECK(text != NULL);
  snprintf(text, size, kPlan, model, last_cpu + 1, last_cpu + 1, last_cpu, last_cpu,
           shared ? "true" : "false", home, training, optimizer, shared ? 0 : 1, perc,
           shared ? "true" : "false", optimizer_threads);
  const char* const path = write_file(text);
  free(text);
  return path;
}

const char* write_plan_for(const char* home, const char* training, const char* optimizer, int shared,
                           int optimizer_threads, double perc) {
  return write_plan_of("", MAX_CPUS * 2 - 1, home, training, optimizer, shared, optimizer_threads, perc);
}

const char* write_plan_of_model(const char* model) {
  return write_plan_of(model, 0, "0", "0", "0", 1, 1, 0.5);
}

const char* write_plan(enum plan_kind kind, const char** optimizer) {
  static int cpus[MAX_CPUS];
  const size_t count = allowed_cpus(cpus);
  const int shared = kind == PLAN_SHARED || count == 1;
  char* const training = list_of(cpus, shared ? count : 1);
  char* const home = list_of(cpus, count);
  char* const rest = shared ? strdup(training) : list_of(cpus + 1, count - 1);
  const double perc = ((shared ? (double)count : 1.0) - 0.5) / (double)count;
  const char* const path = write_plan_of("", cpus[count - 1], home, training, rest, shared,
                                         (int)(shared ? count : count - 1), perc);
  free(home);
  free(training);
  if (optimizer != NULL) {
    *optimizer = rest;
  } else {
    free(rest);
  }
  return path;
}

zf_runtime* open_one(enum plan_kind kind, uint64_t elements) {
  zf_options options = ZF_OPTIONS_INIT;
  zf_group group = ZF_GROUP_INIT;
  zf_runtime* handle = NULL;
  options.plan_path = write_plan(kind, NULL);
  options.max_restarts = -1;
  group.elements = elements;
  EXPECT(zf_open(&options, &group, 1, &handle), ZF_OK);
  CHECK(handle != NULL);
  unlink(options.plan_path); /* now: a test may be about to be killed */
  return handle;
}

zf_scalars made_scalars(unsigned kind, uint64_t step) {
  zf_adam adam = ZF_ADAM_INIT;
  zf_scalars scalars;
  adam.mode = kind % 2 == 0 ? ZF_ADAM : ZF_ADAMW;
  adam.lr = 0.01 + 0.001 * kind;
  adam.beta2 = 0.99 + 0.001 * kind;
  adam.weight_decay = kind >= 2 ? 0.05 : 0.0;
  EXPECT(zf_adam_scalars(&adam, step, &scalars), ZF_OK);
  scalars.grad_scale = 0.5f;
  scalars.seed = 7 + kind;
  return scalars;
}

void submit_made_step(zf_runtime* handle, unsigned groups, int number) {
  enum { MOST = 4 };
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  zf_scalars scalars[MOST];
  CHECK(groups <= MOST);
  for (unsigned i = 0; i < groups; ++i) scalars[i] = made_scalars(i, (uint64_t)number + 1);
  args.scalars = scalars;
  args.scalar_count = groups;
  args.buffer = (uint32_t)number % 2;
  for (size_t i = 0; i < groups; ++i) {
    size_t bytes = 0;
    float* const grads = buffer_of(handle, i, args.buffer == 0 ? ZF_GRADS_0 : ZF_GRADS_1, &bytes);
    for (size_t k = 0; k < bytes / sizeof(float); ++k)
      grads[k] = (float)((k * 7919 + (size_t)number * 104729) % 2003) / 1001.0f - 1.0f;
  }
  EXPECT(zf_submit(handle, &args, NULL), ZF_OK);
}

zf_status submit_all(zf_runtime* handle, uint64_t* ticket) {
  zf_submit_args args = ZF_SUBMIT_ARGS_INIT;
  const zf_scalars scalars = made_scalars(1, 1);
  args.scalars = &scalars;
  args.scalar_count = 1;
  return zf_submit(handle, &args, ticket);
}

void* buffer_of(zf_runtime* handle, size_t group, zf_buffer_kind kind, size_t* bytes) {
  void* pointer = NULL;
  EXPECT(zf_buffer(handle, group, kind, &pointer, bytes), ZF_OK);
  return pointer;
}

static uint64_t random_state = 88172645463325252u;

static uint64_t random_bits(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

void seed_random(uint64_t seed) {
  random_state = 88172645463325252u ^ (seed << 1);
  for (int i = 0; i < 16; ++i) random_bits();
}

uint64_t random_below(uint64_t bound) { return (random_bits() >> 11) % bound; }

float random_float(void) { return (float)(random_bits() >> 40) / (float)(1u << 23) - 1.0f; }

size_t count_arena_mappings(void) {
  char line[512];
  size_t count = 0;
  FILE* const maps = fopen("/proc/self/maps", "re");
  CHECK(maps != NULL);
  while (fgets(line, sizeof line, maps) != NULL) count += strstr(line, "zf-arena") != NULL;
  fclose(maps);
  return count;
}

int refuse_calls(const int* calls, size_t count, int error) {
  enum { MOST = 16 };
  struct sock_filter code[2 * MOST + 2];
  unsigned short n = 0;
  CHECK(count <= MOST);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < count; ++i) {
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error);
  }
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {n, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

void in_child(void (*test)(void)) {
  int status = -1;
  fflush(NULL);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    test();
    exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == SKIPPED)) return;
  fprintf(stderr, "the test in a child ended with status %#x\n", (unsigned)status);
  exit(1);
}

int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static size_t count_entries(const char* path) {
  DIR* const dir = opendir(path);
  size_t count = 0;
  CHECK(dir != NULL);
  while (readdir(dir) != NULL) ++count;
  closedir(dir);
  return count - 3; /* ".", ".." and the descriptor that reads them */
}

size_t count_descriptors(void) { return count_entries("/proc/self/fd"); }

size_t count_private_kib(void) {
  char line[128];
  size_t kib = 0;
  FILE* const rollup = fopen("/proc/self/smaps_rollup", "re");
  if (rollup == NULL) return 0;
  while (fgets(line, sizeof line, rollup) != NULL && sscanf(line, "Anonymous: %zu kB", &kib) != 1) {
  }
  fclose(rollup);
  return kib;
}

static size_t count_children_of(const char* task) {
  char path[300];
  size_t count = 0;
  int pid = 0;
  snprintf(path, sizeof path, "/proc/self/task/%s/children", task);
  FILE* const file = fopen(path, "re");
  if (file == NULL) return 0; /* a kernel without it, or the thread has just ended */
  while (fscanf(file, "%d", &pid) == 1) ++count;
  fclose(file);
  return count;
}

size_t count_children(void) {
  size_t count = 0;
  DIR* const tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  for (const struct dirent* task = readdir(tasks); task != NULL; task = readdir(tasks)) {
    if (task->d_name[0] != '.') count += count_children_of(task->d_name);
  }
  closedir(tasks);
  return count;
}

pid_t worker_of(zf_runtime* handle) {
  zf_stats stats = ZF_STATS_INIT;
  EXPECT(zf_get_stats(handle, &stats), ZF_OK);
  CHECK(stats.worker_pid > 1); /* it goes to kill(), where 0 and -1 are many */
  return (pid_t)stats.worker_pid;
}

static int is_stopped(pid_t process) {
  char path[300];
  snprintf(path, sizeof path, "/proc/%d/task", (int)process);
  DIR* const tasks = opendir(path);
  CHECK(tasks != NULL);
  int stopped = 1;
  for (const struct dirent* task = readdir(tasks); task != NULL; task = readdir(tasks)) {
    if (task->d_name[0] == '.') continue;
    char state = '?';
    snprintf(path, sizeof path, "/proc/%d/task/%s/stat", (int)process, task->d_name);
    FILE* const file = fopen(path, "r");
    CHECK(file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
    fclose(file);
    stopped &= state == 'T';
  }
  closedir(tasks);
  return stopped;
}

void stop_process(pid_t process) {
  const int64_t deadline = now_ns() + 60000000000;
  CHECK(kill(process, SIGSTOP) == 0);
  while (!is_stopped(process)) {
    CHECK(now_ns() < deadline);
    usleep(1000);
  }
}
