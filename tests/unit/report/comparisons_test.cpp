// What is said of a pair of splits, wherever it is said, is one figure.
#include "report/comparisons.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../plan/make_plan.hpp"
#include "report/reasons.hpp"
#include "search/contest.hpp"

namespace zf {
namespace {

using testing::HasSubstr;
using testing::Not;

/// One round of visits: the milliseconds of each candidate's step, in order; 0: not visited.
using RoundMs = std::vector<double>;

/// Returns evidence of a pool, the shared home and unbound without a training side. Rounds from
/// `estimate_round` on came after the choice.
Evidence three_splits(const std::vector<RoundMs>& rounds, int estimate_round = -1) {
  Evidence evidence;
  evidence.elements_per_rank = 1'000'000;
  evidence.accuracy_wanted = kDefaultTie;
  evidence.scale = 1;
  evidence.estimate_round = estimate_round;
  for (const auto& [label, control] :
       {std::pair("pool 4, compact", Control::none), std::pair("shared home", Control::shared),
        std::pair("unbound", Control::unbound)}) {
    CandidateEvidence candidate;
    candidate.id = static_cast<int>(evidence.candidates.size());
    candidate.label = label;
    candidate.control = control;
    candidate.pool_threads = candidate.pool_cores = 4;
    candidate.reserved_cores = control == Control::shared ? 0 : 4;
    evidence.candidates.push_back(candidate);
  }
  for (std::size_t round = 0; round < rounds.size(); ++round) {
    for (std::size_t id = 0; id < rounds[round].size(); ++id) {
      if (rounds[round][id] == 0) continue;
      SplitSample times;
      times.step_ns = times.roofline_ns = static_cast<Nanoseconds>(rounds[round][id] * 1e6);
      evidence.samples.push_back({static_cast<int>(id), static_cast<int>(round), times});
    }
  }
  summarize(evidence, {"test", 1'000'000, 1, 1, {}, Mode::overlap});
  return evidence;
}

const Workload kJob{"test", 1'000'000, 1, 1, {}, Mode::overlap};

std::string reason_by(const Evidence& evidence, Nanoseconds telling_budget_ns = 0) {
  return reason_of(evidence, kJob, decide(contest_of(evidence, kJob)), telling_budget_ns);
}

TEST(Comparisons, AreMadeByTheVisitsAfterTheChoice) {
  const Evidence evidence =
      three_splits({{100, 110, 96}, {100, 111, 96}, {100, 110, 104}, {101, 112, 105}, {100, 111, 104.5}}, 2);
  const Comparison unbound = compared(evidence, kJob, 2, 0);
  EXPECT_EQ(unbound.basis, Basis::checked);
  EXPECT_EQ(print_estimate(unbound), "+4.2 %") << "not -4.0 %, as in the search";
  EXPECT_EQ(verdict_of(unbound), Verdict::slower);
  EXPECT_THAT(reason_by(evidence),
              HasSubstr("Against this plan, unbound is slower: " + figures_in_words(unbound)));
  EXPECT_NEAR(static_cast<double>(checked_period_ns(evidence, kJob, 0).value_or(0)), 100.33e6, 0.01e6);
}

TEST(Comparisons, WithoutSuchVisitsTheSearchIsNamed) {
  const Evidence evidence = three_splits({{100, 110, 104}, {101, 112, 105}, {100, 111, 104.5}});
  EXPECT_EQ(compared(evidence, kJob, 2, 0).basis, Basis::search);
  EXPECT_THAT(reason_by(evidence), HasSubstr("In the search, against this plan, unbound was slower: +4"));
  EXPECT_THAT(reason_by(evidence), HasSubstr("; not checked after the choice"));
  EXPECT_EQ(checked_period_ns(evidence, kJob, 0), std::nullopt);
}

TEST(Comparisons, OneRoundAfterTheChoiceIsTooLittle) {
  const Evidence evidence =
      three_splits({{100, 110, 104}, {101, 112, 105}, {100, 111, 104.5}, {100, 90, 80}}, 3);
  const Comparison unbound = compared(evidence, kJob, 2, 0);
  EXPECT_EQ(unbound.basis, Basis::search_still);
  EXPECT_EQ(print_estimate(unbound), "+4.2 %");
}

TEST(Comparisons, ASplitMeasuredOnceHasNoFigure) {
  // Seen: "the plan is 27.0 % faster (95 % confidence: unknown)" of one visit each to the same binding.
  const Evidence evidence = three_splits({{0, 100, 137}});
  EXPECT_FALSE(compared(evidence, kJob, 2, 1).longer.is_known());
  const std::string reason = reason_by(evidence, 170 * kSecondNs);
  EXPECT_THAT(reason,
              HasSubstr("Each split, unbound too, was measured once; differences are not known. --budget "
                        "of about 3m would tell"));
  for (const char* figure : {"%", "37", "27", "faster", "slower"})
    EXPECT_THAT(reason, Not(HasSubstr(figure)));
}

TEST(Comparisons, OfAPlanThatATrialMadeAreTheTrials) {
  Plan plan = make_plan();
  plan.evidence = three_splits({{100, 110, 96}, {100, 111, 96}, {100, 110, 104}, {101, 112, 105}}, 2);
  plan.workload = kJob;
  plan.choice.candidate = 0;
  plan.trial.reset();
  EXPECT_TRUE(was_checked(plan));
  EXPECT_EQ(print_estimate(control_beside_plan(plan, Control::unbound).value()), "+4.0 %");
  plan.trial = Trial{"job",
                     "x",
                     false,
                     {{"unbound", Control::unbound, false, 8, 50, {{50}, {50.1}}},
                      {"pool 4", Control::none, false, 4, 80, {{80}, {80}}}},
                     1};
  EXPECT_FALSE(was_checked(plan)) << "the trial chose after those visits";
  EXPECT_EQ(print_estimate(control_beside_plan(plan, Control::unbound).value()), "-37.4 %");
  EXPECT_EQ(control_beside_plan(plan, Control::half), std::nullopt);
}

}  // namespace
}  // namespace zf
