#include "plan/period.hpp"

#include <gtest/gtest.h>

namespace zf {
namespace {

Schedule schedule_with(Mode mode, double step_factor) {
  Workload workload{"job", 1000, 1, 2};
  workload.mode = mode;
  workload.step_factor = step_factor;
  return schedule_of(workload, 1);
}

/// A job in mode exact with a training step of 3 s, 1 s of it forward, and an optimizer step of 1 s.
Schedule exact_schedule(double first_group, double last_forward, Nanoseconds last_gradient) {
  Workload workload{"job", 1'000'000'000, 1, 2};
  workload.mode = Mode::exact;
  workload.training = TrainingDemand{};
  workload.training->first_group_share = first_group;
  workload.training->last_forward_share = last_forward;
  workload.training->last_gradient_ns = last_gradient;
  return schedule_of(workload, 1);
}

TEST(Period, ExactTheFirstModuleIsNeverHidden) {
  EXPECT_DOUBLE_EQ(period_of(3, 1, exact_schedule(0, 0, 0)), 6);
  EXPECT_DOUBLE_EQ(period_of(3, 1, exact_schedule(0.25, 0, 0)), 6.25);
  EXPECT_DOUBLE_EQ(period_of(3, 2, exact_schedule(0.25, 0, 0)), 7) << "the rest is longer than the forward";
}

TEST(Period, ExactTheLastModulesForwardWaitsForTheWholeStep) {
  EXPECT_DOUBLE_EQ(period_of(3, 1, exact_schedule(0, 0.125, 0)), 6.375);
  EXPECT_DOUBLE_EQ(period_of(3, 0.5, exact_schedule(0, 0.125, 0)), 6);
}

TEST(Period, ExactNothingHidesTheLastGradient) {
  EXPECT_DOUBLE_EQ(period_of(3, 1, exact_schedule(0, 0, 2)), 8);
}

TEST(Period, ExactTheEmbeddingsShareFollowsFromTheModelsSize) {
  Workload workload{"job", 494'000'000, 1, 1};
  workload.mode = Mode::exact;
  workload.training = TrainingDemand{};
  EXPECT_DOUBLE_EQ(schedule_of(workload, 1).first_group_share, 0.28);  // Qwen2.5-0.5B: 136.3M of 494.0M
  workload.params = 3'086'000'000;
  EXPECT_NEAR(schedule_of(workload, 1).first_group_share, 0.10, 0.005);  // Qwen2.5-3B: 311.2M of 3,085.9M
  workload.params = 100'000'000;
  EXPECT_DOUBLE_EQ(schedule_of(workload, 1).first_group_share, 0.28);
}

TEST(Period, AStepThatTakesLongerThanOursIsWaitedForAsLong) {
  EXPECT_DOUBLE_EQ(period_of(10, 4, schedule_with(Mode::wait, 1)), 24);
  EXPECT_DOUBLE_EQ(period_of(10, 4, schedule_with(Mode::wait, 2.5)), 30);
}

TEST(Period, AStepThatTakesLongerThanOursHidesNoLonger) {
  EXPECT_DOUBLE_EQ(period_of(10, 4, schedule_with(Mode::overlap, 4)), 20);
  EXPECT_DOUBLE_EQ(period_of(10, 4, schedule_with(Mode::overlap, 6)), 24);
  EXPECT_DOUBLE_EQ(exposed_of(10, 4, schedule_with(Mode::overlap, 6)), 4);
}

}  // namespace
}  // namespace zf
