/* What the portable build has in the place of newer glibc's functions and of GCC's __cpu_model does what they
 * do. The build compiles the two sources with the prefix own_ before their names. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t own_gettid(void);
int own_tgkill(pid_t group, pid_t thread, int number);
int own_getcpu(unsigned int* cpu, unsigned int* node);
const char* own_sigdescr_np(int number);
const char* own_sigabbrev_np(int number);
int own_close_range(unsigned int first, unsigned int last, int flags);
int own_posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t* actions, int first);
extern char** environ;

static int failures;

static void expect(int holds, const char* what, int number) {
  if (holds) return;
  printf("%s (%d): not what glibc does\n", what, number);
  ++failures;
}

static int same(const char* one, const char* other) {
  return one == NULL || other == NULL ? one == other : strcmp(one, other) == 0;
}

static int is_open(int file) { return fcntl(file, F_GETFD) != -1; }

static void test_signals(void) {
  for (int number = -1; number <= SIGRTMAX + 1; ++number) {
    expect(same(own_sigabbrev_np(number), sigabbrev_np(number)), "sigabbrev_np", number);
    expect(same(own_sigdescr_np(number), sigdescr_np(number)), "sigdescr_np", number);
  }
  expect(own_gettid() == gettid(), "gettid", 0);
  expect(own_tgkill(getpid(), gettid(), 0) == 0, "tgkill", 0);
}

static void test_closing(void) {
  const int low = dup(0);
  const int middle = fcntl(0, F_DUPFD, 100);
  const int high = fcntl(0, F_DUPFD, 200);
  expect(own_close_range(100, 150, 0) == 0 && is_open(low) && !is_open(middle) && is_open(high),
         "close_range", 100);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  expect(own_posix_spawn_file_actions_addclosefrom_np(&actions, 3) == 0, "addclosefrom_np", 3);
  /* The child sees no other file than the folder that it reads. */
  char* const words[] = {"sh", "-c", "exec 3>/dev/null && set -- /proc/self/fd/* && [ $# -le 5 ]", NULL};
  pid_t child;
  int status = 1;
  expect(
      posix_spawnp(&child, "sh", &actions, NULL, words, environ) == 0 && waitpid(child, &status, 0) == child,
      "posix_spawn", 0);
  expect(status == 0, "files of the child", status);
}

#ifdef __x86_64__
struct cpu_model {
  unsigned int vendor;
  unsigned int type;
  unsigned int subtype;
  unsigned int features[1];
};
extern struct cpu_model own_cpu_model;

static void test_cpu_model(void) {
  __builtin_cpu_init();
#define EXPECT_FEATURE(name, bit) \
  expect(((own_cpu_model.features[0] >> (bit)) & 1) == (__builtin_cpu_supports(name) != 0), name, bit)
  EXPECT_FEATURE("avx", 9);
  EXPECT_FEATURE("avx2", 10);
  EXPECT_FEATURE("fma", 14);
  EXPECT_FEATURE("avx512f", 15);
  EXPECT_FEATURE("avx512vl", 20);
  EXPECT_FEATURE("avx512bw", 21);
  EXPECT_FEATURE("avx512dq", 22);
  expect((own_cpu_model.vendor == 1) == (__builtin_cpu_is("intel") != 0), "intel", 1);
  expect((own_cpu_model.vendor == 2) == (__builtin_cpu_is("amd") != 0), "amd", 2);
}
#else
static void test_cpu_model(void) {}
#endif

int main(void) {
  test_signals();
  test_closing();
  test_cpu_model();
  return failures != 0;
}
