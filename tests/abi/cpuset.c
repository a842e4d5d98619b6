#include "cpuset.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static char group[256];
static int cpus[MAX_CPUS];
static size_t cpu_count;
static int goes_offline; /* the last CPU leaves the machine, not the group */

/* Writes to a file of a folder. Returns 0 on failure. */
static int put(const char* folder, const char* file, const char* text) {
  char path[300];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t written = write(fd, text, strlen(text));
  close(fd);
  return written == (ssize_t)strlen(text);
}

static int put_cpus(size_t count) {
  static char list[MAX_CPUS * 8];
  size_t used = 0;
  for (size_t i = 0; i < count; ++i) used += (size_t)sprintf(list + used, i == 0 ? "%d" : ",%d", cpus[i]);
  return put(group, "cpuset.cpus", list);
}

/* Gives the group the memory nodes of its parent. */
static int copy_mems(const char* root) {
  static const char* const files[] = {"cpuset.mems.effective", "cpuset.mems"};
  for (size_t i = 0; i < 2; ++i) {
    char path[300];
    char mems[256] = "";
    snprintf(path, sizeof path, "%s/%s", root, files[i]);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    const ssize_t got = read(fd, mems, sizeof mems - 1);
    close(fd);
    if (got > 0) return put(group, "cpuset.mems", mems);
  }
  return 0;
}

static int make_group(void) {
  static const char* const roots[] = {"/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"};
  for (size_t i = 0; i < 2; ++i) {
    snprintf(group, sizeof group, "%s/zf-abi-test-%d", roots[i], (int)getpid());
    if (mkdir(group, 0755) != 0) continue;
    if (put_cpus(cpu_count) && copy_mems(roots[i])) return 1;
    rmdir(group);
  }
  return 0;
}

static void skip(const char* reason) {
  printf("skipped: %s\n", reason);
  exit(SKIPPED);
}

/* Runs `test` in a child process, in the group if there is one. Returns how the child ended. */
static int run_in_child(void (*test)(void)) {
  int status = -1;
  fflush(NULL);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK(goes_offline || put(group, "cgroup.procs", "0"));
    test();
    exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  return status;
}

static void end_like(int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  fprintf(stderr, "the test while CPUs leave ended with status %#x\n", (unsigned)status);
  exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

void in_cpuset(void (*test)(void)) {
  cpu_count = allowed_cpus(cpus);
  if (cpu_count < 2) skip("it needs two CPUs");
  if (!make_group()) skip("no cpuset can be made here: it needs root and a mounted cpuset controller");
  const int status = run_in_child(test);
  /* The last processes leave the group a moment after their end. */
  for (int i = 0; rmdir(group) != 0 && errno == EBUSY && i < 5000; ++i) usleep(1000);
  end_like(status);
}

/* Switches the last CPU on ("1") or off ("0"). Returns 0 on failure. */
static int switch_last_cpu(const char* state) {
  char folder[64];
  snprintf(folder, sizeof folder, "/sys/devices/system/cpu/cpu%d", cpus[cpu_count - 1]);
  return put(folder, "online", state);
}

void with_cpu_offline(void (*test)(void)) {
  cpu_count = allowed_cpus(cpus);
  if (cpu_count < 2) skip("it needs two CPUs");
  goes_offline = 1;
  if (!switch_last_cpu("1"))
    skip("no CPU can be switched off here: it needs root and a CPU that can go offline");
  const int status = run_in_child(test);
  CHECK(switch_last_cpu("1"));
  end_like(status);
}

void take_last_cpu(void) { CHECK(goes_offline ? switch_last_cpu("0") : put_cpus(cpu_count - 1)); }
void give_last_cpu(void) { CHECK(goes_offline ? switch_last_cpu("1") : put_cpus(cpu_count)); }
