/* Lets each system call of a life fail, once and then for good, in the training process and in its optimizer.
 * With the argument "kill" it kills the optimizer before each of its calls, and nothing is lost; with
 * "kill-trainer" the training process, and what it leaves is whole. ZF_EVERY=N tries each Nth only, and
 * ZF_FIRST=N begins with the Nth. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "failing_calls.h"
#include "life.h"

static struct call_faults* faults; /* shared with the children */
static enum faults kind;
static enum kills kills;
static int go[2];

static void arm(void) { __atomic_store_n(&faults->armed, 1, __ATOMIC_SEQ_CST); }
static void disarm(void) { __atomic_store_n(&faults->armed, 0, __ATOMIC_SEQ_CST); }

static void live_with_fault(int n) {
  char byte = 0;
  *faults = (struct call_faults){.first = n, .for_good = kind == FOR_GOOD, .kills = kills};
  CHECK(read(go[0], &byte, 1) == 1); /* the tracer is there */
  live(kind, arm, disarm);
}

static int watch(pid_t child) {
  int status = trace_with_faults(child, go[1], faults);
  if (kills == KILLS_THE_CHILD && faults->reached) {
    CHECK(status == SIGKILL);
    status = 0;
    expect_whole_rest();
    prepare_life();
  }
  printf("  %s: system call %ld\n", kills ? "killed before" : "answered with an error", faults->the_call);
  return status;
}

int main(int argc, char** argv) {
  const char* const every = getenv("ZF_EVERY");
  const char* const begin = getenv("ZF_FIRST");
  const int stride = every == NULL ? 1 : atoi(every);
  const int first = begin == NULL ? 1 : atoi(begin);
  CHECK(stride > 0 && first > 0);
  if (argc > 1) kills = strcmp(argv[1], "kill") == 0 ? KILLS_ITS_CHILDREN : KILLS_THE_CHILD;
  if (!calls_can_fail()) {
    printf("skipped: no process can be traced here\n");
    return SKIPPED;
  }
  faults = mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(faults != MAP_FAILED && pipe(go) == 0);
  live_undisturbed();
  if (kills == KILLS_THE_CHILD) prepare_life();
  for (kind = ONCE; kind <= (kills ? ONCE : FOR_GOOD); ++kind) {
    const int count = for_each_fault(live_with_fault, watch, first, stride, &faults->reached);
    printf("%d system calls %s\n", count,
           kills == KILLS_THE_CHILD      ? "were the training process's last"
           : kills == KILLS_ITS_CHILDREN ? "were the optimizer's last"
           : kind == ONCE                ? "failed once"
                                         : "failed for good");
    CHECK(count >= 5);
  }
  return 0;
}
