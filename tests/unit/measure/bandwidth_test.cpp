#include "measure/bandwidth.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../plan/make_plan.hpp"
#include "base/error.hpp"
#include "base/step_types.hpp"
#include "os/affinity.hpp"

namespace zf {
namespace {

using testing::HasSubstr;

/// Returns a plan. Its chosen split reached 100 GB/s, with a roofline of 125 GB/s: two ranks of 2^20
/// parameters.
Plan measured_plan() {
  Plan plan = make_plan();
  plan.evidence.elements_per_rank = 1U << 20;
  plan.evidence.working_set_bytes_per_rank = 16U << 20;
  const double bytes = 2.0 * (1U << 20) * kAdamBytesPerParam;
  const auto ns = [&](double bytes_per_s) { return static_cast<Nanoseconds>(bytes / bytes_per_s * 1e9); };
  plan.evidence.samples = {{0, 0, {ns(1e9), ns(1e9), 0, 0, 0, 0}},  // of another candidate
                           {1, 0, {ns(100e9), ns(125e9), 0, 0, 0, 0}},
                           {1, 1, {ns(101e9), ns(126e9), 0, 0, 0, 0}},
                           {1, 2, {ns(99e9), ns(124e9), 0, 0, 0, 0}}};
  return plan;
}

BandwidthVerdict verdict(const Plan& plan, const std::optional<Bandwidth>& now) {
  return compare_bandwidth(plan, planned_bandwidth(plan), now, "node42");
}

TEST(Bandwidth, OfThePlansOwnSplit) {
  const PlannedBandwidth planned = planned_bandwidth(measured_plan());
  EXPECT_NEAR(planned.median.roofline, 125e9, 1e8);
  EXPECT_NEAR(planned.median.step, 100e9, 1e8);
  EXPECT_FALSE(planned.loaded);
  EXPECT_LT(planned.spread.roofline, 0.02);
  EXPECT_LT(planned.spread.step, 0.02);
}

TEST(Bandwidth, ASlowNodeIsNamed) {
  const Plan plan = measured_plan();
  EXPECT_FALSE(verdict(plan, Bandwidth{120e9, 95e9}).slow);
  EXPECT_FALSE(verdict(plan, Bandwidth{250e9, 200e9}).slow);
  const BandwidthVerdict slow = verdict(plan, Bandwidth{75e9, 70e9});
  EXPECT_TRUE(slow.slow);
  for (const char* word : {"node42 is slow", "75.0 GB/s", "60 %", "125.", "node17", "90 %"}) {
    EXPECT_THAT(slow.words, HasSubstr(word));
  }
  EXPECT_TRUE(verdict(plan, Bandwidth{125e9, 70e9}).slow) << "the memory is fine, the kernel is not";
}

TEST(Bandwidth, EvidenceThatSpreadAllowsMore) {
  Plan plan = measured_plan();
  plan.evidence.samples[2].times.roofline_ns *= 2;
  plan.evidence.samples[3].times.roofline_ns = plan.evidence.samples[3].times.roofline_ns * 3 / 2;
  const PlannedBandwidth planned = planned_bandwidth(plan);
  EXPECT_GT(planned.spread.roofline, 0.2);
  EXPECT_FALSE(
      compare_bandwidth(plan, planned, Bandwidth{planned.median.roofline * 0.8, 100e9}, "node42").slow);
}

TEST(Bandwidth, EvidenceThatSpreadsMoreThanAnyNodeCannotTell) {
  Plan plan = measured_plan();
  EXPECT_EQ(spread_warning(plan), "");
  plan.evidence.samples[3].times.roofline_ns *= 461;
  EXPECT_THAT(spread_warning(plan), HasSubstr("spread by 23"));
  for (const auto& now : {std::optional(Bandwidth{1e9, 1e9}), std::optional<Bandwidth>()}) {
    const BandwidthVerdict unknown = verdict(plan, now);
    EXPECT_FALSE(unknown.known);
    EXPECT_FALSE(unknown.slow);
    EXPECT_THAT(unknown.words, HasSubstr("cannot tell whether node42 is slow: spread 23"));
  }
  plan.choice.candidate = -1;
  EXPECT_EQ(spread_warning(plan), "") << "nothing was measured";
}

TEST(Bandwidth, StepsThatSpreadAreNotComparedAndTheRooflineIs) {
  Plan plan = measured_plan();
  plan.evidence.samples[3].times.step_ns *= 461;
  EXPECT_THAT(spread_warning(plan), HasSubstr("compares the roofline alone"));
  const BandwidthVerdict fine = verdict(plan, Bandwidth{120e9, 5e9});
  EXPECT_TRUE(fine.known && !fine.slow) << fine.words;
  EXPECT_THAT(fine.words, HasSubstr("(not compared: the plan's steps spread by "));
  EXPECT_TRUE(verdict(plan, Bandwidth{75e9, 200e9}).slow);
}

TEST(Bandwidth, StepsMeasuredBesideTrainingAreSaidToBe) {
  Plan plan = measured_plan();
  for (Sample& sample : plan.evidence.samples) sample.times.training_ns = 1000;
  EXPECT_THAT(verdict(plan, Bandwidth{125e9, 130e9}).words, HasSubstr("beside training"));
}

TEST(Bandwidth, APlanWithoutMeasurementsCannotBeComparedWith) {
  Plan plan = measured_plan();
  plan.choice.candidate = -1;
  EXPECT_THROW(planned_bandwidth(plan), Error);
}

/// Returns a plan with one rank on one CPU that this process may use.
Plan plan_of_here(std::uint64_t elements) {
  Plan plan = measured_plan();
  plan.ranks.resize(1);
  plan.ranks[0].optimizer.cpus = CpuSet{thread_affinity().first()};
  plan.evidence.elements_per_rank = elements;
  return plan;
}

TEST(Bandwidth, IsMeasuredHere) {
  const auto now = measure_bandwidth(plan_of_here(1U << 18), Allowed(), std::chrono::seconds(20));
  ASSERT_TRUE(now.has_value());
  EXPECT_GT(now->roofline, 0);
  EXPECT_GT(now->step, 0);
}

TEST(Bandwidth, ANodeThatDoesNotGetThroughInTimeIsSlow) {
  const Plan plan = plan_of_here(1U << 26);  // 1 GiB in a millisecond
  const auto now = measure_bandwidth(plan, Allowed(), std::chrono::milliseconds(1));
  EXPECT_FALSE(now.has_value());
  const BandwidthVerdict late = verdict(plan, now);
  EXPECT_TRUE(late.slow);
  EXPECT_THAT(late.words, HasSubstr("did not finish one pass"));
}

TEST(Bandwidth, WhatDoesNotFitIntoMemoryIsNotTried) {
  Allowed allowed;
  allowed.memory_bytes = 1U << 20;
  EXPECT_THROW(measure_bandwidth(plan_of_here(1U << 20), allowed, std::chrono::seconds(1)), Error);
}

TEST(Bandwidth, WhatConfinesTheMeasurementIsNamed) {
  const Plan plan = measured_plan();  // optimizers on 23-26,30 and 42-46, over 32 MiB
  Allowed allowed;
  allowed.cpus = parse_cpu_list("0-47", "test");
  allowed.mems = parse_node_list("0-1", "test");
  EXPECT_EQ(why_confined(plan, allowed), std::nullopt);
  allowed.cpu_quota = 10;
  allowed.memory_bytes = 32U << 20;
  EXPECT_EQ(why_confined(plan, allowed), std::nullopt) << "ten threads";
  allowed.memory_bytes = (32U << 20) - 1;
  allowed.memory_path = "/memory.max";
  EXPECT_THAT(*why_confined(plan, allowed), HasSubstr("memory limit (/memory.max)"));
  allowed.cpu_quota = 9.5;
  allowed.cpu_quota_path = "/cpu.max";
  EXPECT_THAT(*why_confined(plan, allowed), HasSubstr("CPU quota (/cpu.max) is 9.5 for 10 threads"));
  allowed.mems = parse_node_list("0", "test");
  EXPECT_THAT(*why_confined(plan, allowed), HasSubstr("memory of node 1"));
  allowed.cpus = parse_cpu_list("0-44", "test");
  allowed.exclusions = {{ExclusionReason::cgroup_cpuset, parse_cpu_list("45-47", "test"), "outside a cpuset"},
                        {ExclusionReason::offline, parse_cpu_list("48", "test"), "offline"}};
  EXPECT_EQ(*why_confined(plan, allowed), "it may not use CPUs 45-46, outside a cpuset");
  const BandwidthVerdict unknown = unmeasured_bandwidth("node42", "it may not");
  EXPECT_FALSE(unknown.known || unknown.slow);
  EXPECT_EQ(unknown.words, "cannot tell whether node42 is slow: this process is confined: it may not");
}

TEST(Bandwidth, PoolsThatCannotBeSetUpAreAnError) {
  Plan plan = plan_of_here(1U << 18);
  plan.ranks[0].optimizer.cpus = parse_cpu_list("65000", "test");
  EXPECT_THROW(measure_bandwidth(plan, Allowed(), std::chrono::seconds(20)), Error);
}

}  // namespace
}  // namespace zf
