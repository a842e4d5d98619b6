// A step allocates nothing once its vectors have grown. This file counts the allocations of the whole
// program.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "os/affinity.hpp"
#include "tensors.hpp"

namespace {
std::atomic<std::size_t> g_allocations = 0;
}

#ifndef ZF_SANITIZED  // a sanitizer's own operators check more
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace zf {
namespace {

TEST(LocalStepper, AStepAllocatesNothing) {
#ifdef ZF_SANITIZED
  GTEST_SKIP() << "a sanitizer has allocating operators of its own";
#endif
  const CpuSet allowed = thread_affinity();
  bind_this_thread({allowed.first()});  // a helper that must move is rebound, which allocates
  Tensors tensors(kTestSizes);
  std::size_t before = 0;
  for (const std::size_t threads : {0U, 1U, 2U}) {
    tensors.step({.openmp = false, .threads = threads});
    before = g_allocations;
    tensors.step({.openmp = false, .threads = threads});
    EXPECT_EQ(g_allocations, before) << "threads: " << threads;
  }
  const std::vector<int> counted(3);
  EXPECT_GT(g_allocations, before) << "this test can see allocations";
  bind_this_thread(allowed);
}

}  // namespace
}  // namespace zf
