#include "measure/held_threads.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace zf {
namespace {

/// Returns how many threads the kernel counts of this process.
nlink_t counted_threads() {
  struct stat tasks = {};
  EXPECT_EQ(::stat("/proc/self/task", &tasks), 0);
  return tasks.st_nlink - 2;  // a folder for each, "." and ".."
}

TEST(HeldThreads, AreThereUntilTheyAreReleased) {
  const nlink_t before = counted_threads();
  {
    const HeldThreads held(3);
    EXPECT_EQ(counted_threads(), before + 3);
  }
  EXPECT_EQ(counted_threads(), before);
}

/// On a single CPU this can only pass: there, a thread has ended before another one can join it.
TEST(HeldThreads, CountNoMoreOnceTheyAreReleased) {
  const nlink_t before = counted_threads();
  for (int turn = 0; turn < 20'000 / ZF_FEWER; ++turn) {
    { const HeldThreads held(2); }
    ASSERT_EQ(counted_threads(), before) << turn;
  }
}

}  // namespace
}  // namespace zf
