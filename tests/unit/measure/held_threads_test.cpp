#include "measure/held_threads.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <thread>

namespace zf {
namespace {

/// Returns how many threads the kernel counts of this process.
nlink_t counted_threads() {
  struct stat tasks = {};
  EXPECT_EQ(::stat("/proc/self/task", &tasks), 0);
  return tasks.st_nlink - 2;  // a folder for each, "." and ".."
}

/// Returns that count when it has not changed for a while: a thread of an earlier test may be joined and
/// still counted.
nlink_t settled_threads() {
  nlink_t counted = counted_threads();
  for (int unchanged = 0; unchanged < 10; ++unchanged) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (const nlink_t now = counted_threads(); now != counted) {
      counted = now;
      unchanged = 0;
    }
  }
  return counted;
}

TEST(HeldThreads, AreThereUntilTheyAreReleased) {
  const nlink_t before = settled_threads();
  {
    const HeldThreads held(3);
    EXPECT_EQ(counted_threads(), before + 3);
  }
  EXPECT_EQ(counted_threads(), before);
}

/// On a single CPU this can only pass: there, a thread has ended before another one can join it. On a busy
/// machine all turns would take minutes, so a minute of them must do.
TEST(HeldThreads, CountNoMoreOnceTheyAreReleased) {
  const nlink_t before = settled_threads();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  for (int turn = 0; turn < 20'000 / ZF_FEWER && std::chrono::steady_clock::now() < deadline; ++turn) {
    { const HeldThreads held(2); }
    ASSERT_EQ(counted_threads(), before) << turn;
  }
}

}  // namespace
}  // namespace zf
