#include "measure/process_barrier.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace zf {
namespace {

TEST(ProcessBarrier, NoPartyIsAPhaseAhead) {
  constexpr int kParties = 4;
  constexpr std::size_t kRounds = 50;
  ProcessBarrier barrier{};
  barrier.begin(kParties, kRounds, 1, INT64_MAX);
  std::vector<std::atomic<int>> done(kRounds * ProcessBarrier::kPhases);
  std::atomic<int> early = 0;
  std::vector<std::jthread> parties;
  for (int i = 0; i < kParties; ++i) {
    parties.emplace_back([&] {
      for (std::size_t phase = 0; barrier.arrive(); ++phase) {
        if (phase > 0 && done[phase - 1] != kParties) ++early;
        ++done[phase];
      }
    });
  }
  parties.clear();
  EXPECT_EQ(early, 0);
  for (const auto& count : done) EXPECT_EQ(count, kParties);
}

TEST(ProcessBarrier, NobodyLeavesTheMeetingBeforeAllAreThere) {
  constexpr int kParties = 4;
  ProcessBarrier barrier{};
  barrier.begin(kParties, 1, 1, INT64_MAX);
  std::atomic<int> there = 0;
  std::atomic<int> left_late = 0;
  std::vector<std::jthread> parties;
  for (int i = 0; i < kParties; ++i) {
    parties.emplace_back([&] {
      ++there;
      if (barrier.meet() && there == kParties) ++left_late;
    });
  }
  parties.clear();
  EXPECT_EQ(left_late, kParties);
}

TEST(ProcessBarrier, OneThatFailsEndsTheMeeting) {
  ProcessBarrier barrier{};
  barrier.begin(2, 1, 1, INT64_MAX);
  std::atomic<bool> answer = true;
  std::jthread other([&] { answer = barrier.meet(); });
  barrier.fail("it cannot start");
  other.join();
  EXPECT_FALSE(answer);
}

int rounds_of(ProcessBarrier& barrier) {
  int arrivals = 0;
  while (barrier.arrive()) ++arrivals;
  return arrivals / static_cast<int>(ProcessBarrier::kPhases);
}

TEST(ProcessBarrier, EndsAfterItsRounds) {
  ProcessBarrier barrier{};
  barrier.begin(1, 5, 2, INT64_MAX);
  EXPECT_EQ(rounds_of(barrier), 5);
}

TEST(ProcessBarrier, PastTheDeadlineItGoesItsLeastRounds) {
  ProcessBarrier barrier{};
  barrier.begin(1, 5, 2, 0);
  EXPECT_EQ(rounds_of(barrier), 2);
}

TEST(ProcessBarrier, OneThatFailsEndsTheWaitOfAllAndTheFirstReasonStays) {
  ProcessBarrier barrier{};
  barrier.begin(2, 5, 1, INT64_MAX);
  std::atomic<bool> answer = true;
  std::jthread other([&] { answer = barrier.arrive(); });
  barrier.fail("the first");
  barrier.fail("the second");
  other.join();
  EXPECT_FALSE(answer);
  EXPECT_TRUE(barrier.has_failed());
  EXPECT_EQ(barrier.why(), "the first");
  EXPECT_FALSE(barrier.arrive());
}

TEST(ProcessBarrier, ALongReasonIsCut) {
  ProcessBarrier barrier{};
  barrier.begin(1, 1, 1, 0);
  barrier.fail(std::string(10'000, 'x'));
  EXPECT_GT(barrier.why().size(), 100U);
  EXPECT_LT(barrier.why().size(), 500U);
}

}  // namespace
}  // namespace zf
