#include "failing_malloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* glibc's own, by the names that it keeps for those who replace them. */
extern void* __libc_malloc(size_t bytes);
extern void* __libc_calloc(size_t count, size_t bytes);
extern void* __libc_realloc(void* old, size_t bytes);
extern void* __libc_memalign(size_t alignment, size_t bytes);

static struct malloc_faults* volatile current;

void set_malloc_faults(struct malloc_faults* faults) { current = faults; }

__attribute__((constructor)) static void take_faults_of_file(void) {
  const char* const path = getenv("ZF_TEST_FAULTS");
  const int file = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  void* const start = mmap(NULL, sizeof *current, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (start != MAP_FAILED) current = start;
}

static int fails(void) {
  struct malloc_faults* const faults = current;
  if (faults == NULL || !__atomic_load_n(&faults->armed, __ATOMIC_SEQ_CST)) return 0;
  const int number = __atomic_add_fetch(&faults->count, 1, __ATOMIC_SEQ_CST);
  if (number < faults->first || (number > faults->first && !faults->for_good)) return 0;
  __atomic_store_n(&faults->reached, 1, __ATOMIC_SEQ_CST);
  errno = ENOMEM;
  return 1;
}

#pragma GCC visibility push(default)
void* malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return fails() ? NULL : __libc_calloc(count, bytes); }
void* realloc(void* old, size_t bytes) { return fails() ? NULL : __libc_realloc(old, bytes); }
void* memalign(size_t alignment, size_t bytes) { return fails() ? NULL : __libc_memalign(alignment, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void** out, size_t alignment, size_t bytes) {
  void* const start = memalign(alignment, bytes);
  if (start == NULL) return ENOMEM;
  *out = start;
  return 0;
}
#pragma GCC visibility pop
