/* Lets each allocation of a life fail, once and then for good: of the training process, and of the optimizer.
 * ZF_EVERY=N tries each Nth only, and ZF_FIRST=N begins with the Nth. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "failing_malloc.h"
#include "life.h"

static struct malloc_faults* faults; /* shared with the children, and with their optimizers */
static enum faults kind;

static void arm(void) { __atomic_store_n(&faults->armed, 1, __ATOMIC_SEQ_CST); }
static void disarm(void) { __atomic_store_n(&faults->armed, 0, __ATOMIC_SEQ_CST); }
static void nothing(void) {}

static void fail_from(int n) { *faults = (struct malloc_faults){.first = n, .for_good = kind == FOR_GOOD}; }

static void live_with_trainer_fault(int n) {
  fail_from(n);
  set_malloc_faults(faults);
  live(kind, arm, disarm);
}

static void live_with_optimizer_fault(int n) {
  fail_from(n);
  CHECK(setenv("LD_PRELOAD", getenv("ZF_TEST_MALLOC"), 1) == 0);
  arm();
  live(kind, nothing, nothing);
}

static void* map_file(const char* path) {
  FILE* const file = fopen(path, "r+e");
  CHECK(file != NULL && ftruncate(fileno(file), sizeof *faults) == 0);
  void* const start = mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
  CHECK(start != MAP_FAILED && fclose(file) == 0);
  return start;
}

int main(int argc, char** argv) {
  const char* const every = getenv("ZF_EVERY");
  const char* const begin = getenv("ZF_FIRST");
  const int stride = every == NULL ? 1 : atoi(every);
  const int first = begin == NULL ? 1 : atoi(begin);
  const int optimizer = argc > 1 && strcmp(argv[1], "optimizer") == 0;
  const char* const path = write_file("");
  CHECK(stride > 0 && getenv("ZF_TEST_MALLOC") != NULL);
  faults = map_file(path);
  live_undisturbed();
  if (optimizer) CHECK(setenv("ZF_TEST_FAULTS", path, 1) == 0);
  for (kind = ONCE; kind <= FOR_GOOD; ++kind) {
    const int count = for_each_fault(optimizer ? live_with_optimizer_fault : live_with_trainer_fault, NULL,
                                     first, stride, &faults->reached);
    printf("%d allocations of the %s failed %s\n", count, optimizer ? "optimizer" : "training process",
           kind == ONCE ? "once" : "for good");
    CHECK(count >= 5);
  }
  return 0;
}
