#include "measure/working_set_size.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace zf {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST(WorkingSetSize, LeavesTheCaches) {
  const auto size = working_set_size(0, 1, 32 << 20, 256 * kGiB);
  EXPECT_GT(size.elements_per_rank * 16, kGiB);
  EXPECT_TRUE(size.warning.empty());
  EXPECT_GE(working_set_size(0, 1, 2 * kGiB, 256 * kGiB).elements_per_rank * 16, 8 * kGiB);
}

TEST(WorkingSetSize, IsSharedByTheRanks) {
  const auto one = working_set_size(0, 1, 0, 256 * kGiB);
  const auto eight = working_set_size(0, 8, 0, 256 * kGiB);
  EXPECT_EQ(eight.elements_per_rank, one.elements_per_rank / 8);
}

TEST(WorkingSetSize, TakesNoMoreThanHalfOfTheMemoryAndSaysSo) {
  const auto size = working_set_size(0, 1, 0, kGiB / 2);
  EXPECT_LE(size.elements_per_rank * 16, kGiB / 4);
  EXPECT_THAT(size.warning, testing::HasSubstr("512 MiB"));
}

TEST(WorkingSetSize, AModelThatFitsTheCachesIsMeasuredThereAndSaidSo) {
  const auto size = working_set_size(1'000'000, 1, 32 << 20, 256 * kGiB);
  EXPECT_EQ(size.elements_per_rank, 1'000'000U);
  EXPECT_THAT(size.warning, testing::HasSubstr("caches"));
}

TEST(WorkingSetSize, AShortBudgetMeasuresLessAndSaysSo) {
  const auto whole = working_set_size(0, 2, 32 << 20, 256 * kGiB);
  const auto size = within_budget(whole, 2, 32 << 20, kSecondNs * 2 / 5);
  EXPECT_EQ(size.elements_per_rank, whole.elements_per_rank / 10);
  EXPECT_EQ(size.warning,
            "measured over only 109 MiB instead of 1.06 GiB, because the budget is only 400.0 ms");
  const auto cached = within_budget(whole, 2, 64 << 20, kSecondNs * 2 / 5);
  EXPECT_THAT(cached.warning, testing::HasSubstr("400.0 ms; it may stay in the last-level caches (64 MiB)"));
}

TEST(WorkingSetSize, HoweverShortTheBudgetSomethingIsMeasured) {
  const auto whole = working_set_size(0, 4, 0, 256 * kGiB);
  EXPECT_EQ(within_budget(whole, 4, 0, 1).elements_per_rank * 4 * 16, std::uint64_t{64} << 20);
  const WorkingSetSize little{1'000'000, "as it was"};
  EXPECT_EQ(within_budget(little, 1, 0, 1).elements_per_rank, 1'000'000U);
  EXPECT_EQ(within_budget(little, 1, 0, 1).warning, "as it was");
}

TEST(WorkingSetSize, ABudgetOfSecondsOrNoneLimitsNothing) {
  const auto whole = working_set_size(0, 1, 0, 256 * kGiB);
  for (const Nanoseconds budget : {Nanoseconds{0}, 4 * kSecondNs, 600 * kSecondNs}) {
    EXPECT_EQ(within_budget(whole, 1, 0, budget).elements_per_rank, whole.elements_per_rank);
  }
}

}  // namespace
}  // namespace zf
