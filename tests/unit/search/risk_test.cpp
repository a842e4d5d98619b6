// Tests what a split loses, as the workload says and if the job differs from it.
#include "search/decision.hpp"

#include <gtest/gtest.h>

#include "overlap.hpp"

namespace zf {
namespace {

TEST(Risk, ASplitThatHidesBothWaysLosesNothing) {
  const SplitTimes safe{100, 100, 60};
  const SplitTimes tight{100, 100, 100};
  const Risks risks({safe, tight}, kOverlap);
  EXPECT_DOUBLE_EQ(risks.risk(safe), 0);
  EXPECT_DOUBLE_EQ(risks.loss(tight), 0);
  // Training 1.5 times as fast: 100 against 66.7. The step 1.5 times as long: 150 against 100.
  EXPECT_DOUBLE_EQ(risks.loss_if_it_differs(tight), 0.5);
  EXPECT_DOUBLE_EQ(risks.risk(tight), 0.25);
}

TEST(Risk, TheMeasuredPeriodScalesWhatTheFormulaSays) {
  // Its visits took 10 % longer than its medians say, and so would they if the job differed.
  const Risks risks({{100, 100, 60}, {110, 100, 60}}, kOverlap);
  EXPECT_NEAR(risks.loss({110, 100, 60}), 0.1, 1e-12);
  EXPECT_NEAR(risks.loss_if_it_differs({110, 100, 60}), 0.1, 1e-12);
  EXPECT_NEAR(risks.risk({110, 100, 60}), 0.15, 1e-12);
}

TEST(Risk, AForecastMayLoseLessThanNothing) {
  EXPECT_NEAR(Risks({{100, 100, 60}}, kOverlap).risk({90, 90, 60}), -0.15, 1e-12);
}

TEST(Risk, WithoutStepTimesOrTrainingOnlyThePeriodCounts) {
  EXPECT_NEAR(Risks({{100, 0, 0}}, kOverlap).risk({103, 0, 0}), 0.03, 1e-12);
  EXPECT_NEAR(Risks({{100, 0, 100}}, kOverlap).risk({103, 0, 103}), 0.03, 1e-12);
}

}  // namespace
}  // namespace zf
