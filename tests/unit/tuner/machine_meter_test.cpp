#include "tuner/machine_meter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "os/affinity.hpp"

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

Split pool_on(const std::vector<std::vector<Pu>>& ranks) {
  Split split;
  for (const auto& pool : ranks) {
    RankSplit rank;
    rank.pool = pool;
    split.ranks.push_back(rank);
  }
  return split;
}

TEST(MachineMeter, GivesAsManyPairsAsAskedFor) {
  const Pu pu = thread_affinity().first();
  MachineMeter meter(10'000, 1);
  const auto samples = meter.measure(pool_on({{pu}}), 5, INT64_MAX);
  ASSERT_EQ(samples.size(), 5U);
  for (const SplitSample& sample : samples) {
    EXPECT_GT(sample.step_ns, 0);
    EXPECT_GT(sample.roofline_ns, 0);
  }
}

TEST(MachineMeter, APastDeadlineStillGivesOnePair) {
  MachineMeter meter(10'000, 1);
  EXPECT_EQ(meter.measure(pool_on({{thread_affinity().first()}}), 5, 0).size(), 1U);
}

TEST(MachineMeter, LeavesTheCallersBindingAlone) {
  const CpuSet before = thread_affinity();
  MachineMeter meter(10'000, 1);
  meter.measure(pool_on({{before.first()}}), 1, INT64_MAX);
  EXPECT_EQ(thread_affinity(), before);
}

TEST(MachineMeter, ARankThatCannotBeSetUpEndsTheVisitForAll) {
  const Pu pu = thread_affinity().first();
  MachineMeter meter(10'000, 1);
  EXPECT_THROW(meter.measure(pool_on({{pu}, {Pu{60000}}}), 2, INT64_MAX), Error);
  EXPECT_EQ(meter.measure(pool_on({{pu}}), 1, INT64_MAX).size(), 1U) << "and the next visit works";
}

}  // namespace
}  // namespace zf
