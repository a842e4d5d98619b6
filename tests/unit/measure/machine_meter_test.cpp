#include "measure/machine_meter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "os/affinity.hpp"

namespace zf {
namespace {

const RankWork kOptimizerAlone{10'000, {}, 1, chosen_isa()};

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
  MachineMeter meter(kOptimizerAlone, 1);
  const auto samples = meter.measure(pool_on({{pu}}), 5, INT64_MAX);
  ASSERT_EQ(samples.size(), 5U);
  for (const SplitSample& sample : samples) {
    EXPECT_GT(sample.step_ns, 0);
    EXPECT_GT(sample.roofline_ns, 0);
  }
}

TEST(MachineMeter, APastDeadlineStillGivesTheLeastSamples) {
  MachineMeter meter(kOptimizerAlone, 1);
  EXPECT_EQ(meter.measure(pool_on({{thread_affinity().first()}}), 9, 0).size(), Meter::kMinSamples);
}

TEST(MachineMeter, LeavesTheCallersBindingAlone) {
  const CpuSet before = thread_affinity();
  MachineMeter meter(kOptimizerAlone, 1);
  meter.measure(pool_on({{before.first()}}), 1, INT64_MAX);
  EXPECT_EQ(thread_affinity(), before);
}

TEST(MachineMeter, ARankThatCannotBeSetUpEndsTheVisitForAll) {
  const Pu pu = thread_affinity().first();
  MachineMeter meter(kOptimizerAlone, 1);
  EXPECT_THROW(meter.measure(pool_on({{pu}, {Pu{60000}}}), 2, INT64_MAX), Error);
  EXPECT_EQ(meter.measure(pool_on({{pu}}), 1, INT64_MAX).size(), 1U) << "and the next visit works";
}

}  // namespace
}  // namespace zf
