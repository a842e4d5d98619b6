#include "measure/process_barrier.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace zf {
namespace {

TEST(Lockstep, NoPartyIsAPhaseAhead) {
  constexpr int kParties = 4;
  constexpr std::size_t kRounds = 50;
  Lockstep lockstep{};
  lockstep.begin(kParties, kRounds, 1, INT64_MAX);
  std::vector<std::atomic<int>> done(kRounds * Lockstep::kPhases);
  std::atomic<int> early = 0;
  std::vector<std::jthread> parties;
  for (int i = 0; i < kParties; ++i) {
    parties.emplace_back([&] {
      for (std::size_t phase = 0; lockstep.arrive(); ++phase) {
        if (phase > 0 && done[phase - 1] != kParties) ++early;
        ++done[phase];
      }
    });
  }
  parties.clear();
  EXPECT_EQ(early, 0);
  for (const auto& count : done) EXPECT_EQ(count, kParties);
}

int rounds_of(Lockstep& lockstep) {
  int arrivals = 0;
  while (lockstep.arrive()) ++arrivals;
  return arrivals / static_cast<int>(Lockstep::kPhases);
}

TEST(Lockstep, EndsAfterItsRounds) {
  Lockstep lockstep{};
  lockstep.begin(1, 5, 2, INT64_MAX);
  EXPECT_EQ(rounds_of(lockstep), 5);
}

TEST(Lockstep, PastTheDeadlineItGoesItsLeastRounds) {
  Lockstep lockstep{};
  lockstep.begin(1, 5, 2, 0);
  EXPECT_EQ(rounds_of(lockstep), 2);
}

TEST(Lockstep, OneThatFailsEndsTheWaitOfAllAndTheFirstReasonStays) {
  Lockstep lockstep{};
  lockstep.begin(2, 5, 1, INT64_MAX);
  std::atomic<bool> answer = true;
  std::jthread other([&] { answer = lockstep.arrive(); });
  lockstep.fail("the first");
  lockstep.fail("the second");
  other.join();
  EXPECT_FALSE(answer);
  EXPECT_TRUE(lockstep.has_failed());
  EXPECT_EQ(lockstep.why(), "the first");
  EXPECT_FALSE(lockstep.arrive());
}

TEST(Lockstep, ALongReasonIsCut) {
  Lockstep lockstep{};
  lockstep.begin(1, 1, 1, 0);
  lockstep.fail(std::string(10'000, 'x'));
  EXPECT_GT(lockstep.why().size(), 100U);
  EXPECT_LT(lockstep.why().size(), 500U);
}

}  // namespace
}  // namespace zf
