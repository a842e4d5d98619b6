#include "search/decision.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "made_evidence.hpp"
#include "search/headroom.hpp"
#include "search/tuning.hpp"

namespace zf {
namespace {

int chosen_threads(const Evidence& evidence) { return choose(evidence, kWorkload).pool_threads; }

TEST(Choose, WithoutTrainingTheSmallestPoolWinsATie) {
  EXPECT_EQ(chosen_threads(evidence_of({{8, 1'000'000}, {4, 1'015'000}, {2, 1'500'000}})), 4);
  EXPECT_EQ(chosen_threads(evidence_of({{8, 1'000'000}, {4, 1'030'000}, {2, 1'500'000}})), 8);
}

TEST(Choose, ThePeriodIsTheLongerSideWhereTheyOverlap) {
  // Eight threads step faster, but training takes longer than the step.
  const Evidence evidence =
      evidence_of({{8, 1'000'000, 600'000}, {2, 2'000'000, 520'000}, {1, 4'000'000, 510'000}});
  EXPECT_NEAR(static_cast<double>(evidence.candidates[0].period_ns_median), 2'400'000, 2400);
  EXPECT_NEAR(static_cast<double>(evidence.candidates[1].period_ns_median), 2'080'000, 2080);
  EXPECT_EQ(evidence.candidates[1].exposed_ns_median, 0);
  EXPECT_NEAR(static_cast<double>(evidence.candidates[2].exposed_ns_median), 4'000'000 - 4 * 510'000, 2000);
  EXPECT_EQ(chosen_threads(evidence), 2);
}

TEST(Choose, ThePeriodOfEachMode) {
  const SplitSample sample{.step_ns = 50, .training_ns = 30};
  const auto period = [&](Mode mode, int interval) {
    return period_ns(sample, {mode, interval, 1.0 / 3, 7});
  };
  EXPECT_DOUBLE_EQ(period(Mode::overlap, 1), 50 + 7);
  EXPECT_DOUBLE_EQ(period(Mode::overlap, 4), 4 * 30 + 7);
  EXPECT_DOUBLE_EQ(period(Mode::backward, 4), 3 * 30 + 10 + 50 + 7)
      << "forward, and then the longer of backward and step";
  EXPECT_DOUBLE_EQ(period(Mode::exact, 4), 3 * 30 + 20 + 50 + 7);
  EXPECT_DOUBLE_EQ(period(Mode::wait, 4), 4 * 30 + 50 + 7);
}

TEST(Choose, ParametersAreCopiedOnceAndNotExposedInModeExact) {
  Workload workload = in_mode(Mode::wait);
  workload.training = TrainingDemand{.parameter_bytes = 1'000'000, .copy_bytes_per_s = 1'000'000'000};
  EXPECT_EQ(schedule_of(workload, 1).parameters_ns, kMillisecondNs);
  EXPECT_EQ(schedule_of(workload, 0.5).parameters_ns, kMillisecondNs / 2);
  workload.mode = Mode::exact;
  EXPECT_EQ(schedule_of(workload, 1).parameters_ns, 0);
}

TEST(Choose, OfThePoolsThatLoseNothingIfTheJobDiffersTheSmallestWins) {
  // All hide behind 4 x 500 us. The step of 2 threads does not if it takes 1.5 times as long.
  EXPECT_EQ(
      chosen_threads(evidence_of({{8, 400'000, 500'000}, {4, 800'000, 500'000}, {2, 1'600'000, 500'000}})),
      4);
  EXPECT_EQ(chosen_threads(evidence_of({{3, 1'200'000, 500'000}, {2, 1'600'000, 500'000}})), 3)
      << "2 threads would lose 20 %";
}

TEST(Choose, OfPoolsThatTieTheOneWinsThatLosesLeastIfTheJobDiffers) {
  // With training 1.5 times as fast, the period of 8 threads is 1355 us, that of 6 threads 1333 us.
  EXPECT_EQ(chosen_threads(evidence_of({{8, 1'200'000, 508'000}, {6, 1'220'000, 500'000}}, 0.0001)), 6)
      << "although the step of 8 threads hides better";
  EXPECT_EQ(chosen_threads(evidence_of({{8, 1'400'000, 505'000}, {6, 1'900'000, 500'000}}, 0.0001)), 8);
}

TEST(Choose, ASaferSplitMayBeFivePercentSlower) {
  // The step of 4 threads only just hides: with training 1.5 times as fast they would lose 43 % to 6 threads.
  const auto pools = [](Nanoseconds training_ns) {
    return evidence_of({{4, 2'000'000, 500'000}, {6, 1'400'000, training_ns}}, 0.0001);
  };
  EXPECT_EQ(chosen_threads(pools(513'000)), 6);
  EXPECT_EQ(chosen_threads(pools(530'000)), 4) << "6 % is too much";
  const Workload waits = in_mode(Mode::wait);
  EXPECT_EQ(choose(evidence_of({{4, 3'500'000, 125'000}, {6, 500'000, 900'000}}, 0.0001, waits), waits)
                .pool_threads,
            6)
      << "also where training waits";
}

TEST(Choose, AskedForMoreVisitsIsWhatMayBeSafer) {
  const auto asked = [](Nanoseconds training_ns) {
    return candidates_to_revisit(evidence_of({{4, 2'000'000, 500'000}, {6, 1'400'000, training_ns}}, 0.01),
                                 kWorkload, 4);
  };
  EXPECT_THAT(asked(530'000), testing::ElementsAre(0, 1)) << "6 % slower, but perhaps only 4 %";
  EXPECT_THAT(asked(600'000), testing::IsEmpty());
}

TEST(Choose, ASharedHomeWinsTiesWhereTrainingWaitsAndDividedOnesWhereTheSidesOverlap) {
  const std::vector<Times> pools{{4, 1'000'000, 500'000}, {8, 1'005'000, 500'000, Control::shared, true}};
  EXPECT_EQ(choose(evidence_of(pools), kWorkload).pool_threads, 4);
  const Workload waits = in_mode(Mode::wait);
  EXPECT_EQ(choose(evidence_of(pools, 0.001, waits), waits).pool_threads, 8);
}

TEST(Choose, AmongSharedHomesThatTieTheShortestStepWins) {
  const Workload waits = in_mode(Mode::wait);
  const std::vector<Times> pools{{8, 1'000'000, 500'000, Control::shared, true},
                                 {4, 990'000, 502'000, Control::none, true}};
  EXPECT_EQ(choose(evidence_of(pools, 0.001, waits), waits).pool_threads, 4);
}

TEST(Choose, ATieHasBounds) {
  EXPECT_DOUBLE_EQ(tie_of(0.02, 0.01), 0.02);
  EXPECT_DOUBLE_EQ(tie_of(0.02, 0.03), 0.03) << "noise widens it";
  EXPECT_DOUBLE_EQ(tie_of(0.02, 0.1), 0.05) << "but not above two and a half times the accuracy";
}

TEST(Choose, WithinTheNoiseThePlanIsTheSharedHome) {
  const std::vector<Times> pools{{6, 1'000'000}, {8, 1'010'000, 0, Control::shared, true}, {2, 1'030'000}};
  EXPECT_EQ(chosen_threads(evidence_of(pools, 0.2)), 8);
  EXPECT_EQ(chosen_threads(evidence_of(pools)), 6);
}

TEST(Choose, WhatIsNotSurelyFasterThanTheSharedHomeOnANoisyMachineIsNotChosen) {
  // The pool looks twice as fast, but visits to one split differ by a factor of 2.6.
  const std::vector<Times> pools{{6, 500'000}, {8, 1'000'000, 0, Control::shared, true}};
  const Evidence wild = evidence_of(pools, 0.9);
  EXPECT_EQ(chosen_threads(wild), 8);
  const Evidence noisy = evidence_of(pools, 0.04);
  EXPECT_GT(noisy.noise_floor, noisy.accuracy_wanted);
  EXPECT_EQ(choose(noisy, kWorkload).pool_threads, 6) << "surely faster";
}

TEST(Choose, WithoutASharedHomeTheChoiceStaysHoweverNoisyTheMachine) {
  EXPECT_EQ(chosen_threads(evidence_of({{6, 500'000}, {8, 1'000'000}}, 0.9)), 6);
}

TEST(Choose, WhereUnboundIsSurelyFasterTheAdviceSaysSoAndThePlanIsTheBestSplit) {
  const std::vector<Times> pools{
      {8, 1'000'000}, {16, 1'100'000, 0, Control::shared, true}, {16, 700'000, 0, Control::unbound}};
  EXPECT_EQ(chosen_threads(evidence_of(pools)), 8) << "not the shared home, which is the slowest";
  EXPECT_TRUE(decide(contest_of(evidence_of(pools), kWorkload)).unbound_is_better);
  const Evidence tie = evidence_of({{8, 1'000'000}, {16, 995'000, 0, Control::unbound}});
  EXPECT_FALSE(decide(contest_of(tie, kWorkload)).unbound_is_better) << "by half a per cent";
}

TEST(Choose, TheChoiceIsEstimatedByVisitsThatCameAfterIt) {
  const Evidence evidence = estimated_evidence(1'000'000, 1'050'000);
  EXPECT_NEAR(contest_of(evidence, kWorkload).difference(0, 1).estimate, 0.054, 1e-3);
  EXPECT_NEAR(static_cast<double>(evidence.candidates[1].period_ns_median), 1'100'000, 1000)
      << "the table has what the choice rests on";
  EXPECT_EQ(evidence.candidates[1].step_ns_median,
            evidence_of({{8, 1'000'000}, {4, 1'100'000}}).candidates[1].step_ns_median);
}

TEST(Choose, ARunnerUpThatIsNotSurelyFasterChangesNothing) {
  EXPECT_EQ(chosen_threads(estimated_evidence(1'000'000, 975'000)), 8);
}

TEST(Choose, IfTheRunnerUpTurnsOutFasterItWins) {
  EXPECT_EQ(chosen_threads(estimated_evidence(1'000'000, 800'000)), 4);
}

TEST(Choose, IfTheChoiceIsRefutedTheOthersAreJudgedAgain) {
  EXPECT_EQ(chosen_threads(refuted_evidence(false)), 6);
  EXPECT_EQ(chosen_threads(refuted_evidence(true)), 7) << "not the fastest one, which would lose 49 %";
}

TEST(Choose, OneRoundAfterTheChoiceDoesNotHideWhatTheSearchKnows) {
  // The machine is noisy, the search has shown that the pool is faster, and a signal came after one more
  // round.
  Evidence evidence = evidence_of({{6, 500'000}, {8, 1'000'000, 0, Control::shared, true}}, 0.04);
  evidence.estimate_round = 3;
  for (const int id : {0, 1}) {
    const Nanoseconds ns = id == 0 ? 500'000 : 1'000'000;
    evidence.samples.push_back({id, 3, {.step_ns = ns, .roofline_ns = ns}});
  }
  summarize(evidence, kWorkload);
  ASSERT_GT(evidence.noise_floor, evidence.accuracy_wanted);
  EXPECT_EQ(chosen_threads(evidence), 6);
}

TEST(Choose, AsksForMoreOnlyWhereItMatters) {
  EXPECT_THAT(candidates_to_revisit(evidence_of({{8, 1'000'000}, {4, 1'500'000}}), kWorkload, 4),
              testing::IsEmpty());
  // Ids 0 and 1 cannot be told apart yet; 2 is much slower.
  Evidence evidence = evidence_of({{8, 1'000'000}, {4, 1'020'000}, {2, 1'900'000}}, 0.1);
  EXPECT_THAT(candidates_to_revisit(evidence, kWorkload, 4), testing::ElementsAre(0, 1));
}

TEST(Choose, HeadroomIsHowMuchTheJobMayDifferBeforeThePlanCostsFivePercent) {
  // 8 threads step in 1 ms beside training of 2 ms; 4 threads would do for training of 1.95 ms.
  const Evidence evidence = evidence_of({{8, 1'000'000, 500'000}, {4, 2'000'000, 487'500}}, 0);
  const Headroom headroom = headroom_of(evidence, kWorkload, 1).value();
  EXPECT_NEAR(headroom.training_speedup, 1.05, 0.015);
  EXPECT_NEAR(headroom.step_slowdown, 1.05, 0.03);
  const Headroom most = headroom_of(evidence, kWorkload, 0).value();
  EXPECT_EQ(most.training_speedup, kMostHeadroom);
  EXPECT_EQ(most.step_slowdown, kMostHeadroom);
}

TEST(Choose, OneSplitHasNoHeadroom) {
  // A sweep that a signal ended after its first visit: "more than 16 times" came of comparing it with itself.
  const Evidence one = evidence_of({{8, 1'000'000, 500'000}}, 0);
  EXPECT_FALSE(headroom_of(one, kWorkload, 0));
  EXPECT_FALSE(choose(one, kWorkload).headroom);
  EXPECT_TRUE(choose(evidence_of({{8, 1'000'000, 500'000}, {4, 2'000'000, 487'500}}, 0), kWorkload).headroom);
}

TEST(Choose, HeadroomIsNotSaidWhereTheNoiseHidesFivePercent) {
  // "More than 16 times" was said after one visit each, and with noise above 5 %.
  const std::vector<Times> alike = {{8, 1'000'000, 500'000}, {4, 1'000'000, 500'000}};
  EXPECT_TRUE(choose(evidence_of(alike, 0), kWorkload).headroom);
  EXPECT_FALSE(choose(evidence_of(alike, 0.3), kWorkload).headroom);
  Evidence one_visit = evidence_of(alike, 0);
  std::erase_if(one_visit.samples, [](const Sample& sample) { return sample.round > 0; });
  summarize(one_visit, kWorkload);
  EXPECT_FALSE(choose(one_visit, kWorkload).headroom);
}

TEST(Choose, TheUnboundControlIsNoSplitToHaveHeadroomBeside) {
  Evidence evidence = evidence_of({{8, 1'000'000, 500'000}, {4, 2'000'000, 487'500}}, 0);
  evidence.candidates[1].control = Control::unbound;
  EXPECT_FALSE(headroom_of(evidence, kWorkload, 0)) << "no plan can express it";
}

TEST(Choose, ComputesTheRooflineFromTheFastestCandidate) {
  const Evidence evidence = evidence_of({{2, 56'000'000}, {1, 100'000'000}});
  EXPECT_DOUBLE_EQ(evidence.roofline.bytes_per_s_median, 28e6 / 56e-3);
  EXPECT_EQ(evidence.roofline.threads, 2);
}

TEST(Choose, AStepFasterThanMemoryIsImpossible) {
  SplitSample sample;
  sample.step_ns = 100;
  sample.roofline_ns = 100;
  EXPECT_TRUE(is_possible(sample, 0));
  sample.roofline_ns = 130;
  EXPECT_FALSE(is_possible(sample, 0));
  EXPECT_TRUE(is_possible(sample, 0.11)) << "possible if times vary by that much";
  sample.roofline_ns = 9;
  EXPECT_FALSE(is_possible(sample, 0));
}

}  // namespace
}  // namespace zf
