/* Kills a trainer before each system call of a zf_open that keeps its arena, which is new, or kept by another
 * trainer. No process and no memory is left of what was new, and what was kept stays whole. ZF_EVERY=N tries
 * each Nth call only. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failing_calls.h"
#include "keeping.h"

enum { STEPS = 3, DEADLINE_S = 30 };

static const char kName[] = "opened";
static struct job job = {NULL, ZF_STATE_FP32, 0, 0, STEPS, NULL, NULL, NULL};
static struct call_faults* faults; /* shared with the children */

static void arm(int armed) { __atomic_store_n(&faults->armed, armed, __ATOMIC_SEQ_CST); }

static zf_runtime* open_it(void) {
  zf_runtime* handle = NULL;
  zf_group groups[KEPT_GROUPS];
  const zf_options options = keep_options(&job, kName);
  keep_groups(&job, groups);
  EXPECT(zf_open(&options, groups, KEPT_GROUPS, &handle), ZF_OK);
  return handle;
}

/* Takes the steps of the job, and leaves them to the next trainer. Returns their digest. */
static uint64_t keep_steps(void) {
  int report[2];
  uint64_t digest = 0;
  CHECK(pipe(report) == 0);
  const pid_t trainer = fork();
  CHECK(trainer >= 0);
  if (trainer == 0) {
    zf_runtime* const handle = open_it();
    run_steps(handle, &job, begin_job(handle), STEPS);
    digest = digest_of_state(handle, &job);
    CHECK(write(report[1], &digest, sizeof digest) == (ssize_t)sizeof digest);
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(trainer, &status, 0) == trainer && status == 0);
  CHECK(read(report[0], &digest, sizeof digest) == (ssize_t)sizeof digest);
  close(report[0]);
  close(report[1]);
  return digest;
}

/* Kills an opener before its nth call. Returns when all that it started has ended. */
static void kill_opener(int n) {
  *faults = (struct call_faults){.first = n, .kills = KILLS_THE_CHILD};
  fflush(NULL);
  const pid_t tracer = fork(); /* orphans are not its children */
  CHECK(tracer >= 0);
  if (tracer == 0) {
    int go[2];
    alarm(DEADLINE_S);
    CHECK(pipe(go) == 0);
    const pid_t opener = fork();
    CHECK(opener >= 0);
    if (opener == 0) {
      char byte = 0;
      CHECK(read(go[0], &byte, 1) == 1);
      arm(1);
      zf_runtime* const handle = open_it();
      arm(0);
      EXPECT(zf_close(handle), ZF_OK);
      _exit(0);
    }
    _exit(trace_with_faults(opener, go[1], faults) == (faults->reached ? SIGKILL : 0) ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(tracer, &status, 0) == tracer);
  if (status != 0) fprintf(stderr, "killed before call %d (%ld): a process is left\n", n, faults->the_call);
  CHECK(status == 0);
}

/* Checks that no keeper is left, and no file. Returns whether the folder of what is kept is: the next trainer
 * removes it. */
static int has_left_folder(void) {
  const char* const folder = getenv("ZF_KEEP_FOLDER");
  while (waitpid(-1, NULL, WNOHANG) > 0) continue;
  CHECK(keeper_of(kName) == -1);
  if (access(folder, F_OK) != 0) return 0;
  if (rmdir(folder) != 0) fprintf(stderr, "killed before call %ld: a file is left\n", faults->the_call);
  CHECK(access(folder, F_OK) != 0 && mkdir(folder, 0700) == 0);
  return 1;
}

static int run(int is_kept, int stride) {
  int left = 0;
  int n = 1;
  for (;; n += stride) {
    const uint64_t digest = is_kept ? keep_steps() : 0;
    kill_opener(n);
    if (!faults->reached) break;
    if (!is_kept) left += has_left_folder();
    zf_runtime* const handle = open_it();
    zf_stats stats = ZF_STATS_INIT;
    EXPECT(zf_get_stats(handle, &stats), ZF_OK);
    CHECK((int)stats.was_kept == is_kept && stats.keep_note[0] == 0);
    if (is_kept) CHECK(begin_job(handle) == STEPS && digest_of_state(handle, &job) == digest);
    EXPECT(zf_close(handle), ZF_OK);
    expect_nothing_kept();
  }
  if (!is_kept) expect_nothing_kept();
  printf("%s: killed before %d calls, %d have left a folder\n", is_kept ? "kept" : "new", n / stride, left);
  CHECK(n > 20);
  return left;
}

int main(int argc, char** argv) {
  const char* const every = getenv("ZF_EVERY");
  const int stride = every == NULL ? 1 : atoi(every);
  CHECK(stride > 0);
  if (!calls_can_fail()) {
    printf("skipped: no process can be traced here\n");
    return SKIPPED;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  faults = mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(faults != MAP_FAILED);
  job.plan = write_plan(PLAN_SPLIT, NULL);
  use_own_keep_folder();
  if (argc < 2 || strcmp(argv[1], "kept") != 0) run(0, stride);
  if (argc < 2 || strcmp(argv[1], "new") != 0) run(1, stride);
  return 0;
}
