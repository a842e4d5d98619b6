/* Stands for libtorch_cpu.so in tests: a library that is linked to an OpenMP runtime, and uses it. */
#include <omp.h>

__attribute__((visibility("default"))) void torch_set_num_threads(int threads) {
  omp_set_num_threads(threads);
}

/* Calls work(data) on every thread of a region. */
__attribute__((visibility("default"))) void torch_parallel(void (*work)(void*), void* data) {
#pragma omp parallel
  work(data);
}
