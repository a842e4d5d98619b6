#include "measure/training_demand.hpp"

#include <gtest/gtest.h>

#include "measure/workload_file.hpp"
#include "paths.hpp"

namespace zf {
namespace {

TEST(Demand, IsCutDownInItsProportions) {
  const TrainingDemand whole{1000, 6000, 80'000'000, 1'000'000, 500'000, 250'000, 12'000'000'000, 0.25};
  const TrainingDemand half = scaled(whole, 0.5);
  EXPECT_EQ(half, (TrainingDemand{500, 6000, 40'000'000, 500'000, 250'000, 125'000, 12'000'000'000, 0.25}));
  EXPECT_EQ(scaled(whole, 1), whole);
}

TEST(Demand, WhatIsThereDoesNotVanishAndWhatIsNotDoesNotAppear) {
  const TrainingDemand part = scaled({3, 6000, 0, 0, 5, 0, 1}, 0.001);
  EXPECT_EQ(part, (TrainingDemand{1, 6000, 0, 0, 1, 0, 1}));
}

TEST(Demand, ASingleLaunchIsTheSerialPartOfAStepAndIsCutToo) {
  const TrainingDemand part = scaled({1, 6000, 0, 0, 0, 0, 0, {}, 80'000}, 0.5);
  EXPECT_EQ(part, (TrainingDemand{1, 3000, 0, 0, 0, 0, 0, {}, 40'000}));
}

TEST(Regions, ShareTheParallelWorkEquallyWithSerialWorkBetweenThem) {
  const Regions regions = regions_of({1, 8'000'000, 0, 0, 0, 0, 0, {}, 80'000'000}, 4);
  EXPECT_EQ(regions.count, 40) << "20 ms on each thread, in pieces of half a millisecond";
  EXPECT_EQ(regions.each_ns, 500'000);
  EXPECT_EQ(regions.serial_ns, 200'000);
}

TEST(Regions, AStepWithoutSerialWorkHasNoLaunch) {
  const Regions regions = regions_of({1, 0, 0, 0, 0, 0, 0, {}, 80'000'000}, 4);
  EXPECT_TRUE(regions.with_the_launch) << "record writes this for a job if it does not know its serial part";
  EXPECT_EQ(regions.serial_ns, 0);
}

TEST(Regions, LaunchesOfKernelsStayAChain) {
  EXPECT_FALSE(regions_of({100, 6000, 0, 0, 0, 0, 0, {}, 1'000'000}, 1).with_the_launch);
  EXPECT_EQ(regions_of({100, 6000, 0, 0, 0, 0, 0, {}, 1'000'000}, 1).serial_ns, 0);
  EXPECT_EQ(regions_of({1, 6000, 30'000'000, 0, 0, 0, 0, {}, 1'000'000}, 1).serial_ns, 0)
      << "one launch of a whole graph";
}

TEST(Regions, AStepShorterThanARegionIsOneRegion) {
  EXPECT_EQ(regions_of({1, 6000, 0, 0, 0, 0, 0, {}, 3}, 8).count, 1);
  EXPECT_EQ(regions_of({1, 6000, 0, 0, 0, 0, 0, {}, 400'000}, 2).each_ns, 200'000);
  EXPECT_EQ(regions_of({1, 6000, 0}, 2).count, 0) << "nothing is computed in parallel";
}

TEST(Demand, OneLaunchOfAWholeGraphStaysAsLong) {
  EXPECT_EQ(scaled({1, 6000, 30'000'000}, 0.5), (TrainingDemand{1, 6000, 15'000'000}));
}

TEST(Demand, SmallHasTheProportionsOfTheShippedWorkloads) {
  const Workload shipped =
      load_workload(std::string(kSourceDir) + "/configs/workloads/qwen2.5-0.5b-2gpu.json");
  const TrainingDemand small = small_training_demand(shipped.params / 2);
  EXPECT_EQ(small.launch_ns, shipped.training->launch_ns);
  EXPECT_EQ(small.host_bytes, shipped.training->host_bytes);
  EXPECT_EQ(2 * small.gradient_bytes, shipped.training->gradient_bytes) << "ZenFlow copies fp32";
  EXPECT_EQ(small.parameter_bytes, shipped.training->parameter_bytes);
  EXPECT_EQ(small.copy_bytes_per_s, shipped.training->copy_bytes_per_s);
  EXPECT_NEAR(static_cast<double>(small.launches), static_cast<double>(shipped.training->launches), 5);
  EXPECT_NEAR(static_cast<double>(small.gpu_ns), static_cast<double>(shipped.training->gpu_ns), 1e6);
}

TEST(StepFactor, OfZenFlowThatOverlapsCountsTheStaleCopy) {
  EXPECT_DOUBLE_EQ(estimated_step_factor(Framework::deepspeed_zenflow, Mode::overlap), 36.0 / 28);
  EXPECT_EQ(estimated_step_factor(Framework::deepspeed_zenflow, Mode::wait), 1);
  EXPECT_EQ(estimated_step_factor(Framework::native, Mode::overlap), 1);
}

TEST(GpuClock, ALateLaunchLeavesTheGpuIdleAndAnEarlyOneWaits) {
  GpuClock gpu(0, 10);
  gpu.launch(0);
  EXPECT_EQ(gpu.free_ns(), 10);
  gpu.launch(5);  // queued behind the first
  EXPECT_EQ(gpu.free_ns(), 20);
  gpu.launch(100);  // idle from 20 to 100
  EXPECT_EQ(gpu.free_ns(), 110);
}

TEST(Pace, BytesAreDueAtTheirRate) {
  EXPECT_EQ(due_ns(7, 0, 1), 7);
  EXPECT_EQ(due_ns(0, 12'000'000'000, 12'000'000'000), kSecondNs);
  EXPECT_EQ(due_ns(5, 3, 2), 5 + kSecondNs * 3 / 2);
}

}  // namespace
}  // namespace zf
