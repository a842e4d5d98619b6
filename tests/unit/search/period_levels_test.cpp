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

/// Returns visits of one candidate, each with the steps of a list, in rounds of their own.
Evidence steps_of_visits(const std::vector<std::vector<Nanoseconds>>& visits) {
  Evidence evidence;
  for (std::size_t round = 0; round < visits.size(); ++round) {
    for (const Nanoseconds step : visits[round])
      evidence.samples.push_back({0, static_cast<int>(round), {.step_ns = step}});
  }
  return evidence;
}

TEST(UndisturbedTimes, OfOneVisitTheLowerQuartileCountsAndOfSeveralShortOnesTheMedian) {
  const auto step = [](const std::vector<std::vector<Nanoseconds>>& visits) {
    return undisturbed_times(steps_of_visits(visits), 0, kOverlap).step;
  };
  EXPECT_DOUBLE_EQ(step({{100, 110, 120, 130, 140, 150, 160, 170}}), 120);
  EXPECT_DOUBLE_EQ(step({{100, 110, 120, 130}, {140, 150, 160, 170}}), 130)
      << "two visits, with as many samples as one";
  EXPECT_DOUBLE_EQ(step({{120, 110, 100}}), 100) << "a hopeless visit";
}

TEST(FittedTimes, MakeThePeriodWhateverTheDriftAndWhateverIsCopied) {
  // In the second round all takes 1.5 times as long. The copies of 20 stay as they are.
  const Schedule waits{.mode = Mode::wait, .update_interval = 2, .parameters_ns = 20};
  Evidence evidence;
  evidence.candidates.resize(2);
  evidence.candidates[1].id = 1;
  for (const auto& [id, round, step, training] :
       {std::tuple(0, 0, 400, 90), std::tuple(1, 0, 100, 240), std::tuple(1, 1, 150, 360)})
    evidence.samples.push_back({id, round, {.step_ns = step, .training_ns = training}});
  const auto visits = visits_of(evidence, waits, VisitsOf::search);
  const Levels levels = levels_of(evidence, visits);
  const auto times = fitted_times(visits, levels, waits);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_DOUBLE_EQ(times[i].period, levels.of(i));
    EXPECT_NEAR(period_of(times[i].training, times[i].step, waits), levels.of(i), 1e-9);
  }
  EXPECT_NEAR(times[1].step / times[1].training, 100.0 / 240, 1e-9);
  EXPECT_GT(times[0].step, 450) << "its only visit was in the fast round";
}

}  // namespace
}  // namespace zf
