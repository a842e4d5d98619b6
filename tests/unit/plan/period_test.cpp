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
