#include "engine/pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "allowed_pus.hpp"
#include "base/cpu_list.hpp"
#include "base/error.hpp"
#include "os/affinity.hpp"

namespace zf {
namespace {

/// Returns the number of threads, the least of ten looks: /proc shows a thread for a moment after it was
/// joined. (ThreadSanitizer starts its own thread with our first one.)
std::ptrdiff_t threads_of_this_process() {
  std::thread([] {}).join();
  auto least = std::numeric_limits<std::ptrdiff_t>::max();
  for (int look = 0; look < 10; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    least = std::min(least, std::distance(begin(tasks), end(tasks)));
  }
  return least;
}

TEST(Pool, MembersThatShareTheirCpusAreEachBoundToAllOfThem) {
  const CpuSet before = thread_affinity();
  for (const std::size_t members : {std::size_t{1}, before.size() + 1}) {
    Pool pool(SharedCpus{before, members});
    ASSERT_EQ(pool.size(), members);
    std::vector<CpuSet> masks(members);
    pool.run([&](std::size_t member) { masks[member] = thread_affinity(); });
    for (const CpuSet& mask : masks) EXPECT_EQ(print(mask), print(before));
  }
  EXPECT_EQ(thread_affinity(), before);
}

TEST(Pool, MembersShareAPartOfTheCpusAndTheCallerGetsItsOwnBack) {
  const CpuSet before = thread_affinity();
  const CpuSet part{before.first()};
  {
    Pool pool(SharedCpus{part, 3});
    std::vector<CpuSet> masks(3);
    pool.run([&](std::size_t member) { masks[member] = thread_affinity(); });
    for (const CpuSet& mask : masks) EXPECT_EQ(mask, part);
  }
  EXPECT_EQ(thread_affinity(), before);
}

TEST(Pool, RunsEachMemberExactlyOnce) {
  for (std::size_t n = 1; n <= allowed_pus().size(); ++n) {
    std::vector<Pu> pus = allowed_pus();
    pus.resize(n);
    Pool pool(pus);
    ASSERT_EQ(pool.size(), n);
    std::vector<int> calls(n, 0);  // plain: run() orders the members' writes before its return
    std::vector<std::thread::id> threads(n);
    for (int round = 1; round <= 100; ++round) {
      pool.run([&](std::size_t member) {
        ++calls[member];
        threads[member] = std::this_thread::get_id();
      });
      for (const int count : calls) ASSERT_EQ(count, round);
    }
    EXPECT_EQ(threads[0], std::this_thread::get_id());
    std::sort(threads.begin(), threads.end());
    EXPECT_EQ(std::unique(threads.begin(), threads.end()), threads.end()) << "one thread each";
  }
}

TEST(Pool, MembersSitOnTheirPus) {
  std::vector<Pu> pus = allowed_pus();
  std::reverse(pus.begin(), pus.end());  // the order is the caller's
  Pool pool(pus);
  std::vector<CpuSet> seen(pus.size());
  pool.run([&](std::size_t member) { seen[member] = thread_affinity(); });
  for (std::size_t member = 0; member < pus.size(); ++member) EXPECT_EQ(seen[member], CpuSet{pus[member]});
}

TEST(Pool, MembersMayShareAPuIfNoneSpins) {
  const Pu pu = allowed_pus().front();
  Pool pool({pu, pu, pu}, 0);
  ASSERT_EQ(pool.size(), 3U);
  std::vector<int> calls(3, 0);
  for (int i = 0; i < 200; ++i) pool.run([&](std::size_t member) { ++calls[member]; });
  EXPECT_EQ(calls, (std::vector<int>{200, 200, 200}));
}

TEST(Pool, GivesTheCallerItsMaskBack) {
  const CpuSet before = thread_affinity();
  {
    const Pool pool({before.last()});
    EXPECT_EQ(thread_affinity(), CpuSet{before.last()});
  }
  EXPECT_EQ(thread_affinity(), before);
}

TEST(Pool, SurvivesTenThousandEmptyRuns) {
  Pool pool(allowed_pus());
  std::atomic<std::size_t> calls = 0;
  for (int i = 0; i < 10'000; ++i)
    pool.run([&](std::size_t) { calls.fetch_add(1, std::memory_order_relaxed); });
  EXPECT_EQ(calls, 10'000 * pool.size());
}

TEST(Pool, WakesMembersThatHaveGoneToSleep) {
  Pool pool(allowed_pus());
  std::vector<int> calls(pool.size(), 0);
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // far beyond the spin
    pool.run([&](std::size_t member) {
      if (member != 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // and member 0 sleeps at the join
      ++calls[member];
    });
  }
  for (const int count : calls) EXPECT_EQ(count, 20);
}

TEST(Pool, ManyPoolsOneAfterTheOtherLeaveNothing) {
  const auto before = threads_of_this_process();
  for (int i = 0; i < 200; ++i) Pool pool(allowed_pus());
  EXPECT_EQ(threads_of_this_process(), before);
}

TEST(Pool, AnAbsentPuThrowsAndLeavesNoThread) {
  const CpuSet mask = thread_affinity();
  const auto before = threads_of_this_process();
  std::vector<Pu> last = allowed_pus();
  last.push_back(Pu{60000});
  std::vector<Pu> first = last;
  std::reverse(first.begin(), first.end());
  for (const std::vector<Pu>& pus : {last, first}) {
    try {
      const Pool pool(pus);
      FAIL() << "CPU 60000 does not exist";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::runtime_error);
      EXPECT_NE(std::string(error.what()).find("60000"), std::string::npos) << error.what();
    }
    EXPECT_EQ(threads_of_this_process(), before);
    EXPECT_EQ(thread_affinity(), mask);
  }
}

TEST(Pool, SpinsForABoundedTimeOnly) {
  if (allowed_pus().size() < 2) GTEST_SKIP() << "needs 2 CPUs, " << print(thread_affinity()) << " is allowed";
  // Two pools on the same CPUs: if waiting members spun for ever, each pool would starve the other.
  std::vector<Pu> pus = allowed_pus();
  Pool one(pus);
  std::thread other([&] {
    Pool pool(pus);
    for (int i = 0; i < 500; ++i) pool.run([](std::size_t) {});
  });
  for (int i = 0; i < 500; ++i) one.run([](std::size_t) {});
  other.join();
}

}  // namespace
}  // namespace zf
