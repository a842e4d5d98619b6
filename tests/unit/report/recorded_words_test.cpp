#include "report/recorded_words.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "../plan/make_plan.hpp"
#include "search/contest.hpp"

namespace zf {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Returns a plan of the shared home, which took 100 ms in the search, where unbound took 96. After the
/// choice they took 101 and 105 ms in as many rounds, which differ a little.
Plan forecast_plan(int rounds_after) {
  Plan plan = make_plan();
  plan.trial.reset();
  plan.workload = {"job", 1'000'000, 1, 1, {}, Mode::overlap};
  Evidence evidence;
  evidence.elements_per_rank = 1'000'000;
  evidence.accuracy_wanted = 0.02;
  evidence.scale = 0.5;
  evidence.estimate_round = rounds_after == 0 ? -1 : 1;
  for (const Control control : {Control::shared, Control::unbound}) {
    CandidateEvidence& candidate = evidence.candidates.emplace_back();
    candidate.id = control == Control::shared ? 0 : 1;
    candidate.label = control == Control::shared ? "shared home" : "unbound";
    candidate.control = control;
    candidate.pool_threads = candidate.pool_cores = 2;
    for (int round = 0; round <= rounds_after; ++round) {
      const Nanoseconds searched = candidate.id == 0 ? 100'000'000 : 96'000'000;
      const Nanoseconds checked = candidate.id == 0 ? 101'000'000 : 105'000'000 + 100'000 * (round % 2);
      SplitSample times;
      times.step_ns = times.roofline_ns = round == 0 ? searched : checked;
      evidence.samples.push_back({candidate.id, round, times});
    }
  }
  summarize(evidence, plan.workload);
  plan.evidence = evidence;
  plan.choice.candidate = 0;
  return plan;
}

WorkloadFile recorded_job() {
  WorkloadFile file;
  file.recorded = Recorded{};
  file.recorded->period_ns = 207'000'000;
  return file;
}

TEST(Forecast, BothPeriodsAndTheirRatioAreOfTheVisitsAfterTheChoice) {
  const std::string words = forecast_in_words(recorded_job(), forecast_plan(6));
  EXPECT_THAT(words,
              HasSubstr("recorded period 207.0 ms; forecast unbound 210.1 ms, under the plan 202.0 ms. "))
      << "twice what half of the model took";
  EXPECT_THAT(words, HasSubstr(". Against this plan, unbound is slower: +4.0 % (+"));
  EXPECT_THAT(
      words,
      HasSubstr("; minus is faster). For the job itself expect plan / unbound 0.961 (0.915 to 1.011)\n"));
}

TEST(Forecast, TheJobsOwnErrorWidensTheIntervalAndLeavesTheEstimate) {
  const Difference sure = with_forecast_error({0.1, 0.1, 0.1});
  EXPECT_EQ(sure.estimate, 0.1);
  EXPECT_NEAR(std::log(1 + sure.high) - std::log(1.1), kForecastError, 1e-9);
  EXPECT_NEAR(std::log(1.1) - std::log(1 + sure.low), kForecastError, 1e-9);
  const Difference vague = with_forecast_error({0, -0.2, 0.3});
  EXPECT_LT(vague.low, -0.2);
  EXPECT_NEAR(vague.low, -0.2, 0.01) << "what was measured badly is hardly worse as a forecast";
  EXPECT_GT(vague.high, 0.3);
}

TEST(Forecast, WithoutAnIntervalThereIsNoRatio) {
  for (const int rounds_after : {0, 1}) {
    const std::string words = forecast_in_words(recorded_job(), forecast_plan(rounds_after));
    EXPECT_THAT(
        words, HasSubstr("forecast unbound 192.0 ms, under the plan 200.0 ms. How unbound compares with this "
                         "plan is not known: too few measurements\n"));
    EXPECT_THAT(words, Not(HasSubstr("÷")));
  }
}

}  // namespace
}  // namespace zf
