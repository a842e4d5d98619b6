// Tests what a visit says of its split.
#include "search/period_levels.hpp"

#include <gtest/gtest.h>

#include "overlap.hpp"

namespace zf {
namespace {

std::vector<SplitSample> samples_of(const std::vector<std::pair<Nanoseconds, Nanoseconds>>& sides) {
  std::vector<SplitSample> samples;
  for (const auto& [step, training] : sides) samples.push_back({.step_ns = step, .training_ns = training});
  return samples;
}

TEST(PeriodOfVisit, OutliersOnEachSideDoNotMakeThePeriodOne) {
  // Two of eight on each side: four of the eight periods are three times as long.
  const auto samples =
      samples_of({{300, 90}, {300, 90}, {100, 270}, {100, 270}, {100, 90}, {100, 90}, {100, 90}, {100, 90}});
  EXPECT_DOUBLE_EQ(period_of_visit(samples, kOverlap).ns, 100);
}

TEST(PeriodOfVisit, OfAnEvenNumberTheSmallerOneInTheMiddleCounts) {
  const auto samples = samples_of({{100, 0}, {100, 0}, {300, 0}, {300, 0}});
  EXPECT_DOUBLE_EQ(period_of_visit(samples, kOverlap).ns, 100) << "times are disturbed upwards";
}

TEST(PeriodOfVisit, OfAVisitThatWasCutShortTheShortestTimesCount) {
  EXPECT_DOUBLE_EQ(period_of_visit(samples_of({{300, 90}, {100, 270}}), kOverlap).ns, 100);
}

TEST(PeriodOfVisit, TheErrorIsThatOfTheSideThatMakesThePeriod) {
  const auto noisy_step = samples_of({{80, 10}, {90, 10}, {100, 10}, {110, 10}, {120, 10}});
  EXPECT_NEAR(period_of_visit(noisy_step, kOverlap).error, 0.0831, 1e-4);
  const auto hidden = samples_of({{80, 500}, {90, 500}, {100, 500}, {110, 500}, {120, 500}});
  EXPECT_DOUBLE_EQ(period_of_visit(hidden, kOverlap).error, 0);
  const Schedule waits{Mode::wait, 1};
  EXPECT_NEAR(period_of_visit(hidden, waits).error, 0.0831 * 100 / 600, 1e-4);
}

}  // namespace
}  // namespace zf
